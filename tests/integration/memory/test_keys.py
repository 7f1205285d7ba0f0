"""A memory with a key: to write the key again replaces it; found by key, by ranges of keys, and by what it says."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.access.isolation import index_world
from tests.support.access.refusals import refused
from tests.support.database.schemas import connected
from tests.support.rows import column, one_row

KEEP = "select * from remember($1, 'alice', key => $2)"
KEEP_FOR = "select * from remember($1, 'alice', $2, key => $3)"
KEYS = "select key from search_keys($1, $2, 'alice', filter => $3, match_count => 100)"


async def keys(
    connection: asyncpg.Connection, prefix: str, query: str | None = None, **filters: Any
) -> list[str]:
    return [str(key) for key in await column(connection, KEYS, prefix, query, json.dumps(filters))]


async def test_a_key_that_is_written_again_replaces_the_memory(scratch: asyncpg.Connection) -> None:
    first = await one_row(scratch, KEEP, "The gate code is 4711", "gate")
    begun = await one_row(scratch, "select created_at, updated_at from agent_memory")
    second = await one_row(
        scratch,
        "select * from remember('It is 42 now', 'alice', key => 'gate', kind => 'note', "
        "metadata => '{\"a\": 1}', ttl_hours => 5)",
    )
    assert (first["what"], second["what"], first["id"]) == ("stored", "replaced", second["id"])
    row = await one_row(scratch, "select * from agent_memory")
    assert (row["content"], row["kind"], row["metadata"]) == ("It is 42 now", "note", '{"a": 1}')
    assert row["expires_at"] == second["expires_at"] is not None
    assert row["created_at"] == begun["created_at"]
    assert row["updated_at"] > begun["updated_at"]
    assert await column(scratch, "select content from recall('what is 42?', 'alice')") == ["It is 42 now"]
    again = await one_row(scratch, KEEP, "For ever", "gate")
    assert again["expires_at"] is None


async def test_what_says_the_same_stays_beside_a_key(scratch: asyncpg.Connection) -> None:
    text = "The staging server restarts at night."
    ids = [
        (await one_row(scratch, KEEP, text, "a"))["id"],
        (await one_row(scratch, "select * from remember($1, 'alice')", text))["id"],
        (await one_row(scratch, KEEP, text, "b"))["id"],
        (await one_row(scratch, "select * from remember($1, 'alice')", text))["id"],
    ]
    assert len(set(ids)) == 3
    assert ids[1] == ids[3]


async def test_a_key_is_an_agents_own_and_a_users_own(scratch: asyncpg.Connection) -> None:
    await scratch.fetchrow(KEEP, "the agent's", "k")
    await scratch.fetchrow(KEEP_FOR, "Ann's", ANN, "k")
    await scratch.fetchrow(KEEP_FOR, "Bob's", BOB, "k")
    await scratch.fetchrow("select * from remember('another agent''s', 'bob', key => 'k')")
    async with acting_as(scratch, ANN):
        assert (await one_row(scratch, KEEP_FOR, "Ann's own", ANN, "k"))["what"] == "replaced"
        assert await column(scratch, "select content from search_keys('', agent_id => 'alice')") == [
            "Ann's own"
        ]
        assert await column(scratch, "select content from search_keys('', 'own', 'alice', $1)", BOB) == []
        assert (await refused(scratch, KEEP_FOR, "forged", BOB, "k"))[0] == "42501"
        assert await scratch.fetchval("select count(*) from agent_memory where key = 'k'") == 1
    assert await column(scratch, "select content from agent_memory order by content collate \"C\"") == [
        "Ann's own", "Bob's", "another agent's", "the agent's",
    ]  # fmt: skip


async def test_many_writers_of_one_key_leave_one_memory(database_url: str) -> None:
    async def one(number: int) -> str:
        async with connected(database_url) as connection:
            return str((await one_row(connection, KEEP, f"version {number}", "k"))["what"])

    said = await asyncio.gather(*(one(number) for number in range(8)))
    assert sorted(said) == [*["replaced"] * 7, "stored"]


@pytest.mark.parametrize("key", ["", "a\nb", "\x7f", "é" * 751, "x" * 1501])
async def test_a_key_that_cannot_be_one_is_refused(scratch: asyncpg.Connection, key: str) -> None:
    code, message, hint = await refused(scratch, KEEP, "x", key)
    assert (code, "key" in message, "1 to 1500 bytes" in hint) == ("23514", True, True)


async def test_the_longest_key_of_the_longest_agent_fits(scratch: asyncpg.Connection) -> None:
    noise = await scratch.fetchval(
        "select string_agg(chr(20000 + (random() * 9000)::integer), '') from generate_series(1, 200)"
    )
    key = await scratch.fetchval("select string_agg(md5(random()::text), '') from generate_series(1, 46)")
    await scratch.fetchrow("select * from remember('x', $1, key => $2)", noise, key)
    assert await column(scratch, "select key from search_keys('', agent_id => $1)", noise) == [key]


async def test_ranges_of_keys(scratch: asyncpg.Connection) -> None:
    for key in ("a/1", "a/2", "a/é", "a0", "a", "ab/1", "A/1"):
        await scratch.fetchrow(KEEP, f"what {key} says", key)
    assert sorted(await keys(scratch, "a/")) == ["a/1", "a/2", "a/é"]
    assert sorted(await keys(scratch, "a")) == ["a", "a/1", "a/2", "a/é", "a0", "ab/1"]
    assert await keys(scratch, "a%") == await keys(scratch, "a_") == []
    assert len(await keys(scratch, "")) == 7
    paged = "select key from search_keys('a/', agent_id => 'alice', match_count => 2, match_offset => $1)"
    assert len({*await column(scratch, paged, 0), *await column(scratch, paged, 2)}) == 3


async def test_a_range_is_one_of_the_index_also_for_an_end_user(scratch: asyncpg.Connection) -> None:
    """Row-level security does not keep the planner from it: comparing texts by their bytes is known to leak nothing."""
    await scratch.execute(
        "insert into agent_memory (agent_id, user_id, kind, content, key) "
        "select 'alice', $1, 'fact', 'fact ' || n, 'b/' || n from generate_series(1, 300) n",
        ANN,
    )
    await scratch.execute("analyze agent_memory")
    async with acting_as(scratch, ANN):
        await scratch.execute("set local enable_seqscan = off; set local enable_bitmapscan = off")
        plan = await scratch.fetchval(
            "explain (format json) select from agent_memory where agent_id = 'alice' "
            "and scope = memoryd.scope_of($1, null) and key >= 'a/' and key < 'a0'",
            ANN,
        )
    node = json.loads(plan)[0]["Plan"]
    assert node["Index Name"] == "agent_memory_key"
    assert "key >= " in node["Index Cond"]


async def test_what_has_expired_is_not_there(scratch: asyncpg.Connection) -> None:
    await scratch.fetchrow("select * from remember('soon', 'alice', key => 'a', ttl_hours => 1)")
    assert await keys(scratch, "") == ["a"]
    await scratch.execute("update agent_memory set expires_at = now() - interval '1 second'")
    assert await keys(scratch, "") == await keys(scratch, "", "soon") == []


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"n": 3}, "b"),
        ({"n": {"$gt": 2}}, "bc"),
        ({"n": {"$gte": 10, "$lt": 11}}, "c"),
        ({"n": {"$ne": 3}}, "acde"),
        ({"n": None}, "de"),
        ({"s": {"$gt": "A", "$lte": "b"}}, "d"),
        ({"in": {"x": {"$eq": [1]}}}, "e"),
        ({"in": {"x": [1], "y": {"$lt": 1}}}, ""),
        ({"n": {"$gt": "2"}}, ""),
    ],
)
async def test_filters(scratch: asyncpg.Connection, asked: dict[str, Any], found: str) -> None:
    rows = {"a": {"n": 1}, "b": {"n": 3}, "c": {"n": 10}, "d": {"s": "a"}, "e": {"in": {"x": [1]}}}
    for key, metadata in rows.items():
        await scratch.fetchrow(
            "select * from remember($1, 'alice', key => $1, metadata => $2)", key, json.dumps(metadata)
        )
    assert "".join(sorted(await keys(scratch, "", None, **asked))) == found


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("search_keys('', agent_id => 'alice', filter => '{\"n\": {\"$like\": 1}}')", "$like"),
        ("search_keys('', agent_id => 'alice', filter => '[]')", "filter"),
        ("search_keys('')", "agent_id"),
        ("search_keys(null, agent_id => 'alice')", "prefix"),
        ("search_keys('', agent_id => 'alice', match_count => -1)", "match_count"),
    ],
)
async def test_what_cannot_be_searched_is_refused(scratch: asyncpg.Connection, call: str, said: str) -> None:
    await scratch.fetchrow("select * from remember('x', 'alice', key => 'k', metadata => '{\"n\": 1}')")
    code, message, _ = await refused(scratch, f"select * from {call}")
    assert code == "22023"
    assert said in message


async def test_a_few_keys_among_many_memories_are_ranked_whole(scratch: asyncpg.Connection) -> None:
    """What else the agent remembers does not push them out, and one that shares nothing comes last."""
    await scratch.execute(
        "insert into agent_memory (agent_id, content) select 'alice', 'red wine number ' || n from generate_series(1, 400) n"
    )
    for key, text in {
        "x/1": "blue sky",
        "x/2": "red wine",
        "x/3": "red apple and red wine",
        "y/1": "red wine",
    }.items():
        await scratch.fetchrow(KEEP, text, key)
    await scratch.execute("""
        select remember('red wine', 'alice', key => 'x/4', metadata => '{"index": false}')""")
    found = await scratch.fetch("select key, score from search_keys('x/', 'red wine', 'alice')")
    assert [r["key"] for r in found][-1] == "x/1"
    assert {r["key"] for r in found} == {"x/1", "x/2", "x/3"}
    assert found[0]["score"] > found[2]["score"] == 0


async def test_thousands_that_were_just_written_are_found_by_words_without_a_daemon(
    connection: asyncpg.Connection,
) -> None:
    await connection.fetchrow(KEEP, "the flamingo came to Porto", "a/first")
    await connection.execute(
        "insert into agent_memory (agent_id, kind, content, key) select 'alice', 'fact', 'note ' || n, 'a/' || n "
        "from generate_series(1, 2500) n"
    )
    found = await connection.fetch(
        "select key, score from search_keys('a/', 'who saw the flamingo?', 'alice')"
    )
    assert (found[0]["key"], found[0]["score"] > 0.3, found[1]["score"]) == ("a/first", True, 0)


async def test_keys_come_in_the_order_of_a_recall(connection: asyncpg.Connection) -> None:
    """Also where they are not equally new: then the newer one is the better one."""
    for n, text in enumerate(("the tuba of Sam", "the tuba of Ida", "the boat of Sam", "a harp")):
        await connection.fetchrow(KEEP, text, f"t/{n}")
    await connection.execute("alter table agent_memory disable trigger user")
    await connection.execute(
        "update agent_memory set created_at = created_at - interval '9 days' where key = 't/1'"
    )
    await connection.execute("alter table agent_memory enable trigger user")
    for indexed in (False, True):
        if indexed:
            await index_world(connection)
        for asked in ("who has a tuba?", "what has Sam?", "boat"):
            keys = await connection.fetch("select id, score from search_keys('t/', $1, 'alice')", asked)
            recalled = await connection.fetch(
                "select id, score from recall($1, 'alice', sources => '{memory}')", asked
            )
            best = [tuple(row) for row in keys if row["score"] > 0.2]
            assert best == [tuple(row) for row in recalled][: len(best)], asked
            assert best


async def test_of_a_user_with_memory_off_nothing_is_stored_or_found(scratch: asyncpg.Connection) -> None:
    await scratch.fetchrow(KEEP_FOR, "before", ANN, "k")
    await scratch.execute("insert into memory_settings (user_id, memory_enabled) values ($1, false)", ANN)
    assert await scratch.fetch(KEEP_FOR, "after", ANN, "k") == []
    assert await column(scratch, "select content from search_keys('', null, 'alice', $1)", ANN) == []


async def test_a_users_own_hours_count_from_when_the_key_was_written_again(
    scratch: asyncpg.Connection,
) -> None:
    await scratch.execute("insert into memory_settings (user_id, memory_ttl_hours) values ($1, 10)", ANN)
    await scratch.fetchrow(KEEP_FOR, "one", ANN, "k")
    await scratch.execute("alter table agent_memory disable trigger user")
    await scratch.execute(
        "update agent_memory set created_at = created_at - interval '9 hours', updated_at = updated_at - interval '9 hours', "
        "expires_at = expires_at - interval '9 hours'"
    )
    await scratch.execute("alter table agent_memory enable trigger user")
    assert (await one_row(scratch, KEEP_FOR, "two", ANN, "k"))["what"] == "replaced"
    assert await scratch.fetchval("select expires_at > now() + interval '9 hours' from agent_memory")


async def test_a_key_comes_back_with_an_import(scratch: asyncpg.Connection) -> None:
    """Unless it was written again since: then both memories are there."""
    for key in ("a", "b"):
        await scratch.fetchrow(KEEP_FOR, f"exported {key}", ANN, key)
    exported = json.loads(await scratch.fetchval("select export_user_memory($1)", ANN))
    await scratch.execute("select erase_user_memory($1)", ANN)
    await scratch.fetchrow(KEEP_FOR, "written since", ANN, "b")
    rows = json.dumps(exported["tables"]["agent_memory"])
    await scratch.fetchval("select memoryd.import_rows($1, $1, 'agent_memory', $2::jsonb)", ANN, rows)
    stored = await scratch.fetch("select key, content from agent_memory order by content")
    assert [tuple(r) for r in stored] == [("a", "exported a"), (None, "exported b"), ("b", "written since")]
