// The options of the functions. The names are those of the Python client and of SQL, in camel case.

import type { ContextConditions, RecallConditions } from "./recallOptions.js";
import type { Recalled } from "./types.js";

export interface Cancellable {
  /** Ends the request; the promise is rejected with the signal's reason. */
  signal?: AbortSignal;
}

export interface ReadOptions extends Cancellable {
  /** The least similarity of a result, -1 to 1; unless given 0.3, calibrated for the model. */
  matchThreshold?: number;
  /** The maximum number of results; 5 unless given. */
  matchCount?: number;
}

export interface WriteOptions extends Cancellable {
  /** When the memory expires. */
  expiresAt?: Date | string;
}

export interface RecallOptions extends Cancellable, RecallConditions {
  /** The maximum number of results; 10 unless given. */
  count?: number;
  /** The sources to search; all unless given. */
  sources?: Recalled["source"][];
  /** What the metadata must contain. */
  filter?: Record<string, unknown>;
}

export interface RememberOptions extends Cancellable {
  /** "fact" unless given. */
  kind?: "observation" | "outcome" | "fact" | "error" | "goal" | "note";
  /** Hours until the memory expires; null: never; left out: the default of its kind. */
  ttlHours?: number | null;
  /** The project or channel of the memory. */
  project?: string;
  /** A name. The memory that the agent has under this name is replaced. */
  key?: string;
  metadata?: Record<string, unknown>;
}

export interface ContextOptions extends Cancellable, ContextConditions {}

/** Options under their names in SQL: `excludeLast` as `exclude_last`. JSON would have an invalid date as null: it is refused. */
export function inSql(options: object): Record<string, unknown> {
  const named = Object.entries(options).map(([name, value]) =>
    [name.replace(/[A-Z]/g, (one) => `_${one.toLowerCase()}`), value instanceof Date ? value.toISOString() : value]);
  return Object.fromEntries(named);
}
