"""agent-memory-read and agent-memory-write: what edge functions took and gave, by rpc, for the caller alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.access.refusals import refused
from tests.support.content.index import index_rows
from tests.support.database.schemas import embedded_by
from tests.support.database.supabase import rpc
from tests.support.database.tokens import put_tokens_in
from tests.support.rows import column, one_row, remember

READ, WRITE = "agent-memory-read", "agent-memory-write"
TYPES = "brand_memory, user_preferences, competitive_memory, task_memory, performance_memory"
EMBED = "update agent_memory set embedding = memoryd.embed(content) where embedding is null"
LOGS = """
select user_id, step_name, action_type, input_data ->> 'caller' as caller, input_data ->> 'count' as count,
       output_data ->> 'found' as found
from agent_execution_logs order by action_type desc
"""


@pytest.fixture
async def embeds(scratch: asyncpg.Connection) -> None:
    """The local embedder."""
    await put_tokens_in(scratch)


async def put(connection: asyncpg.Connection, content: str, user: UUID) -> None:
    """A memory that has its embedding."""
    await remember(connection, content, user_id=user)
    await connection.execute(EMBED)


async def refusal(connection: asyncpg.Connection, name: str, body: dict[str, Any]) -> tuple[str, str, str]:
    """SQLSTATE, message and hint."""
    with pytest.raises(asyncpg.PostgresError) as raised:
        async with connection.transaction():
            await rpc(connection, name, body)
    return raised.value.sqlstate, raised.value.args[0], getattr(raised.value, "hint", None) or ""


async def test_what_a_user_writes_they_read(scratch: asyncpg.Connection, embeds: None) -> None:
    """Both are in the audit trail, which they can read."""
    await remember(scratch, "Bob's tone is energetic", user_id=BOB, memory_type="brand_memory")
    metadata = {"brand_name": "TechFlow", "tone": ["friendly"], "source": "user_input"}
    async with acting_as(scratch, ANN):
        stored = (
            await rpc(
                scratch,
                WRITE,
                {"content": "The tone is energetic", "memory_type": "brand_memory", "metadata": metadata},
            )
        )["memory"]
    assert sorted(stored) == [
        "content", "created_at", "expires_at", "id", "memory_type", "metadata", "updated_at", "user_id",
    ]  # fmt: skip
    assert (stored["user_id"], stored["metadata"], stored["expires_at"]) == (str(ANN), metadata, None)
    row = await one_row(scratch, "select agent_id, kind from agent_memory where id = $1", UUID(stored["id"]))
    assert (row["agent_id"], row["kind"]) == ("app", "note")
    await scratch.execute(EMBED)
    async with acting_as(scratch, ANN):
        await rpc(scratch, READ, {"query": "portrait"})
        assert [tuple(row) for row in await scratch.fetch(LOGS)] == [
            (ANN, "insert agent_memory", "memory_write", None, "1", None),
            (ANN, "match_memory", "memory_read", "user", None, "0"),
        ]
        asked = {"query": "the tone is energetic", "memory_type": "brand_memory"}
        [found] = (await rpc(scratch, READ, asked))["results"]
        assert (await rpc(scratch, READ, asked | {"memory_type": "task_memory"}))["results"] == []
        assert (await rpc(scratch, READ, asked | {"match_count": 0}))["results"] == []
        assert len((await rpc(scratch, READ, {"query": "energetic", "match_threshold": -1}))["results"]) == 1
    assert sorted(found) == ["content", "created_at", "id", "metadata", "similarity"]
    assert (found["id"], found["metadata"]) == (stored["id"], metadata)
    assert 0.9 < found["similarity"] <= 1.001


async def test_with_a_remote_embedder_it_finds_by_words(scratch: asyncpg.Connection) -> None:
    """similarity is then the number of the question's words that a memory has, as part of the best one's."""
    await embedded_by(scratch, "remote-model")
    half = await remember(scratch, "a portrait of nine", user_id=ANN, memory_type="user_preferences")
    both = await remember(scratch, "portrait format", user_id=ANN, memory_type="user_preferences")
    await remember(scratch, "portrait format of bob", user_id=BOB, memory_type="user_preferences")
    await remember(scratch, "portrait format", user_id=ANN, memory_type="task_memory")
    gone = await remember(scratch, "portrait format", user_id=ANN, memory_type="user_preferences")
    await scratch.execute("update agent_memory set valid_to = now() where id = $1", gone)
    await index_rows(scratch, "memory")
    async with acting_as(scratch, ANN):
        asked = {"query": "portrait format", "memory_type": "user_preferences"}
        low = (await rpc(scratch, READ, asked | {"match_threshold": 0.4}))["results"]
        high = (await rpc(scratch, READ, asked))["results"]
        assert (
            await scratch.fetchval(
                "select count(*) from agent_execution_logs where step_name = 'match_memory'"
            )
            == 2
        )
    assert [(r["id"], r["similarity"]) for r in low] == [(str(both), 1), (str(half), 0.5)]
    assert [r["id"] for r in high] == [str(both)]


async def test_by_words_the_best_memories_pass_the_threshold_and_the_client_is_told_once(
    scratch: asyncpg.Connection,
) -> None:
    await embedded_by(scratch, "remote-model")
    for text in ("the portrait is square", "its format is A4", "whales sing"):
        await remember(scratch, text, user_id=ANN, memory_type="user_preferences")
    await index_rows(scratch, "memory")
    told: list[str] = []
    scratch.add_log_listener(lambda _, notice: told.append(notice.message))
    async with acting_as(scratch, ANN):
        found = (await rpc(scratch, READ, {"query": "Which format has the portrait?"}))["results"]
        assert len(await scratch.fetch("select * from recall('portrait')")) == 1
        await scratch.fetch("select build_context('alice', 'paint the portrait')")
    assert {r["content"] for r in found} == {"the portrait is square", "its format is A4"}
    assert len([n for n in told if "the database cannot embed it" in n]) == 1


@pytest.mark.parametrize("embedder", ["local", "remote"])
async def test_what_was_written_a_moment_ago_is_read_by_its_words(
    scratch: asyncpg.Connection, embedder: str
) -> None:
    """No daemon runs here, so nothing is indexed. A question is a sentence, and its threshold is left out."""
    if embedder == "local":
        await put_tokens_in(scratch)
    else:
        await embedded_by(scratch, "remote-model")
    texts = {"The tone of TechFlow is dry", "TechFlow has an office in Oslo", "Bob paints portraits"}
    async with acting_as(scratch, BOB):
        await rpc(
            scratch, WRITE, {"content": "The tone of TechFlow is a secret", "memory_type": "brand_memory"}
        )
    async with acting_as(scratch, ANN):
        for text in texts:
            await rpc(scratch, WRITE, {"content": text, "memory_type": "brand_memory"})
        asked = {"query": "What is the tone of TechFlow?", "match_threshold": 0.6}
        found = (await rpc(scratch, READ, asked))["results"]
        assert [r["content"] for r in found] == ["The tone of TechFlow is dry"]
        nothing = {"query": "Who brews kombucha?", "match_threshold": -1}
        assert (await rpc(scratch, READ, nothing))["results"] == []


@pytest.mark.parametrize("claims", ["", '{"role": "authenticated"}', '{"sub": "nobody"}', "not json"])
@pytest.mark.parametrize("role", ["memoryd_user", "memoryd_service"])
async def test_without_a_user_it_is_unauthorized(scratch: asyncpg.Connection, claims: str, role: str) -> None:
    async with acting_as(scratch, None, claims=claims, role=role):
        for name, body in (
            (READ, {"query": "x"}),
            (WRITE, {"content": "x", "memory_type": "task_memory"}),
        ):
            state, message, hint = await refusal(scratch, name, body)
            assert (state, message) == ("PT401", "Unauthorized")
            assert "Sign in" in hint
    assert await scratch.fetchval("select count(*) from agent_memory") == 0


@pytest.mark.parametrize(
    ("body", "state", "message", "hint"),
    [
        ({"query": None}, "22023", "query is null", "Say what"),
        ({"query": " \n"}, "22023", "query is blank", "Say what"),
        (
            {"query": "x", "memory_type": "brand"},
            "22023",
            "unknown memory_type 'brand'",
            f"Types: {TYPES}; or null",
        ),
        ({"query": "x", "match_count": -1}, "22023", "match_count is -1", "from 0 to 1000"),
        ({"query": "x", "match_count": 1001}, "22023", "match_count is 1001", "from 0 to 1000"),
        ({"query": "x", "match_count": None}, "22023", "match_count is null", "leave it out"),
        ({"query": "x", "match_threshold": 2}, "22023", "match_threshold is 2", "from -1 to 1"),
        ({"query": "x", "match_threshold": None}, "22023", "match_threshold is null", "leave it out"),
        ({"query": "a\0b"}, "22P05", "unsupported Unicode", ""),
        ({"query": "x", "match_count": 10**10}, "22003", "out of range", ""),
    ],
)
async def test_a_read_that_cannot_be_answered_says_why(
    scratch: asyncpg.Connection, body: dict[str, Any], state: str, message: str, hint: str
) -> None:
    async with acting_as(scratch, ANN):
        said = await refusal(scratch, READ, body)
    assert said[0] == state
    assert message in said[1]
    assert hint in said[2]


PAST = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()


@pytest.mark.parametrize(
    ("body", "state", "message", "hint"),
    [
        ({"content": None}, "22004", "content is null", "Say what"),
        ({"content": " \n"}, "23514", "content is blank", "Say what"),
        ({"content": "x" * 10_000_001}, "23514", "content has 10000001 characters", "At most"),
        ({"content": "a\0b"}, "22P05", "unsupported Unicode", ""),
        ({"memory_type": None}, "22023", "unknown memory_type null", f"Types: {TYPES}."),
        ({"memory_type": "x" * 9999}, "22023", "unknown memory_type 'xxx", f"Types: {TYPES}."),
        ({"expires_at": PAST}, "22023", "expires_at is", "a time to come"),
        ({"expires_at": "-infinity"}, "22023", "expires_at is", "a time to come"),
        ({"expires_at": "infinity"}, "22023", "expires_at is", "leave it out"),
        ({"expires_at": "soon"}, "22007", "invalid input syntax", ""),
        ({"metadata": [1]}, "22023", "metadata is of type array", "Give an object"),
        ({"metadata": {"x": "y" * 2_000_000}}, "23514", "metadata has", "At most"),
        ({"metadata": {"x": "a\0b"}}, "22P05", "unsupported Unicode", ""),
    ],
)  # fmt: skip
async def test_a_write_that_cannot_be_stored_says_why(
    scratch: asyncpg.Connection, body: dict[str, Any], state: str, message: str, hint: str
) -> None:
    async with acting_as(scratch, ANN):
        said = await refusal(scratch, WRITE, {"content": "x", "memory_type": "task_memory"} | body)
    assert said[0] == state
    assert message in said[1]
    assert hint in said[2]
    assert len(said[1]) < 300


async def test_what_a_write_decides_and_what_the_user_has_decided(scratch: asyncpg.Connection) -> None:
    """Task memories expire after 90 days, others not; a time that is given counts, up to the user's own maximum."""
    async with acting_as(scratch, ANN):

        async def days(**body: object) -> int | None:
            stored = (await rpc(scratch, WRITE, {"content": "x", "memory_type": "task_memory", **body}))[
                "memory"
            ]
            if stored["expires_at"] is None:
                return None
            lasts = datetime.fromisoformat(stored["expires_at"]) - datetime.fromisoformat(
                stored["created_at"]
            )
            return round(lasts / timedelta(days=1))

        in_two_days = (datetime.now(UTC) + timedelta(days=2)).isoformat()
        assert await days() == 90
        assert await days(metadata=None, expires_at=None, memory_type="brand_memory") is None
        assert await days(expires_at=in_two_days) == 2
        assert await days(content="x" * 5_000_000, expires_at=in_two_days) == 2
        await scratch.execute(
            "insert into memory_settings (user_id, task_memory_ttl_hours) values ($1, 24)", ANN
        )
        assert await days(expires_at=in_two_days) == 1
        await scratch.execute("update memory_settings set memory_enabled = false")
        assert await rpc(scratch, WRITE, {"content": "x", "memory_type": "task_memory"}) == {"memory": None}
        assert await rpc(scratch, READ, {"query": "x"}) == {"results": [], "by": "words"}
    assert await scratch.fetchval("select count(*) from agent_memory") == 5


async def test_the_agent_of_what_applications_write_is_a_setting(scratch: asyncpg.Connection) -> None:
    await scratch.execute(
        "insert into memoryd.settings values ('app_agent_id', $1) on conflict (key) do update set value = excluded.value",
        json.dumps("alice"),
    )
    async with acting_as(scratch, ANN):
        await rpc(scratch, WRITE, {"content": "x", "memory_type": "task_memory"})
    assert await column(scratch, "select agent_id from agent_memory") == ["alice"]
    assert await scratch.fetchval("select count(*) from agents") == 0


AS_THE_EDGE_FUNCTION = """
insert into agent_memory (user_id, content, memory_type, metadata) values ($1, 'tone: energetic', 'brand_memory', '{}')
returning agent_id
"""


@pytest.mark.parametrize("role", ["memoryd_user", "memoryd_service"])
async def test_a_users_memory_without_an_agent_is_the_applications(
    scratch: asyncpg.Connection, role: str
) -> None:
    """An insert of an application that has no agents: its memories have a user alone."""
    async with acting_as(scratch, ANN if role == "memoryd_user" else None, role=role):
        assert await scratch.fetchval(AS_THE_EDGE_FUNCTION, ANN) == "app"
        # A bulk insert of PostgREST gives null where one of the rows has the column.
        both = (
            "insert into agent_memory (user_id, agent_id, content) values ($1, null, 'x'), ($1, 'alice', 'y')"
        )
        assert await column(scratch, f"{both} returning agent_id", ANN) == ["app", "alice"]
        state, said, hint = await refused(scratch, "insert into agent_memory (content) values ('x')")
    assert (state, said) == ("23502", "this memory has neither a user_id nor an agent_id")
    assert hint.startswith("Give user_id, whose memory it is (an end user: their own id), or agent_id")


@pytest.mark.parametrize(
    "row",
    [
        "agent_memory (agent_id, content) values ('alice', 'x')",
        "agent_commands (agent_id, message) values ('alice', 'x')",
        "memory_queries (agent_id) values ('alice')",
        "memory_requests (kind, query) values ('recall', 'x')",
        "documents (title) values ('x')",
        "agent_sessions (agent_id) values ('alice')",
        "conversation_sessions (user_id) values (null)",
        "memory_settings (memory_enabled) values (false)",
    ],
)
async def test_who_leaves_user_id_out_is_told_to_give_it(scratch: asyncpg.Connection, row: str) -> None:
    await scratch.execute("insert into agents (agent_id, open_to_users) values ('alice', true)")
    async with acting_as(scratch, ANN):
        state, said, hint = await refused(scratch, f"insert into {row}")
        assert (state, said) == ("42501", "this row has no user_id")
        assert hint == "Give user_id, your own id: end users write rows of their own only."


async def test_no_two_functions_have_one_name(scratch: asyncpg.Connection) -> None:
    """A gateway that chooses by the names of arguments could not tell them apart."""
    twice = """
    select p.proname::text from pg_proc p
    where p.pronamespace = 'public'::regnamespace
      and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')
    group by p.proname having count(*) > 1
    """
    assert await column(scratch, twice) == []


TEXT_ALONE: Sequence[tuple[str, dict[str, Any]]] = (
    ("recall", {"query": "lamp"}),
    ("recall", {"query": "lamp", "options": {"min_score": 0.01, "project": "home"}}),
    ("explain_recall", {"query": "lamp"}),
    ("match_memory", {"query": "lamp", "match_threshold": 0.1}),
    ("memory_as_of", {"as_of": "2999-01-01"}),
    ("build_context", {"agent_id": "alice", "message": "clean the lamp"}),
    ("build_context", {"agent_id": "alice", "message": "clean the lamp", "options": {}}),
    ("explain_context", {"agent_id": "alice", "message": "clean the lamp"}),
    ("export_user_memory", {"user_id": str(ANN)}),
)


async def test_what_users_call_takes_text_alone_and_names(scratch: asyncpg.Connection, embeds: None) -> None:
    await put(scratch, "the lamp of ann", ANN)
    await put(scratch, "the lamp of bob", BOB)
    for name, body in TEXT_ALONE:
        async with acting_as(scratch, ANN):
            said = json.dumps(await rpc(scratch, name, body))
        assert "lamp of ann" in said, name
        assert "of bob" not in said, name


async def test_what_users_change_takes_names(scratch: asyncpg.Connection) -> None:
    memory = await remember(scratch, "the lamp of ann", user_id=ANN)
    async with acting_as(scratch, ANN):
        talk = await scratch.fetchval("insert into conversation_sessions default values returning id")
        newer = await rpc(scratch, "supersede_memory", {"old_id": str(memory), "new_content": "the lantern"})
        assert await rpc(scratch, "load_context", {"session_id": str(talk)}) == []
        assert await rpc(scratch, "reset_session", {"session_id": str(talk)}) == 0
        await rpc(scratch, "recall", {"query": "lantern"})
        judged = await rpc(scratch, "last_recall", {})
        assert await rpc(scratch, "mark_useful", {"query_id": judged, "useful": True}) in (None, "")
        assert await rpc(scratch, "index_state", {"ids": [newer]})
        assert await rpc(scratch, "forget", {"ids": [newer]}) == 1
        assert (await rpc(scratch, "erase_user_memory", {"user_id": str(ANN)}))["agent_memory"] == 1
