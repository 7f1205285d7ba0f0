"""Any text is a question: recall, contexts, requests and the command line answer with rows or none, never with an error; and
arguments that make no sense are told so.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daemon.db.migration_files import load_sources
from tests.support.content.index import UNINDEXED, index_rows
from tests.support.content.sources import one_of_each
from tests.support.database.schemas import connected
from tests.support.processes.commands import memoryd
from tests.support.rows import column, embedding, insert
from tests.support.waiting import ANSWERED, IDLE, until

SPEAKERS = (
    ".*",
    "a(b",
    "\\1",
    "[",
    "O'Brien",
    "Mary Ann",
    "x{3,2}",
    "(?i)",
    "$",
    "é\u0301",
    "مريم",
    "李雷",
    "😀 bot",
    "w" * 200,
    "a\\",
    "%s",
    "-- ;",
)
"""Names that would mean something else where they were taken for a pattern, a replacement or SQL."""

TEXTS = (
    "",
    " \t\n ",
    "\u200b\u200d\ufeff",
    "& | ! <-> :* ' \\ ( )",
    "zebra & (barn | !vault) <-> 'x':*A",
    "foo:*",
    "a <2> b",
    "((((((((",
    "'",
    "'' '' \\' \"",
    "'; drop table agent_memory; --",
    "$$ $1 %s {0} :name",
    "\\",
    "\\\\1 \\m \\y",
    ".* (a|b)+ [^]] {1,2} (?=x) (?<y>z)",
    "^(a+)+$" + "a" * 5000,
    "😀 👩‍👩‍👧‍👦 🇳🇴",
    "我们昨天在动物园看到了斑马",
    "斑马 😀 斑马",
    "رأينا حمارا وحشيا في الحديقة",
    "ראינו זברה בגן החיות",
    "เราเห็นม้าลายในสวนสัตว์",
    "z\u0335e\u0335b\u0335r\u0335a\u0335" + "\u0301" * 3000,
    "\u202ezebra\u202c \u2066x\u2069",
    "".join(chr(n) for n in range(1, 32)) + "\x7f\x80\x9f\ufffe\uffff",
    "\x1b[31mzebra\x1b[0m\r\b",
    "\U0010ffff\U000e0001",
    "https://example.com/a?b=c&d=e#f user@example.com /usr/bin/env C:\\x\\y",
    "-1 1e400 NaN 0x1f 1/0 2026-02-30",
    "x" * 3000,
    " ".join(f"w{n}" for n in range(9000)),
    " ".join(chr(0x4E00 + n) for n in range(20000)),
    "zebra " * 170_000,
    "(zebra & ' \\" * 85_000,
    "ж" * 2_500_000,
    "\\" * 5_000_000,
    *(f"what did {name} say about {name}'s zebra" for name in SPEAKERS),
)
CALLS = (
    "select count(*) from recall($1)",
    "select count(*) from recall($1, 'alice')",
    "select count(*) from recall($1, null, gen_random_uuid())",
    "select count(*) from explain_recall($1, query_embedding => $2::text::vector)",
    "select length(build_context('alice', $1))",
    "select length(text) from memoryd.read_question($1, null, null)",
)


@pytest.fixture(scope="module")
async def asked(served_world: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection to the world below, for questions."""
    async with connected(served_world) as connection:
        yield connection


@pytest.fixture(scope="module")
async def served_world(shared_url: str, shared_daemon: object) -> AsyncIterator[str]:
    """Indexed rows of every source, a zebra in each, and messages of people with odd names; a daemon runs."""
    assert shared_daemon
    async with connected(shared_url) as connection:
        await one_of_each(connection, "A zebra lives in the barn.")
        for name in SPEAKERS:
            said: dict[str, object] = {"session_id": uuid4(), "role": "user", "speaker": name}
            await insert(connection, "conversation_messages", said | {"content": f"{name} saw the zebra"})
        await until(connection, IDLE)
        assert await connection.fetchval("select count(*) from memoryd.dead_letters") == 0
        yield shared_url


async def ask(connection: asyncpg.Connection, text: str) -> None:
    """Asks in every way; raises where one fails."""
    for call in CALLS:
        arguments = (text, embedding(0.6, 0.8)) if "$2" in call else (text,)
        assert await connection.fetchval(call, *arguments) is not None, call


@pytest.mark.parametrize("number", range(len(TEXTS)))
async def test_any_listed_text_is_answered_without_an_error(asked: asyncpg.Connection, number: int) -> None:
    await ask(asked, TEXTS[number])


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters(codec="utf-8", exclude_characters="\0")))
async def test_any_generated_text_is_answered_without_an_error(asked: asyncpg.Connection, text: str) -> None:
    await ask(asked, text)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.text("ab .*+?()[]{}\\|^$'\"%_-&!<>:😀é", min_size=1, max_size=12).filter(
        lambda n: n.strip() != ""
    )
)
async def test_a_question_about_a_speaker_of_any_name_is_answered(
    asked: asyncpg.Connection, name: str
) -> None:
    transaction = asked.transaction()
    await transaction.start()
    try:
        said: dict[str, object] = {"session_id": uuid4(), "role": "user", "speaker": name}
        key = await insert(asked, "conversation_messages", said | {"content": "the quokka sleeps"})
        assert await index_rows(asked, "conversation", [key]) == [key]
        await asked.fetchval("select memoryd.fold_lexeme_changes()")
        for text in (f"what about {name} and the quokka", name, f"{name}'s quokka"):
            await ask(asked, text)
        assert key in await column(asked, "select id from recall($1)", f"what did {name} say of the quokka")
    finally:
        await transaction.rollback()


async def test_a_question_is_answered_with_any_text_around_it(asked: asyncpg.Connection) -> None:
    for text in (
        "zebra",
        "'zebra'",
        "(zebra & ",
        "zebra:*",
        "!zebra",
        "\x01zebra\x02",
        "\u202ezebra",
        "ZEBRA'; --",
    ):
        found = await column(asked, "select distinct source from recall($1, match_count => 100)", text)
        assert set(found) == set(load_sources()), text


async def test_names_of_speakers_are_taken_out_as_they_are_written(asked: asyncpg.Connection) -> None:
    for name in ("O'Brien", "Mary Ann"):
        text = await asked.fetchval(
            "select text from memoryd.read_question($1, null, null)", f"did {name} see it"
        )
        assert name not in text
        assert text.split() == ["did", "see", "it"]


async def test_requests_with_any_text_are_answered(asked: asyncpg.Connection) -> None:
    made = await column(
        asked,
        "insert into memory_requests (kind, agent_id, query) "
        "select k, 'alice', t from unnest($1::text[]) t cross join unnest('{recall,context}'::text[]) k "
        "returning id",
        [text[:300_000] for text in TEXTS],
    )
    ours = "from memory_requests where id = any($1::uuid[])"
    await until(asked, f"select not exists (select {ours} and status = 'pending')", made)
    answered = await asked.fetch(f"select status, error {ours}", made)
    assert len(answered) == 2 * len(TEXTS)
    assert [r["error"] for r in answered if r["status"] != "done"] == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ('{"match_count": -1}', "match_count is -1"),
        ('{"match_count": "many"}', 'match_count is "many"'),
        ('{"match_count": 1e300}', "match_count is"),
        ('{"match_count": 99999999999}', "match_count is"),
        ('{"sources": "memory"}', "sources is"),
        ('{"sources": [[]]}', "sources is"),
        ('{"sources": ["mails"]}', "unknown source mails"),
        ('{"filter": 7}', "filter is"),
        ('{"filter": {"a": "' + "a" * 1_000_000 + '"}}', None),
        ('{"sources": [], "match_count": 0, "filter": {}}', None),
        ('{"match_count": null, "sources": null, "filter": null}', None),
        ('{"' + "k" * 100_000 + '": {"sources": 1}}', "unknown option kkk"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_a_request_with_wrong_options_is_refused_and_one_that_was_waiting_fails_with_the_reason(
    asked: asyncpg.Connection, options: str, said: str | None
) -> None:
    columns: dict[str, object] = {"kind": "recall", "query": "zebra"}
    if said is not None:
        with pytest.raises(asyncpg.CheckViolationError, match=said):
            await insert(asked, "memory_requests", columns | {"options": options})
    async with asked.transaction():
        request = await insert(asked, "memory_requests", columns)
        await asked.execute("update memory_requests set options = $2 where id = $1", request, options)
    row = "select status, error from memory_requests where id = $1"
    await until(asked, ANSWERED, request)
    answer = await asked.fetchrow(row, request)
    assert answer is not None
    if said is None:
        assert tuple(answer) == ("done", None)
    else:
        assert answer["status"] == "failed"
        assert said in answer["error"]
    assert await asked.fetchval("select count(*) from memoryd.dead_letters") == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ('{"match_count": ' + "9" * 5000 + "}", "options holds a number of more than 1,000 digits"),
        ('{"filter": {"n": ' + "9" * 5000 + "}}", "options holds a number of more than 1,000 digits"),
        ('{"filter": ' + '{"a":' * 1500 + "1" + "}" * 1501, "options is nested deeper than 64 levels"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_options_that_cannot_be_parsed_are_refused_by_the_insert(
    asked: asyncpg.Connection, options: str, said: str
) -> None:
    with pytest.raises(asyncpg.CheckViolationError, match=said):
        await insert(asked, "memory_requests", {"kind": "recall", "query": "zebra", "options": options})


async def test_memoryd_recall_answers_any_text_without_an_error(served_world: str, tmp_path: Path) -> None:
    odd = "what did .* say about a(b's \\1 zebra & | ! <-> :* ' ( 😀 斑马 \x1b[31m\u202e " + "x" * 100_000
    done = await asyncio.gather(
        memoryd("recall", "--json", "--", "", url=served_world, folder=tmp_path),
        memoryd("recall", "--json", "--", odd, url=served_world, folder=tmp_path),
        memoryd("recall", "--", "zebra \x1b[31m", url=served_world, folder=tmp_path),
    )
    assert [(one.code, one.sentences) for one in done] == [(0, [])] * len(done)
    assert done[1].json
    assert "zebra" in done[-1].out


# --- Arguments.

NEAR = embedding(0.6, 0.8)


@pytest.mark.parametrize(
    ("arguments", "state", "said", "hint"),
    [
        ("query_embedding => '[1,2,3]'", "22023", "query_embedding has 3 dimensions", "Embed the query with"),
        ("match_count => -1", "22023", "match_count is -1", "0 or more"),
        ("match_count => null", "22023", "match_count is null", "0 or more"),
        ("sources => '{mails}'", "22023", "unknown source mails", "Sources: memory, conversation"),
        ("sources => '{memory,null}'", "22023", "unknown source null", "Sources: memory, conversation"),
        ("filter => '7'", "22023", "filter is of type number", "Give an object"),
        ("filter => '[]'", "22023", "filter is of type array", "Give an object"),
        ("filter => 'null'", "22023", "filter is of type null", "Give an object"),
        ("query_embedding => '[NaN,1]'", "22P02", "NaN not allowed in vector", None),
        ("query_embedding => '[1,Infinity]'", "22P02", "infinite value not allowed in vector", None),
        ('filter => \'{"a": "\\u0000"}\'', "22P05", "unsupported Unicode escape sequence", None),
    ],
)
@pytest.mark.parametrize("name", ["recall", "explain_recall"])
async def test_an_invalid_argument_is_refused_with_advice(
    asked: asyncpg.Connection, name: str, arguments: str, state: str, said: str, hint: str | None
) -> None:
    with pytest.raises(asyncpg.PostgresError) as raised:
        await asked.fetch(f"select * from {name}('zebra', {arguments})")
    assert raised.value.sqlstate in (state, "22000")
    assert said in str(raised.value)
    assert hint is None or hint in raised.value.as_dict()["hint"]


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ("'zebra', match_count => 0", 0),
        ("'zebra', match_count => 3", 3),
        ("'zebra', match_count => 2147483647", len(load_sources()) + len(SPEAKERS)),
        ("null", 0),
        ("null, query_embedding => '{near}', user_id => gen_random_uuid()", 0),
        ("'zebra', sources => '{}'", 0),
        ("'zebra', sources => null, match_count => 100", len(load_sources()) + len(SPEAKERS)),
        ("'zebra', sources => '{knowledge,knowledge}'", 1),
        ("'zebra', filter => null, sources => '{insight}'", 1),
        ("'zebra', filter => '{\"category\": \"summary\"}'", 1),
        ('\'zebra\', filter => \'{"a": {"b": [1, {"c": null}]}}\'', 0),
        ("'zebra', filter => '{deep}'", 0),
        ("'zebra', filter => '{huge}'", 0),
        ("'zebra', agent_id => '', match_count => 100", len(load_sources()) - 1 + len(SPEAKERS)),
        ("'zebra', user_id => gen_random_uuid()", 0),
        ("'zebra', query_embedding => '{zero}', match_count => 100", len(load_sources()) + len(SPEAKERS)),
    ],
)
async def test_arguments_at_their_limits_are_accepted(
    asked: asyncpg.Connection, arguments: str, count: int
) -> None:
    words = {
        "near": NEAR,
        "zero": embedding(),
        "deep": '{"a":' * 2000 + "1" + "}" * 2000,
        "huge": json.dumps({"a": "a" * 1_000_000}),
    }
    for word, value in words.items():
        arguments = arguments.replace(f"{{{word}}}", value)
    for name in ("recall", "explain_recall"):
        rows = await asked.fetch(f"select * from {name}({arguments})")
        assert len(rows) == count
        assert all(0 <= r["score"] <= 1 for r in rows)


async def test_very_large_texts_are_indexed_and_found(asked: asyncpg.Connection) -> None:
    """More different words than a sparse vector holds, in one text and in one window of messages."""
    many = " ".join(chr(0x4E00 + n) for n in range(16400))
    await one_of_each(asked, f"wombat wombat {many}")
    session = uuid4()
    for part in range(6):
        await insert(
            asked,
            "conversation_messages",
            {
                "session_id": session,
                "role": "user",
                "content": "wombat wombat " + " ".join(f"w{n * 6 + part}" for n in range(4500)),
            },
        )
    assert (
        len(await column(asked, "select id from recall('wombat', match_count => 100)"))
        == len(load_sources()) + 6
    )
    await until(asked, IDLE)
    assert await asked.fetchval("select count(*) from memoryd.dead_letters") == 0
    assert await column(asked, UNINDEXED, None) == []
    assert (
        len(await column(asked, "select id from recall('wombat', match_count => 100)"))
        == len(load_sources()) + 6
    )
