// A model that remembers and its tools: the real AI SDK with its own mock models, over HTTP, on a real database.

import assert from "node:assert/strict";
import { test } from "node:test";

import { APICallError, generateText, stepCountIs, streamText, wrapLanguageModel } from "ai";
import { convertReadableStreamToArray, MockLanguageModelV4 as Mock, simulateReadableStream } from "ai/test";
import { agentMemory, chatMemory, idOf, type Supabase } from "memoryd-client";
import { knowledgeTools, memoryMiddleware, memoryTools, type MemoryMiddlewareOptions } from "memoryd-client/ai";

import { service, signedIn } from "./support.js";

type Answers = NonNullable<NonNullable<ConstructorParameters<typeof Mock>[0]>["doGenerate"]>;
type Whole = Exclude<Answers, Function | unknown[]>;
type Content = Whole["content"][number];
type Piece = Awaited<ReturnType<Mock["doStream"]>>["stream"] extends ReadableStream<infer One> ? One : never;

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};
const ends = (unified: "stop" | "tool-calls" | "error") => ({ unified, raw: undefined });
const says = (...content: Content[]): Whole => ({
  content, usage, warnings: [],
  finishReason: ends(content.some((one) => one.type === "tool-call") ? "tool-calls" : "stop"),
});
const text = (said: string): Content => ({ type: "text", text: said });
const calls = (toolName: string, input: object): Content => ({
  type: "tool-call", toolCallId: toolName, toolName, input: JSON.stringify(input),
});
const streamed = (...pieces: Piece[]) => ({ stream: simulateReadableStream({ chunks: pieces, chunkDelayInMs: null }) });
const pieces = (...said: string[]): Piece[] => [
  { type: "stream-start", warnings: [] },
  { type: "text-start", id: "1" },
  ...said.map((delta): Piece => ({ type: "text-delta", id: "1", delta })),
];
const finished: Piece[] = [{ type: "text-end", id: "1" }, { type: "finish", usage, finishReason: ends("stop") }];

/** A model with a memory that fails no test in silence: what it is told by onError is thrown at the end. */
function remembering(model: Mock, options: MemoryMiddlewareOptions, supabase: Supabase = service()) {
  const onError = (error: Error) => assert.fail(error.message);
  return wrapLanguageModel({ model, middleware: memoryMiddleware(supabase, { onError, ...options }) });
}

/** What was kept of a conversation. */
async function kept(user: string, session: string) {
  return (await chatMemory(service(), { user }).getMessages(session)).map((one) => [one.role, one.content]);
}

/** What a prompt says, by roles. */
const said = (prompt: Mock["doGenerateCalls"][number]["prompt"]) =>
  prompt.map(({ role, content }) => [role, typeof content === "string" ? content : content.map((part: any) => part.text ?? part.type)]);

test("the model is told what belongs to the message, behind the caller's own prompt, and the turn is kept", async () => {
  await agentMemory(service(), { user: "ai:ada" }).remember("My sister Dora plays the tuba");
  const model = new Mock({ doGenerate: says(text("The "), text("tuba.")) });
  const messages = [
    { role: "user" as const, content: "Hello" },
    { role: "assistant" as const, content: "Hello Ada" },
    { role: "user" as const, content: "Which instrument does Dora play?" },
  ];
  const answer = await generateText({
    model: remembering(model, { user: "ai:ada", session: "ai:ada:1" }), instructions: "Be brief.", messages,
  });
  assert.equal(answer.text, "The tuba.");
  const [system, first, second, asked] = said(model.doGenerateCalls[0]!.prompt);
  assert.deepEqual([system, first, second], [["system", "Be brief."], ["user", ["Hello"]], ["assistant", ["Hello Ada"]]]);
  const [context, question] = asked![1] as string[];
  assert.match(context!, /^--- CONTEXT .*Dora plays the tuba.*--- END CONTEXT .*\n\n$/s);
  assert.equal(question, "Which instrument does Dora play?");
  assert.deepEqual(await kept("ai:ada", "ai:ada:1"), [["user", "Which instrument does Dora play?"], ["assistant", "The tuba."]]);
});

test("the model is told what is known of the user whatever the message says, unless profile is 0", async () => {
  await agentMemory(service(), { user: "ai:ora" }).remember("Ora is allergic to walnuts");
  for (const [options, told] of [[{}, true], [{ profile: 0 }, false]] as const) {
    const model = new Mock({ doGenerate: says(text("Soup.")) });
    await generateText({ model: remembering(model, { user: "ai:ora", ...options }), prompt: "any dinner ideas?" });
    assert.equal(JSON.stringify(model.doGenerateCalls[0]!.prompt).includes("allergic to walnuts"), told);
  }
});

test("a user who is signed in has a memory, too, and nobody else's conversation is written to", async () => {
  const session = await chatMemory(signedIn("eli")).beginSession();
  await generateText({ model: remembering(new Mock({ doGenerate: says(text("Noted.")) }), { session }, signedIn("eli")), prompt: "I keep bees" });
  assert.equal((await chatMemory(signedIn("eli")).getMessages(session)).length, 2);
  const errors: any[] = [];
  const model = remembering(new Mock({ doGenerate: says(text("Hi.")) }), { session, onError: (error) => errors.push(error) }, signedIn("bob"));
  assert.equal((await generateText({ model, prompt: "mine" })).text, "Hi.");
  assert.equal(errors.length, 2); // the message and the answer
  assert.equal((await chatMemory(signedIn("eli")).getMessages(session)).length, 2);
});

test("a conversation of another user is not written to, nor shown", async () => {
  await chatMemory(service(), { user: "ai:jan" }).addUserMessage("ai:jan:1", "I keep my key under the third flowerpot");
  const errors: any[] = [];
  const model = new Mock({ doGenerate: says(text("Hi.")) });
  const eve = { user: "ai:eve", session: "ai:jan:1", onError: (error: any) => errors.push(error.code) };
  await generateText({ model: remembering(model, eve), prompt: "Where is the key, under which flowerpot?" });
  assert.deepEqual(said(model.doGenerateCalls[0]!.prompt), [["user", ["Where is the key, under which flowerpot?"]]]);
  assert.equal(errors.length, 2);
  assert.equal((await kept("ai:jan", "ai:jan:1")).length, 1);
  // Not by tools either, also where it was forgotten to say whose they are.
  for (const who of [{}, { user: "ai:eve" }, { agent: "chatbot" }]) assert.deepEqual(await agentMemory(service(), who).recall("flowerpot"), []);
});

test("without a session nothing is kept, and of a message without a text its answer", async () => {
  const model = new Mock({ doGenerate: says(text("A ferry.")) });
  const image = { type: "file" as const, mediaType: "image/png", data: new Uint8Array([137, 80, 78, 71]) };
  const messages = [{ role: "user" as const, content: [image] }];
  await generateText({ model: remembering(model, { user: "ai:nob" }), prompt: "What leaves at nine?" });
  await generateText({ model: remembering(model, { user: "ai:nob", session: "ai:nob:1" }), messages });
  assert.deepEqual(said(model.doGenerateCalls[1]!.prompt), [["user", ["file"]]]);
  const { data } = await service().from("conversation_messages").select("content").eq("user_id", (await idOf("ai:nob")) as never);
  assert.deepEqual(data, [{ content: "A ferry." }]);
});

test("a stream passes through, and its answer is kept whole", async () => {
  const model = new Mock({ doStream: streamed(...pieces("The ", "tu", "ba."), ...finished) });
  const { textStream } = streamText({ model: remembering(model, { user: "ai:bea", session: "ai:bea:1" }), prompt: "Which instrument?" });
  const heard: string[] = [];
  for await (const piece of textStream) heard.push(piece);
  assert.deepEqual(heard, ["The ", "tu", "ba."]);
  assert.deepEqual(await kept("ai:bea", "ai:bea:1"), [["user", "Which instrument?"], ["assistant", "The tuba."]]);
});

test("a streamed turn with tools is one turn", async () => {
  const options = { user: "ai:kim", session: "ai:kim:1" };
  const call: Piece = { type: "tool-call", toolCallId: "1", toolName: "recall", input: '{"query":"ferry"}' };
  const model = new Mock({
    doStream: [
      streamed(...pieces("Let me look."), { type: "text-end", id: "1" }, call, { type: "finish", usage, finishReason: ends("tool-calls") }),
      streamed(...pieces("At nine."), ...finished),
    ],
  });
  const stream = streamText({
    model: remembering(model, options), tools: memoryTools(service(), options), stopWhen: stepCountIs(3), prompt: "When does the ferry leave?",
  });
  assert.equal(await stream.text, "At nine.");
  // The question itself is not what is remembered about it.
  assert.deepEqual((await stream.steps)[0]!.toolResults.map((one: any) => one.output.results), [[]]);
  assert.deepEqual(await kept(options.user, options.session), [["user", "When does the ferry leave?"], ["assistant", "At nine."]]);
});

test("of an answer that is broken off nothing is kept, but what the user said", async () => {
  const options = { user: "ai:cas", session: "ai:cas:1" };
  const control = new AbortController();
  const model = new Mock({
    doStream: async ({ abortSignal }) => ({
      stream: new ReadableStream<Piece>({
        start(out) {
          for (const piece of pieces("The tu")) out.enqueue(piece);
          abortSignal?.addEventListener("abort", () => out.error(abortSignal.reason));
        },
      }),
    }),
  });
  const stream = streamText({ model: remembering(model, options), prompt: "one", abortSignal: control.signal, onError: () => {} });
  for await (const piece of stream.textStream) {
    assert.equal(piece, "The tu");
    control.abort(new Error("the user left"));
  }
  const reader = (await remembering(model, options).doStream({ prompt: [{ role: "user", content: [{ type: "text", text: "two" }] }] }))
    .stream.getReader();
  await reader.read();
  await reader.cancel();
  const failing = new Mock({ doStream: streamed(...pieces("The tu"), { type: "error", error: new Error("overloaded") }, ...finished) });
  await streamText({ model: remembering(failing, options), prompt: "three", onError: () => {} }).consumeStream();
  const cut = new Mock({ doStream: streamed(...pieces("The tu")) });
  await streamText({ model: remembering(cut, options), prompt: "four", onError: () => {} }).consumeStream();
  await assert.rejects(
    generateText({ model: remembering(new Mock(), options), prompt: "five", abortSignal: AbortSignal.abort(new Error("left before")) }),
  );
  assert.deepEqual(await kept(options.user, options.session), ["one", "two", "three", "four"].map((one) => ["user", one]));
});

test("a message is kept once, however often the model is asked for its answer", async () => {
  const options = { user: "ai:dee", session: "ai:dee:1" };
  let asked = 0;
  const overloaded = new APICallError({
    message: "overloaded", url: "", requestBodyValues: {}, statusCode: 529, isRetryable: true, responseHeaders: { "retry-after-ms": "1" },
  });
  const answers = async () => {
    asked += 1;
    if (asked % 2 === 1) throw overloaded;
    return says(text(`answer ${asked}`));
  };
  const model = remembering(new Mock({ doGenerate: answers }), options);
  assert.equal((await generateText({ model, prompt: "yes" })).text, "answer 2");
  await assert.rejects(generateText({ model, prompt: "really?", maxRetries: 0 }));
  assert.deepEqual((await kept(options.user, options.session)).at(-1), ["user", "really?"]);
  await generateText({ model, prompt: "really?" });
  // What is said again after its answer is said again.
  asked = 1;
  await generateText({ model, prompt: "yes" });
  assert.deepEqual(await kept(options.user, options.session), [
    ["user", "yes"], ["assistant", "answer 2"], ["user", "really?"], ["assistant", "answer 4"], ["user", "yes"], ["assistant", "answer 2"],
  ]);
});

test("a turn with tools is one turn", async () => {
  const who = { user: "ai:fay", agent: "helper" };
  const options = { ...who, session: "ai:fay:1" };
  const stored = await agentMemory(service(), who).remember("Fay is allergic to walnuts");
  const strange = await agentMemory(service(), { ...who, user: "ai:eve" }).remember("Eve is allergic to walnuts");
  const model = new Mock({
    doGenerate: [
      says(text("Let me look."), calls("recall", { query: "walnuts", count: 5 })),
      says(calls("remember", { text: "Fay likes pecans", kind: "note", ttl_hours: 5 }), calls("context", { message: "Bake a cake with walnuts" })),
      says(calls("forget", { ids: [stored!.id, strange!.id] }), { ...calls("remember", { text: 3 }), toolCallId: "wrong" } as Content),
      says(text("No walnuts.")),
    ],
  });
  const { text: answer, steps } = await generateText({
    model: remembering(model, options), tools: memoryTools(service(), options), stopWhen: stepCountIs(5), prompt: "May I eat walnuts?",
  });
  assert.equal(answer, "No walnuts.");
  const outputs = steps.flatMap((step) => step.toolResults).map((one) => one.output as any);
  assert.deepEqual(outputs[0].results.map((one: any) => [one.source, one.id, one.content]), [["memory", stored!.id, "Fay is allergic to walnuts"]]);
  assert.equal(outputs[1].known, false);
  assert.match(outputs[2], /Fay is allergic to walnuts/);
  assert.deepEqual(outputs[3], { forgotten: 1, not_there: 1 });
  assert.equal(steps[2]!.content.some((part) => part.type === "tool-error"), true);
  // Each step is told the same, at the same place, so that what a provider has cached stays valid.
  const told = model.doGenerateCalls.map(({ prompt }) => JSON.stringify(prompt[0]));
  assert.equal(new Set(told).size, 1);
  assert.match(told[0]!, /allergic to walnuts/);
  // Nor does a process that goes on with it keep the message again.
  const last = new Mock({ doStream: streamed(...pieces("None."), ...finished) });
  await convertReadableStreamToArray((await remembering(last, options).doStream({ prompt: model.doGenerateCalls[3]!.prompt })).stream);
  const turn = [["user", "May I eat walnuts?"], ["assistant", "No walnuts."], ["assistant", "None."]];
  assert.deepEqual(await kept(options.user, options.session), turn);
  assert.equal((await agentMemory(service(), { ...who, user: "ai:eve" }).recall("walnuts")).length, 1);
});

test("an agent notes for its team, which a user's client may not", async () => {
  const know = calls("know", { text: "Quality before speed, always.", category: "principle", tags: ["work"] });
  for (const [client, expected] of [[service(), "tool-result"], [signedIn("bob"), "tool-error"]] as const) {
    const model = new Mock({ doGenerate: [says(know), says(text("Done."))] });
    const { steps } = await generateText({
      model, tools: knowledgeTools(client, { agent: "ai:sage" }), stopWhen: stepCountIs(2), prompt: "Note it",
    });
    assert.deepEqual(steps[0]!.content.map((part) => part.type), ["tool-call", expected]);
  }
});

test("two calls of one conversation at once keep both turns", async () => {
  const options = { user: "ai:gus", session: "ai:gus:1" };
  const model = remembering(new Mock({ doGenerate: async ({ prompt }) => says(text(`to ${(said(prompt)[0]![1] as string[]).at(-1)}`)) }), options);
  await Promise.all(["one", "two", "two"].map((prompt) => generateText({ model, prompt })));
  const turns = await kept(options.user, options.session);
  assert.deepEqual(turns.filter(([role]) => role === "user").map(([, one]) => one).sort(), ["one", "two"]);
  assert.deepEqual(turns.filter(([role]) => role === "assistant").map(([, one]) => one).sort(), ["to one", "to two", "to two"]);
});

test("a memory that is down, slow or throws delays a call, and fails none", async () => {
  const timers = () => process.getActiveResourcesInfo().filter((one) => one === "Timeout").length;
  const before = timers();
  const fetches = {
    silent: () => new Promise<Response>(() => {}),
    down: async () => { throw new TypeError("fetch failed"); },
    broken: async () => new Response("<html>502</html>", { status: 502 }),
  };
  for (const [name, fetch] of Object.entries(fetches)) {
    const errors: Error[] = [];
    const onError = (error: Error) => {
      errors.push(error);
      throw error;
    };
    const model = new Mock({ doGenerate: says(text("Hi.")), doStream: streamed(...pieces("Hi."), ...finished) });
    const middleware = memoryMiddleware(service(fetch), { user: "ai:hal", session: "ai:hal:1", timeoutSeconds: 0.05, onError });
    const wrapped = wrapLanguageModel({ model, middleware });
    assert.equal((await generateText({ model: wrapped, prompt: "Hello" })).text, "Hi.", name);
    assert.equal(await streamText({ model: wrapped, prompt: "Hello" }).text, "Hi.", name);
    assert.equal(errors.length, 6, name); // of each call the message, its context, and the answer
    if (name === "silent") assert.match(errors[0]!.message, /did not answer within 0.05 seconds/);
    const waiting = generateText({ model: wrapped, prompt: "Hello", abortSignal: AbortSignal.timeout(10) });
    await waiting.catch(() => {});
  }
  // Also one that is no client at all.
  const middleware = memoryMiddleware({} as Supabase, { user: "x", session: "y", onError: () => {} });
  const model = wrapLanguageModel({ model: new Mock({ doGenerate: says(text("Hi.")) }), middleware });
  assert.equal((await generateText({ model, prompt: "Hello" })).text, "Hi.");
  assert.equal(timers(), before);
});

test("five megabytes, NUL and half a character are kept, and reach the model as they are", async () => {
  const options = { user: "ai:ida", session: "ai:ida:1", timeoutSeconds: 30 };
  const model = new Mock({ doGenerate: says(text("Read\0.")) });
  const long = `heron\0 \ud800 ${"~".repeat(5_000_000)}`;
  assert.equal((await generateText({ model: remembering(model, options), prompt: long })).text, "Read\0.");
  assert.equal((said(model.doGenerateCalls[0]!.prompt)[0]![1] as string[]).at(-1), long);
  const turn = await kept(options.user, options.session);
  assert.deepEqual(turn.map(([role, content]) => [role, content!.length]), [["user", long.length], ["assistant", 6]]);
  assert.match(turn[0]![1]!, /^heron\ufffd \ufffd ~/);
});
