// What the functions take beside their first arguments. The names are those of the Python client and of SQL, in camel case.

import type { Recalled } from "./types.js";

export interface Cancellable {
  /** Ends the request; the promise is rejected with the signal's reason. */
  signal?: AbortSignal;
}

export interface ReadOptions extends Cancellable {
  /** Nothing less similar than this, -1 to 1; unless given the model's own (0.3, calibrated). */
  matchThreshold?: number;
  /** How many at most; 5 unless given. */
  matchCount?: number;
}

export interface WriteOptions extends Cancellable {
  /** When it is to be forgotten. */
  expiresAt?: Date | string;
}

export interface RecallOptions extends Cancellable {
  /** How many at most; 10 unless given. */
  count?: number;
  /** What is searched; everything unless given. */
  sources?: Recalled["source"][];
  /** What the metadata must contain. */
  filter?: Record<string, unknown>;
  /** Where the question is asked (project, channel, group chat): nothing of another one. */
  project?: string;
  /** Nothing that fits worse, 0 to 1; 0.35 cuts most of what does not belong. */
  minScore?: number;
  /** Nothing that does not belong to the question. */
  relevantOnly?: boolean;
  /** Without this conversation, such as the one that is going on: a UUID or a name. */
  excludeSession?: string;
  /** Of excludeSession without this many of the newest messages alone. */
  excludeLast?: number;
  /** Only what was written since this time. */
  since?: Date | string;
  /** Only what was written before this time. */
  until?: Date | string;
  /** What stood at this time, also if it was replaced since. */
  asOf?: Date | string;
  /** When it is asked: "last week" is the week before. Now, unless given. */
  askedAt?: Date | string;
  /** Of conversations only messages of these roles. */
  roles?: ("user" | "assistant" | "system" | "tool")[];
  /** Of conversations only messages of these speakers. */
  speakers?: string[];
  /** Messages come with this many of those before and after them, 0 to 10. */
  around?: number;
}

export interface RememberOptions extends Cancellable {
  /** "fact" unless given. */
  kind?: "observation" | "outcome" | "fact" | "error" | "goal" | "note";
  /** Hours until it is forgotten; null for never; left out, what its kind has. */
  ttlHours?: number | null;
  /** The project or channel that it belongs to. */
  project?: string;
  /** A name: what the agent has remembered by it is replaced. */
  key?: string;
  metadata?: Record<string, unknown>;
}

export interface ContextOptions extends Cancellable {
  project?: string;
  excludeSession?: string;
  excludeLast?: number;
  askedAt?: Date | string;
  /** How many words at most, 100 to 10,000; 500 unless the daemon is set otherwise. */
  words?: number;
}

/** Options under the names that they have in SQL: `excludeLast` as `exclude_last`. */
export function inSql(options: object): Record<string, unknown> {
  const named = Object.entries(options).map(([name, value]) => [name.replace(/[A-Z]/g, (one) => `_${one.toLowerCase()}`), value]);
  return Object.fromEntries(named);
}
