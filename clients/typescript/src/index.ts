export * from "./types.js";
export { agentMemory, type AgentMemory, type AgentMemoryOptions } from "./memory.js";
export type { Supabase } from "./supabase.js";
