"""A question considers at most fifty speakers, however many have similar names."""

from __future__ import annotations

import json

import asyncpg

from tests.support.access.acting import ANN, acting_as

# As statements over messages of so many speakers leave it, twenty whose names begin with each of 200 words.
SPEAKERS = """
insert into memoryd.speaker_statistics (scope, lexeme, speaker, passages)
select memoryd.scope_of($1, null), l, s.name, 1
from (select 'Nam' || w || 'x Kin' || n || 'q' as name from generate_series(1, 200) w, generate_series(1, 20) n
      union all select unnest($2::text[])) s
cross join lateral unnest(tsvector_to_array(memoryd.lexemes_of(s.name))) l
on conflict do nothing
"""

QUESTION = """
select (memoryd.question(u.caller, $1, coalesce((memoryd.open_request(jsonb_populate_record(
           null::memoryd.search_request, jsonb_build_object('on_behalf', (u.caller).user_id)))).scopes, '{}'), null)).speakers
from (select row($2::uuid, false, false)::memoryd.caller as caller) u
"""
ASKED = """
select * from memoryd.find(memoryd.recall_request(
    'recall', $1, null, null, array_fill(0.1, array[memoryd.searched_dimensions()])::vector, 10, '{}', '{}', '{}'))
"""


async def crowd(connection: asyncpg.Connection, *names: str) -> str:
    """Thousands of speakers beside these; returns a question of 32 kilobytes that names a part of each one's name."""
    await connection.execute(SPEAKERS, ANN, list(names))
    words = " ".join(f"nam{w}x" for w in range(1, 201))
    return (f"What did {' and '.join(names)} say to {words} " + "and so on " * 4000)[:32768]


async def test_a_question_considers_fifty_speakers_at_most(connection: asyncpg.Connection) -> None:
    asked = await crowd(connection, "Carol Ann", "Carol")
    named = await connection.fetchval(QUESTION, asked, ANN)
    assert len(named) == 50
    assert {"Carol Ann", "Carol"} <= set(named)


async def test_of_many_similar_speakers_those_named_in_full_are_removed_from_the_question(
    connection: asyncpg.Connection,
) -> None:
    asked = await crowd(connection, "Carol Ann", "Carol", "O'Hara (boss)")
    text = await connection.fetchval("select text from memoryd.read_question($1, null, $2)", asked, ANN)
    assert text.startswith("What did  and  and")
    assert not [name for name in ("Carol", "O'Hara") if name in text]
    # A speaker who is not named in full stays.
    assert "nam1x nam2x" in text


async def test_named_speakers_are_removed_from_an_ordinary_question(connection: asyncpg.Connection) -> None:
    await connection.execute(
        SPEAKERS.replace("(1, 200)", "(1, 0)"), ANN, ["Caroline", "Mel B.", "Jean-Luc Martin", "A+B|C"]
    )
    for asked, text in (
        ("What did Caroline say to Mel B.?", "What did  say to ?"),
        ("caroline's dog and CAROLINE\u2019s cat", " dog and  cat"),
        ("Carolines are not Caroline", "Carolines are not "),
        ("Ask Jean-Luc Martin, not Martin", "Ask , not Martin"),
        ("Is A+B|C here?", "Is  here?"),
        ("Caroline", "Caroline"),
        ("Who was there?", "Who was there?"),
    ):
        assert (
            await connection.fetchval("select text from memoryd.read_question($1, null, $2)", asked, ANN)
            == text
        )


async def test_a_speaker_of_other_users_costs_no_extra_page(connection: asyncpg.Connection) -> None:
    """However many scopes know a speaker of that name, there is only one look-up for each scope of the caller."""
    await connection.execute(
        "insert into memoryd.speaker_statistics (scope, lexeme, speaker, passages) "
        "select n, 'carolin', 'Caroline', 1 from generate_series(1, 20000) n"
    )
    await connection.execute("analyze memoryd.speaker_statistics")

    async def pages(word: str) -> int:
        plan = json.loads(
            await connection.fetchval(
                f"explain (analyze, buffers, format json) {ASKED}",
                word,
            )
        )[0]["Plan"]
        return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])

    async with connection.transaction(readonly=True), acting_as(connection, ANN):
        for word in ("caroline", "zzyzx") * 2:
            await pages(word)
        known, unknown = [min([await pages(word) for _ in range(3)]) for word in ("caroline", "zzyzx")]
    assert abs(known - unknown) <= 4
