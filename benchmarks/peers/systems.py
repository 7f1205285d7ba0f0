"""What is compared, behind one face: memoryd, the hybrid search that Supabase documents, peers in processes of their own."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import psutil
from pgvector import Vector

from benchmarks.harness import daemon, wait_for
from benchmarks.peers.environments import SOURCE
from benchmarks.peers.measure import COUNT, Answer, Text
from benchmarks.search.beside_hybrid import HYBRID, INSERT, SEARCHABLE, connect, make
from benchmarks.search.bodies import IDLE, WRITE_MEMORIES, WRITE_MESSAGES
from providers.local_embedder import LocalEmbedder

RECALL = "select id from recall($1, user_id => $2, match_count => $3, options => $4::jsonb)"
WAYS = {"memoryd": "{}", "memoryd, `relevant_only`": '{"relevant_only": true}'}

# In an environment of its own nothing of this folder may stand before the peer's packages.
START = "import runpy, sys; sys.path.append(sys.argv[1]); runpy.run_module(sys.argv[2], run_name='__main__')"
SLOWEST = 600
"""Seconds that a peer may take for one answer."""
LINE_BYTES = 1 << 24


class CannotRun(Exception):
    """Says why."""


@dataclass(frozen=True, slots=True)
class System:
    """One that is measured."""

    write: Callable[[Sequence[Text]], Awaitable[object]]
    settle: Callable[[], Awaitable[object]]
    """Returns when all that was written can be found."""
    ways: Mapping[str, Callable[[str, uuid.UUID], Awaitable[Answer]]]
    """To ask it, by name."""
    pid: int | None
    """Of its process; with its children that is what it keeps in memory."""


def resident(pid: int | None) -> float | None:
    """Megabytes of a process and its children."""
    if pid is None:
        return None
    process = psutil.Process(pid)
    return sum(p.memory_info().rss for p in (process, *process.children(recursive=True))) / 1e6


async def timed(work: Awaitable[Sequence[Any]]) -> Answer:
    """The ids of the rows that come, and how long it took."""
    began = time.perf_counter()
    rows = await work
    return Answer([str(r["id"]) for r in rows], time.perf_counter() - began)


@asynccontextmanager
async def memoryd(url: str) -> AsyncIterator[System]:
    """A daemon, rows written and asked for in SQL."""
    async with daemon(url) as running:
        connection = await asyncpg.connect(url)

        async def write(texts: Sequence[Text]) -> None:
            columns = [list(column) for column in zip(*(t.row for t in texts), strict=True)]
            await connection.execute(WRITE_MEMORIES if texts[0].memory else WRITE_MESSAGES, *columns)

        async def settle() -> None:
            await wait_for(connection, SEARCHABLE, pause=0.01)

        async def recall(options: str, question: str, user: uuid.UUID) -> Answer:
            return await timed(connection.fetch(RECALL, question, user, COUNT, options))

        ways = {name: partial(recall, options) for name, options in WAYS.items()}
        yield System(write, settle, ways, running.process.pid)
        await wait_for(connection, IDLE, pause=0.02)
        await connection.close()


@asynccontextmanager
async def hybrid(url: str) -> AsyncIterator[System]:
    """Plain SQL: the client embeds, the database ranks."""
    connection = await connect(url)
    await make(connection)
    embedder = LocalEmbedder()

    async def write(texts: Sequence[Text]) -> None:
        vectors = [Vector(v) for v in await embedder.embed([t.text for t in texts])]
        ids, users = [uuid.UUID(t.id) for t in texts], [uuid.UUID(t.user) for t in texts]
        await connection.execute(INSERT, ids, users, [t.text for t in texts], vectors)

    async def settle() -> None:
        """A row that is written is found."""

    async def search(function: str, question: str, user: uuid.UUID) -> Answer:
        async def rows() -> Sequence[Any]:
            (vector,) = await embedder.embed([question])
            sql = f"select id from plain.{function}($1, $2, $3, $4)"
            return list(await connection.fetch(sql, question, Vector(vector), COUNT, user))

        return await timed(rows())

    ways = {f"Supabase's {title}": partial(search, function) for function, title in HYBRID.items()}
    yield System(write, settle, ways, None)
    await embedder.close()
    await connection.close()


@asynccontextmanager
async def peer(name: str, module: str, python: Path, url: str, embeddings_url: str) -> AsyncIterator[System]:
    """A peer's process. Raises CannotRun, then and at each answer that is an error."""
    with tempfile.TemporaryDirectory(prefix="memoryd-peer-") as home, tempfile.TemporaryFile() as log:
        process = await asyncio.create_subprocess_exec(
            *(str(python), "-c", START, str(SOURCE), f"benchmarks.peers.{module}"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            limit=LINE_BYTES,
            env={
                "PATH": os.environ["PATH"],
                "HOME": home,
                "PEER_DATABASE_URL": url,
                "PEER_EMBEDDINGS_URL": embeddings_url,
            },
        )
        assert process.stdin is not None
        assert process.stdout is not None
        pipe, answers = process.stdin, process.stdout

        async def answered() -> dict[str, Any]:
            try:
                line = await asyncio.wait_for(answers.readline(), SLOWEST)
            except TimeoutError as problem:
                raise CannotRun(f"no answer in {SLOWEST} s") from problem
            if not line:
                log.seek(0)
                said = log.read().decode(errors="replace").strip().splitlines()
                raise CannotRun(said[-1] if said else "it ended")
            answer: dict[str, Any] = json.loads(line)
            if "error" in answer:
                raise CannotRun(answer["error"])
            return answer

        async def call(request: Mapping[str, object]) -> dict[str, Any]:
            pipe.write(json.dumps(request).encode() + b"\n")
            return await answered()

        async def write(texts: Sequence[Text]) -> None:
            rows = [{"id": t.id, "user": t.user, "text": t.text, "time": t.time} for t in texts]
            await call({"write": rows})

        async def settle() -> None:
            """A peer's write returns when its rows can be found."""

        async def ask(question: str, user: uuid.UUID) -> Answer:
            answer = await call({"ask": [str(user), question, COUNT]})
            return Answer(answer["ids"], answer["seconds"])

        try:
            await answered()
            yield System(write, settle, {name: ask}, process.pid)
        finally:
            pipe.close()
            try:
                await asyncio.wait_for(process.wait(), 30)
            except TimeoutError:
                process.kill()
                await process.wait()
