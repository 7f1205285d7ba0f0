export * from "./types.js";
export type { Cancellable, ContextOptions, ReadOptions, RecallOptions, RememberOptions, WriteOptions } from "./options.js";
export { agentMemory, type AgentMemory, type AgentMemoryOptions } from "./memory.js";
export type { Client, Postgres } from "./postgres.js";
export type { By, Found, Supabase } from "./supabase.js";
export { chatMemory, type AiMessage, type ChatMemory, type ChatMemoryOptions, type MessageOptions, type PromptOptions } from "./chat.js";
export { executor, type Executor, type ExecutorOptions, type Handler, type Outcome } from "./executor.js";
export { idOf, Refused } from "./ids.js";
export {
  knowledge, type Decision, type DecisionOptions, type DecisionRate, type Knowledge, type KnowledgeOptions, type Noted,
  type NoteOptions,
} from "./knowledge.js";
