"""A backup of many memories, and a restore until recall answers: seconds, and size of the file.

    python -m benchmarks.load.backup --rows 1000000

The rows are those of benchmarks.load.ingest, indexed and associated. Restored into another embedded Postgres, with all that
`memoryd restore` does: compared, migrated, analyzed; until recall has found one of them by its own words.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

import asyncpg

from benchmarks.harness import Figures, command
from benchmarks.load.ingest import measure as ingest
from daemon.cli.database import migrate_database
from daemon.settings import load_settings
from plugins.embedded.server import EmbeddedPostgres
from plugins.operate.backup.archive import read_manifest
from plugins.operate.backup.dump import make_backup
from plugins.operate.backup.prove import prove
from plugins.operate.backup.restore import compare, finish, restore_backup

SIZE = "select pg_database_size(current_database())"


async def back_up(url: str, connection: asyncpg.Connection, file: Path, rows: int) -> Figures:
    """Fills the database and writes the backup."""
    await ingest(url, connection, rows=rows)
    size = await connection.fetchval(SIZE)
    began = time.perf_counter()
    manifest = await make_backup(url, file, keys={})
    took = time.perf_counter() - began
    return {
        "memories": rows,
        "database_mb": round(size / 1e6),
        "file_mb": round(manifest.bytes / 1e6),
        "backup_seconds": round(took, 1),
    }


async def bring_back(url: str, file: Path) -> Figures:
    """Restores it as the command does."""
    began = time.perf_counter()
    manifest = read_manifest(file)
    await restore_backup(url, file, manifest.contents)
    restored = time.perf_counter() - began
    unlike = await compare(url, manifest.contents)
    await migrate_database(load_settings(), url)
    await finish(url)
    wrong = await prove(url)
    return {
        "restore_seconds": round(restored, 1),
        "until_recall_answers_seconds": round(time.perf_counter() - began, 1),
        "wrong": unlike + wrong,
    }


async def measure(url: str, connection: asyncpg.Connection, *, rows: int = 100_000) -> Figures:
    """Restores into another server."""
    with tempfile.TemporaryDirectory(prefix="memoryd-bench-") as folder:
        file, other = Path(folder) / "one.backup", EmbeddedPostgres(Path(folder) / "other")
        figures = await back_up(url, connection, file, rows)
        await asyncio.to_thread(other.start)
        try:
            return figures | await bring_back(other.socket_url, file)
        finally:
            other.stop("immediate")


if __name__ == "__main__":
    command(__doc__, measure)
