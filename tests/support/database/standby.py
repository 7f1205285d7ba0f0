"""A server and its standby, which streams what the server writes and takes no writes of its own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from plugins.embedded.account import account_for
from plugins.embedded.cluster import CLUSTER
from plugins.embedded.programs import Programs, find_programs
from plugins.embedded.server import EmbeddedPostgres
from tests.support.database import data_folders
from tests.support.folders import server_folder
from tests.support.waiting import until

SMALL = {
    "fsync": "off",
    "shared_buffers": "32MB",
    "max_connections": "20",
    "wal_receiver_status_interval": "1s",
}


@dataclass(frozen=True, slots=True)
class Pair:
    """Both run."""

    primary: EmbeddedPostgres
    standby: EmbeddedPostgres


@contextmanager
def pair(programs: Programs, made: Path | None = None) -> Iterator[Pair]:
    """A primary with an empty database, or with the migrated one of a data folder to copy, and its standby.

    The folder is of the newest Postgres: with the programs of another the database is empty.
    """
    with server_folder() as folder:
        if made is not None and programs == find_programs():
            data_folders.copy(made, folder / "p")
        primary = EmbeddedPostgres(folder / "p", options=SMALL, programs=programs)
        standby = EmbeddedPostgres(folder / "s", options=SMALL, programs=programs)
        try:
            primary.start()
            _copy(primary, standby, programs)
            standby.start()
            yield Pair(primary, standby)
        finally:
            for server in (standby, primary):
                server.stop("immediate")


def _copy(primary: EmbeddedPostgres, standby: EmbeddedPostgres, programs: Programs) -> None:
    source, target = primary.log_path.parent, standby.log_path.parent
    account = account_for(source / CLUSTER)
    target.mkdir(mode=0o700)
    if account.switch:
        shutil.chown(target, account.uid, account.gid)
    _, _, address = primary.socket_url.partition("?")
    # It writes the address of the primary into the copy's configuration, and standby.signal beside it.
    done = programs.run(
        "pg_basebackup",
        *(f"--pgdata={target / CLUSTER}", "--checkpoint=fast", "--write-recovery-conf", "--no-sync"),
        f"--dbname=postgresql://postgres@/?{address}",
        account=account,
        cluster=source / CLUSTER,
    )
    assert done.returncode == 0, done.stderr
    # The copy has the primary's roles, so its password too.
    shutil.copy2(source / "password", target / "password")


async def caught_up(primary: asyncpg.Connection, standby: asyncpg.Connection) -> None:
    """Waits until the standby shows what the primary has committed."""
    written = await primary.fetchval("select pg_current_wal_insert_lsn()::text")
    await until(standby, "select pg_last_wal_replay_lsn() >= $1::text::pg_lsn", written, timeout=20)
