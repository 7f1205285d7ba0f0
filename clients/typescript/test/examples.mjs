// Writes the examples of README.md into test/examples/, where they are compiled.

import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";

const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");
const folder = new URL("examples/", import.meta.url);
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder);
let number = 0;
for (const [, kind, code] of readme.matchAll(/```(tsx?)\n(.*?)```/gs)) {
  number += 1;
  writeFileSync(new URL(`example${number}.${kind}`, folder), `${code}\nexport {};\n`);
}
if (number === 0) throw new Error("README.md has no example");
