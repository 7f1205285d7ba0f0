// The calls of chatMemory() and executor(), by the real supabase-js, over HTTP, on a real database.

import assert from "node:assert/strict";
import { test } from "node:test";

import * as client from "memoryd-client";
import { chatMemory, executor, idOf } from "memoryd-client";

import { given, service, signedIn, signedOut } from "./support.js";

test("a name has the id that it has in Python", async () => {
  for (const [name, times, id] of given.names) assert.equal(await idOf(name.repeat(times)), id, name);
  for (const [name, times] of given.refused) await assert.rejects(idOf(name.repeat(times)), client.Refused, name);
});

test("a conversation keeps its order, and is its user's alone", async () => {
  const chat = chatMemory(service(), { user: "noa", agent: "bot" });
  const ids = await chat.addMessages("noa:1", [
    { role: "user", content: "one", speaker: "Noa" },
    { role: "assistant", content: null, metadata: { tool_calls: ["look"] } },
    { role: "tool", content: "found" },
    { role: "assistant", content: "two", metadata: { model: "x" } },
  ]);
  assert.equal(ids.length, 4);
  assert.deepEqual(await chat.addMessages("noa:1", []), []);
  const all = await chat.getMessages("noa:1");
  assert.deepEqual(all.map((one) => [one.id, one.message_index, one.content]), ids.map((id, n) => [id, n, ["one", "", "found", "two"][n]]));
  assert.deepEqual(all[3]?.metadata, { model: "x" });
  assert.deepEqual((await chat.loadContext("noa:1", 2)).map((one) => one.content), ["found", "two"]);
  assert.deepEqual((await chat.getMessages("noa:1", { since: all[3]!.created_at, limit: 1 })).length, 1);
  assert.deepEqual(await chat.prompt("noa:1", "hahaha", { maxMessages: 3 }), [
    { role: "assistant", content: "two" }, { role: "user", content: "hahaha" },
  ]);
  assert.deepEqual(await chat.prompt("noa:1", "haha", { maxMessages: 0 }), [{ role: "user", content: "haha" }]);
  const other = chatMemory(service(), { user: "eve" });
  assert.deepEqual(await other.getMessages("noa:1"), []);
  assert.equal(await other.reset("noa:1"), 0);
  assert.equal(await chat.deleteExpired(60), 0);
  assert.equal(await chat.deleteExpired(0, { session: "noa:2" }), 0);
  assert.equal(await chat.reset("noa:1"), 6);
  assert.deepEqual(await chat.loadContext("noa:1"), []);
});

test("a user who is signed in begins a conversation of their own", async () => {
  const chat = chatMemory(signedIn("dan"));
  const session = await chat.beginSession("Ferries");
  await chat.addUserMessage(session, "The ferry to Oslo leaves at nine");
  assert.equal((await chat.loadContext(session)).length, 1);
  const next = await chat.beginSession();
  const [remembered] = await chat.prompt(next, "When does the ferry to Oslo leave?");
  assert.match(remembered?.content ?? "", /leaves at nine/);
  await assert.rejects(chat.addSystemMessage(session, "obey"), { code: "42501" });
  const cat = chatMemory(signedIn("eli"));
  assert.deepEqual(await cat.getMessages(session), []);
  await assert.rejects(cat.addUserMessage(session, "mine"), (error: any) => /^(42501|P0002|23503)$/.test(error.code));
  await assert.rejects(chatMemory(signedOut()).loadContext(session), { message: "Unauthorized" });
  await chat.setRetention(90);
  assert.equal(await chat.retention(), 90);
  await chat.setRetention(null);
  assert.equal(await chat.retention(), null);
});

test("an answer that comes in pieces is one message", async () => {
  const chat = chatMemory(service(), { user: "pia" });
  const said = chat.aiMessage("pia:1", { metadata: { model: "x" } });
  for (const piece of ["The ", null, "tuba", "", undefined, "."]) said.add(piece);
  assert.equal(said.text, "The tuba.");
  assert.ok(await said.end());
  assert.equal(await chat.aiMessage("pia:1").end(), null);
  assert.throws(() => said.add(3 as never), client.Refused);
  assert.deepEqual((await chat.loadContext("pia:1")).map((one) => one.content), ["The tuba."]);
});

test("nothing is added or found while a user's memory is off", async () => {
  const supabase = service();
  const chat = chatMemory(supabase, { user: "off" });
  await chat.addUserMessage("off:1", "I live in Ghent");
  await supabase.from("memory_settings").upsert({ user_id: await idOf("off"), memory_enabled: false } as never);
  assert.equal(await chat.addUserMessage("off:1", "hello"), null);
  assert.deepEqual(await chat.prompt("off:1", "Where do I live?"), [{ role: "user", content: "Where do I live?" }]);
  assert.deepEqual(await chat.loadContext("off:1"), []);
  assert.deepEqual(await chat.facts(), []);
});

test("what users say of themselves is known", async () => {
  const supabase = service();
  const chat = chatMemory(supabase, { user: "uma" });
  const fact = { kind: "fact", content: "The user lives in Ghent.", metadata: { from: "conversation" } };
  await supabase.from("agent_memory").insert({ agent_id: "a", user_id: await idOf("uma"), ...fact } as never);
  const facts = await chat.facts();
  assert.match(facts[0]!.content, /The user lives in Ghent/);
  assert.deepEqual(await chatMemory(service(), { user: "vic" }).facts(), []);
});

test("an agent remembers a thing once", async () => {
  const { remember, recall, waitIndexed, indexState, context } = client.agentMemory(signedIn("eli"), { agent: "helper" });
  const first = await remember("The harbour closes at six", { metadata: { from: "test" } });
  const again = await remember("the harbour closes at six.");
  assert.deepEqual([first?.known, again?.known, again?.id], [false, true, first?.id]);
  assert.deepEqual((await waitIndexed([first!.id])).map((one) => one.state), ["indexed"]);
  assert.deepEqual((await indexState([first!.id]))[0]?.source, "memory");
  assert.equal((await recall("When does the harbour close?"))[0]?.id, first?.id);
  assert.equal(await context("hahaha"), "");
  await assert.rejects(waitIndexed([given.users.ann.id]), /do not exist/);
  assert.equal((await remember("for a while", { ttlHours: 1 }))?.known, false);
});

test("an executor does the commands of its agent", async () => {
  const supabase = service();
  const agent = "ts-executor";
  const messages = ["fine", "code 3", "throws", "wrong"];
  for (const message of messages) await supabase.from("agent_commands").insert({ agent_id: agent, message } as never);
  const seen: string[] = [];
  const working = executor(
    supabase, agent,
    async (context, message, command) => {
      assert.equal(typeof context, "string");
      assert.equal(command.agent_id, agent);
      seen.push(message);
      if (seen.length === messages.length) working.stop();
      if (message === "code 3") return ["it failed", 3];
      if (message === "throws") throw new RangeError("too far");
      return message === "wrong" ? ({} as never) : "done\0";
    },
    { pollSeconds: 0.02 },
  );
  await working.run();
  assert.deepEqual(seen.sort(), [...messages].sort());
  const { data } = await supabase.from("agent_commands").select("message, status, exit_code, output").eq("agent_id", agent);
  const ends = Object.fromEntries((data as any[]).map((one) => [one.message, [one.status, one.exit_code, one.output]]));
  assert.deepEqual(ends["fine"], ["completed", 0, "done\ufffd"]);
  assert.deepEqual(ends["code 3"], ["failed", 3, "it failed"]);
  assert.deepEqual(ends["throws"], ["failed", 1, "RangeError: too far"]);
  assert.match(ends["wrong"][2], /^TypeError: the handler returned object/);
  // A user may run no commands: that ends it.
  await assert.rejects(executor(signedIn("ann"), agent, () => "x").run(), { code: "42501" });
});

test("a lease is renewed while its command runs, and who has lost it writes nothing", async () => {
  let renewals = 0;
  let heard = () => {};
  const supabase = service(async (address, request) => {
    const response = await fetch(address, request);
    if (String(address).endsWith("/rpc/renew_command") && (await response.clone().text()) === "true") renewals += 1;
    heard();
    return response;
  });
  const agent = "ts-leases";
  for (const message of ["kept", "lost"]) await supabase.from("agent_commands").insert({ agent_id: agent, message } as never);
  const errors: string[] = [];
  let begun = 0;
  const working = executor(
    supabase, agent,
    async (_context, message, { id, started_at }, signal) => {
      begun += 1;
      if (begun === 2) working.stop();
      if (message === "lost") {
        await service().rpc("complete_command", { command_id: id, output: "by another", started_at } as never);
        await new Promise((done) => signal.addEventListener("abort", done, { once: true }));
        return "too late";
      }
      await new Promise<void>((done) => (heard = () => renewals >= 2 && done()));
      return signal.aborted ? "lost" : "done";
    },
    { parallel: 2, pollSeconds: 0.02, leaseSeconds: 1, onError: (error) => errors.push(error.message) },
  );
  await working.run();
  const { data } = await supabase.from("agent_commands").select("message, output").eq("agent_id", agent).order("message");
  assert.deepEqual(data, [{ message: "kept", output: "done" }, { message: "lost", output: "by another" }]);
  assert.equal(errors.length, 1);
  assert.match(errors[0]!, /^Command .* runs elsewhere, or has ended\.$/);
  await assert.rejects(executor(supabase, agent, () => "x", { leaseSeconds: 0 }).run(), { code: "23514" });
});
