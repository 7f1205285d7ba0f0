// The memory of a user or an agent, without a framework: thin calls of memoryd's functions.

import { idOf, Refused } from "./ids.js";
import { inSql } from "./options.js";
import type { Cancellable, ContextOptions, ReadOptions, RecallOptions, RememberOptions, WriteOptions } from "./options.js";
import { clientOf, type Client } from "./postgres.js";
import { answer, ask, rowsOf, userOf, type Found } from "./supabase.js";
import type {
  ForgetSource, IndexState, Memory, MemoryExport, MemoryResult, MemorySettings, MemoryType, MemoryUpdate, MemoryVersion,
  MetadataByType, Recalled, Remembered,
} from "./types.js";
import { listen } from "./updates.js";

export interface AgentMemoryOptions {
  /**
   * The user: a UUID or a name (see `idOf`). Only with the service's key; else it is the user who is signed in. Give the id if
   * the client was made with `accessToken`.
   */
  user?: string;
  /** The agent that remembers; "chatbot" unless given. If it is given, recall() also finds the agent's rows and what all agents share. */
  agent?: string;
}

/** Every function throws the error of supabase-js (`code` is memoryd's SQLSTATE), or Refused. No function uses `this`. */
export interface AgentMemory {
  /** Memories near to the question in meaning, nearest first. */
  readMemory<T extends MemoryType = MemoryType>(
    query: string, memoryType?: T, options?: ReadOptions,
  ): Promise<Found<MemoryResult<T>>>;
  /** Stores a memory. Returns null while the user's memory is switched off. */
  writeMemory<T extends MemoryType>(
    content: string, memoryType: T, metadata?: MetadataByType[T], options?: WriteOptions,
  ): Promise<Memory<T> | null>;
  /** Searches all that the user may see: memories, conversations, documents. Best first. */
  recall(query: string, options?: RecallOptions): Promise<Found<Recalled>>;
  /** Stores a memory of an agent, or strengthens the one with the same text. Returns null while the user's memory is switched off. */
  remember(text: string, options?: RememberOptions): Promise<Remembered | null>;
  /** What an agent should know before a task, as one block of text; empty for small talk, and if nothing is found. */
  context(message: string, options?: ContextOptions): Promise<string>;
  /** Whether recall finds these rows. Rows that do not exist, or are not the user's, are left out. */
  indexState(ids: string[], options?: Cancellable): Promise<IndexState[]>;
  /** Waits until recall finds all these rows by words and by meaning; throws after `seconds`, 10 unless given, or if one failed. */
  waitIndexed(ids: string[], options?: Cancellable & { seconds?: number }): Promise<IndexState[]>;
  /** Replaces a memory by what is true now; returns the new id, or null while memory is off. The old memory stays as history. */
  supersede(id: string, text: string, options?: Cancellable): Promise<string | null>;
  /** What was true of the user at a time, also if it was replaced since; newest first, 100 rows unless given. */
  asOf(time: Date | string, options?: Cancellable & { count?: number }): Promise<MemoryVersion[]>;
  /** Deletes rows by their ids; returns how many. Rows of others are treated like rows that do not exist. */
  forget(ids: string[], source?: ForgetSource, options?: Cancellable): Promise<number>;
  /** Everything about the user. */
  exportMemory(options?: Cancellable): Promise<MemoryExport>;
  /** Deletes everything about the user; returns how many rows of each table. It cannot be undone. */
  eraseMemory(options?: Cancellable): Promise<Record<string, unknown>>;
  getMemorySettings(options?: Cancellable): Promise<MemorySettings>;
  /** Changes the given settings, and no others. */
  updateMemorySettings(changes: Partial<MemorySettings>, options?: Cancellable): Promise<void>;
  /** False: nothing new is stored, and nothing is found. Stored rows stay, and are found again after true. */
  setMemoryEnabled(enabled: boolean, options?: Cancellable): Promise<void>;
  /** Calls `listener` when the user's memories changed, until you call the function that onUpdate() returns. */
  onUpdate(listener: (update: MemoryUpdate) => void, onError?: (error: Error) => void): () => void;
}

const AGENT = "chatbot";
const SETTINGS =
  "memoryEnabled:memory_enabled, memoryTtlHours:memory_ttl_hours, taskMemoryTtlHours:task_memory_ttl_hours, " +
  "conversationRetentionMinutes:conversation_retention_minutes";
const NOT_SET: MemorySettings = {
  memoryEnabled: true,
  memoryTtlHours: null,
  taskMemoryTtlHours: null,
  conversationRetentionMinutes: null,
};
/** The maximum number of ids in the address of a request. */
const ASKED_AT_ONCE = 100;

/** The memory of a supabase client's user, or of the given one, or of an agent. */
export function agentMemory(client: Client, { user, agent }: AgentMemoryOptions = {}): AgentMemory {
  const supabase = clientOf(client);
  const named = async () => (user === undefined ? undefined : idOf(user));
  const me = async () => (await named()) ?? userOf(supabase);

  async function call<Result>(name: string, given: object, signal: AbortSignal | undefined): Promise<Result> {
    return (await answer(supabase.rpc(name, given), signal)) as Result;
  }

  /** Whether the database knows the user. The service sees the rows of all users. */
  const isSignedIn = async () => user === undefined && (await userOf(supabase).catch(() => null)) !== null;

  /** Options under their names in SQL. */
  async function conditions({ excludeSession, ...options }: ContextOptions | RecallOptions): Promise<object> {
    return inSql({ ...options, excludeSession: excludeSession === undefined ? undefined : await idOf(excludeSession) });
  }

  /** The ids among these that belong to memories of this user or agent. */
  async function own(ids: string[], signal: AbortSignal | undefined): Promise<string[]> {
    if (await isSignedIn()) return ids;
    const whose = await named();
    const found: string[] = [];
    for (let from = 0; from < ids.length; from += ASKED_AT_ONCE) {
      const rows = supabase.from("agent_memory").select("id").in("id", ids.slice(from, from + ASKED_AT_ONCE));
      const mine = whose === undefined ? rows.is("user_id", null).eq("agent_id", agent ?? AGENT) : rows.eq("user_id", whose);
      found.push(...((await answer(mine, signal)) as { id: string }[]).map((one) => one.id));
    }
    return found;
  }

  const memory: AgentMemory = {
    async readMemory(query, memoryType, { signal, ...options } = {}) {
      return rowsOf(supabase, { kind: "read", query, options: { memory_type: memoryType, ...inSql(options) } }, signal);
    },
    async writeMemory(content, memoryType, metadata, { signal, ...options } = {}) {
      const given = { content, memory_type: memoryType, metadata, ...inSql(options) };
      return (await call<{ memory: Memory<any> | null }>("agent-memory-write", given, signal)).memory;
    },
    async recall(query, { signal, count, sources, filter, ...given } = {}) {
      const [user_id, options] = await Promise.all([named(), conditions(given)]);
      const agent_id = agent ?? (user_id !== undefined || (await isSignedIn()) ? undefined : AGENT);
      const asked = { kind: "recall", query, agent_id, user_id, options: { ...options, match_count: count, sources, filter } };
      return rowsOf(supabase, asked, signal);
    },
    async remember(text, { signal, kind = "fact", ttlHours, project, key, metadata } = {}) {
      const given = {
        content: text, agent_id: agent ?? AGENT, user_id: await named(), kind, ttl_hours: ttlHours, key,
        metadata: { ...metadata, ...(project && { project }) },
      };
      const [row] = await call<{ id: string; what: string; expires_at: string | null }[]>("remember", given, signal);
      return row ? { id: row.id, expires_at: row.expires_at, known: row.what === "strengthened" } : null;
    },
    async context(message, { signal, ...given } = {}) {
      const [user_id, options] = await Promise.all([named(), conditions(given)]);
      const asked = { kind: "context", query: message, agent_id: agent ?? AGENT, user_id, options };
      return (await ask(supabase, asked, signal)).result ?? "";
    },
    indexState: (ids, { signal } = {}) => call("index_state", { ids }, signal),
    async waitIndexed(ids, { signal, seconds = 10 } = {}) {
      const until = Date.now() + seconds * 1000;
      for (let pause = 5; ; pause = Math.min(250, 2 * pause)) {
        const states = await memory.indexState(ids, signal ? { signal } : {});
        const failed = states.find((one) => one.state === "failed");
        if (failed) throw new Error(`row ${failed.id} was not indexed: ${failed.reason}`);
        const missing = ids.length - new Set(states.map((one) => one.id)).size;
        if (missing > 0) throw new Error(`${missing} of ${ids.length} rows do not exist, or are not yours`);
        if (states.every((one) => one.state === "indexed")) return states;
        if (Date.now() > until) throw new Error(`not indexed after ${seconds} seconds: is a daemon running (memoryd status)?`);
        await new Promise((later) => setTimeout(later, pause));
      }
    },
    async supersede(id, text, { signal } = {}) {
      const [old_id] = await own([id], signal);
      if (old_id === undefined) throw new Refused("There is no such memory, or it is not yours. Give the id that recall returned.");
      return call("supersede_memory", { old_id, new_content: text }, signal);
    },
    asOf: async (time, { signal, count } = {}) => call("memory_as_of", { as_of: time, user_id: await me(), max_rows: count }, signal),
    async forget(ids, source = "memory", { signal } = {}) {
      return call("forget", { ids: source === "memory" ? await own(ids, signal) : ids, source }, signal);
    },
    exportMemory: async ({ signal } = {}) => call("export_user_memory", { user_id: await me() }, signal),
    eraseMemory: async ({ signal } = {}) => call("erase_user_memory", { user_id: await me() }, signal),
    async getMemorySettings({ signal } = {}) {
      const rows = supabase.from("memory_settings").select(SETTINGS).eq("user_id", await me());
      const [row] = (await answer(rows, signal)) as MemorySettings[];
      return row ?? { ...NOT_SET };
    },
    async updateMemorySettings(changes, { signal } = {}) {
      const row = { ...inSql(changes), user_id: await me() };
      await answer(supabase.from("memory_settings").upsert(row, { onConflict: "user_id" }), signal);
    },
    setMemoryEnabled: (enabled, options) => memory.updateMemorySettings({ memoryEnabled: enabled }, options),
    onUpdate(listener, onError = (error) => console.error(error)) {
      let ended = false;
      let stop = () => {};
      me().then(
        (user) => {
          if (!ended) stop = listen(supabase, user, { onUpdate: listener, onError });
        },
        (error: Error) => {
          if (!ended) onError(error);
        },
      );
      return () => {
        ended = true;
        stop();
      };
    },
  };
  return memory;
}
