// The same as a React hook.

import { useEffect, useMemo, useRef } from "react";

import { agentMemory, type AgentMemory, type AgentMemoryOptions } from "./memory.js";
import type { Supabase } from "./supabase.js";
import type { MemoryUpdate } from "./types.js";

export interface UseAgentMemoryOptions extends AgentMemoryOptions {
  /** Called when the user's memories changed, while the component is mounted. */
  onUpdate?: (update: MemoryUpdate) => void;
}

/** The memory of a supabase client's user. Its functions stay the same from render to render. */
export function useAgentMemory(supabase: Supabase, { user, agent, onUpdate }: UseAgentMemoryOptions = {}): AgentMemory {
  const memory = useMemo(
    () => agentMemory(supabase, { ...(user !== undefined && { user }), ...(agent !== undefined && { agent }) }),
    [supabase, user, agent],
  );
  const latest = useRef(onUpdate);
  useEffect(() => {
    latest.current = onUpdate;
  });
  const listens = onUpdate !== undefined;
  useEffect(
    () => (listens ? memory.onUpdate((update) => latest.current?.(update)) : undefined),
    [memory, listens],
  );
  return memory;
}
