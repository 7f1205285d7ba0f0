"""What a URL leads to, a transaction pooler or a standby, and how a program of Postgres is given it.

Promise: a pooler is found by trying, not by the look of the URL: a notification is sent over one connection and awaited on
another. A pooler that takes no settings is treated as one, too. What cannot be done at a standby is refused in one sentence
that says where to do it; how far it is behind, the standby itself knows. A server or a database that is set up in a way that
memoryd does not work with is refused before anything is made in it.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

import asyncpg

from daemon.db.errors import MigrationError, is_gone
from daemon.db.pool import IS_STANDBY, connect, connected, quoted
from daemon.settings import Settings
from handlers.shared.ports import AnyConnection


async def is_pooled(settings: Settings, url: str) -> bool:
    """Whether there is a pooler: as MEMORYD_POOLER says, or found out where it says auto."""
    if settings.pooler != "auto":
        return settings.pooler == "transaction"
    return not await hears_notifications(url)


async def hears_notifications(url: str) -> bool:
    """Whether a notification sent over one connection reaches another, and settings are taken: false behind a pooler."""
    channel = f"memoryd_test_{uuid.uuid4().hex}"
    heard = asyncio.Event()
    listener = await connect(url, pooled=True)
    try:
        async with connected(url) as sender:
            try:
                await listener.add_listener(channel, lambda *_: heard.set())
                # Several short transactions: a pooler hands its server connections round.
                for _ in range(3):
                    async with sender.transaction():
                        await sender.execute(f"notify {channel}")
            except (asyncpg.ProgramLimitExceededError, asyncpg.ReadOnlySQLTransactionError):
                # The server's queue is full, and will not stay so; or it is a standby, where nobody listens before it is
                # promoted. Then what counts is whose the connections are.
                return await _have_backends_of_their_own(listener, sender)
            await asyncio.wait_for(heard.wait(), 2.0)
        return True
    except (TimeoutError, asyncpg.ProtocolViolationError):
        return False  # the second: it takes no settings, whatever it does with sessions
    except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        if is_gone(error):
            raise  # a database that comes up or goes down is no pooler
        return False
    finally:
        listener.terminate()


async def _have_backends_of_their_own(one: asyncpg.Connection, other: asyncpg.Connection) -> bool:
    """A transaction pooler gives both what server connection is free, mostly the same one."""
    seen = [[await c.fetchval("select pg_backend_pid()") for _ in range(3)] for c in (one, other, one)]
    return [len(set(pids)) for pids in seen] == [1, 1, 1] and seen[0][0] == seen[2][0] != seen[1][0]


# Without pg_read_all_stats the receiver's row has its process id, and nothing else. The last change is no measure while all
# that was received is replayed: then its primary may only be quiet.
READ = """
case when pg_is_in_recovery() then (
    select json_build_object(
        'receiving', r.receiving,
        'behind_seconds', case
            when r.receiving and pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() then 0.0
            else extract(epoch from clock_timestamp() - pg_last_xact_replay_timestamp()) end)
    from (select exists (select from pg_stat_wal_receiver w where w.pid is not null) as receiving) r) end
"""
"""An expression: null at a primary, else the fields of `Standby` in JSON."""


@dataclass(frozen=True, slots=True)
class Standby:
    """How a standby is. `receiving`: whether it gets its primary's changes as they come.

    `behind_seconds`: the age of what it shows; None when it has replayed nothing yet.
    """

    receiving: bool
    behind_seconds: float | None

    def __str__(self) -> str:
        if self.behind_seconds is None:
            behind = "it cannot say how far it is behind"
        else:
            behind = f"{self.behind_seconds:.1f} s behind its primary"
        return f"a standby, for reads only: {behind}{'' if self.receiving else ', from which it receives nothing now'}"


class StandbyError(MigrationError):
    """Something was to be written, and the database is a standby; the message says what to do."""

    def __init__(self) -> None:
        super().__init__(
            "This database is a standby: it takes no writes. Give DATABASE_URL the address of its primary, "
            "or make this one the primary: select pg_promote()"
        )


OLDEST_POSTGRES = 160000
OLDEST_VECTOR = (0, 8)
SERVER = """
    'version_num', current_setting('server_version_num')::integer,
    'version', current_setting('server_version'),
    'database', current_database(),
    'encoding', getdatabaseencoding(),
    'folds', (select lower(chr(n)) = chr(n + 32) from generate_series(196, 196) n where getdatabaseencoding() = 'UTF8'),
    'wrong', (select coalesce(json_object_agg(w.name, w.value), '{}')
              from (values ('standard_conforming_strings', 'on'), ('row_security', 'on'),
                           ('default_transaction_read_only', 'off')) as w(name, value)
              where current_setting(w.name) <> w.value
                and (w.name <> 'row_security' or not (select r.rolsuper or r.rolbypassrls from pg_roles r
                                                      where r.rolname = current_user))),
    'vector', (select json_build_object('version', e.extversion, 'schema', n.nspname)
               from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'vector')
"""
"""Fields for json_build_object(), to be judged. `folds`: whether it knows the small letters of capitals beyond ASCII.
`wrong`: the settings that must have another value, and that value."""


def fault_of(server: Mapping[str, Any]) -> str | None:
    """What keeps memoryd from working with this server or database, with the advice as its last sentence; None if nothing."""
    if server["version_num"] < OLDEST_POSTGRES:
        return (
            f"Postgres {server['version']} is older than {OLDEST_POSTGRES // 10000}, the oldest supported. "
            "Upgrade the server, or unset DATABASE_URL to use the Postgres that memoryd brings"
        )
    if server["encoding"] != "UTF8":
        return (
            f"The encoding of this database is {server['encoding']}, and memoryd keeps texts in UTF8. Make it another "
            "database, and name that in DATABASE_URL: "
            "create database memory template template0 encoding 'UTF8' locale 'C.UTF-8'"
        )
    for name, needed in server["wrong"].items():
        full = (
            " (some providers turn it on while the disk is full: make room first)" if needed == "off" else ""
        )
        return (
            f"{name} is {'off' if needed == 'on' else 'on'} by default here, and memoryd needs it {needed}{full}. "
            f"Run, or the same with alter role where it is set for the role: "
            f"alter database {quoted(server['database'])} set {name} = {needed}"
        )
    return None


def fault_of_vector(server: Mapping[str, Any]) -> str | None:
    """The same of an extension pgvector that is there."""
    vector, oldest = server["vector"], ".".join(map(str, OLDEST_VECTOR))
    if vector is None or tuple(map(int, re.findall(r"\d+", vector["version"]))) >= OLDEST_VECTOR:
        return None
    return (
        f"pgvector {vector['version']} is older than {oldest}. "
        "Install a newer one, and then, or if that was done: alter extension vector update"
    )


async def refuse_server(connection: AnyConnection) -> None:
    """Raises MigrationError where `fault_of` finds something. Names without a schema must be Postgres' own."""
    server = json.loads(await connection.fetchval(f"select json_build_object({SERVER})"))
    if (fault := fault_of(server) or fault_of_vector(server)) is not None:
        raise MigrationError(f"{fault}. Nothing was changed")


async def refuse_standby(connection: AnyConnection) -> None:
    """Raises StandbyError at a standby."""
    if await connection.fetchval(IS_STANDBY):
        raise StandbyError


async def is_standby(url: str) -> bool:
    """Whether the URL leads to a standby now; opens its own connection, since a failover may change that."""
    async with connected(url, pooled=True) as connection:
        return bool(await connection.fetchval(IS_STANDBY))


def without_password(url: str) -> tuple[str, dict[str, str]]:
    """The URL without its password, and an environment that has it. Raises ValueError: of a key's password none can."""
    environment = dict(os.environ)
    address, _, query = url.partition("?")
    options = query.split("&")
    names = [unquote(option.partition("=")[0]) for option in options]
    if "sslpassword" in names:
        raise ValueError(
            "sslpassword would stand on the command line of a program of Postgres, where others read it. "
            "Give a key without a password (sslkey), and leave sslpassword out."
        )
    passwords = [option for option, name in zip(options, names, strict=True) if name == "password"]
    if passwords:
        environment["PGPASSWORD"] = unquote(passwords[-1].partition("=")[2])
        others = "&".join(option for option in options if option not in passwords)
        url = f"{address}?{others}" if others else address
    parts = urlsplit(url)
    if parts.password is not None:
        user, _, host = parts.netloc.rpartition("@")
        url = urlunsplit(parts._replace(netloc=f"{user.partition(':')[0]}@{host}"))
        environment["PGPASSWORD"] = unquote(parts.password)
    return url, environment
