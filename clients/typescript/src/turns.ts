// The parts of a turn in a conversation with a model, in the types of the AI SDK.

import type { LanguageModelMiddleware } from "ai";

type Wrapped<Name extends "wrapGenerate" | "wrapStream"> = Parameters<NonNullable<LanguageModelMiddleware[Name]>>[0];
type Result<Name extends "doGenerate" | "doStream"> = Awaited<ReturnType<Wrapped<"wrapStream">[Name]>>;
/** The input of a model. */
export type Params = Wrapped<"wrapGenerate">["params"];
export type Message = Params["prompt"][number];
/** The output of a model, whole and in pieces. */
export type Content = Result<"doGenerate">["content"][number];
export type Piece = Result<"doStream">["stream"] extends ReadableStream<infer Part> ? Part : never;

/** The text of a user's message; files are left out. */
export function textOf(message: Message | undefined): string {
  if (message?.role !== "user") return "";
  return message.content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n");
}

/** The prompt, with a text before the text of one of its messages. */
export function withContext(prompt: Message[], at: number, context: string): Message[] {
  return prompt.map((one, index) =>
    index === at && one.role === "user" ? { ...one, content: [{ type: "text", text: `${context}\n\n` }, ...one.content] } : one,
  );
}

/** The text with U+FFFD in place of NUL and halves of characters, which Postgres cannot store. */
export function storable(text: string): string {
  return text.replace(/[\0\p{Cs}]/gu, "\ufffd");
}

/** The answer of a model so far. */
export class Answer {
  text = "";
  #isWhole = false;
  #goesOn = false;

  add(part: Content | Piece): void {
    if (part.type === "text") this.text += part.text;
    else if (part.type === "text-delta") this.text += part.delta;
    else if (part.type === "tool-call") this.#goesOn ||= part.providerExecuted !== true;
    else if (part.type === "error") this.#goesOn = true;
    else if (part.type === "finish") this.finish(part.finishReason.unified);
  }

  finish(reason: string): void {
    this.#isWhole = reason !== "error" && reason !== "interrupted";
  }

  /** Whether the answer ends its turn: it was not broken off, and calls no tool. */
  get isLast(): boolean {
    return this.#isWhole && !this.#goesOn;
  }
}

/** The result of `work`; throws after this number of seconds, and when `abort` is aborted. The work's own signal then ends it. */
export async function within<Value>(
  seconds: number, work: (signal: AbortSignal) => Promise<Value>, abort?: AbortSignal,
): Promise<Value> {
  const control = new AbortController();
  const end = () => control.abort(abort?.reason);
  abort?.addEventListener("abort", end, { once: true });
  const timer = setTimeout(() => control.abort(new Error(`The memory did not answer within ${seconds} seconds.`)), seconds * 1000);
  const ended = new Promise<never>((_, reject) => {
    control.signal.addEventListener("abort", () => reject(control.signal.reason), { once: true });
  });
  try {
    return await Promise.race([work(control.signal), ended]);
  } finally {
    clearTimeout(timer);
    abort?.removeEventListener("abort", end);
  }
}
