"""What a database has of its own from its first migration on, and a copy of it must not share: made again for it.

Promise: one transaction; a copy that has none of this yet is in no list, so nobody works with it.
"""

from __future__ import annotations

import asyncpg

from daemon.db.functions import read_applied
from daemon.db.migrator import read_ledger
from daemon.db.plan import schema_trouble
from daemon.db.pool import quoted
from daemon.tenants.server import reach
from daemon.tenants.urls import TenantError

# The key by which the server's log proves its lines, the id that checkpoints of the trail name, and the id of the replica's
# folder. tests/acceptance/test_cli_tenants.py looks for more, in two databases that were each migrated by itself.
RENEW = """
update memoryd.settings
set value = (select to_jsonb(string_agg(replace(gen_random_uuid()::text, '-', ''), '')) from generate_series(1, 3))
where key = 'log_key';
update memoryd.trail set id = gen_random_uuid();
update memoryd.replica set id = gen_random_uuid();
"""
OF_MIGRATION = (
    "function_files",
    "locks",
    "made_objects",
    "migrations",
    "replica",
    "settings",
    "tokens",
    "trail",
)
"""Tables of schema memoryd that have rows in a database which nothing was ever written to."""
_TABLES = """
select format('%I.%I', n.nspname, c.relname)
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
  and not (n.nspname = 'memoryd' and c.relname = any($1::text[]))
  and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'e')
order by 1
"""


class NotNewError(TenantError):
    """A database is no copy of the template, or was written to; the message says in which way."""


async def make_its_own(url: str) -> None:
    """Gives a copy of the template what only it has. Raises NotNewError, TenantError."""
    connection = await reach(url)
    try:
        trouble = schema_trouble(await read_ledger(connection), await read_applied(connection))
        if trouble is not None:
            raise NotNewError(f"the database is there already, and is no new one of memoryd: {trouble}")
        async with connection.transaction():
            table = await table_with_rows(connection, but=OF_MIGRATION)
            if table is not None:
                raise NotNewError(f"the database is there already, and has rows ({table})")
            await connection.execute(RENEW)
    finally:
        await connection.close()


async def table_with_rows(connection: asyncpg.Connection, *, but: tuple[str, ...] = ()) -> str | None:
    """A table that has rows, of memoryd or not, but none of these of schema memoryd; None: there is none."""
    tables = [row[0] for row in await connection.fetch(_TABLES, list(but))]
    if not tables:
        return None
    # Names from the catalog, quoted there.
    asked = " union all ".join(f"(select {_literal(t)} from {t} limit 1)" for t in tables)  # noqa: S608
    found: str | None = await connection.fetchval(f"select * from ({asked}) t limit 1")  # noqa: S608
    return found


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


async def close_to_others(server: asyncpg.Connection, database: str) -> None:
    """Lets only its owner connect, and whom the owner lets: roles are of the whole server, and so of all its tenants."""
    await server.execute(f"revoke connect on database {quoted(database)} from public")
