// The hook, in the real React.

import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import type { AgentMemory, MemoryUpdate } from "memoryd-client";
import { AgentMemoryProvider, useAgentMemory } from "memoryd-client/react";
import { StrictMode } from "react";
import { act, create, type ReactTestRenderer } from "react-test-renderer";

import { FakeSocket } from "./socket.js";
import { given, signedIn } from "./support.js";

(globalThis as any).IS_REACT_ACT_ENVIRONMENT = true;

const topic = `agent-memory:${given.users.dan.id}`;
const update: MemoryUpdate = { memory_type: "brand_memory", operation: "UPDATE" };
const dan = signedIn("dan");
const seen: AgentMemory[] = [];

function Page({ client, onUpdate }: { client: typeof dan; onUpdate?: (update: MemoryUpdate) => void }) {
  seen.push(useAgentMemory(client, onUpdate ? { onUpdate } : {}));
  return null;
}

async function rendered(page: React.ReactElement, into?: ReactTestRenderer): Promise<ReactTestRenderer> {
  let root = into;
  await act(async () => {
    if (root) root.update(page);
    else root = create(page);
  });
  return root!;
}

afterEach(() => {
  seen.length = 0;
  FakeSocket.forget();
});

test("it reads and writes, and its functions stay the same from render to render", async () => {
  const root = await rendered(<Page client={dan} />);
  const { readMemory, writeMemory } = seen[0]!;
  assert.equal((await writeMemory("the hook writes", "task_memory"))?.content, "the hook writes");
  assert.ok(Array.isArray(await readMemory("the hook")));
  await rendered(<Page client={dan} />, root);
  assert.equal(seen.length, 2);
  assert.equal(seen[1], seen[0]);
  await rendered(<Page client={signedIn("bob")} />, root);
  assert.notEqual(seen[2], seen[0]);
  assert.deepEqual(await seen[2]!.recall("hook"), []);
  await act(async () => root.unmount());
  assert.deepEqual(FakeSocket.said, []);
});

test("without arguments it takes the client of the provider, or says what is missing", async () => {
  const told: string[] = [];
  function Design() {
    try {
      seen.push(useAgentMemory());
    } catch (error) {
      told.push((error as Error).message);
    }
    return null;
  }
  const page = <AgentMemoryProvider value={dan}><Design /></AgentMemoryProvider>;
  const root = await rendered(page);
  const { readMemory, writeMemory } = seen[0]!;
  assert.equal((await writeMemory("the provider's client writes", "task_memory"))?.content, "the provider's client writes");
  assert.ok(Array.isArray(await readMemory("the provider", "task_memory")));
  await rendered(page, root);
  assert.equal(seen.at(-1), seen[0]);
  await act(async () => root.unmount());
  const alone = await rendered(<Design />);
  assert.match(told[0]!, /give it one, or render it in <AgentMemoryProvider/);
  await act(async () => alone.unmount());
});

test("it listens while it is mounted, and calls the newest function", async () => {
  const heard: string[] = [];
  // A strict React mounts, unmounts and mounts again.
  const page = (name: string) => (
    <StrictMode>
      <Page client={dan} onUpdate={() => heard.push(name)} />
    </StrictMode>
  );
  const root = await rendered(page("first"));
  await FakeSocket.until(`join ${topic}`);
  await rendered(page("second"), root);
  FakeSocket.broadcast(topic, "memory_updated", update);
  assert.deepEqual(heard, ["second"]);
  await act(async () => root.unmount());
  await FakeSocket.until(`join ${topic}`, `leave ${topic}`);
  FakeSocket.broadcast(topic, "memory_updated", update);
  assert.deepEqual(heard, ["second"]);
});
