"""No search tells, by what it answers or by what it costs, which words stand in rows that are not the asker's to read.

What it costs is counted, not timed: the pages that it touches and the rows that its indexes bring.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import asyncpg
import pytest
import pytest_asyncio

from daemon.db.migration_files import load_sources
from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.access.isolation import index_world
from tests.support.content.index import UNINDEXED, index_rows
from tests.support.database.schemas import connected
from tests.support.database.servers import Server
from tests.support.database.templates import copied
from tests.support.rows import column, embedding

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVE, FAY = UUID(int=0xE), UUID(int=0xF)
"""Ann asks; of Bob's words none is hers to find; Eve is granted what is shared; Fay is a member of a group, not of Bob's."""

THERE, SHARED, FRESH, GROUPED, NOWHERE = "zorblat", "murvano", "vexorit", "yorbant", "wibnixo"
"""A word of Bob's own, one of what he shares, one whose rows are not counted yet, one of his group, and one of no row."""

ROWS = """
insert into agent_memory (agent_id, user_id, content)
select 'alice', u, case u when '{bob}' then 'zorblat' else 'bread' end || ' and row ' || n
from generate_series(1, 400) n, unnest('{{{ann},{bob}}}'::uuid[]) u;

insert into conversation_messages (session_id, user_id, role, content)
select md5(u::text)::uuid, u, 'user', case u when '{bob}' then 'zorblat' else 'bread' end || ' and row ' || n
from generate_series(1, 100) n, unnest('{{{ann},{bob}}}'::uuid[]) u;

insert into conversation_messages (session_id, user_id, role, content, access_level)
select md5('shared')::uuid, '{bob}', 'user', 'murvano and row ' || n, 0 from generate_series(1, 100) n;

insert into documents (id, title, user_id) values (md5('d')::uuid, 'd', '{bob}');
insert into memory_chunks (document_id, chunk_index, chunk_text, access_level)
select md5('d')::uuid, n, case when n % 2 = 0 then 'murvano' else 'zorblat' end || ' row ' || n,
       case when n % 2 = 0 then 0 end
from generate_series(1, 100) n;

insert into dream_insights (user_id, insight, source_memories, category, confidence)
select '{bob}', 'zorblat and row ' || n, '{{}}', 'summary', 0.9 from generate_series(1, 100) n;

insert into shared_knowledge (tier, category, title, content, created_by)
select 'core', 'team', 'x', 'zorblat and row ' || n, 'alice' from generate_series(1, 100) n;

insert into user_memory_access (user_id, access_level, visibility_scope) values ('{eve}', 5, 'all');

insert into chat_groups (id, platform) values (md5('bobs')::uuid, 'web'), (md5('fays')::uuid, 'web');
insert into chat_group_members (chat_id, user_id) values (md5('bobs')::uuid, '{bob}'), (md5('fays')::uuid, '{fay}');
insert into conversation_messages (session_id, chat_id, user_id, role, content)
select md5(g)::uuid, md5(g)::uuid, case g when 'bobs' then '{bob}'::uuid end, 'user',
       case g when 'bobs' then 'yorbant' else 'bread' end || ' and row ' || n
from generate_series(1, 100) n, unnest('{{bobs,fays}}'::text[]) g;
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def full(server: Server, template: str) -> AsyncIterator[str]:
    """A database with rows of all of them, indexed and counted, and some that are not counted yet."""
    async with copied(server, template) as url:
        async with connected(url) as opened:
            await opened.execute(ROWS.format(ann=ANN, bob=BOB, eve=EVE, fay=FAY))
            await index_world(opened)
            await opened.execute(
                "insert into agent_memory (agent_id, user_id, content) "
                "select 'alice', $1, 'vexorit and row ' || n from generate_series(1, 50) n",
                BOB,
            )
            fresh = await column(opened, UNINDEXED, "memory")
            assert len(await index_rows(opened, "memory", fresh, embedding=embedding(1.0))) == 50
            await opened.execute("select memoryd.learn_words('{zorblat,murvano,vexorit,yorbant}')")
            await opened.execute("vacuum analyze")
        yield url


@pytest_asyncio.fixture(loop_scope="module")
async def asker(full: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection with nothing prepared.

    What reads a small table, as memoryd.caller_id() does, is planned where it is first called after anybody has changed a
    table or a role: outside of the search, or in it, where sequential scans are off. Here they are off everywhere.
    """
    opened = await asyncpg.connect(full, server_settings={"jit": "off", "enable_seqscan": "off"})
    yield opened
    await opened.close()


FETCHED = (
    "select sum(pg_stat_get_xact_tuples_fetched(oid) + pg_stat_get_xact_tuples_returned(oid))::bigint "
    "from pg_class where relnamespace in ('public'::regnamespace, 'memoryd'::regnamespace) and relkind in ('r', 'i')"
)


def pages(plan: Any) -> int:
    """Pages that a plan has touched, wherever they were."""
    top = json.loads(plan)[0]["Plan"]
    kinds = ("Shared Hit", "Shared Read", "Local Hit", "Local Read", "Temp Read")
    return sum(top[f"{kind} Blocks"] for kind in kinds)


async def cost(
    connection: asyncpg.Connection, call: str, word: str, *, before: int = 1, times: int = 1
) -> tuple[int, int]:
    """Pages touched and rows fetched by a call about a word, once everything that it asks for is known: the least of `times`.

    A role that another test makes has plans made anew, which reads the catalog.
    """
    statement = call.replace("<word>", word)
    for _ in range(before):
        await connection.fetch(statement)
    explained = f"explain (analyze, buffers, timing off, summary off, format json) {statement}"
    touched, fetched = [], []
    for _ in range(times):
        already = await connection.fetchval(FETCHED)
        await connection.fetch(statement)
        fetched.append(await connection.fetchval(FETCHED) - already)
        touched.append(pages(await connection.fetchval(explained)))
    return min(touched), min(fetched)


KNOWN = 6
"""From the sixth call on a function's plans are generic ones."""
ROUNDS = 20


async def least_costs(
    connection: asyncpg.Connection, user: UUID, call: str, words: tuple[str, ...]
) -> dict[str, tuple[int, int]]:
    """What a user's call costs about each word, as `cost` counts it; several rounds, until all words cost the same.

    Other tests' changes to roles may add to what one round counts; what a word costs by itself is in each round.
    """
    least: dict[str, tuple[int, int]] = {}
    for _ in range(ROUNDS):
        for word in words:
            # Where nothing is put on record, nothing depends on the page that a record comes to stand on.
            async with connection.transaction(readonly=True), acting_as(connection, user):
                touched, fetched = await cost(connection, call, word, before=1 if least else KNOWN)
            known = least.get(word, (touched, fetched))
            least[word] = min(touched, known[0]), min(fetched, known[1])
        if len(set(least.values())) == 1:
            break
    return least


SOURCES = tuple(load_sources())
_USERS = ("null", f"'{BOB}'")
_FOUND = (
    "select f.* from memoryd.find(memoryd.recall_request('recall', '{words}', null, {user}, null, 200, '{sources}', "
    "'{{}}', '{{}}', {near})) f"
)
_NEAR = '\'[{"lexeme": "row", "neighbour": "<word>", "similarity": 0.9}]\''
PROBES = {
    **{
        f"candidates {source} {n} {what}": _FOUND.format(
            words=words, user=user, sources=f"{{{source}}}", near="null"
        )
        for source in SOURCES
        for n, user in enumerate(_USERS)
        for what, words in (("words", "<word>"), ("pairs", "<word> row"))
    },
    **{
        f"question {n}": _FOUND.format(words="<word>", user=user, sources="{}", near="null")
        for n, user in enumerate(_USERS)
    },
    "question near": _FOUND.format(words="row", user="null", sources="{}", near=_NEAR),
    "candidates near": _FOUND.format(words="row", user="null", sources="{memory}", near=_NEAR),
    "recall": "select * from recall('<word>')",
    "recall of another": f"select * from recall('<word>', null, '{BOB}')",
    "explain_recall": "select * from explain_recall('<word> row')",
    "context": "select build_context('alice', '<word>') <> ''",
    "answer": f"select memoryd.answer('recall', 'alice', '{BOB}', '<word>', '{{}}', null, null)",
}


@pytest.mark.parametrize("probe", PROBES)
@pytest.mark.parametrize(
    ("user", "words"), [(ANN, (THERE, SHARED, FRESH, GROUPED)), (FAY, (THERE, GROUPED))], ids=["ann", "fay"]
)
async def test_a_word_of_another_user_costs_as_much_as_an_unknown_word(
    asker: asyncpg.Connection, probe: str, user: UUID, words: tuple[str, ...]
) -> None:
    least = await least_costs(asker, user, PROBES[probe], (NOWHERE, *words))
    assert least == dict.fromkeys(least, least[NOWHERE])


@pytest.mark.parametrize("source", ["memory", "knowledge", "insight"])
async def test_a_grant_of_shared_rows_opens_no_words_of_what_cannot_be_shared(
    asker: asyncpg.Connection, source: str
) -> None:
    probe = _FOUND.format(words="<word>", user="null", sources=f"{{{source}}}", near="null")
    least = await least_costs(asker, EVE, probe, (NOWHERE, THERE))
    assert least[THERE] == least[NOWHERE]


async def test_the_measured_cost_differs_for_a_word_that_is_found(asker: asyncpg.Connection) -> None:
    """Else the test above could not fail: to who serves, and to Bob, the same calls cost more where the word is."""
    for user, role in ((BOB, "memoryd_user"), (None, "memoryd_service")):
        for probe in ("candidates memory 1 words", "candidates memory 1 pairs"):
            async with acting_as(asker, user, role=role):
                found, missed = [
                    await cost(asker, PROBES[probe], word, before=KNOWN, times=5) for word in (THERE, NOWHERE)
                ]
            if "pairs" in probe:
                # Where the word is, the rows with both are looked for; else those with the other word alone.
                assert found != missed
            else:
                assert found[1] > missed[1]


# All but the weights, which name each word by a number of its own.
QUESTION = """
select (c.question).words, (c.question).word_scopes, (c.question).combinations, (c.question).combination_scopes,
       (c.question).speakers, (c.question).ideal, (c.question).times
from (select memoryd.question(u.caller, $1, coalesce((memoryd.open_request(jsonb_populate_record(
           null::memoryd.search_request, jsonb_build_object('on_behalf', (u.caller).user_id)))).scopes, '{}'), null) as question
      from (select row($2::uuid, false, false)::memoryd.caller as caller) u) c
"""


async def test_a_question_without_scopes_reveals_no_words(asker: asyncpg.Connection) -> None:
    for user in (ANN, EVE, FAY, None):
        told = [
            tuple(await asker.fetchrow(QUESTION, f"{word} row", user) or ())
            for word in (FRESH, THERE, GROUPED, NOWHERE)
        ]
        assert str(told[0]).replace(FRESH, "x") == str(told[3]).replace(NOWHERE, "x")
        assert str(told[1]).replace(THERE, "x") == str(told[3]).replace(NOWHERE, "x")
        assert str(told[2]).replace(GROUPED, "x") == str(told[3]).replace(NOWHERE, "x")


async def test_functions_open_to_users_take_words_and_scopes_but_no_index_keys(
    asker: asyncpg.Connection,
) -> None:
    """What runs as the owner and is open to end users takes arrays of words and of scopes, and scopes are looked at.

    The scopes in the request of memoryd.find() are overwritten: tests/support/access/calls.py forges them.
    """
    taken = await asker.fetch(
        "select p.proname, a.name from pg_proc p "
        "cross join lateral unnest(p.proargnames, p.proargtypes::oid[]) as a(name, type) "
        "where p.prosecdef and has_function_privilege('memoryd_user', p.oid, 'execute') "
        "and a.type in ('bigint'::regtype, 'bigint[]'::regtype)"
    )
    assert {(row["proname"], row["name"]) for row in taken} == {
        ("nearest_in_scope", "p_scope"),
        ("repeats", "p_scopes"),
    }


async def test_a_group_is_open_to_its_members(asker: asyncpg.Connection) -> None:
    for user, count in ((BOB, 100), (FAY, 0), (ANN, 0), (EVE, 0), (None, 0)):
        async with acting_as(asker, user):
            rows = await asker.fetch(
                "select * from recall($1, match_count => 200, sources => '{conversation}')", GROUPED
            )
            assert len([row for row in rows if GROUPED in row["content"]]) == count


async def test_shared_scopes_are_open_to_users_with_any_grant(asker: asyncpg.Connection) -> None:
    for user, found in ((EVE, 100), (BOB, 100), (ANN, 0), (None, 0)):
        async with acting_as(asker, user):
            rows = await asker.fetch(
                "select * from recall($1, match_count => 100, sources => '{conversation}')", SHARED
            )
            assert (len(rows) > 0) == (found > 0)
