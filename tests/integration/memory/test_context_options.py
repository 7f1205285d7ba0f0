"""A context that SQL asks for may name the conversation that is going on; insights that were used are counted."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from uuid import UUID

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.access.isolation import index_world
from tests.support.access.refusals import refused
from tests.support.content.context_block import entries
from tests.support.content.index import index_all, index_rows
from tests.support.content.knowledge import know
from tests.support.processes.daemons import Daemons
from tests.support.rows import ask, column, conclude, insert, one_row, remember
from tests.support.waiting import until

LONG_AGO = datetime(2025, 1, 1, tzinfo=UTC)
NOW, EARLIER = UUID(int=7), UUID(int=8)
ASKED = "How do we restart the staging server?"
BUILD = "select build_context('alice', $2, options => $1)"
EXPLAIN = (
    "select string_agg(detail, ' ') from explain_context('alice', $2, options => $1) where step = 'found'"
)


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
        ('{"words": 99}', "words is 99"),
        ('{"words": "many"}', 'words is "many"'),
    ],
)
async def test_options_that_make_no_sense_are_refused(
    scratch: asyncpg.Connection, options: str, said: str
) -> None:
    for asked in (BUILD, EXPLAIN):
        code, message, hint = await refused(scratch, asked, options, ASKED)
        assert (code, hint != "") == ("23514", True)
        assert said in message


CROWD = """
insert into agent_memory (agent_id, kind, content, metadata)
select 'alice', 'outcome', 'How we restart the staging server: try ' || n, $1::jsonb from generate_series(1, $2) n
returning id
"""
UNMARKED = """
insert into conversation_messages (session_id, agent_id, role, content)
select gen_random_uuid(), 'alice', 'user', 'How do we restart the staging server? Try ' || n from generate_series(1, $1) n
"""


@pytest.mark.parametrize("crowd", ["of another project", "without a mark", "excluded"])
async def test_a_memory_of_the_project_is_found_behind_hundreds_that_fit_better(
    scratch: asyncpg.Connection, crowd: str
) -> None:
    await remember(scratch, "The staging server needs a ticket", metadata='{"project": "here"}')
    await remember(scratch, "Cats sleep", metadata='{"project": "here"}')
    options: dict[str, object] = {"project": "here", "project_only": True}
    if crowd == "excluded":
        options["exclude"] = list(map(str, await column(scratch, CROWD, '{"project": "here"}', 100)))
    elif crowd == "without a mark":
        await scratch.execute(UNMARKED, 400)
    else:
        await scratch.execute(CROWD, '{"project": "there"}', 400)
    await index_all(scratch)
    await scratch.execute("select memoryd.fold_lexeme_changes()")
    block = await scratch.fetchval(BUILD, json.dumps(options), ASKED)
    assert "needs a ticket" in block
    assert "ry " not in block


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


async def test_a_context_has_as_many_words_as_are_wanted(scratch: asyncpg.Connection) -> None:
    for n in range(40):
        await remember(
            scratch, f"The staging server restarts by script number {n}, as the manual of it says."
        )
    await index_world(scratch)
    sizes = []
    for words in (100, 200, 400, None):
        block = await scratch.fetchval(BUILD, json.dumps({"words": words}), ASKED)
        assert block
        assert len(block) <= 6 * (words or 500)
        sizes.append(len(block))
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[1]
    # What the daemon is set to holds where the option is not given.
    await scratch.execute("insert into memoryd.settings values ('context_words', '100')")
    assert len(await scratch.fetchval(BUILD, "{}", ASKED)) == sizes[0]
    async with acting_as(scratch, ANN):
        for n in range(40):
            await remember(scratch, f"My staging server {n} restarts by hand.", user_id=ANN)
        assert 0 < len(await scratch.fetchval(BUILD, "{}", ASKED)) <= 600


async def test_what_is_said_to_be_shown_is_what_is_shown(scratch: asyncpg.Connection) -> None:
    """Also where what does not fit would say enough, at each length, and where more than thirty lines stand."""
    for text in (
        "Restart the staging server by systemctl",
        "A server hums",
        "Servers are grey",
        "I sold a server",
    ):
        await remember(scratch, text, kind="fact")
    for n in range(14):
        await remember(scratch, f"Staging server restarted, {n * 'and again ' or 'once'}", kind="outcome")
        await know(
            scratch, f"Staging {n}", f"Restart the staging server {n} {n * 'slowly '}", created_at=LONG_AGO
        )
    await know(scratch, "Staging", "Its owner is away.", category="client", created_at=LONG_AGO)
    for user in (ANN, None):
        await turns(scratch, user)
    await index_all(scratch)
    told = set()
    for words in (*range(100, 400, 20), 2000):
        for user in (None, ANN):
            arguments = ("alice", ASKED, user, json.dumps({"words": words}))
            block = str(await scratch.fetchval("select build_context($1, $2, $3, $4)", *arguments))
            rows = await scratch.fetch(
                "select * from explain_context($1, $2, $3, $4) where step = 'found'", *arguments
            )
            assert sorted(entries(block)) == sorted(row["detail"] for row in rows if row["shown"])
            told |= {row["detail"].partition(":")[0] for row in rows if not row["shown"]}
    assert {"left out, no room", "left out, others fit much better"} <= told


FOR_USER = "select build_context('alice', $2, user_id => $1)"
EXPLAINED_FOR_USER = (
    "select string_agg(detail, ' ') from explain_context('alice', $2, user_id => $1) where shown"
)


async def test_a_service_names_the_user_for_whom_a_context_is(scratch: asyncpg.Connection) -> None:
    """It then has what this user may read, and what of the agent's belongs to nobody."""
    for user, text in ((ANN, "Ann restarts"), (BOB, "Bob restarts"), (None, "everybody restarts")):
        await remember(scratch, f"{text} the staging server", user_id=user)
    await index_world(scratch)
    for asked in (FOR_USER, EXPLAINED_FOR_USER):
        for user, there, not_there in ((ANN, "Ann", "Bob"), (BOB, "Bob", "Ann")):
            async with acting_as(scratch, None, role="memoryd_service"):
                block = str(await scratch.fetchval(asked, user, ASKED))
            assert f"{there} restarts" in block
            assert "everybody restarts" in block
            assert f"{not_there} restarts" not in block
    logged = await column(scratch, "select distinct user_id from memory_queries where user_id is not null")
    assert set(logged) == {ANN, BOB}


async def test_a_user_gets_no_context_of_another(scratch: asyncpg.Connection) -> None:
    await remember(scratch, "Ann restarts the staging server", user_id=ANN)
    await index_world(scratch)
    async with acting_as(scratch, BOB):
        for user in (ANN, UUID(int=0), NOW):
            assert await scratch.fetchval(FOR_USER, user, ASKED) == ""
            assert await scratch.fetchval(EXPLAINED_FOR_USER, user, ASKED) is None
    async with acting_as(scratch, ANN):
        assert "Ann restarts" in await scratch.fetchval(FOR_USER, ANN, ASKED)
        assert "Ann restarts" in await scratch.fetchval(FOR_USER, None, ASKED)
    assert await column(scratch, "select distinct user_id from memory_queries") == [ANN]


async def test_a_command_says_options_for_its_context(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    await remember(connection, "Allergic to peanuts", kind="fact", user_id=ANN)
    await ask(connection, "Any dinner ideas?", user_id=ANN, metadata='{"context_options": {"profile": 50}}')
    # Changed to what is no option after it was inserted: its context is made without.
    changed = await ask(connection, "And for Sunday?", user_id=ANN)
    await connection.execute(
        """update agent_commands set metadata = '{"context_options": "all"}' where id = $1""", changed
    )
    for options, fault in (
        ('{"profil": 50}', "Did you mean profile?"),
        ("[]", "of type array"),
        ("5", "of type number"),
        ('"all"', "of type string"),
        ("null", "of type null"),
        ('{"words": -1}', "words is -1"),
    ):
        said = await refused(
            connection,
            "insert into agent_commands (agent_id, message, metadata) values ('alice', 'Any?', $1)",
            f'{{"context_options": {options}}}',
        )
        assert fault in " ".join(said)
    await daemons.start()
    await until(connection, "select bool_and(status = 'ready') from agent_commands")
    contexts = await connection.fetch("select context from agent_commands order by created_at")
    assert "Of the user, newest first:" in contexts[0][0]
    assert "Allergic to peanuts" in contexts[0][0]
    assert contexts[1][0] == ""
