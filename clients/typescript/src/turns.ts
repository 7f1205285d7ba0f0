// What a turn of a conversation with a model is made of, as the AI SDK has it.

import type { LanguageModelMiddleware } from "ai";

type Wrapped<Name extends "wrapGenerate" | "wrapStream"> = Parameters<NonNullable<LanguageModelMiddleware[Name]>>[0];
type Result<Name extends "doGenerate" | "doStream"> = Awaited<ReturnType<Wrapped<"wrapStream">[Name]>>;
/** What the model is asked. */
export type Params = Wrapped<"wrapGenerate">["params"];
export type Message = Params["prompt"][number];
/** What a model answers, whole and in pieces. */
export type Content = Result<"doGenerate">["content"][number];
export type Piece = Result<"doStream">["stream"] extends ReadableStream<infer Part> ? Part : never;

/** The text of a user's message; files are left out. */
export function textOf(message: Message | undefined): string {
  if (message?.role !== "user") return "";
  return message.content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n");
}

/** The prompt, with a text before what one of its messages says. */
export function withContext(prompt: Message[], at: number, context: string): Message[] {
  return prompt.map((one, index) =>
    index === at && one.role === "user" ? { ...one, content: [{ type: "text", text: `${context}\n\n` }, ...one.content] } : one,
  );
}

/** The text with U+FFFD in place of what Postgres cannot store: NUL, and halves of characters. */
export function storable(text: string): string {
  return text.replace(/[\0\p{Cs}]/gu, "\ufffd");
}

/** What a model has answered so far. */
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

  /** Whether it is the end of its turn: not broken off, and no tool is called. */
  get isLast(): boolean {
    return this.#isWhole && !this.#goesOn;
  }
}

/** What `work` gives; throws after so many seconds, and when `abort` says so. Its own signal then ends the work. */
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
