// Writes the examples of README.md into test/examples/, where they are compiled.

import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";

const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");
const folder = new URL("examples/", import.meta.url);
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder);
// What is the reader's.
const GIVEN = {
  supabase: 'declare const supabase: import("memoryd-client").Supabase;',
  database: 'declare const database: import("memoryd-client").Postgres;',
  askYourModel: 'declare function askYourModel(messages: import("memoryd-client").PromptMessage[]): Promise<string>;',
  yourModel: 'declare const yourModel: Parameters<typeof import("ai").wrapLanguageModel>[0]["model"];',
};
let number = 0;
for (const [, kind, code] of readme.matchAll(/```(tsx?)\n(.*?)```/gs)) {
  number += 1;
  const lacks = Object.keys(GIVEN).filter((name) => new RegExp(`\\b${name}\\b`).test(code) && !code.includes(`const ${name} =`));
  writeFileSync(new URL(`example${number}.${kind}`, folder), `${[code, ...lacks.map((name) => GIVEN[name])].join("\n")}\nexport {};\n`);
}
if (number === 0) throw new Error("README.md has no example");
