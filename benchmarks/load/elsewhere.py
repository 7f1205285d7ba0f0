"""How long `memoryd import --from mem0` takes until the memories are searchable, by words and by meaning, while a daemon runs.

    python -m benchmarks.load.elsewhere --rows 10000

An export as mem0's get_all() answers, with made-up texts of 8 to 30 words (benchmarks.corpus) of 100 users. The clock starts
with the command. The same export is then imported once more.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

import asyncpg

from benchmarks.corpus import Corpus
from benchmarks.harness import arguments, daemon, database, report, wait_for
from benchmarks.load.ingest import UNINDEXED, WORK, findable

USERS = 100


def write_export(file: Path, rows: int) -> None:
    """What get_all() answers."""
    corpus = Corpus(7)
    memories = [
        {
            "id": str(uuid.UUID(int=n + 1)),
            "memory": corpus.text(),
            "hash": "0" * 32,
            "metadata": {"category": "made up"},
            "created_at": "2025-03-01T10:00:00-08:00",
            "updated_at": "2025-03-01T10:00:00-08:00",
            "user_id": f"user-{n % USERS}",
        }
        for n in range(rows)
    ]
    file.write_text(json.dumps({"results": memories}))


async def import_(url: str, file: Path) -> dict[str, Any]:
    """The command's report."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "daemon", "import", str(file), "--from", "mem0", "--json",
        env={"DATABASE_URL": url, "PATH": ""}, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, _ = await process.communicate()
    if process.returncode:
        raise SystemExit("the import failed")
    answer: dict[str, Any] = json.loads(out)
    return answer


async def measure(url: str, rows: int) -> dict[str, object]:
    """Imports, waits, searches, and imports again."""
    connection = await asyncpg.connect(url)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "mem0.json"
        write_export(file, rows)
        async with daemon(url):
            began = time.perf_counter()
            taken = await import_(url, file)
            imported = time.perf_counter() - began
            await wait_for(connection, f"select ({UNINDEXED}) = 0", pause=0.02)
            await wait_for(connection, WORK, ["index", "statistics"], pause=0.02)
            searchable = time.perf_counter() - began
            found = await findable(connection, "agent_memory")
            began = time.perf_counter()
            again = await import_(url, file)
            twice = time.perf_counter() - began
        megabytes = file.stat().st_size / 1e6
    await connection.close()
    return {
        "rows": rows,
        "export_mb": round(megabytes, 1),
        "taken": taken["rows"]["memories"]["taken"],
        "seconds_of_the_command": round(imported, 2),
        "seconds_until_searchable": round(searchable, 2),
        "found_by_their_own_words": round(found, 3),
        "again_taken": again["rows"]["memories"]["taken"],
        "seconds_of_the_same_again": round(twice, 2),
        "command_peak_mb": round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3),
    }


def main() -> None:
    """Command line."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--rows", type=int, default=10_000)
    options = parser.parse_args()
    with database(options.database_url) as url:
        figures = asyncio.run(measure(url, options.rows))
    report("elsewhere", figures, options.json)


if __name__ == "__main__":
    main()
