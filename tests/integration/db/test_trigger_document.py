"""docs/triggers.md lists the triggers that the database has, in the order in which they fire."""

from __future__ import annotations

import re

import asyncpg

from docs.list_triggers import BEGIN, DOCUMENT, END, list_triggers, with_list
from tests.support.rows import column


async def test_the_list_is_what_the_database_does(connection: asyncpg.Connection) -> None:
    document = DOCUMENT.read_text("utf-8")
    assert document.count(BEGIN) == document.count(END) == 1
    listed = with_list(document, await list_triggers(connection))
    assert document == listed, "docs/triggers.md is out of date. Run: python -m docs.list_triggers"


async def test_every_trigger_of_the_schema_is_listed(connection: asyncpg.Connection) -> None:
    listed = await list_triggers(connection)
    names = await column(connection, "select distinct tgname::text from pg_trigger where not tgisinternal")
    assert len(names) > 20
    assert [name for name in names if f"`{name}`" not in listed] == []


def test_the_orders_that_matter_are_those_of_the_list() -> None:
    document = DOCUMENT.read_text("utf-8")
    promised = re.findall(r"^- `(\w+)`: `(\w+)` comes before `(\w+)`", document, re.MULTILINE)
    assert len(promised) == 3
    for table, first, then in promised:
        rows = [line for line in document.splitlines() if line.startswith(f"| `{table}` |")]
        [row] = [line for line in rows if f"`{first}`" in line and f"`{then}`" in line]
        assert row.index(f"`{first}`") < row.index(f"`{then}`"), table


async def test_the_list_gives_the_order_in_which_triggers_fire(connection: asyncpg.Connection) -> None:
    await connection.execute("create table public.fired (place serial, name text)")
    await connection.execute("create table public.watched (id integer)")
    await connection.execute(
        "create function memoryd.note_firing() returns trigger language plpgsql as $$ begin "
        "insert into public.fired (name) values (tg_name); return new; end $$"
    )
    # Made in another order than they fire in; upper case comes before lower case, and an underscore between them.
    for name, kind in [
        ("b", "after insert on public.watched for each statement"),
        ("a", "after insert on public.watched for each statement"),
        ("c_2", "before insert on public.watched for each row"),
        ("cA", "before insert on public.watched for each row"),
        ("c2", "before insert on public.watched for each row"),
        ("B", "after insert on public.watched for each row"),
        ("never", "before insert on public.watched for each row when (new.id > 1)"),
        ("z", "before insert on public.watched for each statement"),
    ]:
        await connection.execute(f'create trigger "{name}" {kind} execute function memoryd.note_firing()')
    await connection.execute("insert into public.watched values (1)")
    fired = await column(connection, "select name from public.fired order by place")
    assert fired == ["z", "c2", "cA", "c_2", "B", "a", "b"]

    [line] = [
        r for r in (await list_triggers(connection)).splitlines() if r.startswith("| `watched` | insert")
    ]
    assert line == (
        "| `watched` | insert | before the statement: `z` (note_firing); "
        "before each row: `c2` (note_firing), `cA` (note_firing), `c_2` (note_firing), `never`\\* (note_firing); "
        "after each row: `B` (note_firing); after the statement: `a` (note_firing), `b` (note_firing) |"
    )
