"""The statistics of entries against a count from scratch."""

from __future__ import annotations

import asyncpg

# The three tables in one shape: the key, then what is counted.
MISCOUNTED = """
with stored as (
    select 'lexeme' as of, jsonb_build_array(scope, lexeme) as key, rows::bigint as count, 0::bigint as words
    from memoryd.lexeme_statistics
    union all
    select 'scope', jsonb_build_array(scope, source, language), passages, words from memoryd.scope_statistics
    union all
    select 'speaker', jsonb_build_array(scope, lexeme, speaker), passages, 0 from memoryd.speaker_statistics
), recounted as (
    select 'lexeme' as of, jsonb_build_array(e.scope, l) as key, count(*) as count, 0::bigint as words
    from memoryd.entries e cross join lateral unnest(tsvector_to_array(e.lexemes)) l
    group by e.scope, l
    union all
    select 'scope', jsonb_build_array(scope, source, language), count(*), sum(length)
    from memoryd.entries
    group by scope, source, language
    union all
    select 'speaker', jsonb_build_array(e.scope, l, btrim(e.speaker)), count(*), 0
    from memoryd.entries e cross join lateral unnest(memoryd.words_in(btrim(e.speaker))) l
    group by e.scope, l, btrim(e.speaker)
)
select of || ' ' || key as what, s.count as stored, r.count as recounted
from stored s full join recounted r using (of, key)
where (s.count, s.words) is distinct from (r.count, r.words)
order by 1
"""


async def miscounted(connection: asyncpg.Connection) -> list[tuple[str, int | None, int | None]]:
    """What the statistics count otherwise than a count from scratch, with both counts."""
    return [(r["what"], r["stored"], r["recounted"]) for r in await connection.fetch(MISCOUNTED)]
