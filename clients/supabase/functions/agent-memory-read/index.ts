import { serve } from "../_shared/serve.ts";

serve("agent-memory-read", ["query"], ["memory_type", "match_threshold", "match_count"]);
