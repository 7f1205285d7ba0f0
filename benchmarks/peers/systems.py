"""What is compared, behind the face of measure.System: memoryd, and peers in processes of their own."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import psutil

from benchmarks.harness import daemon, until_idle, wait_for
from benchmarks.peers.environments import SOURCE
from benchmarks.peers.measure import COUNT, Answer, System, Text, timed
from benchmarks.search.bodies import WRITE_MEMORIES, WRITE_MESSAGES

SEARCHABLE = "select not exists (select from memoryd.jobs where topic in ('index', 'statistics'))"
RECALL = "select id from recall($1, user_id => $2, match_count => $3, options => $4::jsonb)"
WAYS = {"memoryd": "{}", "memoryd, `relevant_only`": '{"relevant_only": true}'}

# In an environment of its own nothing of this folder may stand before the peer's packages.
START = "import runpy, sys; sys.path.append(sys.argv[1]); runpy.run_module(sys.argv[2], run_name='__main__')"
SLOWEST = 600
"""Seconds that a peer may take for one answer."""
LINE_BYTES = 1 << 24


class CannotRun(Exception):
    """Says why."""


def resident(pid: int | None) -> float | None:
    """Megabytes of a process and its children."""
    if pid is None:
        return None
    process = psutil.Process(pid)
    return sum(p.memory_info().rss for p in (process, *process.children(recursive=True))) / 1e6


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
        await until_idle(connection)
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
