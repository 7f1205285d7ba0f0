// What the team of an agent knows, what it decided, and how that turned out. For a client with the service's key.

import { inSql } from "./options.js";
import type { Cancellable, RecallOptions } from "./options.js";
import { answer, type Supabase } from "./supabase.js";
import type { Recalled } from "./types.js";

export interface KnowledgeOptions {
  /** The agent that notes. */
  agent: string;
}

export interface NoteOptions extends Cancellable {
  title?: string;
  /** That of the category, unless given. */
  tier?: "core" | "working" | "learning";
  /** "high" unless given. */
  confidence?: "high" | "medium" | "low";
  tags?: string[];
  /** Ids of entries: of an outcome its decision, of a correction what it corrects. */
  relatedIds?: string[];
  /** Of a decision. */
  decisionContext?: {
    reasoning?: string | string[];
    alternatives?: string | string[];
    assumptions?: string | string[];
    killCriteria?: string | string[];
    reviewBy?: Date | string;
  };
  /** Of an outcome. */
  outcome?: { success: boolean; result?: string; notes?: string; scoredAt?: Date | string };
  source?: string;
  /** False: an entry that says it already is left as it is. */
  strengthen?: boolean;
}

/** What became of a note: `id` is that of the entry, `surprise` how new it was, `neighbour` the entry that says most of it. */
export interface Noted {
  what: "stored" | "strengthened" | "known" | "not stored";
  id: string | null;
  surprise: number;
  neighbour: string | null;
  reason: string | null;
}

export interface DecisionOptions extends Cancellable {
  agent?: string;
  tag?: string;
  /** False: also those that have an outcome. */
  openOnly?: boolean;
  /** How many at most; 50 unless given. */
  count?: number;
}

/** A decision of the team; `because` is the entry that says what `state` says. */
export interface Decision {
  id: string;
  title: string;
  created_by: string;
  confidence: "high" | "medium" | "low";
  tags: string[];
  created_at: string;
  review_by: string | null;
  state: "criterion met" | "contradicted" | "overdue" | "open" | "no criterion" | "scored";
  because: string | null;
  success: boolean | null;
}

/** How often decisions came out well: of all, by agent, by tag and by confidence. `rate` is from 0 to 1. */
export interface DecisionRate {
  by: "all" | "agent" | "tag" | "confidence";
  value: string;
  decisions: number;
  open: number;
  scored: number;
  succeeded: number;
  rate: number | null;
}

/**
 * The organisation is that of the token's claim `org_id`. Every function throws the error of supabase-js (`code` is memoryd's
 * SQLSTATE). For end users that is 42501, but for recall(), which finds nothing for them. None needs `this`.
 */
export interface Knowledge {
  /** Notes what the team should know; if it knows that, the entry that says it is strengthened. */
  note(text: string, category: string, options?: NoteOptions): Promise<Noted>;
  /** Searches what the team knows, decisions and outcomes too. Best first. */
  recall(
    query: string,
    options?: Omit<RecallOptions, "sources" | "excludeSession" | "excludeLast">,
  ): Promise<Recalled[]>;
  /** The team's decisions, those that need a look first. */
  decisions(options?: DecisionOptions): Promise<Decision[]>;
  /** How often decisions came out well. */
  decisionRates(options?: Cancellable): Promise<DecisionRate[]>;
  /** Ends a project, thread or commitment and the entries that name it; how many were ended. */
  resolve(id: string, options?: Cancellable): Promise<number>;
  /** Says that an entry was used, so that it does not expire. */
  touch(id: string, options?: Cancellable): Promise<void>;
}

/** What the team of an agent knows. */
export function knowledge(supabase: Supabase, { agent }: KnowledgeOptions): Knowledge {
  async function call<Result>(name: string, given: object, signal: AbortSignal | undefined): Promise<Result> {
    return (await answer(supabase.rpc(name, given), signal)) as Result;
  }

  return {
    async note(text, category, { signal, decisionContext, outcome, ...options } = {}) {
      const given = {
        content: text, category, created_by: agent, ...inSql(options),
        decision_context: decisionContext && inSql(decisionContext), outcome: outcome && inSql(outcome),
      };
      const [noted] = await call<Noted[]>("note_knowledge", given, signal);
      return noted!;
    },
    recall: (query, { signal, count, filter, ...options } = {}) =>
      call("recall", { query, agent_id: agent, match_count: count, sources: ["knowledge"], filter, options: inSql(options) }, signal),
    decisions: ({ signal, agent, tag, openOnly, count } = {}) =>
      call("decisions", { agent_id: agent, tag, open_only: openOnly, match_count: count }, signal),
    decisionRates: ({ signal } = {}) => call("decision_rates", {}, signal),
    resolve: (id, { signal } = {}) => call("resolve_knowledge", { knowledge_id: id }, signal),
    async touch(id, { signal } = {}) {
      await call("touch_knowledge", { knowledge_id: id }, signal);
    },
  };
}
