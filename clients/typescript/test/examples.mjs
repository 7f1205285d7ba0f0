// Writes the examples of README.md into test/examples/, where they are compiled.

import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";

const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");
const folder = new URL("examples/", import.meta.url);
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder);
// What is the reader's in the five lines.
const GIVEN = `
import type { PromptMessage, Supabase } from "memoryd-client";
declare const supabase: Supabase;
declare function askYourModel(messages: PromptMessage[]): Promise<string>;
`;
let number = 0;
for (const [, kind, code] of readme.matchAll(/```(tsx?)\n(.*?)```/gs)) {
  number += 1;
  const lacks = code.includes("askYourModel") ? GIVEN : "";
  writeFileSync(new URL(`example${number}.${kind}`, folder), `${code}\n${lacks}export {};\n`);
}
if (number === 0) throw new Error("README.md has no example");
