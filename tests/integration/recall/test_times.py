"""Recall understands the times that a question names, in the languages of the facts."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB
from tests.support.content.index import index_rows
from tests.support.rows import remember

NOW = "2026-03-18T12:00:00Z"
"""A Wednesday."""
DAYS = {
    "24 May": "2024-05-05",
    "25 Jan": "2025-01-15",
    "25 Mar": "2025-03-14",
    "25 Jul": "2025-07-20",
    "Christmas": "2025-12-25",
    "26 Jan": "2026-01-20",
    "late Feb": "2026-02-27",
    "two weeks ago": "2026-03-04",
    "last Monday": "2026-03-09",
    "last Friday": "2026-03-13",
    "Monday": "2026-03-16",
    "yesterday": "2026-03-17",
}
MARCH = {"25 Mar", "two weeks ago", "last Monday", "last Friday", "Monday", "yesterday"}
JANUARY = {"25 Jan", "26 Jan"}
LAST_WEEK = {"last Monday", "last Friday"}
NAMED = {
    # By month, day, year and parts of them.
    "in January": JANUARY,
    "in january 2025": {"25 Jan"},
    "January's": JANUARY,
    "mid-January": {"25 Jan", "26 Jan"},
    "in late February": {"late Feb"},
    "on 14 March": {"25 Mar"},
    "on the 14th of March": {"25 Mar"},
    "on March 14th, 2025": {"25 Mar"},
    "2025-03-14": {"25 Mar"},
    "3/14/2025": {"25 Mar"},
    "14.03.2025": {"25 Mar"},
    "the first week of March": {"two weeks ago", "last Monday"},
    "in May": {"24 May"},
    "in 2024": {"24 May"},
    "last year": {"25 Jan", "25 Mar", "25 Jul", "Christmas"},
    "last January": {"26 Jan"},
    "in March last year": {"25 Mar"},
    "at Christmas": {"Christmas"},
    "during the summer": {"25 Jul"},
    "last summer": {"25 Jul"},
    # By a distance from now.
    "yesterday": {"yesterday"},
    "two days ago": {"Monday"},
    "two hours ago": {"yesterday"},
    "last week": LAST_WEEK,
    "this week": {"Monday", "yesterday"},
    "two weeks ago": {"two weeks ago"},
    "on Monday": {"Monday"},
    "last Friday": {"last Friday"},
    "in the last three days": {"Monday", "yesterday"},
    "last month": {"late Feb"},
    # By their beginning and end.
    "since March 9": {"last Monday", "last Friday", "Monday", "yesterday"},
    "before 2025": {"24 May", "25 Jan"} - {"25 Jan"},
    "between May and August 2025": {"25 Jul"},
    "from March to July 2025": {"25 Mar", "25 Jul"},
    "two days before Christmas": set(),
    # The same in other languages.
    "im März": MARCH,
    "im Mai": {"24 May"},
    "Anfang März 2026": {"two weeks ago", "last Monday"},
    "am 14. März 2025": {"25 Mar"},
    "gestern": {"yesterday"},
    "vor zwei Tagen": {"Monday"},
    "letzte Woche": LAST_WEEK,
    "letzten Freitag": {"last Friday"},
    "seit dem 9. März": {"last Monday", "last Friday", "Monday", "yesterday"},
    "im Sommer": {"25 Jul"},
    "en enero": JANUARY,
    "el 14 de marzo de 2025": {"25 Mar"},
    "la semana pasada": LAST_WEEK,
    "hace dos días": {"Monday"},
    "el viernes pasado": {"last Friday"},
    "ayer": {"yesterday"},
    "el verano pasado": {"25 Jul"},
    "en janvier": JANUARY,
    "le 14 mars 2025": {"25 Mar"},
    "il y a deux jours": {"Monday"},
    "la semaine dernière": LAST_WEEK,
    "hier j'ai vu": {"yesterday"},
    "l'été dernier": {"25 Jul"},
    "上周": LAST_WEEK,
    "昨天": {"yesterday"},
    "三月": MARCH,
    "2025年3月14日": {"25 Mar"},
    "去年三月": {"25 Mar"},
    "两天前": {"Monday"},
    "上个月": {"late Feb"},
    # In traditional characters.
    "上週": LAST_WEEK,
    "兩天前": {"Monday"},
    "上個月": {"late Feb"},
    "a few days ago": {"last Friday", "Monday", "yesterday"},
    "vor ein paar Tagen": {"last Friday", "Monday", "yesterday"},
    "幾天前": {"last Friday", "Monday", "yesterday"},
}
NO_TIMES = [
    *("May I come in?", "May we use it?", "it may be late", "this may be it", "what may go wrong?", "maybe"),
    *(
        "the march was long",
        "they march on",
        "to march in protest",
        "March on, he said",
        "a second opinion",
        "one second",
    ),
    *(
        "the second may help",
        "wait a second, may I ask",
        "he came third. March on",
        "a second march",
        "the second fall of Rome",
        "a third spring",
        "every second Sunday",
    ),
    *(
        "Sun and moon",
        "who sat there",
        "a sat nav",
        "Mon ami",
        "the sun",
        "in the sun",
        "wed in white",
        "a fri",
    ),
    *(
        "did I fall?",
        "they fall for it",
        "a spring in the mattress",
        "spring water",
        "the winter coat",
        "summer dress",
    ),
    *(
        "a decade of work",
        "an august person",
        "April's sister",
        "who is June",
        "ask April",
        "Augusta",
        "a date with Mars",
    ),
    *(
        "last name",
        "the last one",
        "next to me",
        "next door",
        "this one",
        "past tense",
        "a weekly report",
        "daily",
        "monthly",
    ),
    *(
        "Easter eggs",
        "who hid the Easter-eggs",
        "an Easter bunny",
        "the statues of Easter Island",
        "Did you have a good Friday?",
    ),
    *(
        "la Isla de Pascua",
        "huevos de Pascua",
        "l'île de Pâques",
        "des œufs de Pâques",
        "复活节岛",
        "复活节彩蛋",
    ),
    *("the second week of the project", "in the second week of the project", "the first two weeks of school"),
    *("a fifth of the cake", "the fifth, may I ask", "he came fifth. March on", "the fifth of us"),
    *(
        "day by day",
        "every week",
        "all year round",
        "week after week",
        "the day shift",
        "a night owl",
        "good morning",
    ),
    *(
        "version 2.14",
        "1.5 litres",
        "room 2004b",
        "10:30",
        "200 lines",
        "chapter 14",
        "14 people",
        "ago",
    ),
    *(
        "hier ist es",
        "der Mai ist",
        "guten Morgen",
        "mi casa",
        "la mañana",
        "en fin",
        "mars et jupiter",
        "一天",
        "中心",
        "上面",
    ),
]
TIMED = """
select metadata ->> 'name' as name, timed
from explain_recall('Nautilus ' || $1, user_id => $2, match_count => 50, options => $3::jsonb)
join agent_memory using (id)
"""
ADD = """
insert into agent_memory (agent_id, user_id, content, embedding, created_at)
select 'alice', $1, 'It was a draw, ' || n, $3::text::vector, $4::text::timestamptz from generate_series(1, $2) n
"""
NEAREST, FARTHER = (f"[{near},{far}{',0' * 254}]" for near, far in ((1, 0), (0.6, 0.8)))
BEST = "select * from recall($1, user_id => $2, query_embedding => $3::text::vector, match_count => 1)"


@pytest.fixture
async def diary(scratch: asyncpg.Connection) -> asyncpg.Connection:
    """A memory a day of DAYS, whose text names no time."""
    for name, day in DAYS.items():
        await remember(
            scratch,
            "Nautilus was here",
            user_id=ANN,
            kind="fact",
            created_at=datetime.fromisoformat(day).replace(hour=12, tzinfo=UTC),
            metadata=json.dumps({"name": name}),
        )
    await index_rows(scratch, "memory")
    return scratch


async def lifted(connection: asyncpg.Connection, asked: str, now: str = NOW) -> dict[str, float]:
    """How much the time of a question adds to each memory."""
    rows = await connection.fetch(TIMED, asked, ANN, json.dumps({"asked_at": now}))
    assert {row["name"] for row in rows} == set(DAYS), "a time leaves nothing out"
    return {row["name"]: row["timed"] for row in rows}


async def test_what_was_written_at_the_time_is_lifted(diary: asyncpg.Connection) -> None:
    wrong = {}
    for asked, names in NAMED.items():
        found = await lifted(diary, asked)
        best = {name for name, timed in found.items() if timed == 0.8}
        if best != names:
            wrong[asked] = sorted(best)
    assert wrong == {}


async def test_what_is_no_time_moves_nothing(diary: asyncpg.Connection) -> None:
    assert len(NO_TIMES) >= 60
    assert {a: m for a in NO_TIMES if (m := {n for n, t in (await lifted(diary, a)).items() if t})} == {}


@pytest.mark.parametrize(
    ("said", "days"),
    [
        ("on Boxing Day 2024", "{[2024-12-26,2024-12-27)}"),
        ("in the nineties", "{[1990-01-01,2000-01-01)}"),
        ("Who is in his late nineties?", None),
        ("in den achtziger Jahren", "{[1980-01-01,1990-01-01)}"),
        ("im Jahr 1476", "{[1476-01-01,1477-01-01)}"),
        ("im zweiten Jahr", None),
        ("am dritten Tag des Projekts", None),
    ],
)
async def test_days_and_decades_by_name_and_what_is_counted_from_elsewhere(
    scratch: asyncpg.Connection, said: str, days: str | None
) -> None:
    found = await scratch.fetchval(
        "select days::text from memoryd.times_in($1, $2::timestamptz::date, false)",
        said,
        datetime.fromisoformat(NOW),
    )
    assert found == days


async def test_near_a_time_counts_half(diary: asyncpg.Connection) -> None:
    found = await lifted(diary, "two days before Christmas")
    assert {name: timed for name, timed in found.items() if timed} == {"Christmas": 0.4}


async def test_times_are_those_of_when_it_is_asked(diary: asyncpg.Connection) -> None:
    found = await lifted(diary, "last week", "2025-12-31T00:00:00Z")
    assert {name for name, timed in found.items() if timed} == {"Christmas"}


@pytest.mark.parametrize(
    "now", ["9999-12-31", "0001-01-01", "infinity", "-infinity", "4713-01-01 BC", "294276-12-31"]
)
async def test_any_time_can_be_now(diary: asyncpg.Connection, now: str) -> None:
    for asked in ("last week", "in January", "two years ago", "since March", "next summer", "in 999 years"):
        await lifted(diary, asked, now)


@pytest.mark.parametrize(
    "asked",
    [
        "in March last April",
        "on 31 February, on 0.0.2025, on 99/99/2025, 2025-13-45, in month 13",
        "between March and March and between and since since before",
        " ".join(f"on {day} March {year}" for year in range(1900, 2100) for day in (1, 31)),
        "in January " * 400,
        "二〇二五年十二月三十一日前前前天 九十九月 十十十月",
        "in 99999999999 weeks, 999 years ago, in 999 months, y2024 m3 X1 X2 until X9",
        "\u200b\ufeff in\u00a0March \U0001f5d3",
    ],
)
async def test_strange_times_are_answered(diary: asyncpg.Connection, asked: str) -> None:
    await diary.fetch(TIMED, asked, ANN, json.dumps({"asked_at": NOW}))


async def test_what_a_row_names_or_is_valid_from_counts(scratch: asyncpg.Connection) -> None:
    """Also where it was written at another time; the days of a row are of when it was written."""
    written = datetime(2025, 6, 10, 12, tzinfo=UTC)
    names = {
        "said": "Nautilus sails on 14 March 2025",
        "the day before": "Nautilus sailed yesterday",
        "valid": "Nautilus has a new captain",
        "other": "Nautilus is a boat",
    }
    for name, text in names.items():
        await remember(
            scratch,
            text,
            user_id=ANN,
            kind="fact",
            created_at=written,
            metadata=json.dumps({"name": name}),
            valid_from=datetime(2024, 11, 5, 12, tzinfo=UTC) if name == "valid" else None,
        )

    async def best(asked: str) -> set[str]:
        rows = await scratch.fetch(TIMED, asked, ANN, json.dumps({"asked_at": NOW}))
        return {row["name"] for row in rows if row["timed"] == 0.8}

    for _ in range(2):
        # Before and after they are indexed.
        assert await best("in March") == {"said"}
        assert await best("on 9 June 2025") == {"the day before"}
        assert await best("in November 2024") == {"valid"}
        await index_rows(scratch, "memory")
    await scratch.execute(
        "update agent_memory set valid_from = '2024-02-03Z' where metadata ->> 'name' = 'valid'"
    )
    await index_rows(scratch, "memory")
    assert await best("in November 2024") == set()
    assert await best("on 3 February 2024") == {"valid"}


async def test_a_time_finds_what_others_are_nearer_to(scratch: asyncpg.Connection) -> None:
    """Among a thousand rows of other months that are nearer to the question; nothing of another user's."""
    await scratch.execute(ADD, ANN, 1000, NEAREST, "2025-03-01Z")
    await scratch.execute(ADD, BOB, 2, FARTHER, "2025-01-09Z")
    await scratch.execute(ADD, ANN, 1, FARTHER, "2025-01-09Z")
    await index_rows(scratch, "memory")
    [found] = await scratch.fetch(BEST, "in January", ANN, NEAREST)
    assert found["created_at"].month == 1
    [found] = await scratch.fetch(BEST, "in general", ANN, NEAREST)
    assert found["created_at"].month == 3


@pytest.mark.parametrize(
    "asked",
    [
        "What do I have this week?",
        "what's on this week",
        "Was machen wir diese Woche?",
        "¿Qué hacemos esta semana?",
        "Que fait-on cette semaine ?",
        "What happens in March?",
    ],
)
async def test_what_is_still_to_come_is_in_texts_of_before(scratch: asyncpg.Connection, asked: str) -> None:
    """They come after what was written at that time, however much that is; of days that are over they do not."""
    for n in range(15):
        at = datetime(2026, 3, 18, 8, n, tzinfo=UTC)
        await remember(scratch, f"Coffee number {n} of the morning.", user_id=ANN, created_at=at)
    dentist = "The dentist expects me on 20 March."
    for text in (dentist, "The plumber comes on 16 March.", "Mia has her party on 2 April."):
        at = datetime(2026, 2, 10, tzinfo=UTC)
        await remember(scratch, text, user_id=ANN, created_at=at)
    await index_rows(scratch, "memory")
    *others, last = await scratch.fetch(
        "select content from recall($1, user_id => $2, options => $3)",
        *(asked, ANN, json.dumps({"asked_at": NOW, "relevant_only": True})),
    )
    assert last["content"] == dentist
    assert len(others) == 9
    assert all(row["content"].startswith("Coffee") for row in others)
