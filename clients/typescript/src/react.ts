// The same as a React hook.

import { createContext, useContext, useEffect, useMemo, useRef } from "react";

import { agentMemory, type AgentMemory, type AgentMemoryOptions } from "./memory.js";
import type { Supabase } from "./supabase.js";
import type { MemoryUpdate } from "./types.js";

export interface UseAgentMemoryOptions extends AgentMemoryOptions {
  /** Called when the user's memories changed while the component is mounted. */
  onUpdate?: (update: MemoryUpdate) => void;
}

const Client = createContext<Supabase | undefined>(undefined);

/** Gives its supabase client to the hooks below it: `<AgentMemoryProvider value={supabase}>`. */
export const AgentMemoryProvider = Client.Provider;

/** The memory of the user of the given supabase client, else of the provider's. Its functions stay the same from render to render. */
export function useAgentMemory(
  supabase?: Supabase, { user, agent, onUpdate }: UseAgentMemoryOptions = {},
): AgentMemory {
  const provided = useContext(Client);
  const client = supabase ?? provided;
  if (!client) throw new Error("useAgentMemory() has no client: give it one, or render it in <AgentMemoryProvider value={supabase}>");
  const memory = useMemo(
    () => agentMemory(client, { ...(user !== undefined && { user }), ...(agent !== undefined && { agent }) }),
    [client, user, agent],
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
