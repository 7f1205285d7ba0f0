"""Words that most rows have, and words that hardly any row has."""

from __future__ import annotations

import asyncpg

from tests.support.access.isolation import index_world
from tests.support.content.index import index_rows
from tests.support.rows import column, remember

ROWS = """
insert into agent_memory (agent_id, content, kind)
select 'alice', case when n % 40 = 0 then 'the lantern and the ladder of house ' else 'the lantern of house ' end || n, 'fact'
from generate_series(1, 900) n
"""


async def test_one_common_word_alone_is_found(connection: asyncpg.Connection) -> None:
    await connection.execute(ROWS)
    await index_rows(connection, "memory")
    await connection.execute("select memoryd.fold_lexeme_changes()")
    assert len(await column(connection, "select id from recall('lantern', 'alice')")) == 10
    both = await column(connection, "select content from recall('lantern ladder', 'alice')")
    assert all("ladder" in str(content) for content in both)


# Entries are written in the order of the ids, so those with all three words come last.
TWO_OF_THREE = """
insert into agent_memory (id, agent_id, content, kind)
select lpad(n::text, 32, '0')::uuid, 'alice', 'the ' || w.words || ' of house ' || n, 'fact'
from generate_series(1, 1650) n
join (values (0, 'lantern and the ladder'), (1, 'lantern and the letter'), (2, 'ladder and the letter')) as w(rest, words)
    on w.rest = n % 3
union all
select lpad(n::text, 32, '0')::uuid, 'alice', 'the lantern, the ladder and the letter of house ' || n, 'fact'
from generate_series(2001, 2003) n
"""


async def test_rows_with_three_common_words_are_found_among_many_with_two(
    connection: asyncpg.Connection,
) -> None:
    await connection.execute(TWO_OF_THREE)
    await index_rows(connection, "memory")
    await connection.execute("select memoryd.fold_lexeme_changes()")
    best = await column(
        connection, "select content from recall('lantern ladder letter', 'alice', match_count => 3)"
    )
    assert all("lantern, the ladder and the letter" in str(content) for content in best)


# Memories of all kinds, a third of them old. Outcomes, which count whole and are new, some linked to each note.
MANY = """
insert into agent_memory (agent_id, kind, content, created_at)
select 'alice', k.kind, w.words || ' ' || 'QX' || n || '-' || k.kind, now() - n % 3 * interval '5 days'
from generate_series(1, 12) n
cross join (values ('note'), ('observation'), ('fact'), ('goal')) as k(kind)
cross join lateral (select string_agg(t.word, ' ') as words
                    from (select word from unnest('{lantern,ladder,harbour,invoice,kettle,meadow,printer,saddle}'::text[]) word
                          order by md5(word || n || k.kind) limit 5) t) w;
insert into agent_memory (agent_id, kind, content)
select 'alice', 'outcome', 'The report ' || n || ' was sent in order, and the status was good'
from generate_series(1, 150) n;
insert into agent_memory (agent_id, kind, content) values
    ('alice', 'note', 'Kombucha'), ('alice', 'note', 'Where is YZ-77?'), ('alice', 'fact', 'We drink much tea'),
    ('alice', 'fact', 'A tea of green leaves'), ('alice', 'fact', 'The fermented drink of the harbour');
insert into memory_associations (memory_id, related_memory_id, association_type, strength)
select n.id, o.id, 'related', 1 from agent_memory n join agent_memory o on o.content like '% 7 was %'
where n.kind = 'note';
update agent_memory set embedding = memoryd.embed(content)
"""
NAMED = """
select id, substring(content from 'QX.*|Kombucha') as word from agent_memory
where content ~ 'QX|Kombucha'
"""
QUESTIONS = ("{}", "What is the status of the order {}?", "{} report")


async def test_who_asks_by_a_word_that_one_row_has_gets_that_row_first(
    connection: asyncpg.Connection, tokens: None
) -> None:
    await connection.execute(MANY)
    await index_rows(connection, "memory")
    await connection.execute("select memoryd.fold_lexeme_changes()")
    named = await connection.fetch(NAMED)
    assert len(named) == 49
    asked = [(question.format(row["word"]), row["id"]) for row in named for question in QUESTIONS]
    first = "select id from recall($1, 'alice', match_count => 1)"
    assert [q for q, right in asked if await connection.fetchval(first, q) != right] == []
    # A text that is a question says little, but still more about its words than one without them.
    assert await column(connection, "select content from recall('YZ-77', 'alice', match_count => 1)") == [
        "Where is YZ-77?"
    ]
    # The sum of the parts is the score.
    parts = await connection.fetch(
        "select score, relevance * weight + recency + association as sum from explain_recall('QX3-note', 'alice')"
    )
    assert [round(p["sum"], 6) for p in parts] == [round(p["score"], 6) for p in parts]


async def test_without_a_vector_a_word_beyond_a_rows_keywords_finds_it(
    connection: asyncpg.Connection,
) -> None:
    def long(begin: str, end: str) -> str:
        return f"{begin} {' '.join(f'harbour{n} lantern{n} meadow{n}' for n in range(30))} {end}"

    # That one word is among its keywords is no reason to think less of a row.
    wanted = await remember(connection, long("Wombats, wombats, wombats.", "Jared Allen went home."))
    for n in range(30):
        await remember(connection, long(f"Castles and lakes {n}.", "Nobody went home."))
    await index_world(connection)
    found = await connection.fetch("select id from recall('Jared Allen wombats home', 'alice')")
    assert found[0]["id"] == wanted


async def test_without_a_vector_rows_that_reach_min_score_come_however_rare_the_words_of_others_are(
    connection: asyncpg.Connection,
) -> None:
    await connection.execute(
        "insert into agent_memory (agent_id, kind, content) "
        "select 'alice', 'fact', case when n <= 3 then 'wombat seen ' when n <= 28 then 'lantern house lake ' "
        "else 'the meadow is green ' end || n from generate_series(1, 68) n"
    )
    await index_world(connection)
    asked = "select content, score from recall('wombat lantern house lake', 'alice', match_count => 3, options => $1)"
    first = await connection.fetch(asked, "{}")
    assert all("wombat" in row["content"] for row in first)
    enough = await connection.fetch(asked, '{"min_score": 0.5}')
    assert len(enough) == 3
    assert all("lantern" in row["content"] and row["score"] >= 0.5 for row in enough)
