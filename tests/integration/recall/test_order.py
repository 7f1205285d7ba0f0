"""Which of two rows comes first: the one that says it, and not a short one beside it or one that has only the name."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB, acting_as
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


PROJECT: dict[str, tuple[tuple[str, ...], str, str, str]] = {
    "English": (
        (
            "The greenhouse gets a roof of old windows.",
            "For the foundation of the greenhouse we poured gravel.",
            "The tomatoes shall stand along the wall of the greenhouse.",
            "A barrel collects the rain from the roof.",
        ),
        "Old windows with a roof rack, gravel, a barrel and tomatoes were at the flea market.",
        (
            "Good morning, I hope you had a nice weekend! Yesterday I was in the garden for a while. The old windows "
            "for the roof are there now, the gravel is dry and my brother brought the barrel for the rain. How shall "
            "I go on with the tomatoes?"
        ),
        "What of the windows, the gravel and the barrel?",
    ),
    "German": (
        (
            "Das Gewächshaus bekommt ein Dach aus alten Fenstern.",
            "Unter das Gewächshaus kam Kies als Fundament.",
            "Die Tomaten sollen an der Wand vom Gewächshaus stehen.",
            "Eine Tonne sammelt den Regen vom Dach.",
        ),
        "Alte Fenster mit Dachträger, Kies, eine Tonne und Tomaten gab es auf dem Flohmarkt.",
        (
            "Guten Morgen, ich hoffe, du hattest ein schönes Wochenende! Gestern war ich eine Weile im Garten. Die "
            "alten Fenster für das Dach sind jetzt da, der Kies ist trocken und mein Bruder hat die Tonne für den "
            "Regen gebracht. Wie mache ich mit den Tomaten weiter?"
        ),
        "Was ist mit den Fenstern, dem Kies und der Tonne?",
    ),
    "Spanish": (
        (
            "El invernadero tendrá un techo de ventanas viejas.",
            "Debajo del invernadero pusimos grava como base.",
            "Los tomates irán junto a la pared del invernadero.",
            "Un barril recoge la lluvia del techo.",
        ),
        "Ventanas viejas con techo, grava, un barril y tomates había en el mercadillo.",
        (
            "Buenos días, ¡espero que hayas pasado un buen fin de semana! Ayer estuve un rato en el jardín. Las "
            "ventanas viejas para el techo ya están, la grava está seca y mi hermano trajo el barril para la lluvia. "
            "¿Cómo sigo con los tomates?"
        ),
        "¿Qué hay de las ventanas, la grava y el barril?",
    ),
    "Chinese": (
        ("温室的屋顶用旧窗户来做。", "温室下面铺了碎石做地基。", "番茄要种在温室的墙边。", "一个木桶收集屋顶的雨水。"),
        "跳蚤市场上有旧窗户、屋顶架、碎石、木桶和番茄。",
        (
            "早上好,希望你周末过得愉快!昨天我在花园里待了一会儿。做屋顶的旧窗户现在已经到了,碎石也干了,我哥哥把收集雨水"
            "的木桶带来了。另外天气预报说下周会下雨,所以我想尽快弄好。接下来番茄我该怎么继续做呢?"
        ),
        "旧窗户、碎石和木桶怎么样了?",
    ),
}  # fmt: skip


@pytest.mark.parametrize("language", sorted(PROJECT))
async def test_a_long_message_goes_on_with_the_session_that_has_most_of_it(
    connection: asyncpg.Connection, language: str
) -> None:
    """Though one message of another session has as much of it at once; for a short question that message is first."""
    lines, market, message, question = PROJECT[language]
    project, other = uuid4(), uuid4()
    for line in lines:
        await say(connection, project, line, user_id=ANN)
    await say(connection, other, market, user_id=ANN)
    for _ in range(12):
        await say(connection, uuid4(), "Biscuit sleeps on the sofa", user_id=ANN)
    await index_all(connection)
    explain = "select content, session, score from explain_recall($1, user_id => $2, match_count => 20)"
    long = {row["content"]: row for row in await connection.fetch(explain, message, ANN)}
    short = {row["content"]: row for row in await connection.fetch(explain, question, ANN)}
    assert next(iter(short)) == market
    assert next(iter(long)) in lines
    assert short[market]["session"] == 0
    assert all(long[line]["session"] > 0 for line in lines)


async def test_what_shares_no_word_follows_where_nothing_fits(connection: asyncpg.Connection) -> None:
    """With a low score, and it changes no other score; not where something fits, or what belongs or a time is asked for."""
    question = "Where is a romantic place for our anniversary?"
    key, candles = "The spare key has its place under the mat.", "We lit candles in the evening."
    scores = "select content, score from recall($1, user_id => $2, options => $3) order by score desc"
    for text in (key, *(f"Invoice {n} was paid by bank transfer." for n in range(60))):
        await remember(connection, text, user_id=ANN)
    await remember(connection, "They lit lanterns in the evening.", user_id=BOB)
    await index_all(connection)
    before = await connection.fetch(scores, question, ANN, "{}")
    assert [row["content"] for row in before] == [key]
    await remember(connection, candles, user_id=ANN)
    await index_all(connection)
    first, last = await connection.fetch(scores, question, ANN, "{}")
    assert [first["content"], last["content"]] == [key, candles]
    assert last["score"] < 0.1 < first["score"] == pytest.approx(before[0]["score"], abs=0.1)
    assert await column(connection, scores, question, ANN, json.dumps({"relevant_only": True})) == []
    why = "select left_out from explain_recall($1, user_id => $2)"
    assert await column(connection, why, question, ANN) == ["nothing fits the question"] * 2
    assert await column(connection, scores, "Where is the spare key?", ANN, "{}") == [key]

    await connection.execute(
        "update agent_memory set created_at = now() - interval '1 day' where content = $1", key
    )
    assert await column(connection, scores, "What happened yesterday?", ANN, "{}") == [key]


@pytest.mark.parametrize("times", [1, 110_000], ids=["short", "5 MB"])
async def test_an_end_users_recall_is_filled_with_their_own_rows(
    connection: asyncpg.Connection, times: int
) -> None:
    """Where nothing fits, also for a question of five megabytes: others' rows never follow."""
    key, candles = "The spare key has its place under the mat.", "We lit candles in the evening."
    for text in (key, candles, *(f"Invoice {n} was paid by bank transfer." for n in range(60))):
        await remember(connection, text, user_id=ANN)
    for text in ("They lit lanterns in the evening.", "We lit candles in the evening, too."):
        await remember(connection, text, user_id=BOB)
    await index_all(connection)
    async with acting_as(connection, ANN):
        rows = await connection.fetch(
            "select content, score, left_out from explain_recall($1)",
            "Where is a romantic place for our anniversary? " * times,
        )
    assert [row["content"] for row in rows] == [key, candles]
    assert {row["left_out"] for row in rows} == {"nothing fits the question"}
    assert rows[1]["score"] < 0.1 < rows[0]["score"]
