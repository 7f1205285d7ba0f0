// What the functions take beside their first arguments. The names are those of the Python client and of SQL, in camel case.

import type { ContextConditions, RecallConditions } from "./recallOptions.js";
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

export interface RecallOptions extends Cancellable, RecallConditions {
  /** How many at most; 10 unless given. */
  count?: number;
  /** What is searched; everything unless given. */
  sources?: Recalled["source"][];
  /** What the metadata must contain. */
  filter?: Record<string, unknown>;
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

export interface ContextOptions extends Cancellable, ContextConditions {}

/** Options under the names that they have in SQL: `excludeLast` as `exclude_last`. */
export function inSql(options: object): Record<string, unknown> {
  const named = Object.entries(options).map(([name, value]) => [name.replace(/[A-Z]/g, (one) => `_${one.toLowerCase()}`), value]);
  return Object.fromEntries(named);
}
