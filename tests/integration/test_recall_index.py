"""What search goes by, lexeme statistics and the windows of messages, equals what is reckoned from scratch, whatever happened
to the rows before.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from providers.local_embedder import LocalEmbedder
from tests.support.daemons import Daemons
from tests.support.rows import column, insert
from tests.support.sources import TABLES, one_of_each
from tests.support.waiting import IDLE, until

# --- Statistics.

RECOUNT = """
select scope, lexeme, count(*)::integer as rows
from (
    select scope, unnest(text '#memory' || tsvector_to_array(lexemes)) as lexeme from agent_memory where lexemes is not null
    union all
    select scope, unnest(text '#conversation' || tsvector_to_array(lexemes))
    from conversation_messages where lexemes is not null
    union all
    select scope, unnest(text '#document' || tsvector_to_array(lexemes)) from memory_chunks where lexemes is not null
    union all
    select scope, unnest(text '#knowledge' || tsvector_to_array(lexemes)) from shared_knowledge where lexemes is not null
    union all
    select scope, unnest(text '#insight' || tsvector_to_array(lexemes)) from dream_insights where lexemes is not null
) l
group by scope, lexeme
"""
USERS = (None, UUID(int=1), UUID(int=2))
SENTENCES = ("red red fish", "blue fish", "@at #hash", "the of and", "Fish's 'fish'", "x" * 3000, "ناقة 斑马")

Step = tuple[str, str, int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "insert",
                "insert",
                "change",
                "delete",
                "index",
                "index",
                "rename",
                "give",
                "share",
                "undo",
                "keep",
                "fold",
            ]
        ),
        st.sampled_from(sorted(TABLES)),
        st.integers(0, 6),
        st.integers(0, 2),
    ),
    min_size=5,
    max_size=40,
)
INDEX = {
    "conversation": "update conversation_messages t set lexemes = w.lexemes, sparse_embedding = w.weights "
    "from memoryd.weigh_messages(array(select id from conversation_messages)) w where w.id = t.id",
    **{
        source: f"update {table} t set lexemes = w.lexemes, sparse_embedding = w.weights "
        f"from (select s.id, l.* from {table} s cross join lateral memoryd.weigh_text(s.{name}) l) w where w.id = t.id"
        for source, (table, name) in TABLES.items()
        if source != "conversation"
    },
}


THIRD = "('x' || left(id::text, 1))::bit(4)::int % 3"
"""A part of the rows, by chance."""


async def step(connection: asyncpg.Connection, what: str, source: str, text: int, user: int) -> None:
    """One thing that happens to the rows; to several rows at once where there are."""
    table, name = TABLES[source]
    parent = {"conversation": "conversation_sessions", "document": "documents"}.get(source, table)
    whose = {"document": "documents", "knowledge": "agent_memory"}.get(source, table)
    shared = "conversation_messages" if source == "conversation" else "memory_chunks"
    if what == "insert":
        await one_of_each(connection, SENTENCES[text])
        said: dict[str, object] = {"session_id": uuid4(), "role": "user", "speaker": "Mary Fish"}
        await insert(
            connection, "conversation_messages", said | {"content": SENTENCES[text], "user_id": USERS[user]}
        )
        return
    statements: dict[str, tuple[str, list[object]]] = {
        "change": (f"update {table} set {name} = $1 where {THIRD} = $2", [SENTENCES[text], user]),
        "delete": (f"delete from {parent} where {THIRD} = $1", [user]),
        "index": (INDEX[source], []),
        "rename": ("update conversation_messages set speaker = $1", [("Fish", "mary fish", None)[user]]),
        "give": (f"update {whose} set user_id = $1 where {THIRD} = $2", [USERS[user], text % 3]),
        "share": (f"update {shared} set access_level = $1", [(None, 0, 5)[user]]),
        "fold": ("select memoryd.fold_lexeme_changes($1)", [text + 1]),
    }
    statement, arguments = statements[what]
    await connection.execute(statement, *arguments)


@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS)
async def test_statistics_equal_a_count_from_scratch(
    connection: asyncpg.Connection, steps: list[Step]
) -> None:
    outer = connection.transaction()
    await outer.start()
    try:
        inner = connection.transaction()
        await inner.start()
        for what, source, text, user in steps:
            if what in ("undo", "keep"):
                await (inner.rollback() if what == "undo" else inner.commit())
                inner = connection.transaction()
                await inner.start()
            else:
                await step(connection, what, source, text, user)
                assert (
                    await connection.fetchval("select coalesce(min(rows), 1) from memoryd.lexeme_statistics")
                    > 0
                )
        await inner.commit()
        while await connection.fetchval("select memoryd.fold_lexeme_changes()"):
            pass
        counted = await connection.fetch("select scope, lexeme, rows from memoryd.lexeme_statistics")
        assert {tuple(r) for r in counted} == {tuple(r) for r in await connection.fetch(RECOUNT)}
    finally:
        await outer.rollback()


# --- Windows.

STALE = """
select m.content
from conversation_messages m
left join memoryd.weigh_messages(array(select id from conversation_messages)) w using (id)
where m.lexemes is distinct from w.lexemes or m.says_when is distinct from w.says_when
   or coalesce(abs(m.prior - w.prior), 1) > 0.001 or coalesce(m.sparse_embedding <-> w.weights, 1) > 0.001
"""
WINDOWS = """
select w.id, n.content, w.weight, m.embedding::text as embedding
from memoryd.windows(array(select id from conversation_messages)) w
join conversation_messages n on n.id = w.neighbour
join conversation_messages m on m.id = w.id
"""
ANY = "(select id from conversation_messages order by md5(id::text || $1::text) limit 1)"
HAPPENINGS = (
    (
        "insert into conversation_messages (session_id, role, content, speaker) select s.id, 'user', $2, 'Ann' "
        "from conversation_sessions s order by md5(s.id::text || $1::text) limit 1"
    ),
    (
        "insert into conversation_messages (session_id, role, content, message_index) "
        "select m.session_id, 'user', $2, m.message_index + 1 "
        f"from conversation_messages m where m.id = {ANY} on conflict do nothing"
    ),
    f"update conversation_messages set content = $2 where id = {ANY}",
    f"update conversation_messages set speaker = $2 where id = {ANY}",
    f"update conversation_messages set message_index = message_index + 1000 where id = {ANY} and $2 <> ''",
    (
        "update conversation_messages m set session_id = "
        "(select id from conversation_sessions order by md5(id::text || $2) limit 1), "
        f"message_index = 5000 + length($2) * 100 + m.message_index where id = {ANY}"
    ),
    f"delete from conversation_messages where id = {ANY} and $2 <> ''",
    (
        "insert into conversation_messages (session_id, role, content) "
        "select s.id, 'assistant', $2 || ' ' || n || $1::text from conversation_sessions s, generate_series(1, 3) n"
    ),
)


async def happen(connection: asyncpg.Connection, dice: random.Random, times: int) -> None:
    """So many things, one after the other."""
    for _ in range(times):
        words = " ".join(
            dice.choices(("red", "fish", "blue", "tomorrow", "in May", "boats", "?"), k=dice.randint(1, 5))
        )
        try:
            await connection.execute(dice.choice(HAPPENINGS), str(dice.random()), f"on {words}")
        except (asyncpg.UniqueViolationError, asyncpg.CheckViolationError):
            continue


async def check_windows(connection: asyncpg.Connection) -> None:
    """Once nothing is left to do, every message is indexed as it would be now."""
    await until(connection, IDLE)
    assert await column(connection, STALE) == []
    assert await far_from_window(connection) == []
    assert await connection.fetchval("select count(*) from memoryd.dead_jobs") == 0


async def talks(connection: asyncpg.Connection) -> None:
    """Three conversations."""
    await connection.execute("insert into conversation_sessions (title) values ('one'), ('two'), ('three')")
    await connection.execute(
        "insert into conversation_messages (session_id, role, content) "
        "select s.id, 'user', s.title || ' fish ' || n from conversation_sessions s, generate_series(1, 8) n"
    )


@pytest.mark.usefixtures("daemon")
async def test_whatever_happens_to_a_message_is_seen_in_those_around_it(
    connection: asyncpg.Connection,
) -> None:
    await talks(connection)
    await check_windows(connection)
    for number in range(16):
        await connection.execute(HAPPENINGS[number % len(HAPPENINGS)], str(number), f"boats {number}")
        await check_windows(connection)


@pytest.mark.parametrize("seed", range(2))
async def test_every_message_is_indexed_with_those_around_it(
    connection: asyncpg.Connection, second: asyncpg.Connection, daemons: Daemons, seed: int
) -> None:
    """While two daemons index, two writers write; in the end each window is as if it had been indexed last."""
    await asyncio.gather(daemons.start(), daemons.start())
    await talks(connection)
    for round_ in range(3):
        dice = [random.Random(seed * 100 + round_ * 10 + n) for n in range(2)]
        await asyncio.gather(happen(connection, dice[0], 12), happen(second, dice[1], 12))
        await check_windows(connection)
    assert await connection.fetchval("select count(*) from conversation_messages") > 10
    counted = await connection.fetch("select scope, lexeme, rows from memoryd.lexeme_statistics")
    assert {tuple(r) for r in counted} == {tuple(r) for r in await connection.fetch(RECOUNT)}


async def far_from_window(connection: asyncpg.Connection) -> list[Any]:
    """Messages whose embedding is not the weighted mean of their window's."""
    rows = await connection.fetch(WINDOWS)
    texts = sorted({r["content"] for r in rows})
    vectors = dict(zip(texts, await LocalEmbedder().embed(texts), strict=True))
    sums: dict[UUID, Any] = Counter()
    for r in rows:
        sums[r["id"]] = sums[r["id"]] + r["weight"] * vectors[r["content"]]
    stored = {r["id"]: np.array(r["embedding"].strip("[]").split(","), dtype=np.float32) for r in rows}
    return [
        key for key, mean in sums.items() if float(stored[key] @ mean / (np.linalg.norm(mean) or 1)) < 0.9999
    ]
