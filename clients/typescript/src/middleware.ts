// A model of the AI SDK that remembers: its context is added to the user's message, and the turn is stored.
//
// Promise: if memory fails or is slow, the call of the model still works. A user's message is stored once, also if the model
// is called again or calls tools. An answer is stored whole, or not at all.

import type { LanguageModelMiddleware } from "ai";

import { chatMemory } from "./chat.js";
import { agentMemory, type AgentMemoryOptions } from "./memory.js";
import type { ContextOptions } from "./options.js";
import type { Client } from "./postgres.js";
import { PROMPT } from "./recallOptions.js";
import { Answer, storable, textOf, within, withContext, type Params, type Piece } from "./turns.js";

export interface MemoryMiddlewareOptions extends AgentMemoryOptions, Pick<ContextOptions, "project" | "words" | "profile"> {
  /** The conversation: a UUID or a name (see `idOf`). Without one nothing is stored. */
  session?: string;
  /** How long a call of the model waits for memory, at its beginning and at its end; 1 second unless given. */
  timeoutSeconds?: number;
  /** Called with the reason why a context is missing or a message was not stored; console.warn unless given. */
  onError?: (error: Error) => void;
}

/** A message of the user without an answer yet. */
interface Turn {
  context: string;
  isKept: boolean;
}

/** The maximum number of turns without an answer that are remembered here. */
const OPEN_TURNS = 16;

/**
 * Middleware for `wrapLanguageModel`. Make one for each conversation; it costs nothing.
 *
 * What the model should know (`context`) is put before the text of the user's newest message, in the same message. So the system
 * prompt stays the caller's, and a provider's cache stays valid. With `session` the user's message is stored before the model is
 * called, and the answer when it is complete. An answer that was broken off or ended in an error is not stored. Only text is stored.
 */
export function memoryMiddleware(
  client: Client,
  {
    session, project, words, profile = PROMPT.profile, timeoutSeconds = 1, onError = (error) => console.warn(error.message), ...who
  }: MemoryMiddlewareOptions = {},
): LanguageModelMiddleware {
  const memory = agentMemory(client, who);
  const chat = chatMemory(client, who);
  const turns = new Map<string, Turn>();
  const options: ContextOptions = {
    ...(session !== undefined && { excludeSession: session }), ...(project !== undefined && { project }),
    ...(words !== undefined && { words }), ...(profile !== undefined && { profile }),
  };

  /** The answer of memory; null if it failed or was late, which is reported. */
  async function tried<Value>(work: (signal: AbortSignal) => Promise<Value>, abort?: AbortSignal): Promise<Value | null> {
    try {
      return await within(timeoutSeconds, work, abort);
    } catch (error) {
      try {
        if (!abort?.aborted) onError(error as Error);
      } catch {
        // An error in onError does not fail the model's call either.
      }
      return null;
    }
  }

  async function keep(role: "user" | "assistant", text: string): Promise<boolean> {
    if (session === undefined || text.trim() === "") return false;
    const kept = await tried((signal) => chat.addMessages(session, [{ role, content: storable(text) }], { signal }));
    return kept !== null;
  }

  /** Stores the user's message, and looks up its context. */
  async function begin(text: string, turn: Turn, abort: AbortSignal | undefined): Promise<void> {
    const asked = tried((signal) => memory.context(storable(text), { ...options, signal }), abort);
    if (!turn.isKept) {
      turn.isKept = true; // so that the same call at the same time does not store it, too
      turn.isKept = await keep("user", text);
    }
    turn.context = (await asked) ?? "";
  }

  /** The prompt of the model with its context, and the user's message. */
  async function remembered(params: Params): Promise<{ params: Params; text: string }> {
    const { prompt, abortSignal } = params;
    const at = prompt.map((one) => one.role).lastIndexOf("user");
    const text = textOf(prompt[at]);
    if (text.trim() === "" || abortSignal?.aborted) return { params, text };
    const isNew = at === prompt.length - 1; // later steps of a turn end with results of tools
    const known = turns.get(text);
    const turn = known ?? { context: "", isKept: !isNew };
    if (isNew || known === undefined) {
      turns.set(text, turn);
      if (turns.size > OPEN_TURNS) turns.delete(turns.keys().next().value!);
      await begin(text, turn, abortSignal);
    }
    return { params: turn.context === "" ? params : { ...params, prompt: withContext(prompt, at, turn.context) }, text };
  }

  async function end(text: string, answer: Answer): Promise<void> {
    if (!answer.isLast) return;
    turns.delete(text);
    await keep("assistant", answer.text);
  }

  return {
    async wrapGenerate({ model, params: given }) {
      const { params, text } = await remembered(given);
      const result = await model.doGenerate(params);
      const answer = new Answer();
      for (const part of result.content) answer.add(part);
      answer.finish(result.finishReason.unified);
      await end(text, answer);
      return result;
    },
    async wrapStream({ model, params: given }) {
      const { params, text } = await remembered(given);
      const { stream, ...rest } = await model.doStream(params);
      const answer = new Answer();
      const watched = new TransformStream<Piece, Piece>({
        transform(piece, out) {
          answer.add(piece);
          out.enqueue(piece);
        },
        flush: () => end(text, answer),
      });
      return { ...rest, stream: stream.pipeThrough(watched) };
    },
  };
}
