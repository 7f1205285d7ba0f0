// The memory of the user who is signed in, without a framework: thin calls of memoryd's functions.

import { answer, userOf, type Supabase } from "./supabase.js";
import type {
  Cancellable, ContextOptions, ForgetSource, IndexState, Memory, MemoryExport, MemoryResult, MemorySettings, MemoryType,
  MemoryUpdate, MetadataByType, Recalled, RecallOptions, ReadOptions, Remembered, RememberOptions, WriteOptions,
} from "./types.js";
import { listen } from "./updates.js";

export interface AgentMemoryOptions {
  /** Whose memory: the user of the client's session, unless given. Give it where the client has an `accessToken`. */
  userId?: string;
  /** The agent that remembers, for remember() and context(); "chatbot" unless given. */
  agent?: string;
}

/** Every function throws the error of supabase-js (`code` is memoryd's SQLSTATE). None needs `this`. */
export interface AgentMemory {
  /** What is remembered and near to the question in meaning, nearest first. */
  readMemory<T extends MemoryType = MemoryType>(
    query: string, memoryType?: T, options?: ReadOptions,
  ): Promise<MemoryResult<T>[]>;
  /** Remembers something. Null while the user's memory is switched off. */
  writeMemory<T extends MemoryType>(
    content: string, memoryType: T, metadata?: MetadataByType[T], options?: WriteOptions,
  ): Promise<Memory<T> | null>;
  /** What is remembered in all that the user may see: memories, conversations, documents. Best first. */
  recall(query: string, options?: RecallOptions): Promise<Recalled[]>;
  /** Stores a memory of an agent; what it remembers already is strengthened. Null while the user's memory is switched off. */
  remember(text: string, options?: RememberOptions): Promise<Remembered | null>;
  /** What an agent should know before a task, as one block of text; empty where nothing fits, and for small talk. */
  context(message: string, options?: ContextOptions): Promise<string>;
  /** Whether recall finds these rows; those that are not there, or not the user's, are left out. */
  indexState(ids: string[], options?: Cancellable): Promise<IndexState[]>;
  /** Waits until all these rows are found by words and by meaning; throws after `seconds`, 10 unless given, or if one failed. */
  waitIndexed(ids: string[], options?: Cancellable & { seconds?: number }): Promise<IndexState[]>;
  /** Deletes rows of the user's by their ids; how many went. */
  forget(ids: string[], source?: ForgetSource, options?: Cancellable): Promise<number>;
  /** Everything about the user. */
  exportMemory(options?: Cancellable): Promise<MemoryExport>;
  /** Deletes everything about the user; how many rows of what. It cannot be undone. */
  eraseMemory(options?: Cancellable): Promise<Record<string, unknown>>;
  getMemorySettings(options?: Cancellable): Promise<MemorySettings>;
  /** Changes what is given, and leaves the rest. */
  updateMemorySettings(changes: Partial<MemorySettings>, options?: Cancellable): Promise<void>;
  /** Off: nothing new is remembered and nothing is found. What is there is kept, and found again when it is on. */
  setMemoryEnabled(enabled: boolean, options?: Cancellable): Promise<void>;
  /** Calls `listener` when the user's memories changed, until the function that it returns is called. */
  onUpdate(listener: (update: MemoryUpdate) => void, onError?: (error: Error) => void): () => void;
}

const AGENT = "chatbot";
const SETTINGS = "memory_enabled, memory_ttl_hours, task_memory_ttl_hours, conversation_retention_minutes";
const NOT_SET: MemorySettings = {
  memory_enabled: true,
  memory_ttl_hours: null,
  task_memory_ttl_hours: null,
  conversation_retention_minutes: null,
};

/** The memory of a supabase client's user. */
export function agentMemory(supabase: Supabase, { userId, agent }: AgentMemoryOptions = {}): AgentMemory {
  const me = async () => userId ?? userOf(supabase);

  async function call<Result>(name: string, given: object, signal: AbortSignal | undefined): Promise<Result> {
    return (await answer(supabase.rpc(name, given), signal)) as Result;
  }

  const memory: AgentMemory = {
    async readMemory(query, memoryType, { signal, match_threshold, match_count } = {}) {
      const given = { query, memory_type: memoryType, match_threshold, match_count };
      return (await call<{ results: MemoryResult<any>[] }>("agent-memory-read", given, signal)).results;
    },
    async writeMemory(content, memoryType, metadata, { signal, expires_at } = {}) {
      const given = { content, memory_type: memoryType, metadata, expires_at };
      return (await call<{ memory: Memory<any> | null }>("agent-memory-write", given, signal)).memory;
    },
    recall: (query, { signal, match_count, sources, filter, ...options } = {}) =>
      call("recall", { query, match_count, sources, filter, options }, signal),
    async remember(text, { signal, kind = "fact", ttl_hours, project, metadata = {} } = {}) {
      const given = { content: text, agent_id: agent ?? AGENT, kind, metadata: { ...metadata, ...(project && { project }) }, ttl_hours };
      const [row] = await call<{ id: string; what: string; expires_at: string | null }[]>("remember", given, signal);
      return row ? { id: row.id, expires_at: row.expires_at, known: row.what === "strengthened" } : null;
    },
    async context(message, { signal, ...options } = {}) {
      return (await call<string | null>("build_context", { agent_id: agent ?? AGENT, message, options }, signal)) ?? "";
    },
    indexState: (ids, { signal } = {}) => call("index_state", { ids }, signal),
    async waitIndexed(ids, { signal, seconds = 10 } = {}) {
      const until = Date.now() + seconds * 1000;
      for (let pause = 5; ; pause = Math.min(250, 2 * pause)) {
        const states = await memory.indexState(ids, signal ? { signal } : {});
        const failed = states.find((one) => one.state === "failed");
        if (failed) throw new Error(`row ${failed.id} was not indexed: ${failed.reason}`);
        const missing = ids.length - new Set(states.map((one) => one.id)).size;
        if (missing > 0) throw new Error(`${missing} of ${ids.length} rows are not there, or not yours`);
        if (states.every((one) => one.state === "indexed")) return states;
        if (Date.now() > until) throw new Error(`not indexed after ${seconds} seconds: is a daemon running (memoryd status)?`);
        await new Promise((later) => setTimeout(later, pause));
      }
    },
    forget: (ids, source = "memory", { signal } = {}) => call("forget", { ids, source }, signal),
    exportMemory: async ({ signal } = {}) => call("export_user_memory", { user_id: await me() }, signal),
    eraseMemory: async ({ signal } = {}) => call("erase_user_memory", { user_id: await me() }, signal),
    async getMemorySettings({ signal } = {}) {
      const rows = supabase.from("memory_settings").select(SETTINGS).eq("user_id", await me());
      const [row] = (await answer(rows, signal)) as MemorySettings[];
      return row ?? { ...NOT_SET };
    },
    async updateMemorySettings(changes, { signal } = {}) {
      const row = { ...changes, user_id: await me() };
      await answer(supabase.from("memory_settings").upsert(row), signal);
    },
    setMemoryEnabled: (enabled, options) => memory.updateMemorySettings({ memory_enabled: enabled }, options),
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
