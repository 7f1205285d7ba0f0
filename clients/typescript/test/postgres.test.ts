// The clients on a plain Postgres, with the real `pg` and postgres.js; nothing here knows of supabase-js.

import assert from "node:assert/strict";
import { after, test } from "node:test";

import pg from "pg";
import postgres from "postgres";

import { agentMemory, chatMemory, executor, knowledge, type Postgres } from "memoryd-client";

import { given } from "./support.js";

const pool = new pg.Pool({ connectionString: given.postgres, max: 4 });
after(() => pool.end());

test("a chatbot remembers with the same five lines", async () => {
  await chatMemory(pool, { user: "pia" }).addUserMessage("pia:1", "My sister Dora plays the tuba");
  const chat = chatMemory(pool, { user: "pia" });
  const messages = await chat.prompt("pia:2", "Which instrument does Dora play?");
  assert.match(messages[0]!.content, /^What you remember [^]*My sister Dora plays the tuba/);
  assert.deepEqual(messages.at(-1), { role: "user", content: "Which instrument does Dora play?" });
  await chat.addAiMessage("pia:2", "The tuba.");
  assert.deepEqual((await chat.loadContext("pia:2")).map((one) => [one.role, one.content, one.message_index]), [
    ["user", "Which instrument does Dora play?", 0], ["assistant", "The tuba.", 1],
  ]);
  const since = await chat.getMessages("pia:2", { since: new Date(Date.now() + 3_600_000), limit: 5 });
  assert.deepEqual(since, []);
  assert.deepEqual(await chatMemory(pool, { user: "quinn" }).loadContext("pia:2"), []);
  assert.equal(await chat.reset("pia:2"), 2);
  await chat.setRetention(90);
  await chat.setRetention(91);
  assert.equal(await chat.retention(), 91);
});

test("an agent that talks with nobody in particular needs no user", async () => {
  const chat = chatMemory(pool, { agent: "porter" });
  await agentMemory(pool, { agent: "porter" }).remember("The lobby key hangs behind the clock");
  await agentMemory(pool, { user: "uma", agent: "porter" }).remember("The lobby key of Uma is blue");
  const [first, ...rest] = await chat.prompt("porter:1", "Where does the lobby key hang?");
  assert.match(first!.content, /behind the clock/);
  assert.doesNotMatch(first!.content, /Uma/);
  assert.deepEqual(rest, [{ role: "user", content: "Where does the lobby key hang?" }]);
  await chat.addAiMessage("porter:1", "Behind the clock.");
  assert.equal((await chat.loadContext("porter:1")).length, 2);
  await assert.rejects(chat.deleteExpired(0), /give user/);
});

test("what is known of the user comes first, and where memory is off the message stays", async () => {
  const memory = agentMemory(pool, { user: "rosa", agent: "chatbot" });
  const known = await memory.remember("Rosa is allergic to peanuts", { metadata: { tags: ["diet"], nested: { at: 1 } } });
  const chat = chatMemory(pool, { user: "rosa", agent: "chatbot" });
  const [first, ...rest] = await chat.prompt("rosa:1", "Any dinner ideas?");
  assert.match(first!.content, /^What you know of the user[^]*- Rosa is allergic to peanuts$/);
  assert.deepEqual(rest, [{ role: "user", content: "Any dinner ideas?" }]);
  assert.equal((await chat.prompt("rosa:1", "Any other ideas?", { profile: 0 }))[0]!.role, "user");
  await memory.setMemoryEnabled(false);
  assert.deepEqual(await chat.prompt("rosa:1", "And now?"), [{ role: "user", content: "And now?" }]);
  assert.equal(await memory.remember("nothing"), null);
  await memory.setMemoryEnabled(true);
  const [found] = await memory.recall("peanuts");
  assert.deepEqual([found!.id, found!.metadata!["tags"]], [known!.id, ["diet"]]);
  assert.equal(await memory.forget([known!.id]), 1);
  assert.equal(await agentMemory(pool, { user: "someone else" }).forget([known!.id]), 0);
});

test("knowledge and an executor work, too", async () => {
  const team = knowledge(pool, { agent: "plain" });
  const noted = await team.note("The ferry to Oslo sails at nine", "lesson", { tier: "learning", tags: ["ferry", "a,b {c}"] });
  assert.equal(noted.what, "stored");
  await team.touch(noted.id!);
  assert.equal((await team.recall("ferry"))[0]!.id, noted.id);
  await pool.query("insert into agent_commands (agent_id, message) values ('plain', 'fetch it')");
  const done = executor(pool, "plain", () => {
    done.stop();
    return "fetched";
  }, { pollSeconds: 0.05 });
  await done.run();
  const { rows } = await pool.query("select status, output from agent_commands where agent_id = 'plain'");
  assert.deepEqual(rows, [{ status: "completed", output: "fetched" }]);
});

test("postgres.js stores what pg stores", async () => {
  const { host, port, user, password, database: name } = new pg.Client(given.postgres);
  const sql = postgres({ host, port, user: user!, password: password!, database: name!, max: 1 });
  const database = { query: async (statement: string, values: any[]) => ({ rows: await sql.unsafe(statement, values) }) };
  try {
    const chat = chatMemory(database, { user: "rhea" });
    await chat.addMessages("rhea:1", [{ role: "user", content: "My sister Lea plays the viola", metadata: { by: ["a", 1] } }]);
    assert.deepEqual((await chat.loadContext("rhea:1"))[0]!.metadata, { by: ["a", 1] });
    assert.match((await chat.prompt("rhea:2", "Which instrument does Lea play?"))[0]!.content, /Lea plays the viola/);
    const memory = agentMemory(database, { user: "rhea" });
    await memory.remember("Rhea rows at dawn", { metadata: { by: "form" } });
    const found = await memory.recall("who rows?", { filter: { by: "form" }, sources: ["memory"], since: new Date(0) });
    assert.deepEqual(found.map((one) => one.content), ["Rhea rows at dawn"]);
  } finally {
    await sql.end();
  }
});

test("a name cannot become SQL, nor a value", async () => {
  const odd = `'; drop table x; -- "{a,b}" \\`;
  const chat = chatMemory(pool, { user: odd, agent: "odd" });
  await chat.addMessages("odd:1", [{ role: "user", content: odd, speaker: odd, metadata: { [odd]: odd } }]);
  const [message] = await chat.loadContext("odd:1");
  assert.deepEqual([message!.content, message!.speaker, message!.metadata], [odd, odd, { [odd]: odd }]);
  await assert.rejects(chat.addUserMessage("odd:1", "a\0b"), { code: /^22/ });
  await assert.rejects(agentMemory(pool, { user: odd }).remember("x", { metadata: { [`"`]: "\0" } }), { code: /^22/ });
});

test("errors say what to do", async () => {
  await assert.rejects(chatMemory(pool).prompt("x:1", "hi"), /give user/);
  const away: Postgres = { query: () => Promise.reject(Object.assign(new Error("write EPIPE secret"), { code: "EPIPE" })) };
  await assert.rejects(chatMemory(away, { user: "mia" }).addUserMessage("a", "b"), { code: "", message: "The database cannot be reached." });
  const never: Postgres = { query: () => new Promise(() => {}) };
  const control = new AbortController();
  const waits = chatMemory(never, { user: "mia" }).loadContext("a", 3, { signal: control.signal });
  setImmediate(() => control.abort(new Error("no longer")));
  await assert.rejects(waits, { message: "no longer" });
  const errors: Error[] = [];
  agentMemory(pool, { user: "mia" }).onUpdate(() => {}, (error) => errors.push(error));
  while (errors.length === 0) await new Promise((later) => setImmediate(later));
  assert.match(errors[0]!.message, /no Realtime/);
});
