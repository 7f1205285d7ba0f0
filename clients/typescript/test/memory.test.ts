// The calls of agentMemory(), by the real supabase-js, over HTTP, on a real database.

import assert from "node:assert/strict";
import { test } from "node:test";

import { agentMemory, type MemoryType, type RecallOptions } from "memoryd-client";

import { given, service, signedIn, signedOut } from "./support.js";

const metadata = { brand_name: "TechFlow", tone: ["friendly"] };

/** Waits until what was written is near in meaning: it is embedded in the background. */
async function found(memory: ReturnType<typeof agentMemory>, query: string, type?: MemoryType) {
  for (;;) {
    const results = await memory.readMemory(query, type, { matchThreshold: 0.3 });
    if (results.length > 0) return results;
    await new Promise((later) => setTimeout(later, 20));
  }
}

test("what is written is read, by its user and nobody else", async () => {
  const { readMemory, writeMemory, recall } = agentMemory(signedIn("ann"));
  const written = await writeMemory("TechFlow speaks in a friendly voice", "brand_memory", metadata);
  assert.equal(written?.content, "TechFlow speaks in a friendly voice");
  assert.equal(written.memory_type, "brand_memory");
  assert.equal(written.user_id, given.users.ann.id);
  assert.equal(written.expires_at, null);
  assert.deepEqual(written.metadata, metadata);

  const [result] = await found({ readMemory } as ReturnType<typeof agentMemory>, "TechFlow voice");
  assert.equal(result?.id, written.id);
  assert.equal(result.content, written.content);
  assert.ok(result.similarity > 0.3 && result.similarity <= 1);
  assert.ok(!Number.isNaN(Date.parse(result.created_at)));
  assert.equal((await readMemory("TechFlow voice", "task_memory", { matchThreshold: 0 })).length, 0);
  assert.equal((await readMemory("TechFlow voice", "brand_memory", { matchThreshold: -1, matchCount: 0 })).length, 0);
  assert.equal((await readMemory("TechFlow voice", "brand_memory", { matchThreshold: 1 })).length, 0);
  assert.deepEqual((await recall("TechFlow", { count: 1 })).map((one) => one.id), [written.id]);
  const nothing = await recall("TechFlow", { sources: ["document"] });
  assert.deepEqual([nothing, nothing.by, (await readMemory("TechFlow voice")).by], [[], "meaning", "meaning"]);

  const bob = agentMemory(signedIn("bob"));
  assert.deepEqual(await bob.readMemory("TechFlow voice", undefined, { matchThreshold: -1 }), []);
  assert.deepEqual(await bob.recall("TechFlow"), []);
  assert.equal(await bob.forget([written.id]), 0);
});

test("a memory is kept until its time", async () => {
  const { writeMemory, forget } = agentMemory(signedIn("ann"));
  const expiresAt = new Date(Date.now() + 3_600_000);
  const written = await writeMemory("short-lived", "task_memory", undefined, { expiresAt });
  assert.equal(Date.parse(written?.expires_at ?? ""), expiresAt.getTime());
  assert.equal(await forget([written!.id]), 1);
  assert.equal(await forget([written!.id]), 0);
});

test("errors are thrown with their codes", async () => {
  const { writeMemory, readMemory } = agentMemory(signedIn("ann"));
  await assert.rejects(writeMemory("x", "no_such_type" as MemoryType), (error: any) => /^(22023|23514)$/.test(error.code));
  await assert.rejects(readMemory("  "), { code: "22023" });
  await assert.rejects(writeMemory("a\0b", "task_memory"), { code: "22P05" });
  // Nobody has signed in: anon may call nothing.
  const nobody = agentMemory(signedOut());
  await assert.rejects(nobody.readMemory("x"), (error: any) => error.code === "42501" || error.code === "PT401");
  await assert.rejects(nobody.exportMemory(), { message: "Unauthorized" });
  const late = agentMemory(signedIn("ann", given.expired));
  await assert.rejects(late.readMemory("x"), { code: "PGRST303", message: "JWT expired" });
});

test("another user's memory is neither exported nor erased", async () => {
  const { exportMemory, eraseMemory, setMemoryEnabled } = agentMemory(signedIn("bob"), { user: given.users.ann.id });
  for (const call of [exportMemory, eraseMemory, () => setMemoryEnabled(false)])
    await assert.rejects(call(), { code: "42501" });
});

test("a signal ends a request", async () => {
  const { readMemory, eraseMemory } = agentMemory(signedIn("ann"));
  const ended = AbortSignal.abort(new Error("not wanted any more"));
  await assert.rejects(readMemory("x", undefined, { signal: ended }), { message: "not wanted any more" });
  await assert.rejects(eraseMemory({ signal: ended }), { message: "not wanted any more" });
  const control = new AbortController();
  const reading = readMemory("x", undefined, { signal: control.signal });
  control.abort(new Error("left the page"));
  await assert.rejects(reading, { message: "left the page" });
});

test("a user switches memory off and on, exports and erases it", async () => {
  const memory = agentMemory(signedIn("cat"));
  assert.equal((await memory.getMemorySettings()).memoryEnabled, true);
  const kept = await memory.writeMemory("Cat likes portrait format", "user_preferences");
  await memory.updateMemorySettings({ memoryTtlHours: 500 });
  await memory.setMemoryEnabled(false);
  assert.deepEqual(await memory.getMemorySettings(), {
    memoryEnabled: false, memoryTtlHours: 500, taskMemoryTtlHours: null, conversationRetentionMinutes: null,
  });
  assert.deepEqual(await memory.recall("portrait"), []);
  await memory.setMemoryEnabled(true);
  assert.deepEqual((await memory.recall("portrait")).map((one) => one.id), [kept?.id]);

  const everything = await memory.exportMemory();
  assert.equal(everything.format, "memoryd-export");
  assert.deepEqual(everything.tables["agent_memory"]?.map((row) => row["id"]), [kept?.id]);
  assert.equal((await memory.eraseMemory())["agent_memory"], 1);
  assert.deepEqual(await memory.recall("portrait"), []);
});

test("what was replaced stays as history, and nobody replaces what is another's", async () => {
  const memory = agentMemory(service(), { user: "noor", agent: "helper" });
  const old = await memory.remember("I live in Ghent");
  const then = new Date();
  const other = agentMemory(service(), { user: "eve", agent: "helper" });
  const agent = agentMemory(service(), { agent: "helper" });
  for (const { supersede, forget } of [other, agent, agentMemory(signedIn("bob"))]) {
    await assert.rejects(supersede(old!.id, "mine"), (error: any) => error.name === "Refused" || error.code === "42501");
    assert.equal(await forget([old!.id]), 0);
  }
  const renewed = await memory.supersede(old!.id, "I live in Lyon");
  assert.deepEqual((await memory.recall("where do I live?")).map((one) => one.id), [renewed]);
  const [stood] = await memory.asOf(then);
  assert.deepEqual([stood?.id, stood?.content, stood?.superseded_by], [old?.id, "I live in Ghent", renewed]);
  assert.deepEqual((await memory.asOf(new Date(), { count: 5 })).map((one) => one.id), [renewed]);
  await assert.rejects(memory.supersede(old!.id, "I live in Rome"), { code: "23514" });
  assert.deepEqual(await other.asOf(new Date()), []);
  assert.deepEqual(await other.recall("where do I live?"), []);
  assert.equal(await memory.forget([old!.id, renewed!, given.users.ann.id]), 2);
});

test("options have their names in SQL", async () => {
  const { remember, recall, context } = agentMemory(service(), { agent: "gardener" });
  const office = await remember("The gate code is 12", { project: "office", metadata: { floor: 2 } });
  const family = await remember("The gate code is 77", { project: "family", kind: "note", ttlHours: null });
  assert.equal(family?.expires_at, null);
  const hour = 3_600_000;
  const found = async (options: RecallOptions) => (await recall("gate code", options)).map((one) => one.id);
  assert.deepEqual(await found({ project: "family" }), [family?.id]);
  assert.deepEqual(await found({ filter: { floor: 2 }, relevantOnly: true, excludeSession: "telegram:1", excludeLast: 3 }), [office?.id]);
  assert.deepEqual(await found({ since: new Date(Date.now() + hour), askedAt: new Date() }), []);
  assert.deepEqual(await found({ asOf: new Date(Date.now() - hour) }), []);
  assert.deepEqual(await found({ sources: ["conversation"], minScore: 1, roles: ["user"], speakers: ["Mia"], around: 1 }), []);
  assert.match(await context("Open the gate with its code", { project: "office", words: 100, excludeSession: "telegram:1" }), /12/);
  await assert.rejects(found({ excludeLast: 3 }), { code: "23514" });
  await assert.rejects(found({ since: new Date("last week") }), RangeError);
});
