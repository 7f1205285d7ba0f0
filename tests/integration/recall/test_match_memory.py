"""match_memory: nearest first, only what is not expired, and no rows of other users whatever the caller names."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB, NOBODY, acting_as
from tests.support.access.refusals import refused
from tests.support.content.index import index_rows
from tests.support.rows import HALF_PRECISION, column, embedding, insert, remember

MATCH = "select content from match_memory($1::text::vector{})"
NEVER = datetime(2000, 1, 1, tzinfo=UTC)


@pytest.fixture
async def remembered(scratch: asyncpg.Connection) -> asyncpg.Connection:
    """Memories of two users and of the agents, at angles from the first axis."""
    soon = datetime.now(UTC) + timedelta(hours=1)
    for user in (ANN, BOB, None):
        name = {ANN: "ann", BOB: "bob", None: "agent"}[user]
        for content, numbers, columns in (
            ("exactly", (1,), {"metadata": '{"tone": "dry"}'}),
            ("nearly", (1, 0.5), {"memory_type": "brand_memory", "expires_at": soon, "ttl_hours": 1}),
            ("past", (1,), {"expires_at": NEVER}),
            ("off", (0, 1), {}),
            ("nowhere", (), {}),
            ("not indexed yet", None, {}),
        ):
            given = {} if numbers is None else {"embedding": embedding(*numbers)}
            await remember(scratch, f"{name} {content}", user_id=user, **given, **columns)
    return scratch


async def test_unexpired_memories_are_found_most_similar_first(remembered: asyncpg.Connection) -> None:
    rows = await remembered.fetch(
        "select * from match_memory($1::text::vector, filter_user_id => $2)", embedding(1), ANN
    )
    assert [row["content"] for row in rows] == ["ann exactly", "ann nearly"]
    assert list(rows[0].keys()) == ["id", "content", "similarity", "metadata", "created_at"]
    assert (rows[0]["similarity"], rows[0]["metadata"]) == (1, '{"tone": "dry"}')
    named = MATCH.format(f", -1, 100, null, '{BOB}'")
    assert await column(remembered, named, embedding(1)) == ["bob exactly", "bob nearly", "bob off"]
    assert await column(remembered, named, embedding()) == []
    assert await column(remembered, MATCH.format(f", 0, 1, null, '{BOB}'"), embedding(1)) == ["bob exactly"]
    assert await column(remembered, MATCH.format(f", 0, 0, null, '{BOB}'"), embedding(1)) == []
    brand = MATCH.format(f", 0.5, 5, 'brand_memory', '{BOB}'")
    assert await column(remembered, brand, embedding(1)) == ["bob nearly"]


async def test_an_embedding_that_is_given_is_compared_by_the_cosine(scratch: asyncpg.Connection) -> None:
    """Of every model, as in the designs, and also in recall; that of a text is calibrated."""
    await scratch.execute(
        "insert into memoryd.settings (key, value) values ('similarity', '{\"background\": 0.6, \"unit\": 0.4}')"
    )
    given = embedding(0.8, 0.6)
    await remember(scratch, "tone of voice", user_id=ANN, embedding=given)
    entry: dict[str, object] = {
        "tier": "core",
        "category": "c",
        "title": "tone",
        "content": "of voice",
        "created_by": "a",
    }
    await insert(scratch, "shared_knowledge", entry | {"embedding": given})
    near = pytest.approx(0.8, abs=HALF_PRECISION)
    for table in ("agent_memory", "shared_knowledge"):
        source = {"agent_memory": "memory", "shared_knowledge": "knowledge"}[table]
        called = {
            "agent_memory": f"match_memory($1::text::vector, 0.7, filter_user_id => '{ANN}')",
            "shared_knowledge": "search_shared_knowledge($1::text::vector, 0.7)",
        }[table]
        for _ in ("before it is indexed", "from then on"):
            assert await column(scratch, f"select similarity from {called}", embedding(1)) == [near]
            await index_rows(scratch, source)
    recalled = (
        "select similarity from recall('tone of voice', user_id => $2, query_embedding => $1::text::vector)"
    )
    assert await column(scratch, recalled, embedding(1), ANN) == [near]
    # Also where the calibrated similarity is at its limits.
    for cosine, other in ((1, 0), (-0.8, 0.6)):
        limit = [pytest.approx(cosine, abs=HALF_PRECISION)]
        turned = embedding(0.8 * cosine - 0.6 * other, 0.6 * cosine + 0.8 * other)
        assert await column(scratch, recalled, turned, ANN) == limit


async def test_a_user_finds_only_their_own_whichever_user_is_named(remembered: asyncpg.Connection) -> None:
    async with acting_as(remembered, ANN):
        own = ["ann exactly", "ann nearly"]
        assert await column(remembered, MATCH.format(""), embedding(1)) == own
        assert await column(remembered, MATCH.format(f", filter_user_id => '{ANN}'"), embedding(1)) == own
        for other in (f"'{BOB}'", "null", f"'{UUID(int=0)}'"):
            named = MATCH.format(f", -1, 100, null, {other}")
            assert await column(remembered, named, embedding(1)) == []
    async with acting_as(remembered, None, claims=NOBODY):
        for other in ("", f", filter_user_id => '{ANN}'"):
            assert await column(remembered, MATCH.format(other), embedding(1)) == []


@pytest.mark.parametrize("role", ["memoryd_user", "memoryd_service"])
async def test_memories_of_a_user_with_memory_off_are_not_found(
    remembered: asyncpg.Connection, role: str
) -> None:
    await remembered.execute("insert into memory_settings (user_id, memory_enabled) values ($1, false)", ANN)
    found = {}
    for user in (ANN, BOB):
        async with acting_as(remembered, user, role=role):
            found[user] = await column(
                remembered, MATCH.format(f", filter_user_id => '{user}'"), embedding(1)
            )
    assert found == {ANN: [], BOB: ["bob exactly", "bob nearly"]}


async def test_memories_of_agents_are_not_found_without_a_user(remembered: asyncpg.Connection) -> None:
    async with acting_as(remembered, None, role="memoryd_service"):
        assert await column(remembered, MATCH.format(""), embedding(1)) == []


@pytest.mark.parametrize(
    ("arguments", "state", "said", "hint"),
    [
        ("null", "22004", "query_embedding is null", "recall() takes words"),
        ("'[1,2,3]'", "22023", "query_embedding has 3 dimensions, this database 256", "MEMORYD_EMBEDDER"),
        (
            "array_fill(0, '{1536}')::vector",
            "22023",
            "has 1536 dimensions, this database 256",
            "MEMORYD_EMBEDDER",
        ),
        ("$1::text::vector, -1.5", "22023", "match_threshold is -1.5", "from -1 to 1"),
        ("$1::text::vector, 'Infinity'", "22023", "match_threshold is Infinity", "from -1 to 1"),
        ("$1::text::vector, 'NaN'", "22023", "match_threshold is NaN", "from -1 to 1"),
        ("$1::text::vector, null", "22023", "match_threshold is null", "from -1 to 1"),
        ("$1::text::vector, 0, -1", "22023", "match_count is -1", "0 or more"),
        ("$1::text::vector, 0, null", "22023", "match_count is null", "0 or more"),
        ("$1::text::vector, 0, 1, 'brand'", "22023", "unknown memory_type 'brand'", "Types: brand_memory,"),
        ("$1::text::vector, 0, 1, null, 'ann'", "22P02", '"ann"', ""),
    ],
)
async def test_a_call_with_invalid_arguments_is_refused_with_advice(
    scratch: asyncpg.Connection, arguments: str, state: str, said: str, hint: str
) -> None:
    given = (embedding(1),) if "$1" in arguments else ()
    found = await refused(scratch, f"select * from match_memory({arguments})", *given)
    assert found[0] == state
    assert said in found[1]
    assert hint in found[2]


async def test_match_memory_runs_with_the_callers_rights(scratch: asyncpg.Connection) -> None:
    acting = "select proname from pg_proc where prosecdef and proname in ('match_memory', 'search_shared_knowledge')"
    assert await column(scratch, acting) == []
    assert not await scratch.fetchval(
        "select has_function_privilege('public', 'match_memory(vector, float, int, text, uuid, text)', 'execute')"
    )


async def test_a_read_is_audited_and_visible_to_its_user(remembered: asyncpg.Connection) -> None:
    async with acting_as(remembered, ANN):
        await remembered.fetch(MATCH.format(""), embedding(1))
    noted = await remembered.fetch(
        "select user_id, step_name, action_type from agent_execution_logs where action_type = 'memory_read'"
    )
    assert [tuple(row) for row in noted] == [(ANN, "match_memory", "memory_read")]


async def test_a_user_among_many_is_found_by_the_index(scratch: asyncpg.Connection) -> None:
    await scratch.execute(
        "insert into agent_memory (agent_id, user_id, content, embedding) "
        "select 'alice', md5((n % 500)::text)::uuid, 'memory ' || n, $1::text::vector from generate_series(1, 5000) n",
        embedding(1),
    )
    await scratch.execute("analyze agent_memory")
    counted = "select seq_scan from pg_stat_xact_user_tables where relname = 'agent_memory'"
    before = await scratch.fetchval(counted)
    for _ in range(6):
        await scratch.fetch(
            "select * from match_memory($1::text::vector, 0, 5, null, md5('7')::uuid)", embedding(1)
        )
    assert await scratch.fetchval(counted) == before


async def own(connection: asyncpg.Connection, arguments: str) -> list[object]:
    """What match_memory() finds of ANN's without a threshold."""
    async with acting_as(connection, ANN):
        return list(await column(connection, f"select content from match_memory({arguments})"))


async def test_without_a_threshold_the_model_s_own_counts(
    connection: asyncpg.Connection, tokens: None
) -> None:
    for text in ("Preferred tone: Energetic, motivational", "The server is in Oslo."):
        await remember(connection, text, user_id=ANN, memory_type="user_preferences")
    knowledge: dict[str, object] = {
        "tier": "core",
        "category": "principle",
        "created_by": "a",
        "title": "Preferred tone",
    }
    await insert(connection, "shared_knowledge", knowledge | {"content": "Energetic, motivational"})
    question = "'which tone is preferred?'"
    near = ["Preferred tone: Energetic, motivational"]
    assert await own(connection, f"query => {question}") == near
    assert await own(connection, f"query => {question}, match_threshold => 0.7") == []
    read = f"""select r ->> 'content' from jsonb_array_elements("agent-memory-read"({question}) -> 'results') r"""
    async with acting_as(connection, ANN):
        assert await column(connection, read) == near
    async with acting_as(connection, None, role="memoryd_service"):
        found = "select title from search_shared_knowledge(query => {})"
        assert await column(connection, found.format(question)) == ["Preferred tone"]
        assert await column(connection, found.format("'who brews kombucha?'")) == []


async def test_the_own_threshold_is_a_calibrated_one(scratch: asyncpg.Connection) -> None:
    """Of a model whose unrelated texts have a cosine of 0.75, a cosine of 0.8 says nothing, and one of 0.9 does."""
    await scratch.execute(
        "insert into memoryd.settings (key, value) values ('similarity', '{\"background\": 0.75, \"unit\": 0.25}')"
    )
    for text, cosine in (("near", 0.9), ("far", 0.8)):
        await remember(scratch, text, user_id=ANN, embedding=embedding(cosine, (1 - cosine**2) ** 0.5))
    assert await own(scratch, f"query_embedding => '{embedding(1)}'") == ["near"]
    assert await own(scratch, f"query_embedding => '{embedding(1)}', match_threshold => -1") == [
        "near",
        "far",
    ]
