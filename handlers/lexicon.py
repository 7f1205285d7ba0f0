"""New words came in: embed them, and note which words stand near each other.

The vectors are the local embedder's whichever embedder the rows have: a word costs nothing, and no text leaves the machine.
One worker at a time (a lane), so that of two new words one always sees the other.

Promise: one user's words do not slow the others' work. A word that says nothing to the model (random letters) is not compared
at all, and is not kept: its rows are found by it as it is written. After each job the worker rests for as long as the job took.

Memory: a job takes up to BATCH new words; the known ones are read page by page, and for each new word the nearest so far are
kept. So the memory in use does not grow with the lexicon, except for the names of its lexemes. Time: all known words are read
once for BATCH new ones, and there are at most MAX_WORDS.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from pgvector import Vector

from handlers.shared.ports import AnyConnection, Commit, Job, Reader, nothing
from memory.vectors import BLOCK, PAGE, NearestWords, has_meaning, unpacked
from providers.ports import WordEmbedder

BATCH = 500
"""New words of one job. Its transaction writes up to 80 pairs for each, and an erasure of one of them waits for it."""
MAX_REST_SECONDS = 5.0
MAX_WORDS = 100_000
"""Words that get neighbours. More words than that come from logs, not from language: found only as they are written."""

ROOM = f"""
select greatest(0, {MAX_WORDS} - count(*)) from memoryd.lexicon l where l.embedding is not null
"""

READ_NEW = f"""
select l.lexeme, l.word from memoryd.lexicon l where l.embedding is null order by l.lexeme limit least($1, {BATCH})
"""

# As one string of fixed-width binary values: a row a word would cost more to decode than the comparison itself.
READ_PAGE = f"""
select array_agg(k.lexeme) as lexemes, string_agg(vector_send(k.embedding), '') as embeddings
from (select l.lexeme, l.embedding from memoryd.lexicon l
      where l.embedding is not null and l.lexeme > $1
      order by l.lexeme limit {PAGE}) k
"""

# All words of the transaction at once, in the order of lexemes, as by all who delete words. A locked word is not deleted before
# this transaction is committed.
LOCK = """
select l.lexeme from memoryd.lexicon l where l.lexeme = any($1) order by l.lexeme for update
"""

# Nobody else writes these pairs, since their words are locked: `on conflict` would only write a third more WAL.
WRITE_PAIRS = """
insert into memoryd.lexeme_neighbours (lexeme, neighbour, similarity)
select distinct p.lexeme collate "C", p.neighbour collate "C", p.similarity
from unnest($1::text[], $2::text[], $3::real[]) as p(lexeme, neighbour, similarity)
where not exists (select from memoryd.lexeme_neighbours n
                  where n.lexeme = p.lexeme and n.similarity = p.similarity and n.neighbour = p.neighbour)
order by 1, 3
"""

WRITE_VECTORS = """
update memoryd.lexicon l
set embedding = n.embedding
from unnest($1::text[], $2::vector[]) as n(lexeme, embedding)
where l.lexeme = n.lexeme
"""

DROP = """
delete from memoryd.lexicon l where l.lexeme = any($1) and l.embedding is null
"""

MORE = f"""
insert into memoryd.jobs (topic, lane)
select 'lexicon', 'words'
where exists (select from memoryd.lexicon l where l.embedding is null)
  and (select count(*) from memoryd.lexicon l where l.embedding is not null) < {MAX_WORDS}
"""


class LexiconHandler:
    """A word without neighbours gets them."""

    def __init__(self, *, reader: Reader, embedder: WordEmbedder) -> None:
        self._reader = reader
        self._embedder = embedder
        self._rests_until = 0.0

    async def prepare(self, jobs: Sequence[Job]) -> Commit:
        await asyncio.sleep(max(0.0, self._rests_until - time.monotonic()))
        began = time.monotonic()
        ((room,),) = await self._reader.fetch(ROOM)
        rows = await self._reader.fetch(READ_NEW, room) if room else []
        if not rows:
            return nothing
        pieces = self._embedder.pieces([r["word"] for r in rows])
        known = [r for r, count in zip(rows, pieces, strict=True) if has_meaning(r["word"], count)]
        new = [r["lexeme"] for r in known]
        meaningless = list({r["lexeme"] for r in rows}.difference(new))
        vectors = await self._embedder.embed([r["word"] for r in known])
        nearest = NearestWords(vectors)
        await asyncio.to_thread(nearest.see, new, vectors)
        last = ""
        while new and (page := (await self._reader.fetch(READ_PAGE, last))[0])["lexemes"] is not None:
            last = page["lexemes"][-1]
            await asyncio.to_thread(_see, nearest, page["lexemes"], page["embeddings"])

        async def commit(connection: AnyConnection, _ours: Sequence[Job]) -> None:
            locked = await connection.fetch(LOCK, [*nearest.named(), *meaningless])
            there = {r["lexeme"] for r in locked}.difference(meaningless)
            await connection.execute(DROP, meaningless)
            for start in range(0, len(new), BLOCK):
                part = slice(start, start + BLOCK)
                await connection.execute(WRITE_PAIRS, *await asyncio.to_thread(nearest.pairs, part, there))
                await connection.execute(WRITE_VECTORS, new[part], [Vector(v) for v in vectors[part]])
            await connection.execute(MORE)
            took = time.monotonic() - began
            self._rests_until = time.monotonic() + min(took, MAX_REST_SECONDS)

        return commit


def _see(nearest: NearestWords, words: Sequence[str], packed: bytes) -> None:
    nearest.see(words, unpacked(packed, len(words)))
