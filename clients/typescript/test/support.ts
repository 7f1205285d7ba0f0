// Clients of the server that tests/integration/rest/test_typescript_client.py has started.

import { createClient } from "@supabase/supabase-js";

import { awaited, FakeSocket } from "./socket.js";

interface Given {
  url: string;
  /** Of the database, for a login of the service. */
  postgres: string;
  anonKey: string;
  users: Record<"ann" | "bob" | "cat" | "dan" | "eli", { id: string; token: string }>;
  expired: string;
  serviceKey: string;
  /** Names and their ids, and what is no id, as the Python client has them. */
  names: [string, number, string][];
  refused: [string, number][];
}

export const given: Given = JSON.parse(process.env["MEMORYD_TEST"] ?? "null");

type Database = {
  public: {
    Tables: { memory_settings: { Row: { user_id: string }; Insert: { user_id: string }; Update: {}; Relationships: [] } };
    Views: {};
    Functions: { recall: { Args: { query: string }; Returns: { id: string }[] } };
  };
};

/** A client that a user has signed in to: the session is in its storage, as it is in a browser's. */
export function signedIn(name: keyof Given["users"], token = given.users[name].token) {
  const user = { id: given.users[name].id, aud: "authenticated", app_metadata: {}, user_metadata: {}, created_at: "" };
  const session = {
    access_token: token, refresh_token: "none", token_type: "bearer", expires_in: 3600,
    expires_at: Math.floor(Date.now() / 1000) + 3600, user,
  };
  const storage = { getItem: () => JSON.stringify(session), setItem: () => {}, removeItem: () => {} };
  return createClient<Database>(given.url, given.anonKey, {
    auth: { storage, autoRefreshToken: false },
    realtime: { transport: FakeSocket as any },
  });
}

/** A client that nobody has signed in to. */
export function signedOut() {
  return createClient(given.url, given.anonKey, {
    auth: { persistSession: false, autoRefreshToken: false },
    realtime: { transport: FakeSocket as any },
  });
}

/** A client with the service's key, as a backend has it; with a way to the server of its own, if given. */
export function service(fetch?: typeof globalThis.fetch) {
  return createClient(given.url, given.serviceKey, {
    auth: { persistSession: false, autoRefreshToken: false },
    realtime: { transport: FakeSocket as any },
    ...(fetch && { global: { fetch } }),
  });
}

/** A value that a promise will have, and the function that gives it. */
export function promised<T>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve!: (value: T) => void;
  const promise = new Promise<T>((done) => (resolve = done));
  return { promise: awaited(promise), resolve };
}
