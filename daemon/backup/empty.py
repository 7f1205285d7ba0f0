"""Makes room in the database of memoryd's own server: one that a daemon has migrated, and nothing was written to."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

import asyncpg

from daemon.backup.archive import BackupError
from daemon.db.pool import connect, quoted

_STATE = """
select to_regnamespace('memoryd') is not null as has_schema, current_database() as name,
       (select count(*) from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend') as others
"""
_TABLES = """
select format('%I.%I', n.nspname, c.relname)
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'public' and c.relkind = 'r'
  and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'e')
"""


async def empty_database(url: str) -> None:
    """Makes the database again if it has memoryd's schema, and no row in schema public: else raises BackupError."""
    connection = await connect(url, application="memoryd restore")
    try:
        (state,) = await connection.fetch(_STATE)
        if not state["has_schema"]:
            return
        if state["others"]:
            raise BackupError("Somebody is connected to the database. Stop the daemon, then try again.")
        for (table,) in await connection.fetch(_TABLES):
            # A name from the catalog, quoted there.
            if await connection.fetchval(f"select exists (select from {table})"):  # noqa: S608
                raise BackupError(
                    f"The database has rows ({table}), and a backup is restored into an empty one only. "
                    "Choose another data folder: MEMORYD_DATA_DIR=restored memoryd restore ..."
                )
    finally:
        await connection.close()
    parts = urlsplit(url)
    connection = await connect(urlunsplit(parts._replace(path="/postgres")), application="memoryd restore")
    try:
        await connection.execute(f"drop database {quoted(state['name'])}")
        # From template0: template1 cannot be copied while a session is in it.
        await connection.execute(f"create database {quoted(state['name'])} template template0")
    except asyncpg.ObjectInUseError:
        raise BackupError("Somebody is connected to the database. Stop the daemon, then try again.") from None
    finally:
        await connection.close()
