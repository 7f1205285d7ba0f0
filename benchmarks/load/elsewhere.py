"""How long `memoryd import --from mem0` takes until the memories are searchable, by words and by meaning, while a daemon runs.

    python -m benchmarks.load.elsewhere --rows 10000

An export as mem0's get_all() answers, with made-up texts of 8 to 30 words (benchmarks.corpus) of 100 users. The clock starts
with the command. The same export is then imported once more.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
import uuid
from pathlib import Path

import asyncpg

from benchmarks.corpus import Corpus
from benchmarks.harness import Figures, command, daemon, measured, wait_for
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


async def import_(url: str, file: Path) -> tuple[int, dict[str, float]]:
    """How many memories the command took, and what it used."""
    command = [sys.executable, "-m", "daemon", "import", str(file), "--from", "mem0", "--json"]
    out, used = await asyncio.to_thread(measured, command, {"DATABASE_URL": url, "PATH": ""})
    return json.loads(out)["rows"]["memories"]["taken"], used


async def measure(url: str, connection: asyncpg.Connection, *, rows: int = 10_000) -> Figures:
    """Imports, waits, searches, and imports again."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "mem0.json"
        write_export(file, rows)
        async with daemon(url):
            began = time.perf_counter()
            taken, used = await import_(url, file)
            await wait_for(connection, f"select ({UNINDEXED}) = 0", pause=0.02)
            await wait_for(connection, WORK, ["index", "statistics"], pause=0.02)
            searchable = time.perf_counter() - began
            found = await findable(connection, "agent_memory")
            again, twice = await import_(url, file)
        megabytes = file.stat().st_size / 1e6
    return {
        "rows": rows,
        "export_mb": round(megabytes, 1),
        "taken": taken,
        "seconds_of_the_command": used["wall_seconds"],
        "seconds_until_searchable": round(searchable, 2),
        "found_by_their_own_words": round(found, 3),
        "again_taken": again,
        "seconds_of_the_same_again": twice["wall_seconds"],
        "command_peak_mb": used["peak_mb"],
    }


if __name__ == "__main__":
    command(__doc__, measure)
