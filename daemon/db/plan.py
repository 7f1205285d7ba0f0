"""Plans an upgrade: compares the numbered files and the files of functions with those that the database has applied.

Promise: no database is called here. If the two do not agree, MigrationError says in one sentence what to do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version as package_version

from daemon.db.administrator import PART, block_of
from daemon.db.errors import MigrationError
from daemon.db.migration_files import AppliedFile, FunctionFile, Migration, MigrationFiles, load_files
from handlers.shared.ports import AnyConnection

READ_FILES = "select name, checksum, objects, applied_by from memoryd.function_files"
READ_LEDGER = "select version, name, checksum from memoryd.migrations order by version"
_LENT_TO = """
select o.rolname
from pg_catalog.pg_namespace n
join pg_catalog.pg_roles o on o.oid operator(pg_catalog.=) n.nspowner
join pg_catalog.pg_roles me on me.rolname operator(pg_catalog.=) current_user and me.rolsuper
where n.nspname operator(pg_catalog.=) 'memoryd' and not o.rolsuper
  and not pg_catalog.pg_has_role(o.oid, me.oid, 'member')
"""


async def read_applied(connection: AnyConnection) -> dict[str, AppliedFile]:
    """The files that the database has, by name; none where it has no such table."""
    if await connection.fetchval("select to_regclass('memoryd.function_files')") is None:
        return {}
    rows = await connection.fetch(READ_FILES)
    return {r["name"]: AppliedFile(r["checksum"], tuple(r["objects"]), r["applied_by"]) for r in rows}


@dataclass(frozen=True, slots=True)
class Upgrade:
    """The applied or pending changes of an upgrade: numbered files and changed files of functions, and afterwards its drops."""

    schema: tuple[Migration, ...] = ()
    functions: tuple[FunctionFile, ...] = ()
    gone: tuple[str, ...] = ()
    """Names of files of functions that are gone."""
    tokens: bool = False
    """Whether the local embedder's tokens were loaded (daemon/db/tokens.py)."""
    dropped: tuple[str, ...] = field(default=(), compare=False)
    aside: tuple[str, ...] = field(default=(), compare=False)
    """A sentence for each object of others that a repair moved."""
    left: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    """Statements that need more rights than the role has, each with its purpose."""

    def __bool__(self) -> bool:
        return bool(self.schema or self.functions or self.gone or self.tokens)


def plan(
    files: MigrationFiles, ledger: Sequence[tuple[int, str, str]], applied: Mapping[str, AppliedFile]
) -> Upgrade:
    """The changes that the database lacks. Raises MigrationError if files and database do not agree."""
    todo = pending(files.schema, ledger)
    _check_not_newer(applied)
    changed = tuple(
        f for f in files.functions if f.name not in applied or applied[f.name].checksum != f.checksum
    )
    gone = tuple(sorted(applied.keys() - {file.name for file in files.functions}))
    return Upgrade(schema=tuple(todo), functions=changed, gone=gone)


def pending(files: Sequence[Migration], ledger: Sequence[tuple[int, str, str]]) -> list[Migration]:
    """Numbered files that the database does not have yet. Raises MigrationError where the two do not agree."""
    known = {m.version: m for m in files}
    for version, name, checksum in ledger:
        if version in known and checksum != known[version].checksum:
            raise MigrationError(
                f"The database was made by another checkout of memoryd, whose {version:04d}_{name} differs from this one's: "
                "use that checkout for it, or give this one a new database, to which `memoryd export` there and "
                "`memoryd import` here take each user's memories."
            )
    for version, name, _ in ledger:
        if version not in known:
            raise MigrationError(
                f"The database's schema is newer than this memoryd: it has migration {version:04d}_{name}, "
                f"this code ends at {max(known, default=0):04d}. Upgrade memoryd."
            )
    have = {version for version, _, _ in ledger}
    return [m for m in files if m.version not in have]


def _check_not_newer(applied: Mapping[str, AppliedFile]) -> None:
    """Without it an older daemon would take the functions of a newer one back."""
    mine = package_version("memoryd")
    newest = max((file.applied_by for file in applied.values()), key=_ordered, default=mine)
    if is_newer(newest, than=mine):
        raise MigrationError(
            f"The database's functions are of memoryd {newest}, newer than this one ({mine}). Upgrade memoryd."
        )


def is_newer(version: str, *, than: str) -> bool:
    """Whether a version of memoryd came after another."""
    return _ordered(version) > _ordered(than)


def _ordered(version: str) -> tuple[int, ...]:
    """The numbers of the release: 0.2.0rc1 and 0.2 are as new as 0.2.0."""
    release = re.match(r"\d+(?:\.\d+)*", version)
    numbers = [int(number) for number in release[0].split(".")] if release else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def describe(upgrade: Upgrade, *, does: str) -> list[str]:
    """The upgrade in lines for people; `does` is "applied" or "would apply"."""
    lines = []
    lines += [f"{does} schema/{migration}" for migration in upgrade.schema]
    lines += [f"{does} functions/{file.name}" for file in upgrade.functions]
    lines += [f"{does} the removal of functions/{name}" for name in upgrade.gone]
    lines += [f"{does} the tokens of local/wordllama-256"] * upgrade.tokens
    lines += [f"dropped {one}" for one in upgrade.dropped]
    lines += upgrade.aside
    lines += [
        f"left to a role with more rights ({part}): {statement};"
        for part, statement in upgrade.left
        if part != PART
    ]
    if statements := [statement for part, statement in upgrade.left if part == PART]:
        lines += ["An administrator runs, in this database:", block_of(statements)]
    return lines


def schema_trouble(ledger: Sequence[tuple[int, str, str]], applied: Mapping[str, AppliedFile]) -> str | None:
    """The fault of a schema with these files, and what to do; or None."""
    try:
        lacking = plan(load_files(), ledger, applied)
    except MigrationError as error:
        return str(error)
    if not lacking:
        return None
    names = ", ".join(str(migration) for migration in lacking.schema)
    if not names:
        files = [file.name for file in lacking.functions] or list(lacking.gone)
        names = (
            f"{len(files)} changed files of functions, the first {files[0]}"
            if len(files) > 1
            else f"functions/{files[0]}"
        )
    return f"The database lacks {names}. Run: memoryd migrate"


async def check_schema(connection: AnyConnection) -> None:
    """Fails closed where the schema is missing, older or newer. Raises MigrationError."""
    trouble = schema_trouble(await read_ledger(connection), await read_applied(connection))
    if trouble is not None:
        raise MigrationError(trouble)


async def read_ledger(connection: AnyConnection) -> list[tuple[int, str, str]]:
    """(version, name, checksum) of the numbered files that the database has; none where there is no ledger.

    Raises MigrationError where another role has made the schema: see `refuse_schema_of_others`.
    """
    await refuse_schema_of_others(connection)
    if await connection.fetchval("select to_regclass('memoryd.migrations')") is None:
        return []
    return [(r["version"], r["name"], r["checksum"]) for r in await connection.fetch(READ_LEDGER)]


async def refuse_schema_of_others(connection: AnyConnection) -> None:
    """What stands in the schema runs with the rights of who reads it, and a superuser has more of them than its owner.

    Raises MigrationError where the schema is of a role that has not the superuser's rights.
    """
    if (owner := await connection.fetchval(_LENT_TO)) is not None:
        raise MigrationError(
            f"Schema memoryd belongs to the role {owner}, and this connection is a superuser's: what the role has put there "
            f"would run with the superuser's rights. Connect as {owner}, or drop the schema."
        )
