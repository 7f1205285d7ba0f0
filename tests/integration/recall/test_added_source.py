"""Adding a source as docs/adding.md says: what is declared there is all that recall, erasure, export and rights need."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import get_args
from uuid import UUID

import asyncpg
import pytest_asyncio
from memoryd_client._types import Source

from daemon.db.migration_files import Migration, MigrationFiles, checksum_of, load_files, load_sources
from providers.local_embedder import LocalEmbedder
from tests.support.access.acting import ANN, BOB, CAT, acting_as
from tests.support.access.refusals import refused
from tests.support.access.users import ERASE, decide, found
from tests.support.content.finished import all_indexed
from tests.support.content.index import INDEXED, PASSAGES
from tests.support.content.sources import one_of_each
from tests.support.database.schemas import apply
from tests.support.processes.daemons import Daemons
from tests.support.rows import column, insert

ROOT = Path(__file__).parents[3]
SECTION = (ROOT / "docs/adding.md").read_text("utf-8").partition("## Add a source")[2].partition("\n## ")[0]
TABLE, ROW, VIEW, USERS, ACCESS = (
    re.sub(r"^   ", "", block, flags=re.MULTILINE)
    for block in re.findall(r"^   ```sql\n(.*?)^   ```", SECTION, re.DOTALL | re.MULTILINE)
)
FOUND = "select id from recall($1, sources => '{ticket}', match_count => 100)"
TICKETS = "select count(*) from support_tickets"


def at_the_end_of(function: str, sql: str, line: str) -> str:
    """The file's SQL with a line at the end of this function's body."""
    end = sql.index("\n$$;", sql.index(f"create or replace function memoryd.{function}()"))
    return f"{sql[:end]}{line}{sql[end:]}"


def with_tickets() -> MigrationFiles:
    """This memoryd's files after the steps that the document tells."""
    files, changed = load_files(), []
    for file in files.functions:
        sql = file.sql
        if file.name == "tables/sources":
            sql = at_the_end_of("sources", sql, ",\n" + ROW)
            sql = sql.replace("-- The views of all sources,", f"{VIEW}\n-- The views of all sources,")
        elif file.name == "tables/user_tables":
            sql = at_the_end_of("declared_user_tables", sql, "\n" + USERS)
        elif file.name == "tables/access":
            sql += ACCESS
        changed.append(replace(file, sql=sql, checksum=checksum_of(sql)))
    assert sum(one != other for one, other in zip(files.functions, changed, strict=True)) == 3
    return MigrationFiles(
        schema=(*files.schema, Migration(9000, "support_tickets", TABLE, checksum_of(TABLE))),
        functions=tuple(changed),
    )


@pytest_asyncio.fixture
async def upgraded(database_url: str, connection: asyncpg.Connection, daemons: Daemons) -> asyncpg.Connection:
    """A database with tickets, and a daemon that was running before there were any, and has no line of Python about them."""
    await daemons.start()
    await apply(database_url, files=with_tickets())
    return connection


async def ticket(connection: asyncpg.Connection, user: UUID, body: str) -> UUID:
    return await insert(connection, "support_tickets", {"user_id": user, "title": "Heron", "body": body})


def test_the_steps_name_at_most_ten_files() -> None:
    named = set(re.findall(r"`((?:[\w.-]+/)*[\w.-]+\.(?:sql|py|md|ts))`", SECTION))
    written = {name for name in named if (ROOT / name).is_file() and Path(name).name != Path(__file__).name}
    assert len(written | {"migrations/schema/0031_support_tickets.sql"}) == 9


async def test_programs_read_the_sources_from_the_file_that_declares_them(
    scratch: asyncpg.Connection,
) -> None:
    declared = await scratch.fetch("select name, table_name from memoryd.sources()")
    assert list(load_sources().items()) == [tuple(row) for row in declared]


def test_the_clients_and_the_document_name_every_source() -> None:
    assert list(get_args(Source)) == list(load_sources())
    typed = (ROOT / "clients/typescript/src/types.ts").read_text("utf-8")
    union = typed.partition("export interface Recalled {\n  source: ")[2].partition(";")[0]
    assert re.findall(r'"(\w+)"', union) == list(load_sources())
    assert f"best first; sources: {', '.join(load_sources())};" in (ROOT / "docs/sql.md").read_text("utf-8")


async def test_it_is_found_shown_and_hidden_as_rows_of_every_source(upgraded: asyncpg.Connection) -> None:
    others = await one_of_each(upgraded, "The heron nests.")
    one = await ticket(upgraded, ANN, "It nests on the roof.")
    other = await ticket(upgraded, BOB, "Another one, far away.")
    # Before the daemon has come to them, and after.
    assert set(await column(upgraded, FOUND, "heron on the roof")) == {one, other}
    await all_indexed(upgraded)
    assert await upgraded.fetchval(INDEXED, one)
    assert set(await column(upgraded, FOUND, "heron on the roof")) == {one, other}
    every = await column(upgraded, "select id from recall('heron', match_count => 100)")
    assert set(every) == {one, other, *others.values()}
    shown = await upgraded.fetchrow(
        "select content, metadata->>'title' as title from recall('roof', sources => '{ticket}')"
    )
    assert tuple(shown or ()) == ("It nests on the roof.", "Heron")
    # By meaning alone, and what index_state() says of it.
    [vector] = await LocalEmbedder().embed(["a bird on top of the house"])
    meant = "select id from recall('', query_embedding => $1::text::vector, sources => '{ticket}', match_count => 1)"
    assert await column(upgraded, meant, str(vector.tolist())) == [one]
    assert await column(upgraded, "select state from index_state($1)", [one]) == ["indexed"]
    # It changes, ends and goes.
    await upgraded.execute("update support_tickets set body = 'The otter swims.' where id = $1", one)
    assert one not in await column(upgraded, FOUND, "roof")
    await all_indexed(upgraded)
    assert await column(upgraded, FOUND, "otter") == [one]
    await upgraded.execute("update support_tickets set is_open = false where id = $1", one)
    assert await column(upgraded, FOUND, "otter") == []
    await upgraded.execute("delete from support_tickets where id = $1", other)
    assert await upgraded.fetchval(PASSAGES, other) == 0
    # Its name is known, and its vectors are checked.
    refusal = await refused(upgraded, "select * from recall('heron', sources => '{letter}')")
    assert refusal[0] == "22023"
    names = set(await column(upgraded, "select unnest(memoryd.source_names())"))
    assert names == {*load_sources(), "ticket"}
    triggers = "select tgname::text from pg_trigger where tgrelid = 'support_tickets'::regclass"
    assert "check_embedding" in await column(upgraded, triggers)


async def test_its_rows_are_their_users(upgraded: asyncpg.Connection) -> None:
    one, other = await ticket(upgraded, ANN, "on the roof"), await ticket(upgraded, BOB, "far away")
    await all_indexed(upgraded)
    for user, own in ((ANN, [one]), (BOB, [other]), (CAT, [])):
        async with acting_as(upgraded, user):
            assert await column(upgraded, FOUND, "heron") == own
            assert await column(upgraded, "select id from support_tickets") == own
            assert await column(upgraded, "select id from memoryd.source_ticket") == own
    async with acting_as(upgraded, ANN):
        assert (
            await refused(
                upgraded, f"insert into support_tickets (user_id, title, body) values ('{BOB}', 'a', 'b')"
            )
        )[0] == "42501"
        assert await upgraded.fetchval("select forget($1, 'ticket')", [one, other]) == 1
    # Support's read of it is on record, and so is who wrote it.
    async with acting_as(upgraded, None, role="memoryd_admin"):
        assert await column(upgraded, "select id from support_tickets") == [other]
    noted = "select step_name from agent_execution_logs where user_id = $1 order by created_at"
    assert await column(upgraded, noted, BOB) == [
        "insert support_tickets", "recall", "select support_tickets",
    ]  # fmt: skip
    assert await column(upgraded, noted, ANN) == [
        "insert support_tickets", "recall", "delete support_tickets",
    ]  # fmt: skip
    # Nothing is kept while memory is off.
    await decide(upgraded, ANN, memory_enabled=False)
    dropped = "insert into support_tickets (user_id, title, body) values ($1, 'a', 'b')"
    assert await upgraded.execute(dropped, ANN) == "INSERT 0 0"


async def test_an_export_has_its_rows_an_erasure_takes_them_and_an_import_puts_them_back(
    upgraded: asyncpg.Connection, database_url: str
) -> None:
    one, other = await ticket(upgraded, ANN, "the wombat sleeps"), await ticket(upgraded, BOB, "far away")
    await all_indexed(upgraded)
    exported = json.loads(await upgraded.fetchval("select export_user_memory($1)", ANN))["tables"]
    [row] = exported["support_tickets"]
    assert (row["id"], row["body"]) == (str(one), "the wombat sleeps")
    counts = json.loads(await upgraded.fetchval(ERASE, ANN))
    assert counts["support_tickets"] == 1
    assert await found(upgraded, "wombat") == {}
    assert await upgraded.fetchval(PASSAGES, one) == 0
    assert await column(upgraded, "select id from support_tickets") == [other]
    put_back = "select memoryd.import_rows($1, $1, 'support_tickets', $2)"
    assert await upgraded.fetchval(put_back, ANN, json.dumps([row])) == 1
    await all_indexed(upgraded)
    assert await column(upgraded, FOUND, "wombat") == [one]
    # Views, triggers and policies that are made of a declaration are dropped when it is gone.
    without = replace(with_tickets(), functions=load_files().functions)
    dropped = (await apply(database_url, files=without)).dropped
    assert "view memoryd.source_ticket" in dropped
    assert {one for one in dropped if "rows_" in one} == {
        f"trigger rows_{ending} on public.support_tickets" for ending in ("inserted", "updated", "deleted")
    }
    left = "select tgname from pg_trigger where tgrelid = 'support_tickets'::regclass and not tgisinternal"
    assert await column(upgraded, left) == []
    assert (await refused(upgraded, "select * from recall('heron', sources => '{ticket}')"))[0] == "22023"
