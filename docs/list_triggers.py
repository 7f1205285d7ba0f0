"""Lists the triggers of each table in docs/triggers.md, in the order in which they fire, from a migrated database.

Promise: the list between the two markers is what the database does; tests/integration/db/test_trigger_document.py fails where
it no longer is. The text around the markers is written by hand.

    python -m docs.list_triggers            migrates a database of its own and writes the list
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import asyncpg

from docs.draw_schema import migrated_database

DOCUMENT = Path(__file__).with_name("triggers.md")
BEGIN = "<!-- Triggers: written by python -m docs.list_triggers -->"
END = "<!-- End of the triggers -->"

# tgtype is a set of bits: 1 for each row, 2 before, 4 insert, 8 delete, 16 update, 64 instead of; without 2 and 64: after.
# Postgres fires triggers of one kind in the order of their names, compared byte by byte. Foreign keys bring triggers of their
# own (tgisinternal), which are left out.
READ_TRIGGERS = """
select case c.relnamespace when 'public'::regnamespace then '' else c.relnamespace::regnamespace::text || '.' end
           || c.relname as relation,
       e.name as event,
       case when t.tgtype & 64 <> 0 then 'instead of each row'
            else case when t.tgtype & 2 <> 0 then 'before ' else 'after ' end
                 || case when t.tgtype & 1 <> 0 then 'each row' else 'the statement' end
       end as kind,
       t.tgname::text as name, p.proname::text as function,
       t.tgqual is not null or (t.tgattr::text <> '' and e.name = 'update') as is_conditional
from pg_trigger t
join pg_class c on c.oid = t.tgrelid
join pg_proc p on p.oid = t.tgfoid
join (values (1, 'insert', 4), (2, 'update', 16), (3, 'delete', 8)) as e(nth, name, bit) on t.tgtype & e.bit <> 0
where not t.tgisinternal and p.pronamespace = 'memoryd'::regnamespace
order by c.relnamespace = 'public'::regnamespace desc, c.relname, e.nth, t.tgname collate "C"
"""

KINDS = (
    "before the statement",
    "before each row",
    "instead of each row",
    "after each row",
    "after the statement",
)


async def list_triggers(connection: asyncpg.Connection) -> str:
    """The list, in Markdown, for the database that the connection leads to."""
    rows = await connection.fetch(READ_TRIGGERS)
    lines = ["| table | on | fires, in this order |", "|---|---|---|"]
    for (relation, event), of_event in groupby(rows, key=lambda r: (r["relation"], r["event"])):
        lines.append(f"| `{relation}` | {event} | {_in_order(list(of_event))} |")
    return "\n".join(lines) + "\n"


def with_list(document: str, triggers: str) -> str:
    """The document with this list between its markers."""
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{triggers}{END}{after}"


def _in_order(rows: Sequence[asyncpg.Record]) -> str:
    kinds = {kind: ", ".join(_trigger(row) for row in rows if row["kind"] == kind) for kind in KINDS}
    return "; ".join(f"{kind}: {names}" for kind, names in kinds.items() if names)


def _trigger(row: asyncpg.Record) -> str:
    function = "" if row["name"] == row["function"] else f" ({row['function']})"
    star = "\\*" if row["is_conditional"] else ""
    return f"`{row['name']}`{star}{function}"


async def _main() -> None:
    async with migrated_database() as connection:
        triggers = await list_triggers(connection)
    DOCUMENT.write_text(with_list(DOCUMENT.read_text("utf-8"), triggers), encoding="utf-8")


if __name__ == "__main__":
    argparse.ArgumentParser(description="Writes the list of triggers in docs/triggers.md.").parse_args()
    asyncio.run(_main())
