"""The account: what must be true of the data at the end. A check returns what is wrong, nothing when all is well."""

from __future__ import annotations

from uuid import UUID

import asyncpg

from benchmarks.soak.ledger import Ledger

# Rows without an entry of their text, entries without a row, and what says something else than its row.
NOT_INDEXED = """
select coalesce(s.source, e.source) as source, count(*) as rows
from memoryd.searchable s
full join (select t.source, t.id, array_agg(distinct t.scope) as scopes, array_agg(distinct t.text_hash) as hashes,
                  bool_and(t.code is not null) as embedded, min(t.position) as position
           from memoryd.entries t group by 1, 2) e on e.source = s.source and e.id = s.id
where s.id is null or e.id is null or not e.embedded or e.scopes <> array[s.scope] or e.hashes <> array[s.text_hash]
   or e.position is distinct from s.position
group by 1
"""
MISCOUNTED = """
with recount as (
    select e.scope, l.lexeme, count(*) as rows
    from memoryd.entries e cross join lateral unnest(tsvector_to_array(e.lexemes)) as l(lexeme)
    group by 1, 2
)
select count(*) from recount r full join memoryd.lexeme_statistics s using (scope, lexeme)
where r.rows is distinct from s.rows
"""
# Texts of every column that may have some; vectors have no words.
TEXTS = """
select c.relname, n.nspname,
       string_agg(format('coalesce(%I::text, '''')', a.attname), ' || '' '' || ' order by a.attnum) as texts
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
join pg_type t on t.oid = a.atttypid
where n.nspname in ('public', 'memoryd') and c.relkind = 'r'
  and t.typname not in ('vector', 'halfvec', 'sparsevec', 'varbit', 'bytea')
group by c.relname, n.nspname
"""
# By a hash of each mark: of thousands of users one pattern would take hours.
TRACES = """
select count(*)
from (select distinct (regexp_matches(
          lower({texts}), '[bcdfghjklmnpqrstvwxz]{{14}}|[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}', 'g'))[1] as word
      from {table} t) w
join unnest($1::text[]) as m(mark) on m.mark = w.word
"""


async def account(connection: asyncpg.Connection, ledger: Ledger) -> dict[str, object]:
    """What is wrong, by the promise that it breaks; empty when every promise was kept."""
    found: dict[str, object] = {
        "rows_lost": await _lost(connection, ledger),
        "captured_not_once": await _not_once(connection, ledger),
        "not_indexed": {r["source"]: r["rows"] for r in await connection.fetch(NOT_INDEXED)},
        "lexemes_miscounted": await connection.fetchval(MISCOUNTED),
        "words_not_forgotten": await connection.fetchval(
            "select count(*) from memoryd.lexicon l "
            "where not exists (select from memoryd.lexeme_statistics s where s.lexeme = l.lexeme)"
        ),
        "more_than_five_links": await connection.fetchval(
            "select count(*) from (select from memory_associations group by memory_id having count(*) > 5) m"
        ),
        "traces_of_erased_users": await _traces(connection, ledger),
        "dead_letters": [
            tuple(r)
            for r in await connection.fetch(
                "select topic, left(error, 120), count(*) from memoryd.dead_letters group by 1, 2"
            )
        ],
    }
    return {promise: wrong for promise, wrong in found.items() if wrong}


async def _lost(connection: asyncpg.Connection, ledger: Ledger) -> dict[str, int]:
    lost = {}
    for table, rows in ledger.rows.items():
        there = {r["id"] for r in await connection.fetch(f"select id from {table}")}
        missing = rows.keys() - there - ledger.unsure
        if missing:
            lost[table] = len(missing)
    return lost


async def _not_once(connection: asyncpg.Connection, ledger: Ledger) -> int:
    counts: dict[UUID, int] = {
        r["command_id"]: r["times"]
        for r in await connection.fetch(
            "select command_id, count(*) as times from agent_memory where command_id is not null group by 1"
        )
    }
    # A memory that a writer changed or deleted afterwards was captured all the same.
    return sum(counts.get(c, 0) > 1 for c in ledger.completed) + sum(
        c not in counts for c in ledger.completed
    )


async def _traces(connection: asyncpg.Connection, ledger: Ledger) -> dict[str, int]:
    marks = [u.mark for u in ledger.users if u.erased] + [str(u.id) for u in ledger.users if u.erased]
    if not marks:
        return {}
    traces = {}
    for table in await connection.fetch(TEXTS):
        count = await connection.fetchval(
            TRACES.format(texts=table["texts"], table=f"{table['nspname']}.{table['relname']}"), marks
        )
        if count:
            traces[table["relname"]] = count
    return traces
