"""Indexes rows: the passages of each text, their embeddings, the entries in memoryd.entries; and words, for the lexicon.

The lexicon lets recall find what says the same in other words. Promise: a word is learnt only in the transaction that writes a
row which is found by it. So the word is erased with the last such row, and a fragment by which no row is found is never learnt.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pgvector import Vector

from handlers.shared.ports import AnyConnection, Job, Reader
from memory.passages import passages
from memory.text import is_blank
from memory.vectors import OneVector

MAX_CHARACTERS = 131_072
"""Of a row's text that is searched: about a hundred passages."""

# Of the view of one source: memoryd.searchable has all of them, and takes as long to plan as the rest of the job.
READ = f"""
select s.id, left(s.searched_text, {MAX_CHARACTERS}) as text, s.text_hash as hash,
       (select array_agg(e.embedding::vector order by e.passage) from memoryd.entries e
        where s.id = any($3) and e.scope = s.scope and e.id = s.id and e.source = $1
          and e.text_hash = s.text_hash) as vectors
from memoryd.source_%s s
where s.id = any($2)
  and (s.id = any($3)
       or not exists (select from memoryd.entries e
                   where e.scope = s.scope and e.id = s.id and e.source = $1 and e.passage = 0
                     and e.text_hash = s.text_hash)
       or exists (select from memoryd.entries e
                  where e.scope = s.scope and e.id = s.id and e.source = $1 and e.code is null)
       -- A message in a group chat has entries in the group's scope, too.
       or ($1 = 'conversation'
           and exists (select from public.conversation_messages m
                       where m.id = s.id and m.chat_id is not null and m.role <> 'system'
                         and (select count(*) = 0 or bool_or(e.code is null) from memoryd.entries e
                              where e.scope = memoryd.group_scope(m.chat_id, m.role) and e.id = m.id
                                and e.source = $1))))
"""

WRITE = "select * from memoryd.write_entries($1, $2, $3, $4, $5, $6, $7)"

# Whole words of plain letters: beside a digit, or a letter beyond ASCII, they are parts of something else.
WORD = re.compile(r"(?<![^\W_])[a-z]{3,24}(?![^\W_])")

# Nothing is remembered here of what is known: the database forgets a word whose last row went.
UNKNOWN = "select memoryd.unknown_words($1)"
LEARN = "select memoryd.learn_words($1, $2, $3)"


@dataclass(frozen=True, slots=True)
class RowToIndex:
    """A row that lacks its entries, or whose words are indexed again.

    `hash` says which text was read. `vectors`: the embeddings of the passages, where these stay; else none.
    """

    id: UUID
    passages: Sequence[str]
    hash: int | None = None
    vectors: Sequence[Vector] = ()


@dataclass(frozen=True, slots=True)
class WriteResult:
    """Rows of which entries were written, and those that another transaction has locked."""

    rows: Sequence[tuple[UUID, int]]
    """Ids and scopes."""
    locked: Sequence[UUID]


async def read_rows(reader: Reader, source: str, jobs: Sequence[Job]) -> list[RowToIndex]:
    """Of the rows that the jobs refer to those that are still there and lack their entries, and those to index `again`."""
    again = [j.ref for j in jobs if is_again(j)]
    rows = []
    for r in await reader.fetch(READ % source, source, list({j.ref for j in jobs}), again):
        texts = () if is_blank(r["text"]) else passages(r["text"])
        vectors = r["vectors"] or ()
        known = vectors if len(vectors) == len(texts) and all(v is not None for v in vectors) else ()
        rows.append(RowToIndex(r["id"], texts, r["hash"], known))
    return rows


def is_again(job: Job) -> bool:
    """Whether the row has entries that an earlier version of memoryd wrote: an upgrade queues it."""
    return bool((job.payload or {}).get("again"))


def texts_of(rows: Sequence[RowToIndex]) -> Iterator[str]:
    """What is to be embedded."""
    return (passage for row in rows if not row.vectors for passage in row.passages)


async def write_rows(
    connection: AnyConnection,
    source: str,
    rows: Sequence[RowToIndex],
    *,
    vectors: Mapping[str, OneVector | Vector],
    embedder: str | None,
    only: Collection[UUID] | None = None,
) -> WriteResult:
    """Writes the entries of the rows `only` (None: all). A passage without a vector is found by its words.

    `embedder`: whose vectors these are. If the database is of another one by now, they are not written, and the rows are
    queued again.

    Rows that another transaction has locked are neither written nor waited for: a batch has rows of many users, and one
    must not delay the others.
    """
    mine = [r for r in rows if only is None or r.id in only]
    if not mine:
        return WriteResult([], [])
    parts: list[Any] = [
        (r.id, passage, vector)
        for r in mine
        for passage, vector in zip(r.passages, r.vectors or map(vectors.get, r.passages), strict=True)
    ]
    written = await connection.fetch(
        WRITE,
        source,
        [r.id for r in mine],
        [r.hash for r in mine],
        [row for row, _, _ in parts],
        [passage for _, passage, _ in parts],
        [v if v is None or isinstance(v, Vector) else Vector(v) for _, _, v in parts],
        embedder,
    )
    return WriteResult(
        [(r["id"], r["scope"]) for r in written if not r["locked_elsewhere"]],
        [r["id"] for r in written if r["locked_elsewhere"]],
    )


async def unknown_words(reader: Reader, texts: Iterable[str]) -> Sequence[str]:
    """The words of the texts that the lexicon lacks: mostly none."""
    words = {word for text in texts for word in WORD.findall(text.lower())}
    return [r[0] for r in await reader.fetch(UNKNOWN, sorted(words))] if words else []


async def learn_words(
    connection: AnyConnection, words: Sequence[str], written: Collection[tuple[UUID, int]]
) -> None:
    """Adds those of the words that rows (ids, scopes) of this transaction are found by. The last thing that it writes."""
    if words and written:
        await connection.execute(LEARN, words, [i for i, _ in written], [scope for _, scope in written])
