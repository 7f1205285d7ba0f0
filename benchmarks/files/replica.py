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
from typing import Any

import asyncpg
import psutil

from benchmarks.harness import arguments, daemon, database, percentiles, report, wait_for

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
IDLE = "select not exists (select from memoryd.jobs)"
FOUND = """
select exists (select from recall($1, sources => '{document}', match_count => 3) r where r.content like '%' || $1 || '%')
"""
BYTES = 10_000


def text(random_: random.Random) -> str:
    """Some Markdown of BYTES characters."""
    parts: list[str] = []
    while sum(map(len, parts)) < BYTES:
        words = " ".join(random_.choice(WORDS) for _ in range(60))
        parts.append(f"## {random_.choice(WORDS)} {random_.choice(WORDS)}\n\n{words}.\n\n")
    return "".join(parts)[:BYTES]


WORDS = [
    f"{first}{last}"
    for first in ("car", "mel", "tor", "bin", "sal", "der", "pol", "gan")
    for last in (
        "ant",
        "ber",
        "cot",
        "dal",
        "ene",
        "fur",
        "gel",
        "hom",
        "ist",
        "jet",
        "kos",
        "lum",
        "mor",
        "nat",
        "orb",
        "pid",
    )
]


async def insert(connection: asyncpg.Connection, first: int, number: int) -> None:
    """So many documents."""
    random_ = random.Random(first)
    titles = [f"Document {place}" for place in range(first, first + number)]
    for begin in range(0, number, 500):
        some = titles[begin : begin + 500]
        await connection.execute(
            INSERT,
            some,
            [text(random_) for _ in some],
            [f"source {place % 10}" for place in range(len(some))],
        )


def edit(path: Path, word: str) -> None:
    """A person adds a line and saves, as editors do: a new file takes the place of the old one."""
    changed = path.with_name(f".{path.name}.swap")
    changed.write_text(f"{path.read_text('utf-8')}\nThe password of the day is {word}.\n", "utf-8")
    changed.replace(path)


def put(drop: Path, name: str, content: str) -> None:
    """A person puts a file into the drop folder."""
    drop.mkdir(exist_ok=True)
    (drop / name).write_text(content, "utf-8")


def files(root: Path) -> list[Path]:
    """The documents' files."""
    return sorted(root.glob("documents/*/*.md"))


async def measure_edits(
    connection: asyncpg.Connection, root: Path, number: int, *, mark: str, pause: float = 0.0
) -> list[float]:
    """Seconds from a save until recall finds it. `mark`: what the words begin with that are looked for.

    `pause`: before each further save.
    """
    random_ = random.Random(7)
    paths = files(root)
    took = []
    for place in range(number):
        word = f"{mark}{place:04}x"
        began = time.perf_counter()
        edit(random_.choice(paths), word)
        while not await connection.fetchval(FOUND, word):
            await asyncio.sleep(0.02)
        took.append(time.perf_counter() - began)
        await asyncio.sleep(pause)
    return took


async def measure_drops(connection: asyncpg.Connection, drop: Path, number: int) -> list[float]:
    """Seconds from when a file is put into the drop folder until recall finds it."""
    random_ = random.Random(8)
    took = []
    for place in range(number):
        word = f"zs{place:04}x"
        content = f"{text(random_)}\nThe password of the day is {word}.\n"
        began = time.perf_counter()
        put(drop, f"{word}.md", content)
        while not await connection.fetchval(FOUND, word):
            await asyncio.sleep(0.02)
        took.append(time.perf_counter() - began)
    return took


async def measure(url: str, options: dict[str, Any]) -> dict[str, object]:
    """All figures."""
    documents, at_rest = int(options["documents"]), int(options["rest"])
    connection = await asyncpg.connect(url)
    with tempfile.TemporaryDirectory(prefix="memoryd-replica-", dir=options["folder"]) as folder:
        root = Path(folder) / "replica"
        async with daemon(url):
            await insert(connection, 0, documents)
            await wait_for(connection, IDLE, pause=0.1)
        async with daemon(url, replica=root) as running:
            began = time.perf_counter()
            await wait_for(connection, WRITTEN, documents, pause=0.02)
            written = time.perf_counter() - began
            edits = await measure_edits(connection, root, int(options["edits"]), mark="zq")
        drop = Path(folder) / "drop"
        async with daemon(url, drop_folder=drop, drop_settle_seconds=options["drop_settle_seconds"]):
            drops = await measure_drops(connection, drop, int(options["edits"]))
        await connection.execute(INSERT_MANY, at_rest - documents - len(drops))
        await connection.execute(NO_REST)
        await connection.execute(NO_JOBS)
        await connection.execute("analyze")
        async with daemon(url, replica=root):
            # This daemon writes the files. The resting time is measured with another daemon, which has read them.
            await wait_for(connection, WRITTEN, at_rest, pause=1)
            edit(files(root)[0], "first")
            await wait_for(connection, EDITED, "%first%", pause=0.1)
        last = await connection.fetchval(LAST)
        async with daemon(url, replica=root) as running:
            process = psutil.Process(running.process.pid)
            await wait_for(connection, SYNCED, last, pause=0.1)
            await asyncio.sleep(10)  # the pass that the beginning of the watch asks for
            among = await measure_edits(
                connection, root, int(options["edits"]), mark="zr", pause=options["pause"]
            )
            await asyncio.sleep(20)  # until nothing is left to do
            before, clock = process.cpu_times(), time.perf_counter()
            await asyncio.sleep(options["seconds"])
            after, watched = process.cpu_times(), time.perf_counter() - clock
            memory = process.memory_full_info()
    await connection.close()
    spent = after.user + after.system - before.user - before.system
    return {
        "documents": documents,
        "written_s": round(written, 2),
        "written_per_second": round(documents / written),
        **{f"edit_found_{name}": value for name, value in percentiles(edits).items()},
        **{f"drop_found_{name}": value for name, value in percentiles(drops).items()},
        "files_at_rest": at_rest,
        **{f"edit_at_rest_found_{name}": value for name, value in percentiles(among).items()},
        "cpu_percent": round(100 * spent / watched, 2),
        "resident_mb": round(memory.rss / 1e6, 1),
        "own_mb": round(memory.uss / 1e6, 1),
    }


def main() -> None:
    """Command line."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--documents", type=int, default=1000, help="documents that are written out")
    parser.add_argument("--edits", type=int, default=40, help="edits that are looked for")
    parser.add_argument("--rest", type=int, default=100_000, help="files while the daemon rests")
    parser.add_argument(
        "--drop-settle-seconds",
        type=float,
        default=0.2,
        help="seconds for which a file in the drop folder must be unchanged; a daemon waits for 2",
    )
    parser.add_argument(
        "--folder", type=Path, help="where the files are; not given: in the folder for temporary files"
    )
    parser.add_argument(
        "--pause", type=float, default=2.0, help="seconds between two edits among the files at rest"
    )
    parser.add_argument("--seconds", type=float, default=120.0, help="how long it is watched")
    options = parser.parse_args()
    with database(options.database_url) as url:
        figures = asyncio.run(measure(url, vars(options)))
    report("replica", figures, options.json)


if __name__ == "__main__":
    main()
