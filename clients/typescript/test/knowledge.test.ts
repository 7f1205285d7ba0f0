// The calls of knowledge(), by the real supabase-js, over HTTP, on a real database.

import assert from "node:assert/strict";
import { test } from "node:test";

import { knowledge } from "memoryd-client";

import { given, service, signedIn } from "./support.js";

const team = knowledge(service(), { agent: "saber" });

test("what is new is stored, what is known is strengthened, and an outcome scores its decision", async () => {
  const text = "We short the index after a spike of the funding rate.";
  const decided = await team.note(text, "decision", {
    title: "Shorting", tags: ["index"], confidence: "medium",
    decisionContext: { reasoning: "It fell each time.", killCriteria: ["The rate is negative."], reviewBy: new Date("2999-01-01") },
  });
  assert.deepEqual([decided.what, decided.neighbour], ["stored", null]);
  const again = await team.note("After a spike of the funding rate we short the index.", "decision");
  assert.deepEqual([again.what, again.id], ["strengthened", decided.id]);
  assert.equal((await team.note(text, "decision", { strengthen: false })).what, "known");

  const [open] = await team.decisions({ tag: "index", agent: "saber", count: 1 });
  assert.deepEqual([open?.id, open?.state, open?.success], [decided.id, "open", null]);
  assert.equal(Date.parse(open?.review_by ?? ""), Date.parse("2999-01-01"));
  const [found] = await team.recall("when do we short the index?", { count: 1, filter: { category: "decision" }, minScore: 0.1 });
  assert.deepEqual([found?.source, found?.id], ["knowledge", decided.id]);

  const outcome = { success: true, result: "closed at a profit", scoredAt: new Date() };
  const closed = await team.note("The index fell by four percent.", "outcome", { relatedIds: [decided.id!], outcome });
  assert.equal(closed.reason, "scored the decision 'Shorting'");
  assert.deepEqual(await team.decisions({ tag: "index" }), []);
  assert.equal((await team.decisions({ tag: "index", openOnly: false }))[0]?.success, true);
  assert.equal((await team.decisionRates()).find((one) => one.by === "agent" && one.value === "saber")?.rate, 1);
});

test("a project is ended with what names it", async () => {
  const project = await team.note("We build a greenhouse.", "project");
  await team.note("Ana orders the glass.", "commitment", { relatedIds: [project.id!] });
  await team.touch(project.id!);
  assert.equal(await team.resolve(project.id!), 2);
  assert.equal((await team.note("Bo paints the frame.", "commitment", { relatedIds: [project.id!] })).what, "not stored");
  for (const call of [team.resolve, team.touch]) await assert.rejects(call(given.users.ann.id), { code: "P0002" });
});

test("what is wrong is refused, and end users may not ask", async () => {
  await assert.rejects(team.note("The vault is at postgresql://root:Sesame99@vault.example/db", "insight"), { code: "23514" });
  await assert.rejects(team.note("a\0b", "insight"), { code: "22P05" });
  await assert.rejects(team.decisions({ count: -1 }), { code: "22023" });
  await assert.rejects(team.decisionRates({ signal: AbortSignal.abort(new Error("left")) }), { message: "left" });
  const user = knowledge(signedIn("bob"), { agent: "saber" });
  for (const call of [() => user.note("x", "insight"), () => user.decisions(), () => user.decisionRates()])
    await assert.rejects(call(), { code: "42501" });
  assert.deepEqual(await user.recall("greenhouse"), []);
});
