"""Which of two rows comes first: the one that says it, and not a short one beside it or one that has only the name."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import asyncpg
import pytest

from tests.support.access.acting import ANN
from tests.support.content.index import index_all
from tests.support.rows import column, remember, say

pytestmark = pytest.mark.usefixtures("tokens")

FOUND = "select content from recall($1, user_id => $2, match_count => 20)"


@pytest.mark.parametrize(
    ("said", "beside", "question"),
    [
        ("The operation was moved to May.", "A pity, but that leaves time.", "When is Anna's operation?"),
        (
            "The operation was moved to May.",
            "A pity, that leaves time.",
            "What did Anna say, when is the operation?",
        ),
        (
            "L'opération est repoussée au mois de mai.",
            "Dommage, cela laisse du temps.",
            "Quand a lieu l'opération de Anna ?",
        ),
        (
            "Die Operation kommt erst im Mai.",
            "Schade, aber so bleibt Zeit.",
            "Wann ist die Operation von Anna?",
        ),
        ("La operación se aplazó a mayo.", "Lástima, pero queda tiempo.", "¿Cuándo es la operación de Anna?"),
        ("L'operazione è rimandata a maggio.", "Peccato, ma resta tempo.", "Quando ha Anna l'operazione?"),
        ("手术改到五月了", "真可惜 不过有空了", "Anna 的手术改到几月"),
    ],
)
@pytest.mark.parametrize("before", [True, False])
async def test_what_stands_beside_an_answer_comes_after_it(
    connection: asyncpg.Connection, said: str, beside: str, question: str, before: bool
) -> None:
    """Though the one whom the question names says it."""
    session = uuid4()
    for line in ["Hello!", *([beside, said] if before else [said, beside]), "Ok.", "Biscuit sleeps."]:
        await say(connection, session, line, user_id=ANN, speaker="Anna" if line == beside else "Ben")
    await index_all(connection)
    found = await column(connection, FOUND, question, ANN)
    assert found.index(said) < found.index(beside)


@pytest.mark.parametrize(
    ("name", "answer", "question"),
    [
        (
            "Name is Jonas",
            "Works as a data engineer at Nordlicht Energie in Hamburg",
            "where does Jonas work?",
        ),
        ("User's name is Mia", "lives in Ghent with her sister", "where does mia live?"),
        ("Name: Priya", "Works at the library of the town", "Where does Priya work?"),
        (
            "Jonas Lind",
            "Is allergic to the glue in chipboard and wants solid wood",
            "What is Jonas Lind allergic to?",
        ),
        (
            "Project Kestrel",
            "The team deploys it to the Frankfurt cluster every Thursday",
            "When does Kestrel deploy?",
        ),
        ("Heißt Jonas", "Arbeitet als Ingenieur in einem kleinen Büro in Hamburg", "Wo arbeitet Jonas?"),
        ("S'appelle Zoé", "Travaille comme pharmacienne dans un hôpital à Lyon", "où travaille Zoé ?"),
        ("Se llama Lucía", "Vive en Valencia con su hermana mayor", "¿dónde vive Lucía?"),
        ("Si chiama Giulia", "Lavora come architetto in uno studio di Torino", "dove lavora Giulia?"),
        ("Её зовут Анна", "Она работает инженером на заводе в Казани", "Где работает Анна?"),
    ],
)
@pytest.mark.parametrize("talk", [False, True])
async def test_a_name_alone_comes_after_the_sentence_that_answers(
    connection: asyncpg.Connection, name: str, answer: str, question: str, talk: bool
) -> None:
    for line in (name, answer, "The dentist moved the appointment to Monday", "Biscuit sleeps on the sofa"):
        await (
            say(connection, uuid4(), line, user_id=ANN) if talk else remember(connection, line, user_id=ANN)
        )
    await index_all(connection)
    found = await column(connection, FOUND, question, ANN)
    assert found.index(answer) < found.index(name)


LONG = (
    "Hi, thanks again for all the help so far, I really appreciate it. I thought about the plan and talked with my sister. "
    "We both like the raised beds, but the slope worries us a little, so does the price. Could you please go on and "
    "tell me what the next step for the raised beds is?"
)
OPTIONS = "select content, recency from explain_recall($1, user_id => $2, options => $3::jsonb)"


@pytest.mark.parametrize(
    ("question", "counts"), [(LONG, True), ("What is the next step for the raised beds?", False)]
)
async def test_a_long_message_goes_on_with_what_is_recent_and_a_question_does_not(
    connection: asyncpg.Connection, question: str, counts: bool
) -> None:
    asked = datetime(2024, 5, 20, tzinfo=UTC)
    for age in (3, 50, 300):
        text = f"The next step for the raised beds is on page {age} of the garden plan."
        await say(connection, uuid4(), text, user_id=ANN, created_at=asked - timedelta(days=age))
    await index_all(connection)
    for told in ({"asked_at": asked.isoformat()}, {"until": asked.isoformat()}):
        rows = await connection.fetch(OPTIONS, question, ANN, json.dumps(told))
        recency = {row["content"].split()[10]: row["recency"] for row in rows}
        assert (0.15 >= recency["3"] > recency["50"] > recency["300"] >= 0) == counts
        if not counts:
            assert set(recency.values()) == {0}
