// Plain Postgres in the place of supabase-js: the calls of this package, as SQL.
//
// Promise: each call is one statement; values are parameters. An error has its SQLSTATE as `code`; without one the database is away.

import { Refused } from "./ids.js";
import type { Reply, Request, Supabase } from "./supabase.js";

/** A pool or client of `pg`, or whatever else has such a `query` (PGlite, a driver of a host). Its login works for the service. */
export interface Postgres {
  query(statement: string, values: any[]): Promise<{ rows: any[] }>;
}

/** A supabase client, or a plain Postgres. */
export type Client = Supabase | Postgres;

const made = new WeakMap<Postgres, Supabase>();

/** The supabase client, or what does the same on a plain Postgres. */
export function clientOf(given: Client): Supabase {
  if ("rpc" in given) return given;
  const client = made.get(given) ?? onPostgres(given);
  made.set(given, client);
  return client;
}

/** How a function returns: rows, a value, or nothing. */
type Returns = "rows" | "value" | "nothing";

const RETURNS = `
select case when bool_or(p.proretset) then 'rows' when bool_or(p.prorettype = 'void'::regtype) then 'nothing' else 'value' end as kind
from pg_proc p where p.pronamespace = 'public'::regnamespace and p.proname = $1`;

function onPostgres(db: Postgres): Supabase {
  const known = new Map<string, Promise<Returns>>();

  /** How the function returns. What a failed query would have said is asked again. */
  function returns(name: string): Promise<Returns> {
    const asked = known.get(name) ?? db.query(RETURNS, [name]).then(({ rows }) => rows[0].kind as Returns);
    known.set(name, asked);
    asked.catch(() => known.delete(name));
    return asked;
  }

  async function rpc(name: string, given: object): Promise<unknown> {
    const kind = await returns(name);
    const parameters = Object.entries(given).filter(([, value]) => value !== undefined);
    const named = parameters.map(([key, value], nth) => `${quoted(key)} => ${parameter(nth + 1, value)}`);
    const call = `public.${quoted(name)}(${named.join(", ")})`;
    const rows = kind === "nothing" ? `select '[]' as answer from ${call}` : all("to_jsonb(r)", `${call} r`);
    const found = await rowsOf(db, rows, parameters.map(([, value]) => plain(value)));
    return kind === "rows" ? found : (found[0] ?? null);
  }

  return {
    rpc: (name: string, given: object = {}) => request(() => rpc(name, given)),
    from: (table: string) => new Query(db, table),
    channel() {
      throw new Refused("A plain Postgres has no Realtime. Listen to memory_updated: docs/sql.md says how.");
    },
    removeChannel: async () => undefined,
    auth: {
      getSession: async () => ({ data: { session: null }, error: new Refused("On a plain Postgres nobody is signed in: give user.") }),
    },
  };
}

/** The parts of supabase-js's queries that this package uses. */
class Query implements Request {
  readonly #db: Postgres;
  readonly #table: string;
  readonly #values: unknown[] = [];
  readonly #conditions: string[] = [];
  readonly #order: string[] = [];
  #source: string;
  #row: string | undefined;
  #limit = "";

  constructor(db: Postgres, table: string) {
    this.#db = db;
    this.#table = `public.${quoted(table)}`;
    this.#source = this.#table;
  }

  /** "id, memoryEnabled:memory_enabled" */
  select(columns: string): this {
    const pairs = columns.split(",").map((one) => one.trim().split(":"));
    this.#row = `jsonb_build_object(${pairs.map(([name, column]) => `'${name}', t.${quoted(column ?? name!)}`).join(", ")})`;
    return this;
  }

  insert(rows: object[]): this {
    return this.#write(rows, "");
  }

  upsert(row: object, { onConflict }: { onConflict: string }): this {
    const set = Object.keys(row).map((name) => `${quoted(name)} = excluded.${quoted(name)}`);
    return this.#write([row], `on conflict (${quoted(onConflict)}) do update set ${set.join(", ")}`);
  }

  eq = (column: string, value: unknown) => this.#where(column, "=", value);
  gte = (column: string, value: unknown) => this.#where(column, ">=", value);
  lt = (column: string, value: unknown) => this.#where(column, "<", value);
  contains = (column: string, value: object) => this.#where(column, "@>", value);

  in(column: string, values: unknown[]): this {
    this.#conditions.push(`t.${quoted(column)} = any(${this.#value(values)})`);
    return this;
  }

  is(column: string, _value: null): this {
    this.#conditions.push(`t.${quoted(column)} is null`);
    return this;
  }

  order(column: string, { ascending = true } = {}): this {
    this.#order.push(`t.${quoted(column)} ${ascending ? "" : "desc"}`);
    return this;
  }

  limit(count: number): this {
    this.#limit = `limit ${this.#value(count)}`;
    return this;
  }

  then<A = Reply, B = never>(done?: ((reply: Reply) => A | PromiseLike<A>) | null, failed?: ((error: any) => B | PromiseLike<B>) | null) {
    return request(() => this.#run()).then(done, failed);
  }

  abortSignal = (signal: AbortSignal) => request(() => this.#run()).abortSignal(signal);

  #run(): Promise<unknown[]> {
    const written = this.#source.startsWith("insert");
    const where = this.#conditions.length > 0 ? `where ${this.#conditions.join(" and ")}` : "";
    const order = this.#order.length > 0 ? `order by ${this.#order.join(", ")}` : "";
    const from = `(select ${this.#row ?? "null::jsonb"} as r from ${written ? "written" : this.#table} t ${where} ${order} ${this.#limit}) r`;
    return rowsOf(this.#db, `${written ? `with written as (${this.#source}) ` : ""}${all("r.r", from)}`, this.#values);
  }

  #write(rows: object[], conflict: string): this {
    const names = [...new Set(rows.flatMap(Object.keys))].map(quoted).join(", ");
    const given = `jsonb_populate_recordset(null::${this.#table}, ${this.#value(JSON.stringify(rows))}::text::jsonb)`;
    this.#source = `insert into ${this.#table} (${names}) select ${names} from ${given} ${conflict} returning *`;
    return this;
  }

  #where(column: string, operator: string, value: unknown): this {
    this.#conditions.push(`t.${quoted(column)} ${operator} ${this.#value(value)}`);
    return this;
  }

  #value(value: unknown): string {
    return parameter(this.#values.push(plain(value)), value);
  }
}

/** All rows as one text: so drivers that read JSON and those that do not are alike. */
function all(row: string, from: string): string {
  return `select coalesce(jsonb_agg(${row}), '[]')::text as answer from ${from}`;
}

async function rowsOf(db: Postgres, statement: string, values: unknown[]): Promise<unknown[]> {
  const { rows } = await db.query(statement, values);
  return JSON.parse(rows[0].answer) as unknown[];
}

/** What every driver sends in the same way: an object is JSON. Arrays are the driver's. */
function plain(value: unknown): unknown {
  if (value instanceof Date) return value.toISOString();
  return isJson(value) ? JSON.stringify(value) : value;
}

/** A value as a parameter of a statement. JSON goes as text: postgres.js would write it as JSON once more. */
function parameter(nth: number, value: unknown): string {
  return `$${nth}${isJson(value) ? "::text::jsonb" : ""}`;
}

function isJson(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Date);
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** A request that begins when it is waited for. The driver cannot be told to end it, so an aborted one is no longer waited for. */
function request(work: () => Promise<unknown>): Request {
  const reply = () => work().then((data): Reply => ({ data, error: null }), (error): Reply => ({ data: null, error: fault(error) }));
  return {
    then: (done, failed) => reply().then(done, failed),
    abortSignal: (signal) =>
      new Promise((done, failed) => {
        const abort = () => failed(signal.reason as Error);
        signal.addEventListener("abort", abort, { once: true });
        void reply().then(done).finally(() => signal.removeEventListener("abort", abort));
      }),
  };
}

/** The database's own error; else one that says that it is away. (EPIPE is no SQLSTATE: these have a digit.) */
function fault(error: any): Error {
  if (error instanceof Error && /^(?=.*\d)[0-9A-Z]{5}$/.test((error as { code?: string }).code ?? "")) return error;
  return Object.assign(new Error("The database cannot be reached.", { cause: error }), { code: "" });
}
