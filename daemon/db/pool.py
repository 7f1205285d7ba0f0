"""Connections to Postgres: the pool, vectors on the wire, and what happens when the database is lost.

Promise: losing the database is not fatal. One log line when it is lost, one when it is back; all callers wait.

Behind a transaction pooler (`pooled`) nothing of a session survives between transactions: there every statement runs in
a transaction of its own that first sets the search path, and no statement is prepared by name.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from typing import Any, TypeVar

import asyncpg
import pgvector.asyncpg
from structlog.typing import FilteringBoundLogger

from daemon.db.errors import DATABASE_FAULTS, is_gone
from daemon.logs import describe
from daemon.settings.databases import FORM
from handlers.shared.ports import AnyConnection

Result = TypeVar("Result")

FIND_VECTOR_SCHEMA = """
select n.nspname
from pg_catalog.pg_extension e
join pg_catalog.pg_namespace n on n.oid = e.extnamespace
where e.extname = 'vector'
"""

MOST_CONNECTIONS = """
(select min(l.most)
 from (select r.rolconnlimit from pg_catalog.pg_roles r where r.rolname = session_user
       union all
       select d.datconnlimit from pg_catalog.pg_database d where d.datname = pg_catalog.current_database()) l(most)
 where l.most >= 0)
"""
"""An expression: how many connections role and database allow; null where they set no limit."""
LEAST_POOL, OTHER_CONNECTIONS = 3, 2
"""Beside the pool: the listener's connection, and one for commands such as `memoryd status`."""

IS_AWAITED: ContextVar[bool] = ContextVar("is_awaited", default=False)
"""Whether somebody waits for what is done here. A third of the connections does nothing else: what one answers first takes
several times as long as what follows, and polls, which use several, would hand answers around."""
KEPT_SECONDS, USED_SECONDS, USE_TIMEOUT_SECONDS = 60.0, 30.0, 3.0
"""How long a connection stays that is not used; how often the one that answers next is used, and how long that may take."""

IS_STANDBY = "select pg_is_in_recovery()"
IS_READ_ONLY = "select pg_is_in_recovery(), current_setting('transaction_read_only')::boolean"
READ_ONLY_SECONDS = 60.0
"""Between two lines of the log that say it."""

MAX_LOCK_WAIT = "10s"
"""Longest wait for a row that another transaction has locked. Then the jobs are tried again later."""

MAX_IDLE_IN_TRANSACTION = "30s"
"""Longest time that the locks of a command stay whose machine is lost in the middle of a transaction."""
MAX_IDLE_OF_DAEMON = "5s"
"""The same for a daemon: it is short, since clients wait for its locks."""
POSTGRES_NAMES = "pg_catalog, pg_temp"
"""A search path in which nothing is found that a role has made: see daemon/db/foreign.py."""
PINNED = {
    "jit": "off",
    # A statement after a lock must see what was written before the lock was got.
    "default_transaction_isolation": "read committed",
    # Those of a database mean its applications: what memoryd does ends by MAX_LOCK_WAIT and command_timeout.
    "statement_timeout": "0",
    "idle_session_timeout": "0",
    # Statements of upgrades compare names with what Postgres prints.
    "quote_all_identifiers": "off",
}
"""What memoryd's connections have, whatever is set for database and role. `pin()` adds what not every release has."""
_CLOSED = (asyncpg.InvalidCatalogNameError, asyncpg.ObjectNotInPrerequisiteStateError)


class _Session(asyncpg.Connection):
    """A pooled connection that leaves nothing behind in its session, so that giving it back costs no round trip."""

    def get_reset_query(self) -> str:
        return ""


class Database:
    """A pool of connections to one database. Build it with `Database.open`."""

    def __init__(
        self,
        pools: Sequence[asyncpg.Pool],
        *,
        url: str,
        vector_schema: str,
        pooled: bool,
        limits: dict[str, str],
        logger: FilteringBoundLogger,
    ) -> None:
        self.url = url
        self.vector_schema = vector_schema
        self.pooled = pooled
        self._limits = limits
        self._pools = pools
        """The last one is for what IS_AWAITED."""
        self._log = logger
        self._recovery: asyncio.Task[bool] | None = None
        self._told_read_only = -math.inf
        self.on_standby: Callable[[], None] = lambda: None
        """Called when a statement was refused because the database has become a standby."""

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        size: int,
        pooled: bool,
        logger: FilteringBoundLogger,
        application: str = "memoryd",
        max_idle: str = MAX_IDLE_IN_TRANSACTION,
        answers: bool = False,
    ) -> Database:
        """Connects. Raises OSError or asyncpg.PostgresError when that fails; UndefinedObjectError without pgvector.

        `max_idle`: how long a transaction may be idle before the server ends it. `answers`: there is work that IS_AWAITED.
        """
        connection = await connect(url, pooled=pooled, application=application)
        try:
            schema = await connection.fetchval(FIND_VECTOR_SCHEMA)
            most = await connection.fetchval(f"select {MOST_CONNECTIONS}")
        finally:
            await connection.close()
        if schema is None:
            raise asyncpg.UndefinedObjectError("extension vector is not installed in this database")

        path = search_path(schema)
        limits = {"lock_timeout": MAX_LOCK_WAIT, "idle_in_transaction_session_timeout": max_idle}

        async def prepare(connection: asyncpg.Connection) -> None:
            async with connection.transaction():
                await pgvector.asyncpg.register_vector(connection, schema=schema)
            if not pooled:
                # Once more, for poolers of sessions that keep to themselves what a connection is begun with.
                await pin(connection, path, scope="session", **limits)

        async def pool(size: int) -> asyncpg.Pool:
            return await asyncpg.create_pool(
                url,
                # With a minimum above 0 the pool would log lines of its own in every outage.
                min_size=0,
                max_size=size,
                init=prepare,
                connect=_connect_again,
                connection_class=_Session,
                max_inactive_connection_lifetime=KEPT_SECONDS,
                **_options(pooled, application, path, **limits),
            )

        # Where it asked for more than it is given, it would take the database for lost.
        size = size if most is None else min(size, max(LEAST_POOL, most - OTHER_CONNECTIONS))
        apart = size // 3 if answers and not pooled and size > LEAST_POOL else 0
        pools = [await pool(one) for one in (size - apart, apart) if one]
        return cls(pools, url=url, vector_schema=schema, pooled=pooled, limits=limits, logger=logger)

    async def close(self) -> None:
        """Closes every connection; waits two seconds for those in use."""
        if self._recovery is not None:
            self._recovery.cancel()
        try:
            await asyncio.wait_for(asyncio.gather(*(pool.close() for pool in self._pools)), 2.0)
        except TimeoutError:
            for pool in self._pools:
                pool.terminate()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AnyConnection]:
        """A connection for a few statements."""
        async with self._pools[-1 if IS_AWAITED.get() else 0].acquire() as connection:
            if not self.pooled:
                yield connection
                return
            async with connection.transaction(isolation="read_committed"):
                await pin(connection, search_path(self.vector_schema), **self._limits)
                yield connection

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AnyConnection]:
        """A connection in a transaction: committed at the end, rolled back on an exception."""
        async with self.connection() as connection:
            if self.pooled:
                yield connection
                return
            async with connection.transaction():
                yield connection

    async def keep_for_answers(self) -> None:
        """Uses the connection that answers next, so that it stays; one that a network cut off is found before it is needed."""
        while True:
            await asyncio.sleep(USED_SECONDS)
            if self._pools[-1].get_idle_size():
                with suppress(*DATABASE_FAULTS):
                    async with self._pools[-1].acquire() as connection:
                        try:
                            await connection.execute("select 1", timeout=USE_TIMEOUT_SECONDS)
                        except TimeoutError:
                            connection.terminate()

    async def fetch(self, sql: str, *args: object) -> list[asyncpg.Record]:
        """The rows of one statement."""
        async with self.connection() as connection:
            rows: list[asyncpg.Record] = await connection.fetch(sql, *args)
            return rows

    async def fetchrow(self, sql: str, *args: object) -> asyncpg.Record | None:
        """The first row of one statement."""
        async with self.connection() as connection:
            return await connection.fetchrow(sql, *args)

    async def fetchval(self, sql: str, *args: object) -> Any:
        """The first value of the first row."""
        async with self.connection() as connection:
            return await connection.fetchval(sql, *args)

    async def execute(self, sql: str, *args: object) -> None:
        """One statement without a result."""
        async with self.connection() as connection:
            await connection.execute(sql, *args)

    @property
    def connections(self) -> dict[str, int]:
        """How many are used and idle now, and how many there may be."""
        size, idle = sum(p.get_size() for p in self._pools), sum(p.get_idle_size() for p in self._pools)
        most = sum(p.get_max_size() for p in self._pools)
        return {"used": size - idle, "idle": idle, "most": most}

    @property
    def is_lost(self) -> bool:
        """Whether somebody waits until the database is back."""
        return self._recovery is not None and not self._recovery.done()

    async def reconnect_after_failover(self, error: BaseException) -> bool:
        """Lets go of all connections when the server is read-only now: the next ones may lead to the one that took over.

        True when nobody is to be told of this error: they lead to a standby, of which `on_standby` is told, or to a database
        that takes no writing for now, such as a provider's whose disk is full, which is logged once a minute.
        """
        if not isinstance(error, asyncpg.ReadOnlySQLTransactionError):
            return False
        await self._expire()
        try:
            standby, read_only = await self.fetchrow(IS_READ_ONLY) or (False, False)
        except DATABASE_FAULTS:
            return False
        now = asyncio.get_running_loop().time()
        if standby:
            self.on_standby()
        elif read_only and now - self._told_read_only > READ_ONLY_SECONDS:
            self._told_read_only = now
            self._log.warning("database_read_only")
        return bool(standby or read_only)

    async def _expire(self) -> None:
        for pool in self._pools:
            await pool.expire_connections()

    async def recover(self, error: BaseException) -> bool:
        """Call it when `is_gone(error)`: returns when the database answers again. However many wait, one task connects.

        False when it answered at once: then perhaps only this connection was lost.
        """
        if self._recovery is None or self._recovery.done():
            self._recovery = asyncio.create_task(self._wait_for_answer(error))
        return await asyncio.shield(self._recovery)

    async def _wait_for_answer(self, error: BaseException) -> bool:
        loop = asyncio.get_running_loop()
        began, told, pause = loop.time(), False, 0.05
        while True:
            try:
                connection = await connect(self.url, pooled=self.pooled, application="memoryd", timeout=3.0)
                await connection.close()
                break
            except DATABASE_FAULTS:
                if not told:
                    self._log.warning("database_lost", error=type(error).__name__)
                    told = True
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))
                pause = min(pause * 2, 1.0)
        if told:
            # The connections in the pool were closed with the server.
            await self._expire()
            self._log.info("database_back", seconds=round(loop.time() - began, 2))
        return told


async def awaited(work: Awaitable[Result]) -> Result:
    """Does what IS_AWAITED."""
    IS_AWAITED.set(True)
    return await work


async def patiently(
    work: Callable[[], Awaitable[Result]], *, seconds: float, logger: FilteringBoundLogger
) -> Result:
    """Does what a start needs of the database, again and again, for this number of seconds, while that is away or coming up.

    Raises what the work raises, of a database that is gone only after that time.
    """
    loop = asyncio.get_running_loop()
    until, told = loop.time() + seconds, False
    while True:
        try:
            return await work()
        except DATABASE_FAULTS as error:
            if not is_gone(error) or loop.time() >= until:
                raise
            if not told:
                logger.warning("database_awaited", error=describe(error), seconds=seconds)
                told = True
            await asyncio.sleep(min(0.5, max(0.0, until - loop.time())))


async def _connect_again(*args: Any, **options: Any) -> asyncpg.Connection:
    """A connection of the pool. Raises CannotConnectNowError where the database is closed or has no such name any more.

    It was there when the pool was made: it is being moved or restored, and may come back.
    """
    try:
        return await asyncpg.connect(*args, **options)
    except _CLOSED as error:
        raise asyncpg.CannotConnectNowError(*error.args) from error


async def connect(
    url: str, *, pooled: bool = False, application: str = "memoryd", timeout: float = 10.0
) -> asyncpg.Connection:
    """One connection outside the pool. Raises ValueError when the URL cannot be read, else as asyncpg does.

    Unless `pooled`, names without a schema are Postgres' own there. `pooled`: perhaps by a pooler. Then schema public counts,
    too, but nothing that the owner of the database has put before it (alter database ... set search_path).
    """
    options = _options(pooled, application, POSTGRES_NAMES)
    try:
        if pooled:
            with suppress(asyncpg.ProtocolViolationError):  # of a pooler that takes no settings
                return await asyncpg.connect(
                    url, timeout=timeout, server_settings=PINNED | {"search_path": "public"}, **options
                )
        return await asyncpg.connect(url, timeout=timeout, **options)
    except (ValueError, OverflowError) as error:
        # A plain one quotes what it took for the port: of a password that contains a slash, its beginning.
        said = f" ({error})" if isinstance(error, asyncpg.ClientConfigurationError) else ""
        raise ValueError(f"DATABASE_URL cannot be read{said}. {FORM}") from None


@asynccontextmanager
async def connected(
    url: str, *, pooled: bool = False, application: str = "memoryd"
) -> AsyncIterator[asyncpg.Connection]:
    """A connection as `connect` opens it, closed at the end."""
    connection = await connect(url, pooled=pooled, application=application)
    try:
        yield connection
    finally:
        await connection.close()


def quoted(name: str) -> str:
    """A name with any characters as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def search_path(vector_schema: str) -> str:
    """The search path our statements are written for."""
    return "public" if vector_schema == "public" else f"public, {quoted(vector_schema)}"


async def pin(connection: AnyConnection, path: str | None, *, scope: str = "local", **more: str) -> None:
    """Sets, for this transaction or (`scope`) this session, what is PINNED, and `more`, and the search path, unless None."""
    settings = PINNED | more
    if connection.get_server_version().major >= 17:
        settings["transaction_timeout"] = "0"
    statements = [f"set {scope} {name} = '{value}'" for name, value in settings.items()]
    if path is not None:
        statements.append(f"set {scope} search_path = {path}")
    await connection.execute("; ".join(statements))


def _options(pooled: bool, application: str, path: str, **more: str) -> dict[str, Any]:
    options: dict[str, Any] = {"command_timeout": 120.0}
    if pooled:
        options["statement_cache_size"] = 0
        return options
    options["server_settings"] = (
        PINNED
        | {"idle_in_transaction_session_timeout": MAX_IDLE_IN_TRANSACTION}
        | more
        | {"application_name": application, "search_path": path}
    )
    return options
