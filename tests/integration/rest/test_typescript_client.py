"""The TypeScript client, tested by its own tests: with the real supabase-js and the real React, over HTTP, on a real database.

clients/typescript/test has the tests. They run on Node 20.14 or newer, with packages from npm; without those they are skipped.
"""

from __future__ import annotations

import json
import re
import shutil
import tarfile
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from memoryd_client import id_of

from tests.support.database.schemas import connected
from tests.support.database.supabase import Project
from tests.support.examples import EXAMPLES, as_expected
from tests.support.postgrest.server import PostgrestServer
from tests.support.postgrest.tokens import token
from tests.support.processes.node import INSTALL_SECONDS, NPM, TEST_SECONDS, run
from tests.unit.test_ids import ALMOST, NAMES

pytestmark = pytest.mark.asyncio(loop_scope="package")

TIMES = (("a", 10_000), ("💾", 10_000), ("00000000-0000-0000-0000-00000000A11C", 1))
"""Each with how many times it is written."""
SHORT = tuple((name, 1) for name in NAMES if len(name) < 100)
REFUSED = (("", 1), ("a", 10_001), *((text, 1) for text in ALMOST))
COMPILED = ("--strict", "--skipLibCheck", "--target", "es2022", "--module", "nodenext", "--types", "")
SHOP = """
import { type LanguageModelMiddleware, type ToolSet } from "ai";
import { idOf, type Supabase } from "memoryd-client";
import { memoryMiddleware, memoryTools } from "memoryd-client/ai";

const supabase = {} as Supabase;
const middleware: LanguageModelMiddleware = memoryMiddleware(supabase, { user: await idOf("mia"), session: "telegram:42" });
const tools: ToolSet = memoryTools(supabase, { user: "mia" });
(globalThis as any).console.log(`${Object.keys(middleware)} ${Object.keys(tools)}`);
"""
"""A program that uses the package as others do."""


async def test_the_client_reads_writes_and_hears(
    npm: str, package: Path, postgrest: PostgrestServer, project: Project
) -> None:
    users: dict[str, UUID] = {name: uuid4() for name in ("ann", "bob", "cat", "dan", "eli")}
    given = {
        "url": postgrest.base_url,
        "postgres": project.url(),
        "anonKey": token("anon"),
        "users": {
            name: {"id": str(one), "token": token("authenticated", one)} for name, one in users.items()
        },
        "expired": token("authenticated", users["ann"], lives=-3600),
        "serviceKey": token("service_role"),
        "names": [(name, times, str(id_of(name * times))) for name, times in (*TIMES, *SHORT)],
        "refused": REFUSED,
    }
    code, said = await run(package, npm, "test", seconds=TEST_SECONDS, MEMORYD_TEST=json.dumps(given))
    assert code == 0, said
    # The runner says how many it has run: an empty run is no success.
    assert (ran := re.search(r"^. pass (\d+)$", said, re.MULTILINE)), said
    assert int(ran[1]) >= 43, said


async def test_what_npm_packs_is_installed_in_a_clean_project(
    npm: str, package: Path, postgrest: PostgrestServer, project: Project, tmp_path: Path
) -> None:
    code, said = await run(package, npm, "run", "build", seconds=TEST_SECONDS)
    assert code == 0, said
    code, said = await run(package, npm, "pack", "--pack-destination", str(tmp_path), seconds=INSTALL_SECONDS)
    assert code == 0, said
    packed = tmp_path / f"memoryd-client-{json.loads((package / 'package.json').read_text())['version']}.tgz"
    with tarfile.open(packed) as archive:
        names = {name.removeprefix("package/") for name in archive.getnames()}
    assert {
        "LICENSE",
        "README.md",
        "package.json",
        "dist/index.js",
        "dist/index.d.ts",
        "dist/ai.js",
        "dist/react.js",
    } <= names
    assert {name.split("/")[0] for name in names} == {"LICENSE", "README.md", "package.json", "dist"}
    shop = tmp_path / "project"
    shop.mkdir()
    (shop / "package.json").write_text(
        '{"name": "shop", "version": "1.0.0", "private": true, "type": "module"}'
    )
    versions = json.loads((package / "package.json").read_text())["devDependencies"]

    async def install(*names: str) -> None:
        asked = [f"{name}@{versions[name]}" for name in names]
        code, said = await run(shop, npm, "install", *NPM, str(packed), *asked, seconds=INSTALL_SECONDS)
        assert code == 0, said

    await install("ai")
    program = 'import { idOf } from "memoryd-client"; console.log(await idOf("mia"))'
    code, said = await run(shop, "node", "--input-type=module", "--eval", program, seconds=60)
    assert (code, said.strip()) == (0, str(id_of("mia")))
    # Without the types of packages that it does not ask for itself.
    (shop / "shop.ts").write_text(SHOP)
    compiler = package / "node_modules/.bin/tsc"
    code, said = await run(shop, str(compiler), *COMPILED, "shop.ts", seconds=TEST_SECONDS)
    assert code == 0, said
    code, said = await run(shop, "node", "shop.js", seconds=60)
    assert (code, said.splitlines()[-1]) == (0, "wrapGenerate,wrapStream remember,recall,context,forget"), (
        said
    )
    assert not (shop / "node_modules/@supabase").exists()
    await install("@supabase/supabase-js", "pg", "@types/pg")
    await run_examples(shop, compiler, postgrest, project)


async def run_examples(shop: Path, compiler: Path, postgrest: PostgrestServer, project: Project) -> None:
    """The examples in TypeScript write what they say."""
    examples = [path for path in EXAMPLES if path.suffix == ".ts"]
    for path in examples:
        shutil.copy(path, shop)
    types = ("--types", "node", "--typeRoots", str(compiler.parents[1] / "@types"))
    names = [path.name for path in examples]
    code, said = await run(shop, str(compiler), *COMPILED[:-2], *types, *names, seconds=TEST_SECONDS)
    assert code == 0, said
    plain = {"DATABASE_URL": project.url()}
    supabase = {"SUPABASE_URL": postgrest.base_url, "SUPABASE_SERVICE_KEY": token("service_role")}
    runs = [(path, plain | supabase) for path in examples]
    runs += [(path, plain) for path in examples if "DATABASE_URL" in path.read_text("utf-8")]
    for path, given in runs:
        # Node has a WebSocket from 22 on, and supabase-js warns of an older one.
        preload = "--import=data:text/javascript,globalThis.WebSocket||=class{};console.warn=()=>{}"
        code, said = await run(shop, "node", preload, f"{path.stem}.js", seconds=60, **given)
        assert (code, as_expected(path, said)) == (0, True), said
        async with connected(project.url()) as opened:
            await opened.execute("delete from conversation_sessions")
