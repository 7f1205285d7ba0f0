// Hearing of changes: the real channels of supabase-js, on a socket that a test speaks through.

import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { agentMemory, type MemoryUpdate } from "memoryd-client";

import { FakeSocket } from "./socket.js";
import { given, promised, signedIn, signedOut } from "./support.js";

const topic = `agent-memory:${given.users.ann.id}`;
const update: MemoryUpdate = { memory_type: "brand_memory", operation: "INSERT", user_id: given.users.ann.id };

afterEach(() => FakeSocket.forget());

test("changes are heard on the user's private channel, until one stops", async () => {
  const client = signedIn("ann");
  const heard: MemoryUpdate[] = [];
  const stop = agentMemory(client).onUpdate((one) => heard.push(one));
  await FakeSocket.until(`join ${topic}`);
  const [, joined] = FakeSocket.said[0]!;
  assert.equal(joined.config.private, true);
  assert.equal(joined.access_token, given.users.ann.token);
  FakeSocket.broadcast(topic, "memory_updated", update);
  FakeSocket.broadcast(topic, "another", update);
  assert.deepEqual(heard, [update]);
  stop();
  stop();
  await FakeSocket.until(`join ${topic}`, `leave ${topic}`);
  FakeSocket.broadcast(topic, "memory_updated", update);
  assert.deepEqual(heard, [update]);
  assert.deepEqual(client.getChannels(), []);
});

test("one who stops does not end it for others", async () => {
  const client = signedIn("ann");
  const heard: string[] = [];
  const stops = ["one", "two"].map((name) => agentMemory(client).onUpdate(() => heard.push(name)));
  await FakeSocket.until(`join ${topic}`);
  stops[0]!();
  FakeSocket.broadcast(topic, "memory_updated", update);
  assert.deepEqual(heard, ["two"]);
  stops[1]!();
  await FakeSocket.until(`join ${topic}`, `leave ${topic}`);
});

test("who stops and starts at once hears of changes", async () => {
  const client = signedIn("ann");
  const heard: string[] = [];
  const { onUpdate } = agentMemory(client);
  // Before it is known who the user is.
  onUpdate(() => heard.push("never"))();
  const stop = onUpdate(() => heard.push("first"));
  await FakeSocket.until(`join ${topic}`);
  stop();
  const stopAgain = onUpdate(() => heard.push("second"));
  await FakeSocket.until(`join ${topic}`, `leave ${topic}`, `join ${topic}`);
  FakeSocket.broadcast(topic, "memory_updated", update);
  assert.deepEqual(heard, ["second"]);
  stopAgain();
  await FakeSocket.until(`join ${topic}`, `leave ${topic}`, `join ${topic}`, `leave ${topic}`);
});

test("a client that fails is no unhandled error, and the next listener may succeed", async () => {
  const client = signedIn("ann");
  const channel = client.channel.bind(client);
  client.channel = () => {
    throw new Error("no channel");
  };
  const failed = promised<Error>();
  const stop = agentMemory(client).onUpdate(() => {}, failed.resolve);
  assert.equal((await failed.promise).message, "no channel");
  stop();
  client.channel = channel;
  const stopAgain = agentMemory(client, { user: given.users.ann.id }).onUpdate(() => {});
  await FakeSocket.until(`join ${topic}`);
  assert.equal(FakeSocket.said[0]![1].access_token, given.users.ann.token);
  stopAgain();
  await FakeSocket.until(`join ${topic}`, `leave ${topic}`);
});

test("who may not listen is told", async () => {
  FakeSocket.refuse = true;
  const refused = promised<Error>();
  const stop = agentMemory(signedIn("ann")).onUpdate(() => {}, refused.resolve);
  assert.match((await refused.promise).message, /Unauthorized/);
  stop();
  const nobody = promised<Error>();
  agentMemory(signedOut()).onUpdate(() => {}, nobody.resolve);
  assert.equal((await nobody.promise).message, "Unauthorized");
});
