// What OpenClaw's loader loads.

import pg from "pg";

import { memory } from "./memory.js";

export default {
  id: "memoryd",
  name: "memoryd",
  description: "Memory for fleets of AI agents, in the Postgres that you have.",
  kind: "memory",
  register: (api) => memory(api, pg),
};
