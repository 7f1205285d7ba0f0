"""A database that the tests of a file use one after the other, with the connections and the daemon that they share.

Promise: a test finds it as a new one. Its rows are taken away after each test; where a test has changed more than rows
(functions, triggers, tables, rights), the next one gets a new database.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg

from daemon.db.pool import Database
from tests.support.database.schemas import connected
from tests.support.database.servers import Server
from tests.support.database.templates import copied
from tests.support.processes.daemons import DaemonProcess, Daemons
from tests.support.processes.workers import CREATE_DONE, open_database

TABLES = """
select c.oid::regclass::text as name, string_agg(quote_ident(a.attname), ', ' order by a.attnum) as columns
from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
where c.relkind = 'r' and c.relnamespace in ('public'::regnamespace, 'memoryd'::regnamespace)
group by c.oid
"""
# Of the newest row. A cast of each would go by way of its text.
NEWEST = "age('3'::xid) - min(age(xmin))"
CATALOG = " union all ".join(
    f"select '{name}', count(*), {NEWEST} from {name}"
    for name in (
        "pg_class", "pg_proc", "pg_trigger", "pg_policy", "pg_constraint", "pg_attribute", "pg_namespace", "pg_publication",
        "pg_default_acl", "pg_extension", "pg_db_role_setting",
    )
)  # fmt: skip
VERSION = "select '{0}', count(*) || ' ' || coalesce(sum(xmin::text::bigint), 0) from {0}"
RESTART = "select setval(format('%I.%I', schemaname, sequencename), 1, false) from pg_sequences where last_value is not null"
LEFT = """
select pg_terminate_backend(pid, 10000) from pg_stat_activity
where datname = current_database() and backend_type = 'client backend' and pid <> all($1)
"""
"""Ends the sessions of who was killed: the server may still do what they asked for last."""
OF_DAEMONS = ("memoryd.daemons", "memoryd.lanes")
"""What a daemon that runs goes on to need."""


class Reused:
    """One such database, made when it is first asked for; with `once` each test gets a new one."""

    def __init__(self, server: Server, template: str, folder: Path, *, once: bool = False) -> None:
        self._server, self._template, self._folder, self._once = server, template, folder, once
        self._stack: AsyncExitStack | None = None
        self._daemon: DaemonProcess | None = None
        self._database: Database | None = None
        self._clean: dict[str, str] = {}

    async def open(self) -> None:
        """Makes it, unless it is there."""
        if self._stack is not None:
            return
        async with AsyncExitStack() as stack:
            self.url = await stack.enter_async_context(copied(self._server, self._template))
            stack.push_async_callback(self.end_daemon)
            self.connection = await stack.enter_async_context(connected(self.url))
            if not self._once:
                await self._prepare(stack)
            self._stack = stack.pop_all()

    async def _prepare(self, stack: AsyncExitStack) -> None:
        await self.connection.execute(CREATE_DONE)
        # Rows are deleted as a superuser, for whom no trigger fires.
        admin_url = self._server.admin_url_of(urlsplit(self.url).path[1:])
        self._admin = await stack.enter_async_context(connected(admin_url))
        columns = {row["name"]: row["columns"] for row in await self._admin.fetch(TABLES)}
        self._empty = list(columns)
        self._seeded = {name: columns[name] for name in await self._filled()}
        self._empty = [name for name in columns if name not in self._seeded]
        await self._keep("new")
        await self._admin.execute("set session_replication_role = replica; set lock_timeout = '10s'")

    async def close(self) -> None:
        """Drops it."""
        if self._stack is not None:
            stack, self._stack, self._database = self._stack, None, None
            await stack.aclose()

    async def daemon(self) -> DaemonProcess:
        """The daemon that runs on it."""
        if self._daemon is None or self._daemon.process.returncode is not None:
            self._daemon = await Daemons(self.url, self._folder).start()
            if not self._once:
                await self._keep("served")
        self._daemon.lines.clear()
        return self._daemon

    async def database(self) -> Database:
        """The daemon's own way to it, with a table for what the workers of a test did."""
        if self._database is None:
            assert self._stack is not None
            await self.connection.execute(CREATE_DONE)
            self._database = await self._stack.enter_async_context(open_database(self.url))
        return self._database

    async def end_daemon(self) -> None:
        """For tests that start daemons of their own."""
        if self._daemon is not None:
            await self._daemon.kill()
            self._daemon = None
            self._clean = {}
            if not (self._once or self._admin.is_closed()):
                await self._delete()

    async def empty(self) -> None:
        """What the test has left goes."""
        if not (self._once or self._stack is None) and await self._emptied():
            return
        await self.close()

    async def _emptied(self) -> bool:
        try:
            if self.connection.is_in_transaction():
                await self.connection.execute("rollback")
            await self.connection.execute("reset session authorization; reset role")
            await self.connection.reset()
            if self._daemon is None and self._database is None:
                ours = [one.get_server_pid() for one in (self.connection, self._admin)]
                await self._admin.fetch(LEFT, ours)
            if await self._admin.fetch(CATALOG) == self._catalog:
                await self._delete()
                return True
        except (
            asyncpg.InterfaceError,
            asyncpg.PostgresConnectionError,
            asyncpg.LockNotAvailableError,
            asyncpg.DeadlockDetectedError,
        ):
            pass  # A test has cut the connection, or left another that holds locks.
        return False

    async def _delete(self) -> None:
        # A daemon writes nothing for jobs that are gone.
        await self._admin.execute("delete from memoryd.jobs")
        moment, spared = ("new", ()) if self._daemon is None else ("served", OF_DAEMONS)
        gone = [name for name in await self._filled() if name not in spared]
        async with self._admin.transaction():
            await self._admin.execute("".join(f"delete from {name}; " for name in gone) + RESTART)
            versions = await self._versions()
            for name in {name for name in versions if versions[name] != self._clean.get(name)} - set(spared):
                columns = self._seeded[name]
                there, kept = f"select {columns} from {name}", f"select {columns} from {_kept(name, moment)}"
                changed = f"select exists ({there} except all {kept}) or exists ({kept} except all {there})"
                if await self._admin.fetchval(changed):
                    back = f"insert into {name} ({columns}) overriding system value {kept}"
                    await self._admin.execute(f"delete from {name}; {back}")
                    del versions[name]
            self._clean = versions

    async def _keep(self, moment: str) -> None:
        # Before the copies: what is written meanwhile is seen to be of another version.
        self._clean = await self._versions()
        for name in self._seeded:
            kept = _kept(name, moment)
            await self._admin.execute(
                f"drop table if exists {kept}; create temporary table {kept} as table {name}"
            )
        self._catalog = await self._admin.fetch(CATALOG)

    async def _versions(self) -> dict[str, str]:
        """Of each seeded table a text that is another once a row was written."""
        each = " union all ".join(VERSION.format(name) for name in self._seeded)
        return {row[0]: row[1] for row in await self._admin.fetch(each)}

    async def _filled(self) -> list[str]:
        filled = ", ".join(f"case when exists (select from {name}) then '{name}' end" for name in self._empty)
        found: list[str] = await self._admin.fetchval(f"select array_remove(array[{filled}], null)")
        return found


def _kept(name: str, moment: str) -> str:
    return f"{moment}_{name.replace('.', '_')}"
