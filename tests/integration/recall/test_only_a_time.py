"""A question that asks for nothing but a time is answered with the rows of that time, in order."""

# ruff: noqa: RUF001 - Chinese punctuation is what is tested

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.support.access.acting import ANN
from tests.support.content.index import index_rows
from tests.support.rows import column

pytestmark = pytest.mark.usefixtures("tokens")

NOW = "2026-03-18T12:00:00Z"
"""A Wednesday."""
DAYS = (
    *("0079-08-24", "1453-05-29", "1799-11-09", "2024-05-05", "2025-01-15", "2025-03-14", "2025-05-03"),
    *("2025-04-18", "2025-06-09"),
    *("2025-05-06", "2025-07-20", "2025-10-31", "2025-12-20", "2025-12-23", "2025-12-24", "2025-12-25"),
    *("2026-01-20", "2026-02-27", "2026-03-04", "2026-03-09", "2026-03-13", "2026-03-14", "2026-03-17"),
)
"""Of each there are twelve messages."""
BEFORE_LAST = ["2026-03-04"]
BEFORE_CHRISTMAS = ["2025-12-20", "2025-12-23", "2025-12-24"]
CHRISTMAS = ["2025-12-24", "2025-12-25"]
CHRISTMAS_WEEKS = ["2025-12-20", "2025-12-23", "2025-12-24", "2025-12-25"]
LAST_WEEK = ["2026-03-09", "2026-03-13", "2026-03-14"]
YESTERDAY = ["2026-03-17"]
ASKED = {
    "What happened on 14 March 2025?": ["2025-03-14"],
    "What did Ann and I chat about on July 20th?": ["2025-07-20"],
    "What did Ben say yesterday?": YESTERDAY,
    "yesterday?": YESTERDAY,
    "Can you remind me what we discussed the day before yesterday": [],
    "Please summarize everything from last week.": LAST_WEEK,
    "What was going on last weekend?": ["2026-03-14"],
    "what have I been up to over the weekend": ["2026-03-14"],
    "Tell me what came up during the week before Christmas": ["2025-12-20", "2025-12-23", "2025-12-24"],
    "What took place the weekend before Christmas?": ["2025-12-20"],
    "what's new since March 9?": [*LAST_WEEK, *YESTERDAY],
    "What did we work on between 3 and 6 May 2025?": ["2025-05-03", "2025-05-06"],
    "What happened on Christmas Eve?": ["2025-12-24"],
    "Which topics did we cover at Halloween and on 20 January 2026?": ["2025-10-31", "2026-01-20"],
    "what happened in 1453": ["1453-05-29"],
    "What happened between 1789 and 1815?": ["1799-11-09"],
    "What happened in the year 79?": ["0079-08-24"],
    "Was war gestern los?": YESTERDAY,
    "Worum ging es letzte Woche?": LAST_WEEK,
    "Was haben wir am Montagabend besprochen?": [],
    "Erzähl mir, was am Wochenende passiert ist.": ["2026-03-14"],
    "Was gab's Neues im Oktober?": ["2025-10-31"],
    "Was ist vom 3. bis 6. Mai 2025 geschehen?": ["2025-05-03", "2025-05-06"],
    "Was stand in der Woche vor Weihnachten an?": None,
    "Worüber wurde in der Woche vor Weihnachten gesprochen?": ["2025-12-20", "2025-12-23", "2025-12-24"],
    "Was passierte an Heiligabend und am ersten Weihnachtstag?": CHRISTMAS,
    "Was geschah im Jahr 1453?": ["1453-05-29"],
    "Worüber haben wir uns vorgestern unterhalten?": [],
    "¿Qué pasó ayer?": YESTERDAY,
    "¿De qué hablamos el fin de semana pasado?": ["2026-03-14"],
    "¿Qué hicimos la semana pasada?": LAST_WEEK,
    "¿Qué ocurrió del 3 al 6 de mayo de 2025?": ["2025-05-03", "2025-05-06"],
    "Cuéntame lo que sucedió en Nochebuena": ["2025-12-24"],
    "¿Qué pasó la semana antes de Navidad?": ["2025-12-20", "2025-12-23", "2025-12-24"],
    "¿Qué sucedió en el año 1453?": ["1453-05-29"],
    "¿Qué novedades hay desde el 9 de marzo?": [*LAST_WEEK, *YESTERDAY],
    "De quoi a-t-on parlé hier ?": YESTERDAY,
    "Qu'est-ce qui s'est passé le week-end dernier ?": ["2026-03-14"],
    "Qu\u2019avons-nous dit la semaine dernière ?": LAST_WEEK,
    "Quoi de neuf depuis le 9 mars ?": [*LAST_WEEK, *YESTERDAY],
    "Que s'est-il passé du 3 au 6 mai 2025 ?": ["2025-05-03", "2025-05-06"],
    "De quoi parlions-nous la semaine avant Noël ?": ["2025-12-20", "2025-12-23", "2025-12-24"],
    "Qu'a-t-on fait en octobre ?": ["2025-10-31"],
    "Qu'est-il arrivé en 1453 ?": ["1453-05-29"],
    "昨天我们聊了什么": YESTERDAY,
    "上周发生了什么事": LAST_WEEK,
    "昨天晚上你说了什么": YESTERDAY,
    "上周末我们做了什么": ["2026-03-14"],
    "圣诞节前一周发生了什么": ["2025-12-20", "2025-12-23", "2025-12-24"],
    "2025年5月3日到6日我们讨论了哪些话题": ["2025-05-03", "2025-05-06"],
    "三月九日以后有什么新消息": ["2026-03-13", "2026-03-14", *YESTERDAY],
    "1453年发生了什么": ["1453-05-29"],
    "what went on in 1453 ?": ["1453-05-29"],
    "Was geschah 1453?": ["1453-05-29"],
    "Was haben wir 2024 besprochen?": ["2024-05-05"],
    "Was war 1453 so los ?": ["1453-05-29"],
    "¿Qué hicimos el 2024?": ["2024-05-05"],
    "¿ Qué ocurrió hacia 1453 ?": ["1453-05-29"],
    "1453, ¿qué sucedió?": ["1453-05-29"],
    "Qu\u2019est-ce qu\u2019on s\u2019est dit hier ?": YESTERDAY,
    "Que s'est-il passé vers 1453 ?": ["1453-05-29"],
    "1453 : que s'est-il passé ?": ["1453-05-29"],
    "1453 年 发生了 什么 ？": ["1453-05-29"],
    "昨天 ， 我们 说了 什么 ？": YESTERDAY,
    # As others asked, who had seen none of those above.
    "What happened the week before last?": BEFORE_LAST,
    "Worüber haben wir in der vorletzten Woche geredet?": BEFORE_LAST,
    "Qu'a-t-on fait l'avant-dernière semaine ?": BEFORE_LAST,
    "¿Qué pasó la semana antepasada?": BEFORE_LAST,
    "上上周我们聊了什么？": BEFORE_LAST,
    "Was war vor vierzehn Tagen?": BEFORE_LAST,
    "What happened two weekends ago?": [],
    "What happened on Friday last week?": ["2026-03-13"],
    "上周五发生了什么？": ["2026-03-13"],
    "上周二我们说了什么？": [],
    "Que s'est-il passé il y a cinq jours ?": ["2026-03-13"],
    "Que s'est-il passé la semaine avant Noël ?": BEFORE_CHRISTMAS,
    "¿Qué ha pasado la semana antes de Navidad?": BEFORE_CHRISTMAS,
    "Que s'est-il passé la veille de Noël ?": ["2025-12-24"],
    "What did we discuss a year ago today?": [],
    "Was war heute vor einem Jahr?": [],
    "What happened on the 27th of last month?": ["2026-02-27"],
    "What happened late last month?": ["2026-02-27"],
    "What happened in the first quarter of 2025?": ["2025-01-15", "2025-03-14"],
    "what happened in Q1 2025": ["2025-01-15", "2025-03-14"],
    "what happened May 3-6, 2025": ["2025-05-03", "2025-05-06"],
    "Was geschah 3.–6. Mai 2025?": ["2025-05-03", "2025-05-06"],
    "What did we talk about this weekend?": ["2026-03-14"],
    "¿Qué hicimos este fin de semana?": ["2026-03-14"],
    "去年春天我们做了什么？": ["2025-03-14", "2025-04-18", "2025-05-03", "2025-05-06"],
    "前年发生了什么？": ["2024-05-05"],
    "总结一下上周": LAST_WEEK,
    "What happened in the third week of March 2025?": [],
    "What did we talk about in the second week of March 2025?": ["2025-03-14"],
    "Was war in der ersten Woche im Mai 2025?": ["2025-05-03", "2025-05-06"],
    "¿Qué pasó la segunda semana de marzo de 2025?": ["2025-03-14"],
    "Qu'est-ce qui s'est passé la deuxième semaine de mars 2025 ?": ["2025-03-14"],
    "What happened on the third of May 2025?": ["2025-05-03"],
    "What did we do at Easter?": ["2025-04-18"],
    "Was war in der Woche vor Ostern 2025 los?": [],
    "2024年复活节发生了什么？": [],
    "What happened at Easter in 2024?": [],
    "What happened between Easter 2024 and Easter 2025?": [
        "2024-05-05",
        "2025-01-15",
        "2025-03-14",
        "2025-04-18",
    ],
    "What happened in the second week of last month?": [],
    "What happened in the last week of last month?": ["2026-02-27"],
    "Was war in der zweiten Woche des letzten Monats los?": [],
    "Que s'est-il passé la deuxième semaine de ce mois ?": ["2026-03-09", "2026-03-13", "2026-03-14"],
    "¿Qué pasó la segunda semana de este mes?": ["2026-03-09", "2026-03-13", "2026-03-14"],
    "这个月第二周我们聊了什么？": ["2026-03-09", "2026-03-13", "2026-03-14"],
    "2025年3月的第二个星期发生了什么？": ["2025-03-14"],
    "What happened in the first two weeks of May 2025?": ["2025-05-03", "2025-05-06"],
    "Was war in den ersten beiden Wochen im Mai 2025?": ["2025-05-03", "2025-05-06"],
    "¿Qué pasó las dos últimas semanas de diciembre de 2025?": CHRISTMAS_WEEKS,
    "Que s'est-il passé les deux dernières semaines de décembre 2025 ?": CHRISTMAS_WEEKS,
    "What happened in the fifth week of October 2025?": ["2025-10-31"],
    "Was war in der fünften Woche im Oktober 2025?": ["2025-10-31"],
    "What happened in 2025, in the second week of March?": ["2025-03-14"],
    "What happened between January 2025 and March?": ["2025-01-15", "2025-03-14"],
    "What happened on Good Friday 2025?": ["2025-04-18"],
    "Was war am Karfreitag?": ["2025-04-18"],
    "¿Qué pasó el Viernes Santo?": ["2025-04-18"],
    "¿Qué hicimos en Semana Santa?": ["2025-04-18"],
    "Que s'est-il passé le vendredi saint ?": ["2025-04-18"],
    "耶稣受难日我们聊了什么？": ["2025-04-18"],
    "Was war am Ostermontag los?": [],
    "Que s'est-il passé le lundi de Pâques ?": [],
    "What happened on Easter Sunday 2025?": [],
    "What happened three days before Easter Monday 2025?": ["2025-04-18"],
    "What did we do at Whitsun?": ["2025-06-09"],
    "Was war an Pfingsten 2025 los?": ["2025-06-09"],
    "Was war am Pfingstmontag los?": ["2025-06-09"],
    "Qu'a-t-on fait à la Pentecôte ?": ["2025-06-09"],
    "¿Qué hicimos en Pentecostés de 2025?": ["2025-06-09"],
    "圣灵降临节我们聊了什么？": ["2025-06-09"],
    "What happened between Easter 2025 and the third of May?": ["2025-04-18", "2025-05-03"],
    "What happened on Friday or Saturday?": ["2026-03-13", "2026-03-14"],
    "Was war am Freitag oder Samstag?": ["2026-03-13", "2026-03-14"],
    "¿Qué pasó el viernes o el sábado?": ["2026-03-13", "2026-03-14"],
    "Qu'a-t-on fait vendredi ou samedi ?": ["2026-03-13", "2026-03-14"],
    "周五或周六我们聊了什么？": ["2026-03-13", "2026-03-14"],
    "What did we do Friday?": ["2026-03-13"],
    "Was haben wir Freitag unternommen?": ["2026-03-13"],
    "Was war vorige Woche Freitag?": ["2026-03-13"],
    "Que s'est-il passé mardi ?": YESTERDAY,
    "What happens in the next three days?": [],
    "Was machen wir in den nächsten drei Tagen?": [],
    "¿Qué hay en los próximos tres días?": [],
    "Que fait-on les trois prochains jours ?": [],
    "What happened on 23 December, 25 December and 4 March?": ["2025-12-23", "2025-12-25", "2026-03-04"],
    "What did we talk about a week ago today?": [],
    "What happened an hour ago?": YESTERDAY,
    "Any updates within the last 24 hours?": YESTERDAY,
    "Was war in den letzten 24 Stunden?": YESTERDAY,
    "Was war vor zwei Stunden?": YESTERDAY,
    "¿Qué pasó en las últimas 24 horas?": YESTERDAY,
    "Que s'est-il passé il y a deux heures ?": YESTERDAY,
    "过去24小时发生了什么？": YESTERDAY,
    "What happened in the 1450s?": ["1453-05-29"],
    "Was geschah in den 1450er Jahren?": ["1453-05-29"],
    "¿Qué pasó en los años 1450?": ["1453-05-29"],
    "Que s'est-il passé dans les années 1450 ?": ["1453-05-29"],
    "1450年代发生了什么？": ["1453-05-29"],
    "¿Qué pasó en los años 90?": [],
    "一四五三年发生了什么？": ["1453-05-29"],
    "What happened in Q4?": ["2025-10-31", *BEFORE_CHRISTMAS, "2025-12-25"],
    "Was hast du mir im Oktober erzählt?": ["2025-10-31"],
    "What did we do 3 weeks in March 2025?": None,
    "What happened the second spring?": None,
    "What happened in the third summer?": None,
    "What happened the third, May?": None,
}
"""None: something else is asked, too."""
OTHER = (
    "Which lighthouse did we talk about yesterday?",
    "Did he die in May?",
    "remember when we deployed on Friday?",
    "Wer hat im März das Auto repariert?",
    "¿Dónde está la llave que perdí ayer?",
    "Où est la clé que j'ai perdue hier ?",
    "昨天的火车晚点了吗",
    "May May march in March",
    "Did you say 2024?",
    "Show me 2024 items",
    "Was ist 2024?",
    "Was kosten 2024 Steine?",
    "Was ist mit 2024 passiert?",
    "Zimmer 2024?",
    "¿Cuánto es 2024?",
    "¿Qué pasó con el 2024 del pedido?",
    "Qui a dit 2024 fois bonjour ?",
    "Who is Friday?",
    "How many hours was it?",
)
WRITE = """
insert into conversation_messages (session_id, user_id, message_index, role, speaker, content, created_at)
select $2, $1, n, case n % 2 when 1 then 'user' else 'assistant' end, case n % 2 when 1 then 'Ann' else 'Ben' end,
       $3 || ' ' || case n % 3 when 0 then 'Hm.' when 1 then 'The heron nests by the lake again, as each year.'
                    else 'Did the boiler stop?' end, $4::timestamptz + n * interval '1 minute'
from generate_series(1, $5) n
"""
FOUND = """
select m.created_at, e.content, e.score, e.reason, e.left_out
from explain_recall($1, user_id => $2, match_count => $3, options => $4::jsonb) with ordinality as e
join conversation_messages m using (id)
order by e.ordinality
"""


async def say(
    connection: asyncpg.Connection, day: str, text: str = "", count: int = 12, user: UUID = ANN
) -> None:
    """Messages of a session on this day, from nine o'clock on."""
    at = datetime.fromisoformat(day).replace(hour=9, tzinfo=UTC)
    session = uuid4()
    await connection.execute("insert into conversation_sessions (id, user_id) values ($1, $2)", session, user)
    await connection.execute(WRITE, user, session, text, at, count)


@pytest.fixture
async def diary(scratch: asyncpg.Connection) -> asyncpg.Connection:
    """Messages of DAYS, and others that have the words of a question about a time, or name a day."""
    for day in DAYS:
        await say(scratch, day)
    await say(
        scratch, "2025-08-08", "Great chatting with you, what did we talk about yesterday? What happened?"
    )
    await say(
        scratch, "2025-08-09", "We said on 14 March 2025, and in May 2025, we would talk. 昨天我们聊了什么"
    )
    await index_rows(scratch, "conversation")
    await scratch.execute("select memoryd.fold_lexeme_changes()")
    return scratch


async def found(
    connection: asyncpg.Connection, asked: str, count: int = 10, **options: object
) -> list[asyncpg.Record]:
    """The rows, as explained."""
    return await connection.fetch(FOUND, asked, ANN, count, json.dumps({"asked_at": NOW} | options))


async def test_the_time_is_the_answer(diary: asyncpg.Connection) -> None:
    wrong = {}
    for asked, days in ASKED.items():
        rows = await found(diary, asked)
        of_time = [row for row in rows if row["reason"] == "of that time"]
        got = sorted({str(row["created_at"].date()) for row in of_time})
        ordered = [row["created_at"] for row in of_time] == sorted(row["created_at"] for row in of_time)
        falls = [row["score"] for row in rows] == sorted((row["score"] for row in rows), reverse=True)
        if got != (days or []) or (days and len(of_time) < 10) or not ordered or not falls:
            wrong[asked] = (got, len(of_time), ordered, falls)
    assert wrong == {}


@pytest.mark.parametrize(
    "asked",
    [
        "what was said today ?",
        "Was gab's heute Neues?",
        "¿ Qué pasó hoy ?",
        "qu'est-ce qu'on a dit aujourd'hui ?",
        "Qu\u2019est-ce qu\u2019on s\u2019est dit aujourd\u2019hui ?",
        "aujourd'hui ?",
        "今天 发生了 什么 ？",
    ],
)
async def test_today_is_the_day_on_which_it_is_asked(diary: asyncpg.Connection, asked: str) -> None:
    rows = await found(diary, asked, asked_at="2026-03-17T20:00:00Z")
    assert [(str(row["created_at"].date()), row["reason"]) for row in rows] == [
        ("2026-03-17", "of that time")
    ] * 10


async def test_what_asks_for_more_is_ranked_by_it(diary: asyncpg.Connection) -> None:
    assert {a for a in OTHER if any(row["reason"] for row in await found(diary, a))} == set()


async def test_rows_are_spread_over_the_time(diary: asyncpg.Connection) -> None:
    for day in range(1, 31):
        await say(diary, str(date(2024, 11, day)), count=5)
    await index_rows(diary, "conversation")
    for count in (3, 10, 30):
        rows = await found(diary, "What happened in November 2024?", count)
        days = [row["created_at"].day for row in rows]
        assert len(rows) == count
        assert days == sorted(days)
        assert all(any(third * 10 < day <= third * 10 + 10 for day in days) for third in range(3))
    # Of two times each has its part.
    rows = await found(diary, "What happened on May 5th 2024 and in November 2024?")
    assert {row["created_at"].month for row in rows} == {5, 11}


async def test_only_what_is_of_the_time_belongs(diary: asyncpg.Connection) -> None:
    rows = await found(diary, "What happened yesterday?", 50, relevant_only=True)
    assert {str(row["created_at"].date()) for row in rows if row["left_out"] is None} == set(YESTERDAY)
    assert [
        row
        for row in await found(diary, "What happened in 1989?", 50, relevant_only=True)
        if row["left_out"] is None
    ] == []


async def test_a_text_that_names_the_year_belongs_to_it(scratch: asyncpg.Connection) -> None:
    """Of a history nothing was written in the year that is asked about."""
    for text in (
        "Konstantinopel fiel 1453 an die Osmanen.",
        "In 1492 three ships left Palos.",
        "The heron nests by the lake again, as in 1454 and each year.",
        "What happened? Was geschah denn da?",
    ):
        await say(scratch, "2026-02-03", text, 1)
    await index_rows(scratch, "conversation")
    for asked in (
        "Was geschah 1453?",
        "What happened in 1453?",
        "¿Qué sucedió en el año 1453?",
        "Qu'est-il arrivé en 1453 ?",
        "1453年发生了什么",
    ):
        first, *others = await found(scratch, asked, 10, relevant_only=True)
        assert "Konstantinopel" in first["content"], asked
        assert first["left_out"] is None, asked
        assert first["score"] > 0.3, asked
        assert all(row["left_out"] for row in others), asked


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("What are we doing in summer?", "This summer Tom and I cycle to France."),
        ("what happens in spring", "we always plant beans in spring"),
        ("Was will ich im Frühling machen?", "Im Frühling will ich den Jakobsweg laufen."),
        ("¿Qué hacemos en verano?", "El próximo verano vamos a Cádiz con los primos."),
        ("Que fait-on en automne ?", "Cet automne on repeint la cuisine."),
        ("夏天发生了什么？", "去年夏天在青岛看海。"),
        ("¿Qué hacemos el próximo año?", "El próximo año adoptamos un perro."),
        ("Was machen wir nächstes Jahr?", "Nächstes Jahr lerne ich endlich schwimmen."),
        ("What happened in the nineties?", "The nineties were loud, and I had a tamagotchi."),
        ("What happened in the 1950s?", "Gran grew up in the 1950s, without a fridge."),
    ],
)
async def test_a_text_that_names_a_long_time_belongs_to_it(
    scratch: asyncpg.Connection, asked: str, said: str
) -> None:
    """Nothing was written in the season, year or decade, but one row says what is planned or was then."""
    for text in (
        said,
        "The kettle is purple.",
        "Biscuit bit the postman.",
        "¿Qué tal? Was machen wir denn da?",
    ):
        await say(scratch, "2026-02-03", text, 1)
    await index_rows(scratch, "conversation")
    rows = await found(scratch, asked, 10, relevant_only=True)
    assert [row["content"].startswith(said) for row in rows if row["left_out"] is None] == [True]


async def test_29_february_is_not_the_day_before_it(scratch: asyncpg.Connection) -> None:
    for day in ("2024-02-29", "2025-02-28"):
        await say(scratch, day, "", 3)
    await index_rows(scratch, "conversation")
    rows = await found(scratch, "What happened on 29 February?")
    assert {str(row["created_at"].date()) for row in rows if row["reason"]} == {"2024-02-29"}


async def test_a_shared_day_opens_no_gate(scratch: asyncpg.Connection) -> None:
    """A question with words of its own is not answered by what was said on the same day."""
    await say(scratch, "2026-03-13", "", 14)
    await say(scratch, "2026-03-13", "We deployed the billing service to production.", 1)
    await index_rows(scratch, "conversation")
    options = json.dumps({"asked_at": NOW, "relevant_only": True})
    ask = "select content from recall('remember when we deployed on Friday?', user_id => $1, match_count => 50, options => $2)"
    brought = await column(scratch, ask, ANN, options)
    assert 1 <= len(brought) <= 3
    assert "deployed" in str(brought[0])


STRANGE = (
    "May May march in March",
    "What happened in 0000, in the year 0, between 1 and 9999?",
    "公元元年 公元1年 9999年12月31日 圣诞节前99999周",
    "What happened two years before the year 1, 999 years after 9999, in 99999?",
    "the week before the week before before before Christmas after after",
)


async def test_strange_times_are_answered(scratch: asyncpg.Connection) -> None:
    for day in ("0001-01-01", "2025-03-14", "2025-07-25", "9999-12-29"):
        await say(scratch, day, count=2)
    await index_rows(scratch, "conversation")
    many = "What happened on " + ", ".join(f"{day} March, {day} July" for day in range(1, 26)) + "?"
    for now in (NOW, "0001-01-01", "9999-12-30"):
        for asked, years in (
            ("What happened in the year 1?", {1}),
            ("What happened in 9999?", {9999}),
            (many, {2025}),
            *((strange, None) for strange in STRANGE),
        ):
            rows = await found(scratch, asked, 10, asked_at=now)
            if years and (asked != many or now == NOW):
                assert {row["created_at"].year for row in rows if row["reason"]} == years, (asked, now)
                assert len(rows) >= 2 * len(years)
