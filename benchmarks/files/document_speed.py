"""Files and documents: seconds from `memoryd ingest` until recall finds all, and from an edit until recall finds its words.

    python -m benchmarks.files.document_speed --files 1000 --edits 100

The files are Markdown of 10 kB each, made of shuffled paragraphs of this project's documents, in twenty folders. One daemon
cuts and indexes while the command reads. *Written*: the command has ended. *Searchable*: every chunk is indexed. Then the same
command runs again on the same files. Then documents are edited one after the other: an UPDATE of `content` puts a paragraph
with a new word in the place of another, and recall() asks for that word until it brings it.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import string
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from benchmarks.harness import Figures, Times, command, daemon, megabytes, until_idle, wait_for

ROOT = Path(__file__).parents[2]
FILE_BYTES = 10_000
FOLDERS = 20

SEARCHABLE = """
select (select count(*) from documents where chunked_at is not null) = $1
   and not exists (select from memoryd.unindexed)
"""
CONTENTS = "select id, content from documents order by md5(title) limit $1"
EDIT = "update documents set content = $2 where id = $1"
FIND = "select content from recall($1, user_id => $2)"


@dataclass(frozen=True, slots=True)
class Ingested:
    """One run of `memoryd ingest`."""

    written: float
    """Seconds until the command had ended."""
    searchable: float
    counts: Mapping[str, int]


def make_files(folder: Path, count: int) -> int:
    """Writes the files; how many bytes they have."""
    rng = random.Random(1)
    # A part of a block of code would make code of all that follows it.
    paragraphs = [
        p
        for page in sorted((ROOT / "docs").glob("*.md"))
        for p in re.split(r"\n\s*\n", page.read_text(encoding="utf-8"))
        if "```" not in p and len(p) < FILE_BYTES / 2
    ]
    written = 0
    for n in range(count):
        parts = [f"# Report {n}"]
        while (size := sum(len(p) + 2 for p in parts)) < FILE_BYTES:
            parts.append(rng.choice(paragraphs)[: FILE_BYTES - size])
        file = folder / f"{n % FOLDERS}" / f"{n}.md"
        file.parent.mkdir(exist_ok=True)
        written += file.write_bytes("\n\n".join(parts).encode())
    return written


async def ingest(url: str, connection: asyncpg.Connection, folder: Path, user: uuid.UUID) -> Ingested:
    """Runs the command, and waits until recall finds all."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MEMORYD_")}
    environment |= {"DATABASE_URL": url, "PYTHONPATH": str(ROOT)}
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "daemon", "ingest", "--json", "--user", str(user), str(folder)),
        env=environment,
        stdout=subprocess.PIPE,
    )
    output, _ = await process.communicate()
    written = time.perf_counter() - began
    if process.returncode:
        raise SystemExit(f"memoryd ingest ended with {process.returncode}: {output.decode()}")
    found = json.loads(output)
    await wait_for(connection, SEARCHABLE, found["files"], pause=0.02)
    return Ingested(written, time.perf_counter() - began, found["counts"])


async def edit(connection: asyncpg.Connection, count: int, user: uuid.UUID) -> Figures:
    """Edits documents one after the other: the times from the UPDATE until recall brings its new word."""
    rng = random.Random(2)
    times = Times()
    for row in await connection.fetch(CONTENTS, count):
        paragraphs = row["content"].split("\n\n")
        word = "".join(rng.choices(string.ascii_lowercase, k=12))
        paragraphs[rng.randrange(1, len(paragraphs))] = (
            f"The house was painted by {word} in the spring, and nobody has asked about it since."
        )
        with times.of("edit_to_found"):
            await connection.execute(EDIT, row["id"], "\n\n".join(paragraphs))
            while not any(
                word in r["content"] for r in await connection.fetch(FIND, f"Who is {word}?", user)
            ):
                await asyncio.sleep(0.001)
        await until_idle(connection)
    return times.figures()


async def measure(
    url: str, connection: asyncpg.Connection, *, files: int = 1_000, edits: int = 100
) -> Figures:
    """Ingests, ingests again, edits."""
    user = uuid.uuid4()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = await asyncio.to_thread(make_files, folder, files)
        async with daemon(url) as running:
            pid = running.process.pid
            await asyncio.sleep(2)
            at_rest = round(megabytes(pid, "VmRSS"))
            first = await ingest(url, connection, folder, user)
            began = time.perf_counter()
            await until_idle(connection)
            rest = time.perf_counter() - began
            while_ingesting = round(megabytes(pid))
            again = await ingest(url, connection, folder, user)
            await connection.execute("vacuum analyze")
            times = await edit(connection, edits, user)
            after = round(megabytes(pid, "VmRSS"))
    return {
        "files": files,
        "megabytes": round(size / 1e6, 1),
        "chunks": await connection.fetchval("select count(*) from memory_chunks"),
        "written_s": round(first.written, 1),
        "searchable_s": round(first.searchable, 1),
        "words_counted_s": round(first.searchable + rest, 1),
        "counts": first.counts,
        "again_s": round(again.written, 2),
        "again_counts": again.counts,
        "edits": edits,
        **times,
        "daemon_mb_at_rest": at_rest,
        "daemon_mb_maximum_while_ingesting": while_ingesting,
        "daemon_mb_after": after,
    }


if __name__ == "__main__":
    command(__doc__, measure)
