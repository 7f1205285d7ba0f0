// Stands for OpenClaw and for its driver: calls the plugin as it is told on stdin, and has the tests do its SQL.
// Lines of JSON: in {"config"}, then {"hook", "event", "context"} or {"tool", "given", "context"}, or the answer to a
// statement, {"rows"} or {"error"}; out {"query", "values"}, or {"result"}.

import { createInterface } from "node:readline";

import { memory } from "../../../clients/openclaw/memory.js";

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const heard = async () => JSON.parse((await lines.next()).value ?? "null");
const say = (said) => process.stdout.write(`${JSON.stringify(said)}\n`);

class Pool {
  on() {}
  async connect() {
    return { query: this.query, release: (broken) => broken && say({ broken }) };
  }
  async query(query, values) {
    say({ query, values });
    const { rows, error } = await heard();
    if (error) throw Object.assign(new Error("quotes a row"), error);
    return { rows };
  }
  async end() {}
}

const hooks = {};
const tools = {};
const warnings = [];
memory(
  {
    pluginConfig: (await heard()).config,
    logger: { warn: (line) => warnings.push(line) },
    on: (name, work) => (hooks[name] = work),
    registerTool: (make, { name }) => (tools[name] = make),
  },
  { Pool },
);
for (let call = await heard(); call; call = await heard()) {
  const { hook, tool, event, given, context } = call;
  const result = tool
    ? (await tools[tool](context).execute("1", given)).details
    : hook ? await hooks[hook](event, context) : { hooks: Object.keys(hooks), tools: Object.keys(tools), warnings };
  say({ result: result ?? null });
}
