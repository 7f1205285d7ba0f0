"""Draws docs/schema.md from a migrated database: the tables, their columns and keys, and how their comments begin.

Promise: nothing in it is written by hand, so it says what the migrations make; tests/integration/db/test_schema_document.py
fails where it no longer does.

    python -m docs.draw_schema            migrates a database of its own and writes docs/schema.md
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg

from daemon.db.migrator import migrate
from plugins.embedded.server import EmbeddedPostgres

DOCUMENT = Path(__file__).with_name("schema.md")
DIMENSIONS = 256
EMBEDDER = "local/wordllama-256"

READ_RELATIONS = """
select c.relname::text as name, c.relkind = 'v' as is_view, obj_description(c.oid, 'pg_class') as comment
from pg_class c
where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p', 'v')
  and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'e')
order by c.relname
"""

READ_COLUMNS = """
select c.relname::text as relation, a.attname::text as name,
       case when t.typelem <> 0 and t.typlen = -1 then (select e.typname || '[]' from pg_type e where e.oid = t.typelem)
            else t.typname end as type,
       exists (select from pg_constraint k
               where k.conrelid = c.oid and k.contype = 'p' and a.attnum = any(k.conkey)) as is_key,
       exists (select from pg_constraint k
               where k.conrelid = c.oid and k.contype = 'f' and a.attnum = any(k.conkey)) as is_reference,
       exists (select from pg_constraint k
               where k.conrelid = c.oid and k.contype = 'u' and k.conkey = array[a.attnum]) as is_unique,
       a.attnotnull as is_needed, col_description(c.oid, a.attnum) as comment
from pg_class c
join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
join pg_type t on t.oid = a.atttypid
where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
  and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'e')
order by c.relname, a.attnum
"""

READ_REFERENCES = """
select k.conrelid::regclass::text as relation, k.confrelid::regclass::text as target,
       string_agg(a.attname, ', ' order by u.nth) as columns, bool_and(a.attnotnull) as is_needed,
       exists (select from pg_constraint o
               where o.conrelid = k.conrelid and o.contype in ('p', 'u') and o.conkey <@ k.conkey) as is_single
from pg_constraint k
cross join lateral unnest(k.conkey) with ordinality as u(number, nth)
join pg_attribute a on a.attrelid = k.conrelid and a.attnum = u.number
where k.contype = 'f' and k.connamespace = 'public'::regnamespace
group by k.oid, k.conrelid, k.confrelid, k.conkey
order by 2, 1, 3
"""


async def draw(connection: asyncpg.Connection) -> str:
    """The document, in Markdown, for the schema that the connection leads to."""
    await connection.execute("set search_path = public, pg_catalog")
    relations = await connection.fetch(READ_RELATIONS)
    columns = await connection.fetch(READ_COLUMNS)
    lines = [
        "# The schema",
        "",
        "Drawn from the database that the migrations make, by `python -m docs.draw_schema`. Tables and functions are explained",
        "in [sql.md](sql.md); `\\d+ agent_memory` in psql shows the whole comment of each column.",
        "",
        "```mermaid",
        "erDiagram",
        *_diagram(relations, columns, await connection.fetch(READ_REFERENCES)),
        "```",
        "",
        *_sections(relations, columns),
    ]
    return "\n".join(lines) + "\n"


def _diagram(
    relations: Iterable[asyncpg.Record],
    columns: Iterable[asyncpg.Record],
    references: Iterable[asyncpg.Record],
) -> Iterable[str]:
    of: dict[str, list[asyncpg.Record]] = {}
    for column in columns:
        of.setdefault(column["relation"], []).append(column)
    for relation in relations:
        if not relation["is_view"]:
            yield f"    {relation['name']} {{"
            for column in of.get(relation["name"], []):
                keys = [
                    key
                    for key, holds in (
                        ("PK", column["is_key"]), ("FK", column["is_reference"]), ("UK", column["is_unique"])
                    )
                    if holds
                ]  # fmt: skip
                yield " ".join(filter(None, (f"        {column['type']} {column['name']}", ", ".join(keys))))
            yield "    }"
    for one in references:
        left = "||" if one["is_needed"] else "|o"
        right = "o|" if one["is_single"] else "o{"
        yield f'    {one["target"]} {left}--{right} {one["relation"]} : "{one["columns"]}"'


def _sections(relations: Iterable[asyncpg.Record], columns: Iterable[asyncpg.Record]) -> Iterable[str]:
    # What several tables have in the same sense is told once.
    meanings: dict[tuple[str, str], list[str]] = {}
    for column in columns:
        if column["comment"]:
            meaning = _first_sentence(column["comment"])
            meanings.setdefault((column["name"], meaning), []).append(f"`{column['relation']}`")
    yield from ("## Tables and views", "", "| name | |", "|---|---|")
    for relation in relations:
        kind = "View: " if relation["is_view"] else ""
        yield f"| `{relation['name']}` | {kind}{_cell(relation['comment'])} |"
    yield from ("", "## Columns whose meaning is not their name", "", "| column | of | |", "|---|---|---|")
    for (name, meaning), tables in meanings.items():
        yield f"| `{name}` | {', '.join(tables)} | {_cell(meaning)} |"
    yield ""


def _first_sentence(comment: str) -> str:
    """How a comment begins. Of one that begins with a case ("Null: ..."), the whole: the other case follows."""
    if comment.startswith("Null: "):
        return comment
    return comment.partition(". ")[0].removesuffix(".") + "."


def _cell(text: str | None) -> str:
    """Text for a table's cell."""
    return (text or "").replace("|", "\\|").replace("\n", " ")


@asynccontextmanager
async def migrated_database() -> AsyncIterator[asyncpg.Connection]:
    """A connection to a migrated database, which is made and removed here."""
    with tempfile.TemporaryDirectory(prefix="memoryd-") as folder:
        postgres = EmbeddedPostgres(Path(folder) / "data", options={"fsync": "off", "shared_buffers": "32MB"})
        postgres.start()
        try:
            connection = await asyncpg.connect(postgres.socket_url)
            try:
                await migrate(connection, dimensions=DIMENSIONS, embedder=EMBEDDER)
                yield connection
            finally:
                await connection.close()
        finally:
            postgres.stop()


async def _main() -> None:
    async with migrated_database() as connection:
        DOCUMENT.write_text(await draw(connection), encoding="utf-8")


if __name__ == "__main__":
    argparse.ArgumentParser(description="Writes docs/schema.md.").parse_args()
    asyncio.run(_main())
