// The SQL that the plugin calls, each in a transaction of its own that takes 3 seconds at most.
//
// Promise: a transaction sets its identity itself; a user's reads have the user's rights, by row-level security.

import { createHash } from "node:crypto";

const MILLISECONDS = 3000;
const NAMESPACE = Buffer.from("9b1f2c865a1e4c1b8f0e2d7c5e43a6b0", "hex");
export const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

const ASK = "select ask_memory($1, $2, agent_id => $3, options => $4::jsonb, request => $5)::text as answer";
const REMEMBER = "select id, what from remember($2, agent_id => $1, user_id => $3)";
const FORGET = `select forget(array(select m.id from agent_memory m
                    where m.id = any($2::uuid[]) and m.user_id is not distinct from $3
                      and (m.user_id is not null or m.agent_id = $1))) as deleted`;
// Under ids of the plugin's own: a turn whose commit was not answered is stored once.
const STORE = `insert into conversation_messages (id, session_id, user_id, agent_id, role, content)
select m.id, $1, $2, $3, m.role, m.content
from unnest($4::uuid[], $5::text[], $6::text[]) with ordinality as m(id, role, content, nth)
where not exists (select from conversation_messages c where c.id = m.id)
order by m.nth`;

/** A UUID as it is; of every other name the same UUID as the clients' idOf. */
export function idOf(name) {
  if (UUID.test(name)) return name.toLowerCase();
  const hash = createHash("sha1").update(NAMESPACE).update(name).digest().subarray(0, 16);
  hash[6] = (hash[6] & 0x0f) | 0x50;
  hash[8] = (hash[8] & 0x3f) | 0x80;
  return hash.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

/** The text with U+FFFD for what Postgres cannot store. */
export function storable(text) {
  return text.slice(0, 10_000_000).replaceAll("\0", "\ufffd").toWellFormed();
}

/** The calls. `who` is { agent, user }: a user's UUID, or null. They reject with an Error that quotes nothing. */
export class Database {
  #pool;
  #opened;

  constructor(pg, connectionString) {
    this.#opened = () => {
      const limits = { connectionTimeoutMillis: MILLISECONDS, query_timeout: MILLISECONDS + 1000 };
      const pool = new pg.Pool({
        connectionString,
        max: 4,
        allowExitOnIdle: true,
        application_name: "memoryd-openclaw",
        ...limits,
      });
      pool.on("error", () => {}); // a connection that is lost while nobody uses it
      return pool;
    };
  }

  async context(who, message, options) {
    return (await this.#ask(who, "context", message, options)).result ?? "";
  }

  /** { by, result }: how the question was compared, and the rows. */
  recall(who, query, count, options) {
    return this.#ask(who, "recall", query, { ...options, match_count: count });
  }

  async remember(who, text) {
    const [row] = await this.#run({ ...who, service: true }, REMEMBER, [who.agent, text, who.user]);
    return row;
  }

  async forget(who, ids) {
    const [row] = await this.#run({ ...who, service: true }, FORGET, [who.agent, ids, who.user]);
    return row.deleted;
  }

  async store(turn) {
    const { user, agent, session, messages } = turn;
    const column = (name) => messages.map((message) => message[name]);
    const values = [idOf(session), user, agent, column("id"), column("role"), column("content")];
    await this.#run({ agent, user, service: true }, STORE, values);
  }

  async close() {
    await this.#pool?.end();
    this.#pool = undefined;
  }

  /** Where a daemon has to embed the question, the first transaction makes that known to it, the second has the answer. */
  async #ask(who, kind, question, options) {
    const ask = async (request) => {
      const [{ answer }] = await this.#run(who, ASK, [kind, question, who.agent, JSON.stringify(options), request]);
      return JSON.parse(answer);
    };
    const answer = await ask(null);
    return answer.request ? ask(answer.request) : answer;
  }

  async #run({ user, service }, statement, values) {
    let client;
    let broken = true;
    try {
      this.#pool ??= this.#opened();
      client = await this.#pool.connect();
      await client.query(enter(service ? null : user));
      const { rows } = await client.query(statement, values);
      await client.query("commit");
      broken = false;
      return rows;
    } catch (error) {
      // A driver's error quotes rows: its code says enough. Without one of the database's, the database is away. Class 42 is a
      // missing right or schema: as an outage it passes once somebody has seen to it.
      const code = /^[0-9A-Z]{5}$/.test(error?.code ?? "") ? error.code : "";
      throw Object.assign(new Error(code ? `The database refused it (${code}).` : "The database cannot be reached."), {
        away: !code || /^(08|40|42|53|55|57|58)/.test(code),
      });
    } finally {
      client?.release(broken);
    }
  }
}

function enter(user) {
  const claims = user ? JSON.stringify({ sub: user, role: "memoryd_user" }) : "";
  return `begin;
select set_config('role', '${user ? "memoryd_user" : "memoryd_service"}', true),
       set_config('request.jwt.claims', '${claims}', true), set_config('request.jwt.claim.sub', '', true),
       set_config('statement_timeout', '${MILLISECONDS}', true)`;
}
