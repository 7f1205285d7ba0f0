import { serve } from "../_shared/serve.ts";

serve("agent-memory-write", ["content", "memory_type"], ["metadata", "expires_at"]);
