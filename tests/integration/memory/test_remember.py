"""remember() stores a text once: said again by the same agent of the same user, it strengthens what stands."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.access.refusals import refused
from tests.support.database.schemas import connected
from tests.support.rows import column, one_row

TEXT = "The staging server restarts at night."
REMEMBER = "select * from remember($1, 'alice')"
FOR_USER = "select * from remember($1, 'alice', $2)"
COUNT = "select count(*) from agent_memory"


async def test_the_same_text_is_stored_once(scratch: asyncpg.Connection) -> None:
    first = await scratch.fetchrow(REMEMBER, TEXT)
    assert first is not None
    assert (first["what"], first["expires_at"]) == ("stored", None)
    for again in (TEXT, "the staging  server\trestarts at night", f"\n“{TEXT.upper()}” "):
        row = await scratch.fetchrow(REMEMBER, again)
        assert row is not None
        assert (row["id"], row["what"]) == (first["id"], "strengthened")
    stored = await one_row(scratch, "select * from agent_memory")
    assert (stored["content"], json.loads(stored["metadata"])) == (TEXT, {"said_again": 3})
    assert (stored["agent_id"], stored["kind"], stored["user_id"]) == ("alice", "fact", None)


@pytest.mark.parametrize(
    "other",
    [
        "select * from remember('The staging server restarts at night?', 'alice')",
        "select * from remember('The staging server restarts at night, not.', 'alice')",
        f"select * from remember('{TEXT}', 'bob')",
        f"select * from remember('{TEXT}', '_shared')",
        f"select * from remember('{TEXT}', 'alice', '{ANN}')",
        f"select * from remember('{TEXT}', 'alice', kind => 'goal')",
        f"""select * from remember('{TEXT}', 'alice', metadata => '{{"project": "x"}}')""",
    ],
)
async def test_what_differs_is_another_memory(scratch: asyncpg.Connection, other: str) -> None:
    await scratch.fetchrow(REMEMBER, TEXT)
    row = await scratch.fetchrow(other)
    assert row is not None
    assert row["what"] == "stored"
    assert await scratch.fetchval(COUNT) == 2


async def test_numbers_that_differ_by_a_sign_are_not_the_same(scratch: asyncpg.Connection) -> None:
    for text in (
        "It is -5 degrees.",
        "It is 5 degrees.",
        "It is 55 degrees.",
        "温度是五度。",
        "温度是四度。",
    ):
        await scratch.fetchrow(REMEMBER, text)
    assert await scratch.fetchval(COUNT) == 5


async def test_what_others_remember_is_theirs(scratch: asyncpg.Connection) -> None:
    """A user's text strengthens nothing of another's, and says nothing of it."""
    await scratch.fetchrow(FOR_USER, TEXT, BOB)
    async with acting_as(scratch, ANN):
        row = await scratch.fetchrow("select * from remember($1)", TEXT)
        assert row is not None
        assert row["what"] == "stored"
        again = await scratch.fetchrow("select * from remember($1)", TEXT)
        assert again is not None
        assert (again["id"], again["what"]) == (row["id"], "strengthened")
        assert (await refused(scratch, FOR_USER, TEXT, BOB))[0] == "42501"
    assert await column(
        scratch, "select metadata ->> 'said_again' from agent_memory where user_id = $1", BOB
    ) == [None]


async def test_said_again_it_lives_on(scratch: asyncpg.Connection) -> None:
    limited = "select * from remember($1, 'alice', ttl_hours => $2)"
    ends = [(await one_row(scratch, limited, TEXT, hours))["expires_at"] for hours in (10, 5, 20)]
    assert ends[0] == ends[1]
    assert ends[2] - ends[0] > timedelta(hours=9)
    row = await scratch.fetchrow("select * from remember($1, 'alice', ttl_hours => null)", TEXT)
    assert row is not None
    assert row["expires_at"] is None
    await scratch.fetchrow("select * from remember($1, 'alice', ttl_hours => 1)", TEXT)
    assert (await one_row(scratch, "select expires_at from agent_memory"))["expires_at"] is None


@pytest.mark.parametrize(
    "change",
    [
        "update agent_memory set content = 'The staging server restarts at noon.'",
        "update agent_memory set valid_to = now()",
        "update agent_memory set kind = 'goal'",
        """update agent_memory set metadata = '{"project": "x"}'""",
        "delete from agent_memory",
    ],
)
async def test_a_memory_that_was_changed_is_not_what_was_said(
    scratch: asyncpg.Connection, change: str
) -> None:
    """Else what is said now would be lost."""
    await scratch.fetchrow(REMEMBER, TEXT)
    await scratch.execute(change)
    row = await scratch.fetchrow(REMEMBER, TEXT)
    assert row is not None
    assert row["what"] == "stored"
    assert TEXT in await column(
        scratch,
        "select content from agent_memory where valid_to is null and kind = 'fact' and not metadata ? 'project'",
    )


async def test_the_same_text_in_many_processes_at_once_is_stored_once(database_url: str) -> None:
    async def one() -> str:
        async with connected(database_url) as connection:
            row = await connection.fetchrow(REMEMBER, TEXT)
            assert row is not None
            return str(row["what"])

    said = await asyncio.gather(*(one() for _ in range(8)))
    assert sorted(said) == ["stored", *["strengthened"] * 7]
    async with connected(database_url) as connection:
        assert await connection.fetchval("select metadata ->> 'said_again' from agent_memory") == "7"


async def test_nobody_gives_a_memory_the_key_of_another_text(scratch: asyncpg.Connection) -> None:
    """Else that text would strengthen it, and be lost."""
    forged = "insert into agent_memory (agent_id, user_id, content, said_key) values ('alice', $1, 'x', gen_random_uuid())"
    async with acting_as(scratch, ANN):
        assert (await refused(scratch, forged, ANN))[0] == "23514"
    assert (await refused(scratch, forged, ANN))[0] == "23514"


async def test_what_is_imported_is_not_left_out(scratch: asyncpg.Connection) -> None:
    """Though its user has remembered the same since."""
    await scratch.fetchrow(FOR_USER, TEXT, ANN)
    exported = json.loads(await scratch.fetchval("select export_user_memory($1)", ANN))
    await scratch.execute("select erase_user_memory($1)", ANN)
    await scratch.fetchrow(FOR_USER, TEXT, ANN)
    rows = json.dumps(exported["tables"]["agent_memory"])
    assert (
        await scratch.fetchval("select memoryd.import_rows($1, $1, 'agent_memory', $2::jsonb)", ANN, rows)
        == 1
    )
    assert await column(scratch, "select content from agent_memory where user_id = $1", ANN) == [TEXT, TEXT]


async def test_nothing_is_remembered_of_a_user_who_has_switched_memory_off(
    scratch: asyncpg.Connection,
) -> None:
    await scratch.execute("insert into memory_settings (user_id, memory_enabled) values ($1, false)", ANN)
    assert await scratch.fetch(FOR_USER, TEXT, ANN) == []
    assert await scratch.fetchval(COUNT) == 0


async def test_five_megabytes_are_remembered_once(scratch: asyncpg.Connection) -> None:
    text = "a long line of words, " * 240_000
    assert [
        (await one_row(scratch, "select what from remember($1, 'alice')", t))["what"]
        for t in (text, text + "!", text + " and more")
    ] == ["stored", "strengthened", "stored"]


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("select remember(null, 'alice')", "22004"),
        ("select remember('  ', 'alice')", "23514"),
        ("select remember('x', 'alice', kind => 'poem')", "23514"),
        ("select remember('x', 'alice', ttl_hours => 0)", "23514"),
        ("select remember('x')", "23502"),
    ],
)
async def test_what_cannot_be_remembered_is_refused(
    scratch: asyncpg.Connection, call: str, code: str
) -> None:
    got, _, hint = await refused(scratch, call)
    assert (got, hint != "") == (code, True)
