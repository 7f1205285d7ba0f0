// Serves a function of memoryd as an edge function: with the body and the answer of the design, as the user of the
// token. The database says what is allowed (docs/supabase.md); no key but the public one is used, and nothing is logged.

declare const Deno: {
  env: { get(name: string): string | undefined };
  serve(handler: (request: Request) => Promise<Response>): unknown;
};

const CORS = {
  "Access-Control-Allow-Origin": "*",
  "Access-Control-Allow-Headers": "authorization, x-client-info, apikey, content-type",
};

const answer = (body: unknown, status: number) => Response.json(body, { status, headers: CORS });
const refusal = (error: string, status: number) => answer({ error }, status);

type Fields = Record<string, unknown>;
interface Reply {
  ok: boolean;
  status: number;
  said: any;
}
export type Rpc = (name: string, given: Fields) => Promise<Reply>;

/**
 * Of the body the fields that are named are passed on: `required` ones also where they are missing, so that the error says so.
 * `call` calls the database with them: unless given, the function of this name.
 */
export function serve(
  name: string, required: string[], optional: string[],
  call: (given: Fields, rpc: Rpc) => Promise<Reply> = (given, rpc) => rpc(name, given),
): void {
  Deno.serve(async (request) => {
    if (request.method === "OPTIONS") return new Response(null, { headers: CORS });
    const authorization = request.headers.get("Authorization");
    if (!authorization) return refusal("Unauthorized", 401);
    const given = await request.json().catch(() => null);
    if (typeof given !== "object" || given === null || Array.isArray(given)) {
      return refusal("The body is no JSON object", 400);
    }
    const fields = [...required, ...optional.filter((field) => field in given)];
    const rpc: Rpc = async (name, given) => {
      const reply = await fetch(`${Deno.env.get("SUPABASE_URL")}/rest/v1/rpc/${name}`, {
        method: "POST",
        headers: {
          "Content-Type": "application/json",
          apikey: Deno.env.get("SUPABASE_ANON_KEY") ?? "",
          Authorization: authorization,
        },
        body: JSON.stringify(given),
      });
      return { ok: reply.ok, status: reply.status, said: await reply.json() };
    };
    try {
      const { ok, status, said } = await call(
        Object.fromEntries(fields.map((field) => [field, given[field] ?? null])), rpc,
      );
      if (ok) return answer(said, 200);
      if (status === 401) return refusal("Unauthorized", 401);
      return answer({ error: said.message, code: said.code, hint: said.hint }, status);
    } catch {
      return refusal("The database cannot be reached", 502);
    }
  });
}
