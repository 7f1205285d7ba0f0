"""A row was inserted into memory_requests: answer it.

Promise: a request with a user_id is answered under that user's identity, role and claims, so that nothing is found that they
could not select themselves. A request that cannot be answered fails, with the reason in its row, where the
client looks for it; it does not become a dead letter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import asyncpg
from pgvector import Vector

from handlers.shared.embedding import Embedding, Questions
from handlers.shared.ports import AnyConnection, Commit, Job, Reader
from providers.ports import Embedder

READ = """
select r.id, r.kind, r.created_at < now() - interval '2 seconds' as late, r.agent_id, r.user_id, left(r.query, 32768) as query,
       f.fault || '. ' || f.hint as wrong_options,
       case when r.user_id is not null and not pg_has_role(session_user, 'memoryd_user', 'set') then session_user end
           as lacking_role
from public.memory_requests r
cross join lateral memoryd.fault_of_options(r.kind, r.options) f
where r.id = any($1) and r.status = 'pending'
"""

# An erasure deletes requests, so it cannot be a part of what writes its answer.
ERASE = """
select memoryd.answer_as_user(r.kind, null, r.user_id, null, '{}', null, null)::text
from public.memory_requests r
where r.id = $1 and r.status = 'pending' and r.kind = 'erase'
"""

FINISH_ERASE = """
update public.memory_requests r
set status = 'done', finished_at = clock_timestamp(), result = $2, query = null, options = '{}', agent_id = null
where r.id = $1 and r.status = 'pending'
"""

# `nowait`: while this transaction blocks erasures it waits for nobody who has locked a request. That request is tried later.
# Of a context memoryd.quotes is told here which rows it shows. Of a recall a trigger does it (answers_written), but the
# snapshot is kept here: that of the trigger is from after the search.
ANSWER = """
with pending as materialized (
    select r.id, r.kind, r.agent_id, r.user_id, r.query, r.options, n.embedding, n.near
    from unnest($1::uuid[], $2::vector[], $3::jsonb[]) as n(id, embedding, near)
    join public.memory_requests r using (id)
    where r.status = 'pending'
    for no key update of r nowait
), answered as materialized (
    select p.id, p.kind, case when p.user_id is null
        then memoryd.answer(p.kind, p.agent_id, null, p.query, p.options, p.embedding, p.near)
        else memoryd.answer_as_user(p.kind, p.agent_id, p.user_id, p.query, p.options, p.embedding, p.near) end as answer
    from pending p
), quoted as (
    insert into memoryd.quotes (request_id, row_ids, hashes)
    select a.id, coalesce(c.row_ids, '{}'), coalesce(c.hashes, '{}')
    from answered a
    cross join lateral jsonb_populate_record(
        null::memoryd.composed, case when a.kind = 'context' then a.answer end) c
    where c.row_ids <> '{}' or a.kind = 'recall' and a.answer <> '[]'
)
update public.memory_requests r
set status = 'done', finished_at = clock_timestamp(),
    result = case when a.kind = 'context' then a.answer -> 'block' else a.answer end
from answered a
where r.id = a.id
"""

# An answer is a copy of texts of others. An erasure waits until the answer is committed, and then also erases from the answer.
# An answer does not wait for an erasure, which somebody may leave open: see memoryd.try_to_block_erasures(). But for an export,
# of which nothing is removed later.
BLOCK_ERASURES = "select case when $1 then memoryd.block_erasures() else memoryd.try_to_block_erasures() end"

FAIL = """
update public.memory_requests
set status = 'failed', error = $2, finished_at = clock_timestamp()
where id = $1 and status = 'pending'
"""

ERRORS_OF_THE_REQUEST = (
    asyncpg.DataError,
    asyncpg.InvalidParameterValueError,
    asyncpg.ProgramLimitExceededError,
    asyncpg.InsufficientPrivilegeError,
)
"""Errors with which a request fails at once; after any other the job is retried."""


class RequestHandler:
    """pending -> done | failed."""

    def __init__(self, *, reader: Reader, embedding: Embedding, words: Embedder) -> None:
        """`words`: the embedder (the local one) by which a recall's new words are looked up by their neighbours."""
        self._reader = reader
        self._embedding = embedding
        self._questions = Questions(reader=reader, embedding=embedding, words=words)

    async def prepare(self, jobs: Sequence[Job]) -> Commit:
        """Embeds the queries, where that is possible; otherwise the words must do, so that the answer is not late.

        An erasure is in a batch of its own (topic user_data): it waits for transactions that write about its user, and so must
        not have locked anything that those wait for.
        """
        rows = await self._reader.fetch(READ, [j.ref for j in jobs])
        complaints = {r["id"]: said for r in rows if (said := _complaint(r))}
        well = [r for r in rows if r["id"] not in complaints]
        erasure = next((r["id"] for r in well if r["kind"] == "erase"), None)
        # Whoever asked for an embedding has waited a second, and gone on by words.
        asked = await self._embed(
            [
                r
                for r in well
                if r["kind"] in ("recall", "context") or (r["kind"] == "embed" and not r["late"])
            ]
        )

        async def commit(connection: AnyConnection, ours: Sequence[Job]) -> None:
            mine = {j.ref for j in ours}
            if erasure is not None:
                await _erase(connection, erasure)
            else:
                await _answer(connection, [r for r in well if r["id"] in mine], asked)
            # Last, so that an erasure that waits for the answers does not also wait for these requests.
            for refused in complaints.keys() & mine:
                await connection.execute(FAIL, refused, complaints[refused])

        return commit

    async def _embed(self, rows: Sequence[Any]) -> dict[UUID, tuple[Vector | None, str | None]]:
        """The embedding of each query, and the neighbours of its new words; see memoryd.question()."""
        read = [r for r in rows if r["kind"] != "context"]
        questions = await asyncio.gather(
            *(self._questions.read(r["query"], agent=r["agent_id"], user=r["user_id"]) for r in read)
        )
        asked = {r["id"]: (q.embedding, q.near) for r, q in zip(read, questions, strict=True)}
        texts = {r["id"]: r["query"] for r in rows if r["id"] not in asked}
        embeddings = await self._embedding.if_possible(texts, asked=True)
        return asked | {i: (embeddings.get(i), None) for i in texts}


async def _answer(
    connection: AnyConnection, rows: Sequence[Any], asked: Mapping[UUID, tuple[Vector | None, str | None]]
) -> None:
    if not rows:
        return
    ids = [r["id"] for r in rows]
    embeddings, near = zip(*(asked.get(i, (None, None)) for i in ids), strict=True)
    if all(r["kind"] == "embed" for r in rows):
        # An embedding quotes nobody, and nothing in it can be wrong. Somebody waits for each round trip.
        await connection.execute(ANSWER, ids, embeddings, near)
        return
    try:
        async with connection.transaction():
            await connection.execute(BLOCK_ERASURES, any(r["kind"] == "export" for r in rows))
            await connection.execute(ANSWER, ids, embeddings, near)
    except ERRORS_OF_THE_REQUEST as error:
        # Of several requests the worker finds the one that fails. A single one is answered with the error.
        if len(ids) > 1:
            raise
        await connection.execute(FAIL, ids[0], _sentence(error))


async def _erase(connection: AnyConnection, request: UUID) -> None:
    try:
        async with connection.transaction():
            counts = await connection.fetchval(ERASE, request)
            await connection.execute(FINISH_ERASE, request, counts)
    except ERRORS_OF_THE_REQUEST as error:
        await connection.execute(FAIL, request, _sentence(error))


def _sentence(error: asyncpg.PostgresError) -> str:
    hint = getattr(error, "hint", None)
    return f"{error.args[0]}. {hint}" if hint else str(error.args[0])


def _complaint(row: Mapping[str, Any]) -> str | None:
    """Why a request cannot be answered; None when it can be tried."""
    if (role := row["lacking_role"]) is not None:
        return (
            f"A user's request is answered with the user's rights, and the daemon's role \"{role}\" may not take "
            f'them. An administrator runs once: grant memoryd_user to "{role}".'
        )
    # The insert refuses these; but a request may have been waiting since before it did.
    said: str | None = row["wrong_options"]
    return said
