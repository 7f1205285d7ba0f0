import { serve, type Rpc } from "../_shared/serve.ts";

// Where a daemon has to embed the question, the first call makes that known to it, and the second one has the answer.
async function read({ query, ...options }: Record<string, unknown>, rpc: Rpc) {
  const asked = { kind: "read", query, options };
  let reply = await rpc("ask_memory", asked);
  if (reply.ok && reply.said.request) reply = await rpc("ask_memory", { ...asked, request: reply.said.request });
  return reply.ok ? { ...reply, said: { results: reply.said.result, by: reply.said.by } } : reply;
}

serve("agent-memory-read", ["query"], ["memory_type", "match_threshold", "match_count"], read);
