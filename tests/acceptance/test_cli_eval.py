"""memoryd eval: golden questions of a store, before and after a change."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.processes.commands import Commands
from tests.support.processes.daemons import Daemons
from tests.support.rows import remember
from tests.support.waiting import IDLE, until

MIA, BOAT, SECRET = (
    "Mia lives in a lighthouse near Bergen.",
    "The boat is moored at pier seven.",
    "Bob keeps bees.",
)
LOGGED = "select count(*) from memory_queries"


@pytest.fixture
async def ids(connection: asyncpg.Connection, daemons: Daemons) -> dict[str, UUID]:
    """The rows of a store: of Ann, and one of Bob."""
    made = {text: await remember(connection, text, user_id=ANN, kind="fact") for text in (MIA, BOAT)}
    made[SECRET] = await remember(connection, SECRET, user_id=BOB, kind="fact")
    daemon = await daemons.start()
    await until(connection, IDLE)
    await daemon.stop()
    return made


async def added(memoryd: Commands, question: str, *rest: object) -> None:
    done = await memoryd("eval", "--add", question, *map(str, rest), "--user", str(ANN))
    assert done.code == 0, done.err


def written(memoryd: Commands, *lines: dict[str, Any]) -> None:
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    (memoryd.folder / "golden.jsonl").write_text(text, encoding="utf-8")


async def test_questions_are_added_asked_and_compared(
    memoryd: Commands, connection: asyncpg.Connection, ids: dict[str, UUID]
) -> None:
    await added(memoryd, "where does Mia live?", ids[MIA])
    await added(memoryd, "where is the boat moored?", ids[BOAT])
    await added(memoryd, "which guitar strings does Oskar like?", "--nothing")
    first = await memoryd(
        "eval", "--save", "before.json", "--at-least", "recall@1=1", "--at-least", "silence=1"
    )
    assert (first.code, first.sentences) == (0, [])
    assert first.out.splitlines()[0].startswith("3 questions asked; version ")
    assert ["any@5", "1.000"] in [line.split() for line in first.out.splitlines()]
    # Nothing has changed.
    same = await memoryd("eval", "--beside", "before.json")
    assert (same.code, "question that got worse" in same.out) == (0, False)
    # A row is told otherwise: its question falls, and is named.
    await connection.execute("update agent_memory set content = 'nothing of that' where id = $1", ids[BOAT])
    await connection.execute("delete from memoryd.entries where id = $1", ids[BOAT])
    worse = await memoryd("eval", "--beside", "before.json")
    assert worse.code == 1
    assert worse.sentences == ["recall@1 fell from 1.000 to 0.500."]
    assert worse.out.splitlines()[-1].split()[-5:] == ["where", "is", "the", "boat", "moored?"]
    allowed = await memoryd("eval", "--beside", "before.json", "--may-fall", "0.5", "--json")
    assert (allowed.code, allowed.json["figures"]["recall@10"]) == (0, 0.5)
    low = await memoryd("eval", "--at-least", "recall@10=0.8")
    assert (low.code, low.sentences) == (1, ["recall@10 is 0.500, lower than 0.8."])
    # A measurement is no use of what it finds.
    assert await connection.fetchval(LOGGED) == 0


async def test_what_is_gone_or_anothers_answers_nothing(
    memoryd: Commands, connection: asyncpg.Connection, ids: dict[str, UUID]
) -> None:
    await added(memoryd, "where does Mia live?", ids[MIA])
    await added(memoryd, "what does Bob keep?", ids[SECRET])
    await connection.execute("delete from agent_memory where id = $1", ids[MIA])
    shown = await memoryd("eval")
    assert shown.code == 0
    assert "1 question asked" in shown.out
    assert "1 question left out" in shown.err
    assert ["recall@10", "0.000"] in [line.split() for line in shown.out.splitlines()]


async def test_judged_retrievals_are_questions(
    memoryd: Commands, connection: asyncpg.Connection, ids: dict[str, UUID]
) -> None:
    none = await memoryd("eval", "--judged")
    assert (none.code, "No retrieval was judged useful yet" in none.err) == (1, True)
    async with acting_as(connection, user=None, role="memoryd_service"):
        found = await connection.fetch(
            "select id from recall('where is the boat moored?', user_id => $1)", ANN
        )
        await connection.execute("select mark_useful(last_recall(), true)")
    assert [row["id"] for row in found] == [ids[BOAT]]
    shown = await memoryd("eval", "--judged", "--json")
    assert (shown.code, shown.json["figures"]["any@1"]) == (0, 1.0)


async def test_wrong_calls_say_what_to_do(memoryd: Commands, ids: dict[str, UUID]) -> None:
    async def refused(*arguments: str) -> str:
        done = await memoryd("eval", *arguments)
        assert done.code in {1, 2}
        return done.err

    assert "memoryd eval --add" in await refused()
    assert "or --nothing" in await refused("--add", "where?")
    assert "or --nothing" in await refused("--add", "where?", str(ids[MIA]), "--nothing")
    assert "No row has the id" in await refused("--add", "where?", str(uuid4()))
    assert "belong to --add" in await refused(str(ids[MIA]))
    await added(memoryd, "where does Mia live?", ids[MIA])
    assert "has this question already" in await refused(
        "--add", "where does Mia live?", str(ids[BOAT]), "--user", str(ANN)
    )
    assert "write a figure" in await refused("--at-least", "recall@3=0.5")
    assert "write a figure" in await refused("--at-least", "recall@10=2")
    assert "There is no before.json" in await refused("--beside", "before.json")
    (memoryd.folder / "before.json").write_text("[" * 5000)
    assert "is no run that" in await refused("--beside", "before.json")
    (memoryd.folder / "before.json").write_text('{"by": {}, "figures": {"recall@1": "x"}, "questions": {}}')
    assert "is no run that" in await refused("--beside", "before.json")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"no json", "line 2: this is no JSON object"),
        (b"[" * 50_000, "line 2: this is no JSON object"),
        (b"{}", "its question is no text"),
        (b'{"question": "a\\u0000b", "answers": []}', "its question is no text"),
        (b'{"question": "\\u200b", "answers": []}', "its question is no text"),
        (b'{"question": "a"}', "its answers are no list of ids"),
        (b'{"question": "a", "answers": ["1"]}', "'1' is no id of a row"),
        (b'{"question": "a", "answers": [7]}', "7 is no id of a row"),
        (b'{"question": "a", "answers": [], "user": 3}', "its user is no text"),
        (b'{"question": "a", "answers": [], "query": "b"}', "'query' is not known here"),
        (b'{"question": "a", "answers": [], "options": []}', "its options are no JSON object"),
        (b'{"question": "fine", "answers": []}', "stands there twice"),
        (b"x" * 200_000, "is longer than 100,000 characters"),
        (b"\xff\xfe", "is no text in UTF-8"),
    ],
)
async def test_a_line_that_is_no_question_is_named(memoryd: Commands, line: bytes, says: str) -> None:
    (memoryd.folder / "golden.jsonl").write_bytes(b'{"question": "fine", "answers": []}\n' + line + b"\n")
    refused = await memoryd("eval")
    assert (refused.code, says in refused.err) == (2, True), refused.err


async def test_options_are_those_of_recall(memoryd: Commands, ids: dict[str, UUID]) -> None:
    written(
        memoryd,
        {"question": "where does Mia live?", "answers": [str(ids[MIA])], "options": {"until": "2001-01-01"}},
    )
    assert (await memoryd("eval", "--json")).json["figures"]["recall@10"] == 0
    written(memoryd, {"question": "where?", "answers": [], "options": {"untill": "2001-01-01"}})
    refused = await memoryd("eval")
    assert (refused.code, "untill" in refused.err) == (1, True)
