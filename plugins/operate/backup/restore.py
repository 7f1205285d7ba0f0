"""Restores a backup into a database without a memoryd schema.

Promise: one transaction, so a restore that fails or is killed leaves nothing but empty roles.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import tempfile
from pathlib import Path

import asyncpg

from daemon.db.administrator import describe_missing, read_missing_rights
from daemon.db.pool import POSTGRES_NAMES, connected, pin, quoted
from plugins.operate.backup.archive import BackupError, Contents
from plugins.operate.backup.catalog import differences, read_contents
from plugins.operate.backup.programs import find_program, run_on

SERVICE = "memoryd_service"
_SERVER = """
select current_setting('server_version_num')::integer as number,
       to_regnamespace('memoryd') is not null as has_schema,
       coalesce((select array_agg(rolname) from pg_roles), '{}') as roles
"""


async def restore_backup(url: str, path: Path, contents: Contents) -> list[str]:
    """Restores a file that read_manifest() has checked. Returns the roles that could log in before, and cannot now.

    Raises BackupError, OSError, asyncpg.PostgresError.
    """
    async with connected(url, application="memoryd restore") as connection:
        (server,) = await connection.fetch(_SERVER)
        if server["has_schema"]:
            raise BackupError(
                "This database has a memoryd schema already. Make an empty one (createdb restored), "
                "and name it in DATABASE_URL; without it, name a new folder: MEMORYD_DATA_DIR=restored memoryd restore ..."
            )
        major, made_on = server["number"] // 10000, contents.postgres // 10000
        if major < made_on:
            raise BackupError(
                f"The backup is of PostgreSQL {made_on}, and this server is older ({major}): "
                f"restore it into {made_on} or newer."
            )
        lacking = await read_missing_rights(connection)
        if lacking.needed:
            raise BackupError(
                describe_missing(lacking, await connection.fetchval("select current_database()"))
            )
        made = await _make_roles(connection, contents, known=set(server["roles"]))
        await connection.execute(f"create schema if not exists {quoted(contents.vector_schema)}")
    await _restore(find_program("pg_restore", major), url, path)
    return made


async def compare(url: str, contents: Contents) -> list[str]:
    """The differences from the original database, a line each."""
    async with (
        connected(url, application="memoryd restore") as connection,
        connection.transaction(isolation="repeatable_read", readonly=True),
    ):
        await pin(connection, POSTGRES_NAMES)
        return differences(contents, await read_contents(connection))


async def _make_roles(connection: asyncpg.Connection, contents: Contents, *, known: set[str]) -> list[str]:
    """Makes the missing roles, without the right to log in: a backup has no passwords."""
    missing = [role for role in contents.roles if role.name not in known]
    try:
        async with connection.transaction():
            for role in missing:
                await connection.execute(f"create role {quoted(role.name)} nologin")
            for role in missing:
                for group in role.member_of:
                    await connection.execute(f"grant {quoted(group)} to {quoted(role.name)}")
            if any(role.name == SERVICE for role in missing):
                # As the first migration does: the policies let services see the rows, and the owner as one of them.
                await connection.execute(f"grant {SERVICE} to current_user with inherit true")
    except asyncpg.InsufficientPrivilegeError:
        names = ", ".join(quoted(role.name) for role in missing)
        raise BackupError(
            f"The backup needs roles that this server lacks, and this role may not make them: {names}. "
            "Have an administrator make them (create role ... nologin), then try again."
        ) from None
    return [role.name for role in missing if role.login]


async def _restore(program: Path, url: str, path: Path) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".list") as wanted:
        wanted.write(await asyncio.to_thread(_list, program, path))
        wanted.flush()
        arguments = ("--single-transaction", "--exit-on-error", "--no-owner", f"--use-list={wanted.name}")
        try:
            await run_on(url, program, *arguments, str(path))
        except BackupError as error:
            raise BackupError(f"Nothing was restored: {error}") from None


def _list(program: Path, path: Path) -> str:
    """The list for pg_restore, without statements on the schema public and pgvector that only their owners here may run."""
    done = subprocess.run(
        [str(program), "--list", str(path)], capture_output=True, text=True, check=False, errors="replace"
    )
    if done.returncode != 0:
        raise BackupError(f"pg_restore cannot read {path}: {done.stderr.strip().partition(chr(10))[0]}")
    lines = done.stdout.splitlines(keepends=True)
    left_out = re.compile(r" SCHEMA (?:- )?public | COMMENT - EXTENSION vector ")
    return "".join(line for line in lines if not left_out.search(line))


async def finish(url: str) -> None:
    """Analyses the tables, which the server would do minutes later: the first searches would read whole tables."""
    async with connected(url, application="memoryd restore") as connection:
        await connection.execute("vacuum (analyze)", timeout=None)
