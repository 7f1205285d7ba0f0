"""The files in clients/supabase/functions, run with what of Deno they use: the design's calls get the design's answers."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx2
import pytest
import pytest_asyncio

from tests.support.postgrest.server import PostgrestServer
from tests.support.postgrest.tokens import token
from tests.support.processes.node import TEST_SECONDS, run
from tests.support.repository import ROOT

pytestmark = pytest.mark.asyncio(loop_scope="package")

READ, WRITE = "agent-memory-read", "agent-memory-write"
TONE = {"content": "The tone is energetic", "memory_type": "brand_memory"}
COMPILED = (
    "--ignoreConfig", "--strict", "--noUncheckedIndexedAccess", "--skipLibCheck", "--target", "es2022",
    "--lib", "es2022,dom", "--module", "nodenext",
    "--types", "", "--allowImportingTsExtensions", "--rewriteRelativeImportExtensions", "--outDir", "edge",
)  # fmt: skip
# As it stands in the design, but for where the client comes from.
HOOK = """
import { createClient } from "@supabase/supabase-js";
const [url, key, accessToken] = process.argv.slice(2);
// Node 20 has no WebSocket.
const supabase = createClient(url, key, { accessToken: async () => accessToken, realtime: { transport: class {} } });

export function useAgentMemory() {
  const readMemory = async (query, memoryType) => {
    const { data, error } = await supabase.functions.invoke('agent-memory-read', {
      body: { query, memory_type: memoryType },
    });

    if (error) throw error;
    return data.results;
  };

  const writeMemory = async (content, memoryType, metadata) => {
    const { data, error } = await supabase.functions.invoke('agent-memory-write', {
      body: { content, memory_type: memoryType, metadata },
    });

    if (error) throw error;
    return data.memory;
  };

  return { readMemory, writeMemory };
}

const { readMemory, writeMemory } = useAgentMemory();
const written = await writeMemory("The voice is friendly", "brand_memory", { tone: ["friendly"] });
const read = await readMemory("the voice is friendly");
const others = await readMemory("the voice is friendly", "task_memory");
console.log(JSON.stringify({ written, read, others }));
process.exit(0);
"""


@pytest_asyncio.fixture(scope="module", loop_scope="package")
async def edge(package: Path, postgrest: PostgrestServer) -> AsyncIterator[str]:
    """The address under which the functions run."""
    shutil.copytree(ROOT / "clients/supabase/functions", package / "functions")
    files = [str(path) for path in (package / "functions").glob("*/index.ts")]
    code, said = await run(package, "node_modules/.bin/tsc", *COMPILED, *files, seconds=TEST_SECONDS)
    assert code == 0, said
    runtime = await asyncio.create_subprocess_exec(
        "node", str(ROOT / "tests/support/services/edge_runtime.mjs"), str(package / "edge"), READ, WRITE,
        env=os.environ | {"SUPABASE_URL": postgrest.base_url, "SUPABASE_ANON_KEY": token("anon")},
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert runtime.stdout is not None
    port = await asyncio.wait_for(runtime.stdout.readline(), TEST_SECONDS)
    yield f"http://127.0.0.1:{int(port)}"
    runtime.kill()
    await runtime.wait()


async def call(
    edge: str, name: str, body: object, user: UUID | None, *, content: bytes | None = None
) -> tuple[int, Any]:
    """The status and what was answered."""
    headers = {} if user is None else {"Authorization": f"Bearer {token('authenticated', user)}"}
    async with httpx2.AsyncClient(timeout=60) as client:
        given = json.dumps(body).encode() if content is None else content
        reply = await client.post(f"{edge}/functions/v1/{name}", content=given, headers=headers)
    assert reply.headers["access-control-allow-origin"] == "*"
    return reply.status_code, reply.json()


async def test_the_designs_hook_reads_and_writes(edge: str, package: Path) -> None:
    ann = uuid4()
    (package / "hook.mjs").write_text(HOOK)
    code, said = await run(
        package, "node", "hook.mjs", edge, token("anon"), token("authenticated", ann), seconds=TEST_SECONDS
    )
    assert code == 0, said
    found = json.loads(said.splitlines()[-1])
    written = found["written"]
    assert (written["content"], written["memory_type"], written["user_id"]) == (
        "The voice is friendly",
        "brand_memory",
        str(ann),
    )
    assert written["metadata"] == {"tone": ["friendly"]}
    assert [one["id"] for one in found["read"]] == [written["id"]]
    assert sorted(found["read"][0]) == ["content", "created_at", "id", "metadata", "similarity"]
    assert found["others"] == []


async def test_nobody_reads_or_writes_for_another_user(edge: str) -> None:
    ann, bob = uuid4(), uuid4()
    asked = {"query": TONE["content"], "user_id": str(ann), "filter_user_id": str(ann)}
    for user in (ann, bob):
        status, answer = await call(edge, WRITE, TONE | {"user_id": str(ann)}, user)
        assert (status, answer["memory"]["user_id"]) == (200, str(user))
    status, answer = await call(edge, READ, asked, bob)
    assert (status, len(answer["results"])) == (200, 1)
    carl = uuid4()
    assert await call(edge, READ, asked, carl) == (200, {"results": [], "by": "meaning"})
    for name, body in ((READ, asked), (WRITE, TONE)):
        assert await call(edge, name, body, None) == (401, {"error": "Unauthorized"})
        headers = {"Authorization": f"Bearer {token('authenticated', ann)}x"}
        async with httpx2.AsyncClient() as client:
            reply = await client.post(f"{edge}/functions/v1/{name}", json=body, headers=headers)
        assert (reply.status_code, reply.json()) == (401, {"error": "Unauthorized"})


@pytest.mark.parametrize(
    ("name", "body", "status", "said"),
    [
        (READ, {}, 400, "query is null"),
        (READ, {"query": " "}, 400, "query is blank"),
        (READ, {"query": "x", "memory_type": "brand"}, 400, "unknown memory_type 'brand'"),
        (READ, {"query": "x", "match_count": "many"}, 400, 'match_count is "many"'),
        (WRITE, {}, 400, "content is null"),
        (WRITE, {"content": "x"}, 400, "unknown memory_type null"),
        (WRITE, TONE | {"metadata": [1]}, 400, "metadata is of type array"),
        (WRITE, TONE | {"expires_at": "2000-01-01"}, 400, "expires_at is"),
        (WRITE, {"content": "a\0b", "memory_type": "brand_memory"}, 400, ""),
        (READ, [1], 400, "The body is no JSON object"),
        (READ, None, 400, "The body is no JSON object"),
        (WRITE, "text", 400, "The body is no JSON object"),
    ],
)
async def test_an_error_says_what_is_wrong(
    edge: str, name: str, body: object, status: int, said: str
) -> None:
    found, answer = await call(edge, name, body, uuid4())
    assert found == status
    assert said in answer["error"]
    assert "results" not in answer
    assert "memory" not in answer


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b'{"query": }'])
async def test_a_body_that_is_no_json_is_refused(edge: str, content: bytes) -> None:
    for name in (READ, WRITE):
        assert await call(edge, name, None, uuid4(), content=content) == (
            400,
            {"error": "The body is no JSON object"},
        )


async def test_five_megabytes_are_stored_and_more_than_fits_is_refused(edge: str) -> None:
    ann = uuid4()
    status, answer = await call(edge, WRITE, TONE | {"content": "word " * 1_000_000}, ann)
    assert (status, len(answer["memory"]["content"])) == (200, 5_000_000)
    status, answer = await call(edge, READ, {"query": "word " * 1_000_000}, ann)
    assert status == 200
    status, answer = await call(edge, WRITE, TONE | {"metadata": {"page": "word " * 1_000_000}}, ann)
    assert (status, answer["code"]) == (400, "23514")
    assert "word" not in answer["error"]


async def test_a_browser_may_ask_first_and_a_database_that_is_away_is_said(edge: str, package: Path) -> None:
    async with httpx2.AsyncClient() as client:
        reply = await client.options(f"{edge}/functions/v1/{READ}")
    assert (reply.status_code, reply.content) == (200, b"")
    assert "authorization" in reply.headers["access-control-allow-headers"]
    runtime = await asyncio.create_subprocess_exec(
        "node", str(ROOT / "tests/support/services/edge_runtime.mjs"), str(package / "edge"), READ, WRITE,
        env=os.environ | {"SUPABASE_URL": "http://127.0.0.1:1", "SUPABASE_ANON_KEY": "none"},
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert runtime.stdout is not None
    try:
        away = f"http://127.0.0.1:{int(await runtime.stdout.readline())}"
        assert await call(away, WRITE, TONE, uuid4()) == (502, {"error": "The database cannot be reached"})
    finally:
        runtime.kill()
        await runtime.wait()
