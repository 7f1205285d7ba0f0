"""A context that SQL asks for may name the conversation that is going on; insights that were used are counted."""

from __future__ import annotations

import json
from uuid import UUID

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.access.isolation import index_world
from tests.support.access.refusals import refused
from tests.support.content.index import index_rows
from tests.support.rows import column, conclude, insert, one_row

NOW, EARLIER = UUID(int=7), UUID(int=8)
ASKED = "How do we restart the staging server?"
BUILD = "select build_context('alice', $2, $1)"
EXPLAIN = "select string_agg(detail, ' ') from explain_context('alice', $2, $1) where step = 'found'"


async def turns(connection: asyncpg.Connection, user: UUID | None) -> None:
    """Two conversations about one subject."""
    for session, text in (
        (NOW, "The staging server restarts by systemctl"),
        (EARLIER, "The staging server needs a ticket"),
    ):
        values = {
            "session_id": session,
            "role": "user",
            "user_id": user,
            "agent_id": "alice",
            "content": text,
        }
        await insert(connection, "conversation_messages", values)
    await index_world(connection)


@pytest.mark.parametrize("user", [None, ANN])
async def test_the_conversation_that_goes_on_is_left_out(
    scratch: asyncpg.Connection, user: UUID | None
) -> None:
    await turns(scratch, user)
    for options, shown, left_out in (
        (None, "systemctl", "nothing"),
        ("{}", "systemctl", "nothing"),
        (json.dumps({"exclude_session": str(NOW)}), "ticket", "systemctl"),
        (
            json.dumps({"exclude_session": str(NOW), "exclude_last": 1, "project": None}),
            "ticket",
            "systemctl",
        ),
    ):
        for asked in (BUILD, EXPLAIN):
            if user is None:
                block = await scratch.fetchval(asked, options, ASKED)
            else:
                async with acting_as(scratch, user):
                    block = await scratch.fetchval(asked, options, ASKED)
            assert shown in block
            assert left_out not in block
    async with acting_as(scratch, BOB):
        assert await scratch.fetchval(BUILD, "{}", ASKED) == ""
        assert await scratch.fetchval(EXPLAIN, "{}", ASKED) is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("[]", "options are of type array"),
        ('{"exclude_sesion": "x"}', "unknown option exclude_sesion"),
        ('{"around": 2}', "unknown option around"),
        ('{"exclude_session": "x"}', 'exclude_session is "x"'),
        ('{"exclude_last": 2}', "exclude_last is given without exclude_session"),
    ],
)
async def test_options_that_make_no_sense_are_refused(
    scratch: asyncpg.Connection, options: str, said: str
) -> None:
    for asked in (BUILD, EXPLAIN):
        code, message, hint = await refused(scratch, asked, options, ASKED)
        assert (code, hint != "") == ("23514", True)
        assert said in message


async def test_a_context_needs_its_arguments(scratch: asyncpg.Connection) -> None:
    with pytest.raises(asyncpg.NullValueNotAllowedError, match="build_context needs an agent"):
        async with scratch.transaction():
            await scratch.execute("select build_context(null, 'x')")
    with pytest.raises(asyncpg.NullValueNotAllowedError, match="explain_context needs an agent"):
        async with scratch.transaction():
            await scratch.execute("select explain_context('alice', null)")


async def test_insights_that_were_used_are_counted_once(scratch: asyncpg.Connection) -> None:
    await conclude(scratch, "restart staging server at night", 0.8)
    await conclude(scratch, "cats sleep", 0.8)
    await conclude(scratch, "restart staging server slowly", 0.8, user_id=ANN)
    await index_rows(scratch, "insight")
    for _ in range(2):
        await scratch.execute("select build_context('alice', $1)", ASKED)
    await scratch.fetch("select * from recall('restart staging server', 'alice', sources => '{insight}')")
    # A user cannot raise what the agents' insights, or another's, say of themselves.
    everything = await scratch.fetchval("select array_agg(id) from dream_insights")
    log = "insert into memory_queries (agent_id, user_id, insight_ids) values ('alice', $1, $2)"
    async with acting_as(scratch, BOB):
        await scratch.execute(log, BOB, everything)
    # Nor name them: that would be in the way of the other's erasure.
    kept = await column(scratch, "delete from memory_queries where user_id = $1 returning insight_ids", BOB)
    assert kept == [[]]
    await scratch.execute(log, BOB, everything)
    counted = [await scratch.fetchval("select memoryd.count_retrieved(3)") for _ in range(3)]
    assert counted == [3, 1, 0]
    rows = await scratch.fetch(
        "select insight, accessed_count, last_accessed_at is not null as at from dream_insights order by insight"
    )
    assert [tuple(row) for row in rows] == [
        ("cats sleep", 0, False),
        ("restart staging server at night", 3, True),
        ("restart staging server slowly", 0, False),
    ]
    assert (await one_row(scratch, "select count(*) as n from memory_queries where not knowledge_counted"))[
        "n"
    ] == 0
