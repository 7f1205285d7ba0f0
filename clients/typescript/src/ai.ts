// For the AI SDK: a model that remembers, and tools for models that decide themselves what to remember.

export { memoryMiddleware, type MemoryMiddlewareOptions } from "./middleware.js";
export {
  knowledgeTools, memoryTools, type KnowledgeTools, type MemoryTools, type MemoryToolsOptions, type ToolResult,
} from "./tools.js";
