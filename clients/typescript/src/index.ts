export * from "./types.js";
export { agentMemory, type AgentMemory, type AgentMemoryOptions } from "./memory.js";
export type { Supabase } from "./supabase.js";
export { chatMemory, type AiMessage, type ChatMemory, type ChatMemoryOptions, type MessageOptions, type PromptOptions } from "./chat.js";
export { executor, type Executor, type ExecutorOptions, type Handler, type Outcome } from "./executor.js";
export { idOf, Refused } from "./ids.js";
