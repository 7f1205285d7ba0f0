"""The option `profile`: facts and preferences of the user come first, whatever is asked."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest
from memoryd_client import ChatMemory

from tests.support.access.acting import acting_as
from tests.support.rows import column

ANN, BOB = uuid.uuid4(), uuid.uuid4()
QUESTION = "any dinner ideas?"
NOW = datetime.now(UTC)
FACTS = ["Name is Ann", "Eats vegan food", "Allergic to peanuts"]
"""The oldest first."""


async def know(
    connection: asyncpg.Connection, text: str, *, user: uuid.UUID = ANN, age: int = 0, **more: object
) -> uuid.UUID:
    """Stores a memory of this user, this number of hours old."""
    given = {"agent_id": "cook", "kind": "fact", "content": text, "user_id": user, "ttl_hours": None}
    given |= {"created_at": NOW - timedelta(hours=age)} | more
    names = ", ".join(given)
    places = ", ".join(f"${n}" for n in range(1, len(given) + 1))
    made: uuid.UUID = await connection.fetchval(
        f"insert into agent_memory ({names}) values ({places}) returning id", *given.values()
    )
    return made


async def asked(
    connection: asyncpg.Connection,
    question: str = QUESTION,
    *,
    user: uuid.UUID | None = ANN,
    **options: object,
) -> list[str]:
    """What recall brings."""
    rows = await connection.fetch(
        "select content from recall($1, user_id => $2, options => $3)", question, user, json.dumps(options)
    )
    return [row["content"] for row in rows]


async def a_life(connection: asyncpg.Connection) -> None:
    """Of two users: what stands, and what does not."""
    for age, text in enumerate(reversed(FACTS)):
        await know(connection, text, age=age + 1)
    await know(connection, "Prefers short answers", kind="note", memory_type="user_preferences", age=9)
    await know(connection, "Went to the zoo", kind="note")
    await know(connection, "Lives on the moon", valid_from=NOW - timedelta(9), valid_to=NOW - timedelta(1))
    await know(connection, "Will live in Rome", valid_from=NOW + timedelta(9))
    await know(connection, "Sleeps on the floor", expires_at=NOW - timedelta(hours=1), ttl_hours=1, age=3)
    await know(connection, "Is called Robert", user=BOB)


async def test_the_newest_stand_first_whatever_is_asked(scratch: asyncpg.Connection) -> None:
    await a_life(scratch)
    assert await asked(scratch, profile=60, relevant_only=True) == [
        *reversed(FACTS),
        "Prefers short answers",
    ]
    assert (
        await asked(scratch, relevant_only=True) == await asked(scratch, profile=0, relevant_only=True) == []
    )
    block = await scratch.fetchval("select build_context('cook', $1, $2, '{\"profile\": 60}')", QUESTION, ANN)
    places = [block.index(text) for text in [*reversed(FACTS), "Prefers short answers"]]
    assert places == sorted(places)
    for hidden in ("zoo", "moon", "Rome", "floor", "Robert"):
        assert hidden not in block
    assert await scratch.fetchval("select build_context('cook', $1, $2)", QUESTION, ANN) == ""


async def test_no_more_words_than_are_asked_for(scratch: asyncpg.Connection) -> None:
    for text in FACTS:
        await know(scratch, text, age=FACTS.index(text))
    await know(scratch, "word " * 100, age=0)
    await know(scratch, "住在柏林的一栋老房子里", age=9)
    assert await asked(scratch, profile=6, relevant_only=True) == FACTS[:2]
    assert await asked(scratch, profile=5, relevant_only=True) == FACTS[:1]
    # Two characters of a script without spaces are a word: eleven of them are six.
    assert len(await asked(scratch, profile=14, relevant_only=True)) == 3
    assert len(await asked(scratch, profile=15, relevant_only=True)) == 4
    options = json.dumps({"profile": 10_000, "words": 100})
    block = await scratch.fetchval("select build_context('cook', $1, $2, $3)", QUESTION, ANN, options)
    assert len(block.split()) <= 100


async def test_nothing_is_said_twice(scratch: asyncpg.Connection) -> None:
    await a_life(scratch)
    await know(scratch, "allergic to PEANUTS", agent_id="_shared", age=20)
    question = "what is she allergic to: peanuts?"
    found = await asked(scratch, question, profile=60)
    assert len({text.lower() for text in found}) == len(found)
    assert found[:4] == [*reversed(FACTS), "Prefers short answers"]
    block = await scratch.fetchval("select build_context('cook', $1, $2, '{\"profile\": 60}')", question, ANN)
    assert block.lower().count("allergic to peanuts") == 1
    why = await column(
        scratch,
        "select detail from explain_context('cook', $1, $2, '{\"profile\": 60}') where not shown",
        question,
        ANN,
    )
    assert any("said above" in str(detail) for detail in why)


async def test_what_was_replaced_goes_and_comes_back_for_its_time(scratch: asyncpg.Connection) -> None:
    old = await know(scratch, "Works at a bakery", age=48)
    new = await know(scratch, "Works at a bank", valid_from=NOW - timedelta(hours=1))
    await scratch.execute(
        "update agent_memory set superseded_by = $2, valid_to = $3 where id = $1",
        old,
        new,
        NOW - timedelta(hours=1),
    )
    assert await asked(scratch, profile=60, relevant_only=True) == ["Works at a bank"]
    then = (NOW - timedelta(hours=24)).isoformat()
    assert await asked(scratch, profile=60, relevant_only=True, as_of=then) == ["Works at a bakery"]


async def test_of_this_project_and_agent(scratch: asyncpg.Connection) -> None:
    await know(scratch, "Likes tea", metadata='{"project": "kitchen"}')
    await know(scratch, "Likes rum", metadata='{"project": "bar"}')
    await know(scratch, "Likes ale", agent_id="barman")
    await know(scratch, "Hidden", metadata='{"index": false}')
    rows = "select content from recall('any ideas?', 'cook', $1, options => $2)"
    options = json.dumps({"profile": 60, "project": "kitchen"})
    assert await column(scratch, rows, ANN, options) == ["Likes tea"]


async def test_an_end_user_sees_their_own(scratch: asyncpg.Connection) -> None:
    await a_life(scratch)
    async with acting_as(scratch, BOB):
        assert await asked(scratch, user=None, profile=60) == ["Is called Robert"]
        assert await asked(scratch, user=ANN, profile=60) == []
        assert (
            await scratch.fetchval("select build_context('cook', $1, $2, '{\"profile\": 60}')", QUESTION, ANN)
            == ""
        )
    await scratch.execute("insert into memory_settings (user_id, memory_enabled) values ($1, false)", ANN)
    assert await asked(scratch, profile=60) == []


@pytest.mark.parametrize("wrong", [-1, 2.5, "many", True, 10_001, [60]])
async def test_a_wrong_number_is_refused(connection: asyncpg.Connection, wrong: object) -> None:
    with pytest.raises(asyncpg.CheckViolationError, match="profile is") as caught:
        await asked(connection, profile=wrong)
    assert "from 0 to 10000" in str(caught.value.hint)
    with pytest.raises(asyncpg.CheckViolationError, match="profile is"):
        await connection.fetchval("select build_context('a', 'b', null, $1)", json.dumps({"profile": wrong}))


async def test_the_prompt_of_a_chatbot_begins_with_it(
    connection: asyncpg.Connection, database_url: str
) -> None:
    await a_life(connection)
    async with ChatMemory(database_url, user=ANN) as chat:
        [system, said] = await chat.prompt("telegram:1", QUESTION, profile=60)
        assert system["content"].splitlines()[1:] == [
            f"- {t}" for t in [*reversed(FACTS), "Prefers short answers"]
        ]
        assert said == {"role": "user", "content": QUESTION}
        assert "vegan" not in str(await chat.prompt("telegram:1", QUESTION, profile=0))
