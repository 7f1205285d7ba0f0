// The knowledge of an agent's team, its decisions and their outcomes. The client needs the service's key.

import { inSql } from "./options.js";
import type { Cancellable, RecallOptions } from "./options.js";
import { clientOf, type Client } from "./postgres.js";
import { answer, rowsOf, type Found } from "./supabase.js";
import type { Recalled } from "./types.js";

export interface KnowledgeOptions {
  /** The agent that writes the notes. */
  agent: string;
}

export interface NoteOptions extends Cancellable {
  title?: string;
  /** The category's tier unless given. */
  tier?: "core" | "working" | "learning";
  /** "high" unless given. */
  confidence?: "high" | "medium" | "low";
  tags?: string[];
  /** Ids of entries: for an outcome its decision, for a correction the entries that it corrects. */
  relatedIds?: string[];
  /** Only for a decision. */
  decisionContext?: {
    reasoning?: string | string[];
    alternatives?: string | string[];
    assumptions?: string | string[];
    killCriteria?: string | string[];
    reviewBy?: Date | string;
  };
  /** Only for an outcome. */
  outcome?: { success: boolean; result?: string; notes?: string; scoredAt?: Date | string };
  source?: string;
  /** False: an entry that says the same stays unchanged. */
  strengthen?: boolean;
}

/** The result of a note: `id` of the entry, `surprise` for how new it was, `neighbour` for the most similar entry. */
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
  /** False: include decisions that have an outcome. */
  openOnly?: boolean;
  /** The maximum number of decisions; 50 unless given. */
  count?: number;
}

/** A decision of the team; `because` is the entry that gives the reason for `state`. */
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

/** How often decisions came out well: in all, by agent, by tag and by confidence. `rate` is from 0 to 1. */
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
 * The token's claim `org_id` names the organisation. Every function throws the error of supabase-js (`code` is memoryd's
 * SQLSTATE). End users get 42501; their recall() finds nothing. No function uses `this`.
 */
export interface Knowledge {
  /** Stores what the team should know; if an entry says the same, strengthens that entry. */
  note(text: string, category: string, options?: NoteOptions): Promise<Noted>;
  /** Searches what the team knows, including decisions and outcomes. Best first. */
  recall(
    query: string,
    options?: Omit<RecallOptions, "sources" | "excludeSession" | "excludeLast">,
  ): Promise<Found<Recalled>>;
  /** The team's decisions; those that need a review come first. */
  decisions(options?: DecisionOptions): Promise<Decision[]>;
  /** How often decisions came out well. */
  decisionRates(options?: Cancellable): Promise<DecisionRate[]>;
  /** Ends a project, thread or commitment and the entries that name it; returns how many. */
  resolve(id: string, options?: Cancellable): Promise<number>;
  /** Counts a use of an entry, which then does not expire. */
  touch(id: string, options?: Cancellable): Promise<void>;
}

/** The knowledge of an agent's team. */
export function knowledge(client: Client, { agent }: KnowledgeOptions): Knowledge {
  const supabase = clientOf(client);

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
    recall(query, { signal, count, filter, ...options } = {}) {
      const conditions = { ...inSql(options), match_count: count, sources: ["knowledge"], filter };
      return rowsOf(supabase, { kind: "recall", query, agent_id: agent, options: conditions }, signal);
    },
    decisions: ({ signal, agent, tag, openOnly, count } = {}) =>
      call("decisions", { agent_id: agent, tag, open_only: openOnly, match_count: count }, signal),
    decisionRates: ({ signal } = {}) => call("decision_rates", {}, signal),
    resolve: (id, { signal } = {}) => call("resolve_knowledge", { knowledge_id: id }, signal),
    async touch(id, { signal } = {}) {
      await call("touch_knowledge", { knowledge_id: id }, signal);
    },
  };
}
