"""memoryd.embed() gives the local embedder's vector for any text, and recall, contexts and searches use it."""

from __future__ import annotations

import json

import asyncpg
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daemon.db.migrator import migrate
from providers.local_embedder import LocalEmbedder
from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.access.refusals import refused
from tests.support.content.index import index_rows
from tests.support.database.schemas import EMBEDDER, connected
from tests.support.database.tokens import put_tokens_in
from tests.support.rows import column, embedding, insert, remember, say

EMBED = "select memoryd.embed($1)::text"
PIECES = (
    *(
        "a",
        "the",
        "theren",
        "ing",
        "aaaa",
        "Ab",
        "1",
        "23",
        " ",
        "   ",
        "\u2581",
        "\n",
        "\t\r",
        "\u00a0",
        "\u3000",
    ),
    *(
        "<s>",
        "</s>",
        "<unk>",
        "<S>",
        "<",
        "<0x0A>",
        "...",
        "!?",
        "'s",
        "\\",
        "\x01",
        "\x7f",
        "\u200d",
        "\ufeff",
    ),
    *("é", "e\u0301", "ж", "ﷺ", "漢", "字。", "한국", "กำ", "ß", "😀", "👩‍👩‍👧", "\ufffd", "\U0010ffff"),
)
"""What a tokenizer treats in its own way."""
LONG = (
    "a" * 9_000, " " * 9_000, "\u2581" * 9_000, "thequickbrownfox" * 600, "漢字" * 5_000, "😀" * 9_000,
    "<s>" * 3_000, "x " * 5_000, "etaoinshrdlu" * 800, "\u0301" * 9_000,
)  # fmt: skip


async def agreement(connection: asyncpg.Connection, texts: list[str], *, dimensions: int = 256) -> float:
    """The least cosine between what the database and the daemon's embedder make of these texts."""
    embedder = LocalEmbedder(dimensions=dimensions)
    expected = await embedder.embed(texts)
    await embedder.close()
    found = [json.loads(await connection.fetchval(EMBED, text)) for text in texts]
    assert {len(vector) for vector in found} == {dimensions}
    assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    return float(np.einsum("ij,ij->i", np.array(found), expected).min())


@pytest.mark.usefixtures("tokens")
async def test_the_database_and_the_daemons_embedder_agree(connection: asyncpg.Connection) -> None:
    texts = [
        "", " ", "  two  spaces ", "What did Caroline say about the adoption agency?", "销售创新研讨会的时间是什么\uff1f",
        "zebra\ncrossing\tnow", "naïve café, Straße; Ångström", "a<s>b </s> <unk>", "\u2581a\u2581\u2581b", *PIECES,
    ]  # fmt: skip
    assert await agreement(connection, texts) > 0.99999


@pytest.mark.usefixtures("tokens")
async def test_long_texts_agree_and_take_seconds_at_most(connection: asyncpg.Connection) -> None:
    # Far more than they need, for a busy machine.
    await connection.execute("set statement_timeout = '30s'")
    assert await agreement(connection, list(LONG)) > 0.99999


@pytest.mark.usefixtures("tokens")
async def test_generated_texts_agree(connection: asyncpg.Connection) -> None:
    characters = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
    texts = st.lists(st.sampled_from(PIECES) | st.text(characters, max_size=6), max_size=30).map("".join)
    generated: list[str] = []

    @settings(max_examples=300, database=None, suppress_health_check=list(HealthCheck))
    @given(texts)
    def generate(text: str) -> None:
        generated.append(text)

    generate()
    assert await agreement(connection, generated) > 0.99999


async def test_fewer_dimensions_are_the_first_numbers(empty_url: str) -> None:
    dimensions = 64
    async with connected(empty_url) as connection:
        await migrate(connection, dimensions=dimensions, embedder=EMBEDDER)
        await put_tokens_in(connection)
        assert await agreement(connection, ["", "the zebra crossing"], dimensions=dimensions) > 0.99999


@pytest.mark.usefixtures("tokens")
async def test_any_role_may_embed_also_where_nothing_may_be_written(connection: asyncpg.Connection) -> None:
    expected = await connection.fetchval(EMBED, "Caroliney zebras")
    for role in ("memoryd_user", "memoryd_service", "memoryd_admin"):
        async with acting_as(connection, ANN, role=role):
            assert await connection.fetchval(EMBED, "Caroliney zebras") == expected
            assert (await refused(connection, "select * from memoryd.tokens"))[0] == "42501"
    async with connection.transaction(readonly=True):
        assert await connection.fetchval(EMBED, "Caroliney zebras") == expected
    assert await connection.fetchval(EMBED, None) is None


@pytest.mark.usefixtures("tokens")
async def test_a_database_of_another_embedder_embeds_nothing(connection: asyncpg.Connection) -> None:
    await connection.execute("update memoryd.settings set value = '\"openai/test\"' where key = 'embedder'")
    assert await connection.fetchval(EMBED, "zebra") is None
    assert await connection.fetchval(EMBED, "") is None


async def test_without_tokens_recall_goes_by_words(connection: asyncpg.Connection) -> None:
    assert await connection.fetchval(EMBED, "zebra") is None
    assert await connection.fetchval(EMBED, "") is None
    await remember(connection, "a zebra lives in the barn", embedding=embedding(1))
    await connection.execute(INDEX)
    (row,) = await connection.fetch("select * from explain_recall('zebra')")
    assert (row["dense"], row["lexical"] > 0) == (0, True)
    # What is searched by a text is then searched by its words.
    knowledge: dict[str, object] = {
        "tier": "core",
        "category": "c",
        "title": "zebras",
        "content": "in the barn",
        "created_by": "a",
    }
    await insert(connection, "shared_knowledge", knowledge)
    await remember(connection, "A zebra, not indexed yet", user_id=ANN)
    async with acting_as(connection, None, role="memoryd_service"):
        found = "select content, similarity from match_memory(query => $1, filter_user_id => $2)"
        assert [tuple(r) for r in await connection.fetch(found, "Which zebra was it?", ANN)] == [
            ("A zebra, not indexed yet", 1)
        ]
        assert await connection.fetch(found, "Which zebra was it?", BOB) == []
        assert await connection.fetch(found, "Which zebra was it?", None) == []
        known = "select title from search_shared_knowledge(query => $1, filter_category => $2, match_threshold => $3)"
        assert await column(connection, known, "a zebra", "c", 0.9) == ["zebras"]
        assert await column(connection, known, "a zebra", "d", 0) == []
        assert await column(connection, known, "a zebra", "c", 1) == []


INDEX = """
select memoryd.write_entries('memory', array_agg(m.id), array_agg(null::bigint), array_agg(m.id), array_agg(m.content),
                             array_agg(coalesce(memoryd.embed(m.content), m.embedding)))
from agent_memory m
"""


@pytest.mark.usefixtures("tokens")
async def test_recall_finds_what_says_the_same_in_other_words(connection: asyncpg.Connection) -> None:
    for user in (ANN, BOB):
        for text in ("the physician examined my knee", "we bought a blue car", "pasta with basil"):
            await remember(connection, text, user_id=user)
    await connection.execute(INDEX)
    for call in ("recall", "explain_recall"):
        async with acting_as(connection, ANN):
            rows = await connection.fetch(f"select * from {call}('which doctor looked at my leg')")
            assert rows[0]["content" if call == "recall" else "source"] in (
                "the physician examined my knee",
                "memory",
            )
            assert rows[0]["similarity" if call == "recall" else "dense"] > 0
    async with acting_as(connection, ANN):
        block = await connection.fetchval("select build_context('alice', 'the doctor looked at my leg')")
        assert "the physician examined my knee" in block


@pytest.mark.usefixtures("tokens")
async def test_a_question_is_embedded_without_the_names_of_speakers(connection: asyncpg.Connection) -> None:
    session = await insert(connection, "conversation_sessions", {"user_id": ANN})
    await say(connection, session, "she asked what we say", user_id=ANN, speaker="Caroline")
    await connection.execute(
        "insert into memoryd.speaker_statistics (scope, lexeme, speaker, passages) "
        "values (memoryd.scope_of($1, null), 'carolin', 'Caroline', 1)",
        ANN,
    )
    other = await insert(connection, "conversation_sessions", {"user_id": BOB})
    await say(connection, other, "she asked what we say", user_id=BOB)
    await connection.execute("update conversation_messages set embedding = memoryd.embed(content)")
    await index_rows(connection, "conversation")
    asked = "select similarity from recall('What did Caroline say?', query_embedding => $1)"
    for user, embedded in ((ANN, "What did  say?"), (BOB, "What did Caroline say?")):
        async with acting_as(connection, user):
            vector = await connection.fetchval("select memoryd.embed($1)", embedded)
            assert await column(connection, asked, vector) == await column(connection, asked, None) != []


@pytest.mark.usefixtures("tokens")
async def test_searches_by_embedding_take_a_text(connection: asyncpg.Connection) -> None:
    for user in (ANN, BOB):
        await remember(connection, "the physician examined my knee", user_id=user)
        await remember(connection, "we bought a blue car", user_id=user)
    await insert(
        connection,
        "shared_knowledge",
        {"tier": "core", "category": "c", "title": "cars", "content": "a blue car", "created_by": "a"},
    )
    await connection.execute(INDEX)
    await connection.execute("update shared_knowledge set embedding = memoryd.embed(content)")
    async with acting_as(connection, ANN):
        found = await column(
            connection,
            "select content from match_memory(query => 'a doctor saw the knee', match_threshold => 0.1)",
        )
        assert found[0] == "the physician examined my knee"
        assert len(found) == len(set(found))
        both = "select * from match_memory(memoryd.embed('car'), query => 'car')"
        assert (await refused(connection, both))[:2] == ("22023", "both query and query_embedding are given")
        assert (await refused(connection, "select * from match_memory()"))[0] == "22004"
    async with acting_as(connection, None, role="memoryd_service"):
        titles = "select title from search_shared_knowledge(query => 'blue cars', match_threshold => 0.3)"
        assert await column(connection, titles) == ["cars"]
        assert (await refused(connection, "select * from search_shared_knowledge()"))[0] == "22004"
