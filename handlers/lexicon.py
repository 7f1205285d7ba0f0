"""New words came in: embed them, and note which words stand near each other.

The vectors are the local embedder's whichever embedder the rows have: a word costs nothing, and no text leaves the machine.
One worker at a time (a lane), so that of two new words one always sees the other.

Memory: a job takes up to BATCH new words; the known ones stream past in pages, and of each new word the nearest so far are
kept. So what is held at once does not grow with the lexicon, but for the names of its lexemes. Time: all known words are read
once for BATCH new ones, and there are at most MOST_WORDS.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt
from pgvector import Vector

from handlers.shared.ports import AnyConnection, Commit, Job, Reader, nothing
from providers.ports import Embedder, Vectors

BATCH = 2_000
"""New words of one job: its transaction writes up to 80 pairs for each, and who forgets one of them waits for it."""
PAGE = 1_000
"""Known words that are compared at once; each is a kilobyte."""
BLOCK = 250
"""New words that are compared with a page, and whose pairs are sent, at once."""
NEIGHBOURS = 40
NEAR = 0.3
"""Cosine similarity from which two words count as near."""
MOST_WORDS = 100_000
"""Words that have neighbours. What comes above that is not a language but a log: it is found by its letters alone."""

ROOM = f"""
select greatest(0, {MOST_WORDS} - count(*)) from memoryd.lexicon l where l.embedding is not null
"""  # noqa: S608 - our own number

READ_NEW = f"""
select l.lexeme, l.word from memoryd.lexicon l where l.embedding is null order by l.lexeme limit least($1, {BATCH})
"""  # noqa: S608

# As one string of fixed-width binary values: a row a word would cost more to decode than the comparison itself.
READ_PAGE = f"""
select array_agg(k.lexeme) as lexemes, string_agg(vector_send(k.embedding), '') as embeddings
from (select l.lexeme, l.embedding from memoryd.lexicon l
      where l.embedding is not null and l.lexeme > $1
      order by l.lexeme limit {PAGE}) k
"""  # noqa: S608

# Whoever forgets words locks them in this order, too. What is locked is not forgotten before this is committed.
LOCK = """
select l.lexeme from memoryd.lexicon l where l.lexeme = any($1) order by l.lexeme for no key update
"""

WRITE_PAIRS = """
insert into memoryd.lexeme_neighbours (lexeme, neighbour, similarity)
select p.lexeme, p.neighbour, p.similarity
from unnest($1::text[], $2::text[], $3::real[]) as p(lexeme, neighbour, similarity)
order by p.lexeme collate "C", p.similarity
on conflict do nothing
"""

WRITE_VECTORS = """
update memoryd.lexicon l
set embedding = n.embedding
from unnest($1::text[], $2::vector[]) as n(lexeme, embedding)
where l.lexeme = n.lexeme
"""

MORE = f"""
insert into memoryd.jobs (topic, lane)
select 'lexicon', 'words'
where exists (select from memoryd.lexicon l where l.embedding is null)
  and (select count(*) from memoryd.lexicon l where l.embedding is not null) < {MOST_WORDS}
"""  # noqa: S608


class LexiconHandler:
    """A word without neighbours gets them."""

    def __init__(self, *, reader: Reader, embedder: Embedder) -> None:
        self._reader = reader
        self._embedder = embedder

    async def prepare(self, jobs: Sequence[Job]) -> Commit:
        """Embeds new words and compares them with all."""
        ((room,),) = await self._reader.fetch(ROOM)
        rows = await self._reader.fetch(READ_NEW, room) if room else []
        if not rows:
            return nothing
        new = [r["lexeme"] for r in rows]
        vectors = await self._embedder.embed([r["word"] for r in rows])
        nearest = Nearest(vectors)
        await asyncio.to_thread(nearest.see, new, vectors)
        last = ""
        while (page := (await self._reader.fetch(READ_PAGE, last))[0])["lexemes"] is not None:
            last = page["lexemes"][-1]
            await asyncio.to_thread(nearest.see_packed, page["lexemes"], page["embeddings"])

        async def commit(connection: AnyConnection, _ours: Sequence[Job]) -> None:
            there = {r["lexeme"] for r in await connection.fetch(LOCK, nearest.named())}
            for start in range(0, len(new), BLOCK):
                part = slice(start, start + BLOCK)
                await connection.execute(WRITE_PAIRS, *await asyncio.to_thread(nearest.pairs, part, there))
                await connection.execute(WRITE_VECTORS, new[part], [Vector(v) for v in vectors[part]])
            await connection.execute(MORE)

        return commit


class Nearest:
    """Of each of some words the NEIGHBOURS nearest among all that it was shown."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        self._similarity = np.full((len(vectors), NEIGHBOURS), -np.inf, dtype=np.float32)
        self._place = np.full((len(vectors), NEIGHBOURS), -1, dtype=np.int32)
        self._names: list[str] = []

    def see_packed(self, names: Sequence[str], packed: bytes) -> None:
        """As `see`; vector_send: two 16-bit numbers, the dimensions and a zero, then the values."""
        values = np.frombuffer(packed, dtype=">f4").reshape(len(names), -1)[:, 1:]
        self.see(names, values.astype(np.float32))

    def see(self, names: Sequence[str], vectors: Vectors) -> None:
        """Compares all words with these, unit vectors of shape (len(names), dimensions)."""
        first = len(self._names)
        self._names += names
        for column in range(0, len(names), PAGE):
            others = vectors[column : column + PAGE]
            for start in range(0, len(self._vectors), BLOCK):
                rows = slice(start, start + BLOCK)
                similarity = self._vectors[rows] @ others.T
                # A word is no neighbour of its own; they were shown first, in their own order.
                own = np.arange(len(similarity)) + start - first - column
                same = np.nonzero((own >= 0) & (own < similarity.shape[1]))[0]
                similarity[same, own[same]] = -np.inf
                self._merge(rows, similarity, first + column)

    def _merge(self, rows: slice, similarity: npt.NDArray[np.float32], first: int) -> None:
        most = min(NEIGHBOURS, similarity.shape[1])
        best = np.argpartition(-similarity, most - 1, axis=1)[:, :most]
        found = np.concatenate([self._similarity[rows], np.take_along_axis(similarity, best, axis=1)], axis=1)
        places = np.concatenate([self._place[rows], (best + first).astype(np.int32)], axis=1)
        kept = np.argpartition(-found, NEIGHBOURS - 1, axis=1)[:, :NEIGHBOURS]
        self._similarity[rows] = np.take_along_axis(found, kept, axis=1)
        self._place[rows] = np.take_along_axis(places, kept, axis=1)

    def named(self) -> list[str]:
        """The words themselves, which were shown first, and all neighbours that are near enough."""
        places = np.unique(self._place[self._similarity >= NEAR])
        count = len(self._vectors)
        return self._names[:count] + [self._names[p] for p in places[places >= count].tolist()]

    def pairs(self, rows: slice, there: Collection[str]) -> tuple[list[str], list[str], list[float]]:
        """Columns of some words' pairs, both ways round: word, neighbour, cosine similarity. Only of words that are `there`."""
        row, column = np.nonzero(self._similarity[rows] >= NEAR)
        place, similarity = self._place[rows][row, column], self._similarity[rows][row, column]
        row += rows.start
        # Of two new words that name each other, the one that comes first writes the pair.
        twice = place < np.minimum(row, len(self._vectors))
        twice[twice] = (self._place[place[twice]] == row[twice, np.newaxis]).any(axis=1)
        names = self._names
        found = [
            (names[r], names[p], s)
            for r, p, s in zip(
                row[~twice].tolist(), place[~twice].tolist(), similarity[~twice].tolist(), strict=True
            )
            if names[r] in there and names[p] in there
        ]
        return (
            [a for a, _, _ in found] + [b for _, b, _ in found],
            [b for _, b, _ in found] + [a for a, _, _ in found],
            [s for _, _, s in found] * 2,
        )
