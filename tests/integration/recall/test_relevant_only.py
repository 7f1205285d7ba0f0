"""`relevant_only` leaves out what does not belong to the question, explain_recall() says why, and contexts have it always."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.content.context_block import BLOCK
from tests.support.content.index import index_all as index
from tests.support.content.index import index_rows
from tests.support.rows import associate, column, remember, say

pytestmark = pytest.mark.usefixtures("tokens")

DIARY = (
    "The walrus at the harbour is called Otto.",
    "Our landlord Mr Pemberton lives in Ludlow.",
    "My sister plays the cello in an orchestra.",
    "The car was repaired in the garage on Mill Lane.",
    "We bought two new chairs for the kitchen.",
    "I am allergic to peanuts and carry a pen.",
    "The train to Bristol was two hours late.",
    "Our dog Biscuit sleeps on the sofa.",
    "The dentist moved my appointment to the afternoon.",
    "I am reading a long novel about whales.",
    "Grandmother's recipe needs three eggs and a lemon.",
    "The password of the router is on the fridge.",
)
NEVER_SAID = "Which quantum chromodynamics textbook explains gluons?"
FOUND = "select content from recall($1, user_id => $2, options => $3::jsonb)"
EXPLAINED = "select content, left_out from explain_recall($1, user_id => $2, options => $3::jsonb)"
ONLY = json.dumps({"relevant_only": True})


async def keep_diary(connection: asyncpg.Connection, user: UUID = ANN) -> None:
    """A user's memories."""
    for line in DIARY:
        await remember(connection, line, user_id=user)
    await index(connection)


async def test_what_was_never_said_brings_nothing(scratch: asyncpg.Connection) -> None:
    await keep_diary(scratch)
    assert await column(scratch, FOUND, NEVER_SAID, ANN, ONLY) == []
    for row in await scratch.fetch(EXPLAINED, NEVER_SAID, ANN, ONLY):
        assert row["left_out"] == "nothing fits the question"


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is the walrus called?", DIARY[0]),
        ("Where does our landlord live?", DIARY[1]),
        ("Which instrument does my sister play?", DIARY[2]),
        ("Am I allergic to peanuts?", DIARY[5]),
        ("Where is the router's password?", DIARY[11]),
        ("walrus", DIARY[0]),
        ("Pemberton?", DIARY[1]),
    ],
)
async def test_an_answer_comes_without_the_rest(
    scratch: asyncpg.Connection, question: str, answer: str
) -> None:
    await keep_diary(scratch)
    found = await column(scratch, FOUND, question, ANN, ONLY)
    assert found[0] == answer
    assert len(found) <= 3
    all_of_them = await column(scratch, FOUND, question, ANN, "{}")
    assert [row for row in all_of_them if row in found] == found
    why = {row["content"]: row["left_out"] for row in await scratch.fetch(EXPLAINED, question, ANN, ONLY)}
    assert {content for content, reason in why.items() if reason is None} == set(found)
    assert {reason for reason in why.values() if reason} <= {"others fit much better", "linked too loosely"}


async def test_false_and_null_leave_nothing_out(scratch: asyncpg.Connection) -> None:
    await keep_diary(scratch)
    plain = await column(scratch, FOUND, "our walrus", ANN, "{}")
    for options in ({"relevant_only": False}, {"relevant_only": None}):
        assert await column(scratch, FOUND, "our walrus", ANN, json.dumps(options)) == plain


async def test_what_others_have_changes_nothing(scratch: asyncpg.Connection) -> None:
    """More rows make a better fit by chance likely: those that are searched, and no others."""
    await keep_diary(scratch)
    questions = ("What is the walrus called?", "something in the garage", NEVER_SAID)
    async with acting_as(scratch, ANN):
        before = [await scratch.fetch(EXPLAINED, question, None, ONLY) for question in questions]
    for n in range(40):
        await remember(scratch, f"The walrus and the garage, number {n}.", user_id=BOB)
    await index(scratch)
    async with acting_as(scratch, ANN):
        assert [await scratch.fetch(EXPLAINED, question, None, ONLY) for question in questions] == before


async def test_a_row_of_the_time_that_is_asked_about_belongs(connection: asyncpg.Connection) -> None:
    """Though it has none of the question's words."""
    await keep_diary(connection)
    await remember(
        connection,
        "Swam to the island and back.",
        user_id=ANN,
        created_at=datetime(2021, 7, 14, 12, tzinfo=UTC),
    )
    await index(connection)
    assert "Swam to the island and back." in await column(
        connection, FOUND, "What did I do in July 2021?", ANN, ONLY
    )


async def test_a_strong_link_to_what_belongs_brings_a_memory_and_a_weak_one_does_not(
    scratch: asyncpg.Connection,
) -> None:
    await keep_diary(scratch)
    ids = {r["content"]: r["id"] for r in await scratch.fetch("select id, content from agent_memory")}
    await associate(scratch, ids[DIARY[0]], ids[DIARY[6]], 0.9)
    await associate(scratch, ids[DIARY[0]], ids[DIARY[7]], 0.4)
    asked = "What is the walrus called?"
    assert set(await column(scratch, FOUND, asked, ANN, ONLY)) == {DIARY[0], DIARY[6]}
    # What is linked to rows that do not belong does not come either.
    await associate(scratch, ids[DIARY[9]], ids[DIARY[10]], 0.9)
    assert await column(scratch, FOUND, NEVER_SAID, ANN, ONLY) == []


async def test_turns_around_a_result_come_with_it_and_others_do_not(scratch: asyncpg.Connection) -> None:
    session = uuid4()
    for line in DIARY:
        await say(scratch, session, line, user_id=ANN)
    await index(scratch)
    around = json.dumps({"relevant_only": True, "around": 1})
    pieces = await column(scratch, FOUND, "Which instrument does my sister play?", ANN, around)
    assert all(line in str(pieces[0]) for line in DIARY[1:4])
    assert not any(DIARY[8] in str(piece) for piece in pieces)
    assert await column(scratch, FOUND, NEVER_SAID, ANN, around) == []


async def test_a_context_has_only_what_belongs_and_says_what_does_not(scratch: asyncpg.Connection) -> None:
    await keep_diary(scratch)
    async with acting_as(scratch, ANN):
        block = await scratch.fetchval(BLOCK, "What is the walrus called?")
        assert DIARY[0] in block
        assert DIARY[4] not in block
        assert await scratch.fetchval(BLOCK, NEVER_SAID) == ""
        told = await column(
            scratch,
            "select detail from explain_context('alice', $1) where step = 'found' and not shown",
            NEVER_SAID,
        )
    assert all(str(line).startswith("left out, nothing fits the question: ") for line in told)


async def test_what_is_left_out_of_a_context_is_told_its_own_reason(connection: asyncpg.Connection) -> None:
    """What is known fits, and nothing that happened: none of the first is told the reason of the second, nor its score."""
    await keep_diary(connection)
    for n in range(20):
        text = f"Invoice {n} was paid, the bank called it done."
        await remember(connection, text, user_id=ANN, kind="outcome")
    await index(connection)
    explain = "select shown, score, detail from explain_context('alice', $1, $2) where step = 'found'"
    lines = await connection.fetch(explain, "What is the walrus at the harbour called?", ANN)
    assert [DIARY[0] in line["detail"] for line in lines if line["shown"]] == [True]
    left = [line for line in lines if not line["shown"]]
    assert len(left) >= 20
    assert all(
        line["detail"].startswith("left out, nothing that happened fits the question: ") for line in left
    )
    assert max(line["score"] for line in left) < 0.3


async def test_by_words_alone_the_same_holds(scratch: asyncpg.Connection) -> None:
    """As in a database whose rows a remote model embeds."""
    for line in DIARY:
        await remember(scratch, line, user_id=ANN)
    await index_rows(scratch, "memory")
    await scratch.execute("select memoryd.fold_lexeme_changes()")
    await scratch.execute("truncate memoryd.tokens")
    assert await column(scratch, FOUND, "What is the walrus called?", ANN, ONLY) == [DIARY[0]]
    assert await column(scratch, FOUND, NEVER_SAID, ANN, ONLY) == []


@pytest.mark.parametrize(
    "message", ["cheers mate", "Thanks!", "jaja va", "bom dia", "ok then", "bis morgen", "👍"]
)
async def test_small_talk_brings_nothing_though_it_was_said_before(
    scratch: asyncpg.Connection, message: str
) -> None:
    await keep_diary(scratch)
    for line in (message, "Cheers mate, thanks a lot, ok then, bis morgen, jaja va!"):
        await say(scratch, uuid4(), line, user_id=ANN)
    await index(scratch)
    options = json.dumps({"relevant_only": True, "around": 2})
    assert await column(scratch, FOUND, message, ANN, options) == []
    for row in await scratch.fetch(EXPLAINED, message, ANN, ONLY):
        assert row["left_out"] == "small talk"
    assert DIARY[0] in await column(scratch, FOUND, f"{message}, and what is the walrus called?", ANN, ONLY)
