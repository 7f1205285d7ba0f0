"""The replica: how long it takes to write documents out, until an edit is found by recall, and what a daemon at rest costs.
The drop folder: until a file that was put there is found.

python -m benchmarks.files.replica --documents 1000 --edits 40 --rest 100000 --seconds 60 --folder /dev/shm

The time of an edit begins when the file is saved and ends when recall, asked every 20 ms, finds the new words. That a file
settles first is part of it. The documents at rest are short, and indexed when they are edited. `--folder`: where the files are;
in memory they are written faster.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from pathlib import Path
from typing import Annotated

import asyncpg
import psutil

from benchmarks.harness import Figures, Times, command, cpu, daemon, until_idle, wait_for

INSERT = (
    "insert into documents (title, content, source) select * from unnest($1::text[], $2::text[], $3::text[])"
)
INSERT_MANY = """
insert into documents (title, content, source, status)
select 'Note ' || n, 'Note number ' || n || ' says that ' || md5(n::text) || ' is what matters.', 'source ' || n % 100, 'active'
from generate_series(1, $1) n
"""
NO_JOBS = "delete from memoryd.jobs"
NO_REST = "update documents set status = 'active' where status = 'processing'"
EDITED = "select exists (select from documents where content like $1 and last_modified_human is not null)"
LAST = "select synced_at from memoryd.replica"
SYNCED = "select synced_at > $1 from memoryd.replica"
WRITTEN = "select count(*) = $1 from memoryd.replica_files"
FOUND = """
select exists (select from recall($1, sources => '{document}', match_count => 3) r where r.content like '%' || $1 || '%')
"""
BYTES = 10_000
WORDS = [
    first + last
    for first in ("car", "mel", "tor", "bin", "sal", "der", "pol", "gan")
    for last in ("ant", "ber", "cot", "dal", "ene", "fur", "gel", "hom", "ist", "jet", "kos", "lum", "mor", "nat", "orb", "pid")
]  # fmt: skip


def text(random_: random.Random) -> str:
    """Some Markdown of BYTES characters."""
    parts: list[str] = []
    while sum(map(len, parts)) < BYTES:
        words = " ".join(random_.choice(WORDS) for _ in range(60))
        parts.append(f"## {random_.choice(WORDS)} {random_.choice(WORDS)}\n\n{words}.\n\n")
    return "".join(parts)[:BYTES]


async def insert(connection: asyncpg.Connection, number: int) -> None:
    """So many documents."""
    random_ = random.Random(0)
    for begin in range(0, number, 500):
        places = range(begin, min(begin + 500, number))
        texts = [text(random_) for _ in places]
        titles = [f"Document {place}" for place in places]
        await connection.execute(INSERT, titles, texts, [f"source {place % 10}" for place in places])


def edit(path: Path, word: str) -> None:
    """A person adds a line and saves, as editors do: a new file takes the place of the old one."""
    changed = path.with_name(f".{path.name}.swap")
    changed.write_text(f"{path.read_text('utf-8')}\nThe password of the day is {word}.\n", "utf-8")
    changed.replace(path)


def files(root: Path) -> list[Path]:
    """The documents' files."""
    return sorted(root.glob("documents/*/*.md"))


async def found(connection: asyncpg.Connection, word: str) -> None:
    """Returns when recall finds it."""
    await wait_for(connection, FOUND, word, pause=0.02)


async def measure(  # noqa: PLR0913 - the options of the command
    url: str,
    connection: asyncpg.Connection,
    *,
    documents: Annotated[int, "documents that are written out"] = 1000,
    edits: Annotated[int, "edits that are looked for"] = 40,
    rest: Annotated[int, "files while the daemon rests"] = 100_000,
    drop_settle_seconds: Annotated[
        float, "for which a dropped file must be unchanged; a daemon waits for 2"
    ] = 0.2,
    folder: Annotated[
        Path | None, "where the files are; not given: in the folder for temporary files"
    ] = None,
    pause: Annotated[float, "seconds between two edits among the files at rest"] = 2.0,
    seconds: Annotated[float, "how long it is watched"] = 120.0,
) -> Figures:
    """All figures."""
    times, random_ = Times(), random.Random(7)
    with tempfile.TemporaryDirectory(prefix="memoryd-replica-", dir=folder) as made:
        root, drop = Path(made) / "replica", Path(made) / "drop"
        drop.mkdir()
        async with daemon(url):
            await insert(connection, documents)
            await until_idle(connection)
        async with daemon(url, replica=root):
            began = time.perf_counter()
            await wait_for(connection, WRITTEN, documents, pause=0.02)
            written = time.perf_counter() - began
            for place in range(edits):
                with times.of("edit_found"):
                    edit(random_.choice(files(root)), f"zq{place:04}x")
                    await found(connection, f"zq{place:04}x")
        async with daemon(url, drop_folder=drop, drop_settle_seconds=drop_settle_seconds):
            for place in range(edits):
                content = f"{text(random_)}\nThe password of the day is zs{place:04}x.\n"
                with times.of("drop_found"):
                    (drop / f"zs{place:04}x.md").write_text(content, "utf-8")
                    await found(connection, f"zs{place:04}x")
        await connection.execute(INSERT_MANY, rest - documents - edits)
        await connection.execute(NO_REST)
        await connection.execute(NO_JOBS)
        await connection.execute("analyze")
        async with daemon(url, replica=root):
            # This daemon writes the files. The resting time is measured with another daemon, which has read them.
            await wait_for(connection, WRITTEN, rest, pause=1)
            paths = files(root)
            edit(paths[0], "first")
            await wait_for(connection, EDITED, "%first%", pause=0.1)
        last = await connection.fetchval(LAST)
        async with daemon(url, replica=root) as running:
            process = psutil.Process(running.process.pid)
            await wait_for(connection, SYNCED, last, pause=0.1)
            await asyncio.sleep(10)  # the pass that the beginning of the watch asks for
            for place in range(edits):
                with times.of("edit_at_rest_found"):
                    edit(random_.choice(paths), f"zr{place:04}x")
                    await found(connection, f"zr{place:04}x")
                await asyncio.sleep(pause)
            await asyncio.sleep(20)  # until nothing is left to do
            spent = cpu(process.pid)
            await asyncio.sleep(seconds)
            spent = cpu(process.pid) - spent
            memory = process.memory_full_info()
    return {
        "documents": documents,
        "written_s": round(written, 2),
        "written_per_second": round(documents / written),
        "files_at_rest": rest,
        **times.figures(),
        "cpu_percent": round(100 * spent / seconds, 2),
        "resident_mb": round(memory.rss / 1e6, 1),
        "own_mb": round(memory.uss / 1e6, 1),
    }


if __name__ == "__main__":
    command(__doc__, measure)
