// The part of a supabase client that this package uses, so that clients of any version and any Database type fit.

export interface Reply {
  data: unknown;
  error: { message: string } | null;
}

export interface Request extends PromiseLike<Reply> {
  abortSignal(signal: AbortSignal): PromiseLike<Reply>;
}

export interface Channel {
  on(type: "broadcast", filter: { event: string }, callback: (message: any) => void): unknown;
  subscribe(callback: (status: any, error?: Error) => void): unknown;
}

/** What `createClient()` of @supabase/supabase-js returns. */
export interface Supabase {
  rpc(name: any, parameters?: any): any;
  from(table: any): any;
  channel(topic: string, options: { config: { private: boolean } }): any;
  removeChannel(channel: any): Promise<unknown>;
  realtime?: { setAuth(): Promise<unknown> };
  auth: {
    getSession(): Promise<{ data: { session: { user: { id: string } } | null }; error: Error | null }>;
  };
}

/** The user of the client's session. */
export async function userOf(supabase: Supabase): Promise<string> {
  const { data, error } = await supabase.auth.getSession();
  if (error) throw error;
  if (!data.session) throw new Error("Unauthorized");
  return data.session.user.id;
}

/** The data of an answer. Throws the answer's error, or the reason of the signal that ended the request. */
export async function answer(request: Request, signal?: AbortSignal): Promise<unknown> {
  signal?.throwIfAborted();
  const { data, error } = await (signal ? request.abortSignal(signal) : request);
  signal?.throwIfAborted();
  if (error) throw error;
  return data;
}

/** How a question was compared: by its meaning, or, where nothing embedded it within a second, by its words alone. */
export type By = "meaning" | "words";

/** Rows that were found; `by` says how the question was compared. */
export type Found<Row> = Row[] & { readonly by: By };

/** The answer to a question. Where a daemon has to embed it, the first request makes that known to it, the second one waits. */
export async function ask(supabase: Supabase, given: object, signal?: AbortSignal): Promise<{ by: By; result: any }> {
  const said = (await answer(supabase.rpc("ask_memory", given), signal)) as { by: By; result: any; request?: string };
  return said.request === undefined ? said : ask(supabase, { ...given, request: said.request }, signal);
}

/** The rows of such an answer. `by` is no element of theirs: they are compared and written as an array is. */
export async function rowsOf<Row>(supabase: Supabase, given: object, signal?: AbortSignal): Promise<Found<Row>> {
  const { by, result } = await ask(supabase, given, signal);
  return Object.defineProperty(result, "by", { value: by });
}
