"""New words came in: embed them, and note which words stand near each other.

The vectors are the local embedder's whichever embedder the rows have: a word costs nothing, and no text leaves the machine.
One worker at a time (a lane), so that of two new words one always sees the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
from pgvector import Vector

from handlers.ports import AnyConnection, Commit, Job, Reader, nothing
from providers.ports import Embedder, Vectors

BATCH = 1_000
NEIGHBOURS = 40
NEAR = 0.3
"""Cosine similarity from which two words count as near."""
MOST_WORDS = 100_000
"""Words that neighbours are looked for among, the first of the alphabet: what is more is not a language but a log."""

READ_NEW = f"select l.lexeme, l.word from memoryd.lexicon l where l.embedding is null order by l.lexeme limit {BATCH}"  # noqa: S608

READ_KNOWN = f"""
select array_agg(k.lexeme) as lexemes, string_agg(vector_send(k.embedding), '') as embeddings
from (select l.lexeme, l.embedding from memoryd.lexicon l where l.embedding is not null
      order by l.lexeme limit {MOST_WORDS}) k
"""  # noqa: S608

WRITE = """
with near as (
    insert into memoryd.lexeme_neighbours (lexeme, neighbour, similarity)
    select p.lexeme, p.neighbour, p.similarity
    from unnest($3::text[], $4::text[], $5::real[]) as p(lexeme, neighbour, similarity)
    where exists (select from memoryd.lexicon l where l.lexeme = p.lexeme)
      and exists (select from memoryd.lexicon l where l.lexeme = p.neighbour)
    on conflict do nothing
)
update memoryd.lexicon l
set embedding = n.embedding
from unnest($1::text[], $2::vector[]) as n(lexeme, embedding)
where l.lexeme = n.lexeme
"""

MORE = """
insert into memoryd.jobs (topic, lane)
select 'lexicon', 'words' where exists (select from memoryd.lexicon l where l.embedding is null)
"""


class LexiconHandler:
    """A word without neighbours gets them."""

    def __init__(self, *, reader: Reader, embedder: Embedder) -> None:
        self._reader = reader
        self._embedder = embedder

    async def prepare(self, jobs: Sequence[Job]) -> Commit:
        """Embeds new words and compares them with all."""
        rows = await self._reader.fetch(READ_NEW)
        if not rows:
            return nothing
        new = [r["lexeme"] for r in rows]
        vectors = await self._embedder.embed([r["word"] for r in rows])
        (known,) = await self._reader.fetch(READ_KNOWN)
        lexemes, all_vectors = new, vectors
        if known["lexemes"] is not None:
            before = np.frombuffer(known["embeddings"], dtype=">f4").reshape(len(known["lexemes"]), -1)[:, 1:]
            lexemes, all_vectors = (
                new + known["lexemes"],
                np.concatenate([vectors, before.astype(np.float32)]),
            )
        near = await asyncio.to_thread(_near, new, vectors, lexemes, all_vectors)

        async def commit(connection: AnyConnection, _ours: Sequence[Job]) -> None:
            await connection.execute(
                WRITE,
                new,
                [Vector(v) for v in vectors],
                [a for a, _, _ in near],
                [b for _, b, _ in near],
                [s for _, _, s in near],
            )
            await connection.execute(MORE)

        return commit


def _near(
    new: Sequence[str], vectors: Vectors, lexemes: Sequence[str], all_vectors: Vectors
) -> list[tuple[str, str, float]]:
    """(lexeme, neighbour, cosine similarity), both ways round, of the nearest NEIGHBOURS of each new lexeme."""
    pairs: dict[tuple[str, str], float] = {}
    similarity = vectors @ all_vectors.T
    most = min(NEIGHBOURS + 1, len(lexemes))
    for row, lexeme in enumerate(new):
        for place in np.argpartition(-similarity[row], most - 1)[:most]:
            cosine = float(similarity[row, place])
            other = lexemes[int(place)]
            if cosine >= NEAR and other != lexeme:
                pairs[lexeme, other] = pairs[other, lexeme] = cosine
    return [(a, b, s) for (a, b), s in pairs.items()]
