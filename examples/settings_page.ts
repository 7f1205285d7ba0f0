// What a settings page of a user's memory needs: all of it as a file, a switch, how long it is kept, and deleting it.
// Run: npx tsx examples/settings_page.ts

import { createClient } from "@supabase/supabase-js";
import { agentMemory } from "memoryd-client";

const supabase = createClient(process.env.SUPABASE_URL!, process.env.SUPABASE_SERVICE_KEY!);
await agentMemory(supabase, { user: "noa" }).remember("Noa sails on Sundays");

const memory = agentMemory(supabase, { user: "noa" });  // without `user`: of the user who is signed in
const file = JSON.stringify(await memory.exportMemory());
await memory.setMemoryEnabled(false);
await memory.updateMemorySettings({ memoryTtlHours: 240 });
const settings = await memory.getMemorySettings();
const counts = await memory.eraseMemory();

console.log(file.includes("Noa sails"), settings.memoryEnabled, settings.memoryTtlHours, counts.agent_memory);

// Output:
// true false 240 1
