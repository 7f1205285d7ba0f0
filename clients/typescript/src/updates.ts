// Updates: one private channel for each client and user, which all listeners share.

import type { Channel, Supabase } from "./supabase.js";
import type { MemoryUpdate } from "./types.js";

interface Listener {
  onUpdate: (update: MemoryUpdate) => void;
  onError: (error: Error) => void;
}

/** supabase-js has one channel for each topic, so removing it would end it for all listeners. */
interface Shared {
  channel: Channel | undefined;
  listeners: Set<Listener>;
}

const open = new WeakMap<Supabase, Map<string, Shared>>();
const closing = new WeakMap<Supabase, Promise<unknown>>();

/** Listens to changes of a user's memory; call the function that it returns to end that. */
export function listen(supabase: Supabase, userId: string, listener: Listener): () => void {
  const topics = open.get(supabase) ?? new Map<string, Shared>();
  open.set(supabase, topics);
  const topic = `agent-memory:${userId}`;
  const shared: Shared = topics.get(topic) ?? { channel: undefined, listeners: new Set() };
  const { listeners } = shared;
  listeners.add(listener);
  if (!topics.has(topic)) {
    topics.set(topic, shared);
    void begin(supabase, topic, shared);
  }
  return () => {
    if (!listeners.delete(listener) || listeners.size > 0) return;
    topics.delete(topic);
    if (shared.channel) end(supabase, shared.channel);
  };
}

async function begin(supabase: Supabase, topic: string, shared: Shared): Promise<void> {
  const fail = (error: Error) => {
    for (const listener of [...shared.listeners]) listener.onError(error);
  };
  try {
    // supabase-js would return a channel that is still closing.
    while (closing.has(supabase)) await closing.get(supabase);
    // A private channel needs the user's token, which may not be read yet.
    await supabase.realtime?.setAuth();
    if (shared.listeners.size === 0) return;
    const channel: Channel = supabase.channel(topic, { config: { private: true } });
    shared.channel = channel;
    channel.on("broadcast", { event: "memory_updated" }, (message: { payload: MemoryUpdate }) => {
      for (const listener of [...shared.listeners]) listener.onUpdate(message.payload);
    });
    channel.subscribe((status: string, error?: Error) => {
      if (status !== "CHANNEL_ERROR" && status !== "TIMED_OUT") return;
      fail(error ?? new Error(`channel ${topic}: ${status}`));
    });
  } catch (error) {
    fail(error as Error);
  }
}

function end(supabase: Supabase, channel: Channel): void {
  const before = closing.get(supabase);
  const left = Promise.allSettled([before, supabase.removeChannel(channel)]).then(() => {
    if (closing.get(supabase) === left) closing.delete(supabase);
  });
  closing.set(supabase, left);
}
