"""memoryd import: puts an export back. What other systems exported is import_elsewhere.py's.

Promise: all of the file or nothing of it; rows that exist are not changed, nor are rows of other users.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import typer

from daemon.cli.common import ended_by_ctrl_c, id_option, with_database
from daemon.cli.failure import Failure, Misuse, sentences
from daemon.cli.output import as_json, remark, say, table
from plugins.move_in.cli.export import FORMAT, TABLES, VERSION
from plugins.move_in.importers.items import System

if TYPE_CHECKING:
    from daemon.db.pool import Database
    from daemon.settings import Settings
    from handlers.shared.ports import AnyConnection

BATCH_ROWS = 500
SECONDS = 600.0
HOSTS = ("claude-code", "codex")
"""Coding agents whose past sessions can be read."""

# Postgres reads the file, as `json`, which keeps numbers as they are written: Python's floats would not hold all of them, and
# its reader goes less deep.
HEAD = """
select f ->> 'format' as format, coalesce((f -> 'version')::text, 'null') as version, f ->> 'user_id' as user_id,
       case when json_typeof(f -> 'tables') = 'object'
            then not exists (select from json_each(f -> 'tables') t where json_typeof(t.value) <> 'array')
            else false end as has_tables
from (select $1::json as f) file
"""
ROWS = """
select t.key as name, r.value::text as row
from json_each($1::json -> 'tables') t
left join lateral json_array_elements(t.value) r on true
"""
IMPORT = "select memoryd.import_rows($1, $2, $3, $4)"
# Whose rows they are is said by the rows.
AUDIT = """
insert into public.agent_execution_logs (step_name, action_type, output_data) values ('import', 'memory_write', $1)
"""


def import_(
    file: str | None = typer.Argument(
        None,
        help="A file that `memoryd export` wrote; - is stdin. With --from: a file or a folder; of coding agents the folder of "
        "their sessions unless given.",
    ),
    system: str | None = typer.Option(
        None,
        "--from",
        metavar="SYSTEM",
        help=f"Whose export it is: {', '.join(System)}; or the past sessions of {' or '.join(HOSTS)}.",
    ),
    user: UUID | None = id_option(says="The user whose memory it becomes; else the user of the export."),
    agent: str | None = typer.Option(None, help="With --from: the agent whose memories they become."),
    since: str | None = typer.Option(
        None,
        metavar="TIME",
        help="With --from claude-code or codex: only what was remembered since this day.",
    ),
    dry_run: bool = typer.Option(False, "--dry-run", help="With --from: read and check all, write nothing."),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Put back what `memoryd export` wrote, under the same ids, or take in what another system exported: all of it, or nothing.

    Rows that exist already are skipped. Commands keep their status, and outcomes are not remembered twice. A file decides
    what agents are told and what its user may read: import only what you trust.
    """
    with sentences():
        if system is not None:
            _from_elsewhere(system, file, user=user, agent=agent, since=since, dry_run=dry_run, json=json)
            return
        if agent is not None or dry_run or since is not None:
            raise Misuse("--agent, --since and --dry-run go with --from.")
        if file is None:
            raise Misuse("Name the file.")
        text = _read(file)

    async def put_back(_settings: Settings, database: Database) -> tuple[UUID, dict[str, dict[str, int]]]:
        async with database.transaction() as connection:
            whose, tables = await _split(connection, text, file)
            return user or whose, await _import(connection, tables, whose, user or whose, name=file)

    whose, counts = with_database(put_back)
    if json:
        as_json({"user_id": whose, "tables": counts})
        return
    table(
        ["imported>", "skipped>", "table"],
        [[f"{c['imported']:,}", f"{c['skipped']:,}", name] for name, c in counts.items() if any(c.values())],
    )
    if not any(any(c.values()) for c in counts.values()):
        say("The file holds no rows.")
    granted = [t for t in ("user_memory_access", "chat_group_members") if counts.get(t, {}).get("imported")]
    if granted:
        remark(f"What this user may read of others' is as the file says: see {' and '.join(granted)}.")


def _from_elsewhere(
    system: str,
    source: str | None,
    *,
    user: UUID | None,
    agent: str | None,
    since: str | None,
    dry_run: bool,
    json: bool,
) -> None:
    if agent is not None and not (agent.strip() and len(agent) <= 200 and agent.isprintable()):
        raise Misuse("--agent has 1 to 200 characters, without invisible ones.")
    if system in HOSTS:
        if user is not None:
            raise Misuse(f"Sessions of {system} become memories of an agent: --user does not go with them.")
        from plugins.move_in.cli.import_sessions import import_sessions

        import_sessions(system, source, agent=agent, since=since, dry_run=dry_run, json=json)
        return
    if system not in list(System):
        raise Misuse(f"--from is one of {', '.join([*System, *HOSTS])}.")
    if source is None or since is not None:
        raise Misuse("Name the file." if source is None else f"--since goes with {' and '.join(HOSTS)}.")
    from plugins.move_in.cli.import_elsewhere import import_elsewhere

    import_elsewhere(system, source, user=user, agent=agent, dry_run=dry_run, json=json)


async def _import(
    connection: AnyConnection, tables: Mapping[str, Sequence[str]], whose: UUID, user: UUID, *, name: str
) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    from plugins.move_in.importers.spool import batches

    known = [r["name"] for r in await connection.fetch(TABLES)]
    for each in [*(t for t in known if t in tables), *(t for t in tables if t not in known)]:
        imported = 0
        # Of a table without rows an empty array, so that its name is checked all the same.
        for batch in batches(tables[each], rows=BATCH_ROWS) if tables[each] else ["[]"]:
            with _refusals(f"{name}, table {each}"):
                imported += await connection.fetchval(IMPORT, whose, user, each, batch, timeout=SECONDS)
        counts[each] = {"imported": imported, "skipped": len(tables[each]) - imported}
    await connection.execute(AUDIT, json.dumps({n: c["imported"] for n, c in counts.items()}))
    return counts


def _read(name: str) -> str:
    """Raises Failure where the file cannot be read."""
    try:
        with ended_by_ctrl_c():
            raw = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise Failure(f"{name} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise Failure(f"{name} is not UTF-8, so it is no export of memoryd's.") from None


async def _split(connection: AnyConnection, text: str, name: str) -> tuple[UUID, dict[str, list[str]]]:
    """Whose memory it is, and of each table its rows as JSON texts. Raises Failure for no export of a version that we know."""
    import asyncpg

    with _refusals(name):
        try:
            head = await connection.fetchrow(HEAD, text, timeout=SECONDS)
        except (asyncpg.InvalidTextRepresentationError, asyncpg.CharacterNotInRepertoireError) as error:
            if "surrogate" in (error.detail or ""):
                raise
            raise Failure(
                f"{name} is no whole JSON document: was it cut off? Nothing was imported."
            ) from None
        assert head is not None
        if head["format"] != FORMAT:
            raise Failure(f'{name} is no export of memoryd\'s: its "format" is not "{FORMAT}".')
        if head["version"] != str(VERSION):
            raise Failure(
                f"{name} is an export of version {head['version']}; this memoryd reads version {VERSION}."
            )
        try:
            user = UUID(head["user_id"] or "")
        except ValueError:
            raise Failure(f'{name} does not say whose memory it is: its "user_id" is no uuid.') from None
        if not head["has_tables"]:
            raise Failure(f'{name} has no "tables" with rows: was it cut off?')
        tables: dict[str, list[str]] = {}
        for table_name, row in await connection.fetch(ROWS, text, timeout=SECONDS):
            tables.setdefault(table_name, []).extend([] if row is None else [row])
        return user, tables


@contextmanager
def _refusals(where: str) -> Iterator[None]:
    """A sentence for a refusal of Postgres that quotes no row."""
    import asyncpg

    try:
        yield
    except asyncpg.StatementTooComplexError:
        raise Failure(
            f"{where}: a row nests deeper than this Postgres reads. Raise its max_stack_depth and import again; nothing was "
            "imported."
        ) from None
    except (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError) as error:
        said = error.args[0]
        if isinstance(error, asyncpg.UntranslatableCharacterError):
            said = "it holds a NUL character (\\u0000), which Postgres cannot store"
        elif "surrogate" in (error.detail or ""):
            said = "it holds half a character (a lone surrogate), which Postgres cannot store"
        raise Failure(f"{where}: {said}. Nothing was imported.") from None
