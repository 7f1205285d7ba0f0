"""A command was inserted: write what its agent should know, and make it ready.

The command of a disabled agent is cancelled with the reason. An embedder that is down does not delay a command: its context is
then chosen by keywords only. Of a batch only those commands wait that another transaction has locked, with no attempt counted.
"""

from __future__ import annotations

from collections.abc import Sequence

from handlers.shared.embedding import Embedding
from handlers.shared.ports import AnyConnection, Commit, Job, Reader, enqueue_for_later

READ = """
select c.id, left(c.message, 32768) as message,
       case when not exists (select from public.agents a where a.agent_id = c.agent_id) then c.agent_id end as unknown
from public.agent_commands c
where c.id = any($1) and c.status = 'pending'
"""

# Returns the ids of commands that another transaction has locked. An agent may be unknown as yet: see register_agents().
WRITE = """
with given as materialized (
    select * from unnest($1::uuid[], $2::vector[]) as n(id, embedding)
), locked as materialized (
    select c.id, c.agent_id, c.message, c.user_id,
           jsonb_build_object('exclude_session', c.session_id) as session,
           jsonb_build_object('exclude_session', c.session_id) || (c.metadata -> 'context_options') as options
    from public.agent_commands c
    where c.id = any($1) and c.status = 'pending'
    for no key update skip locked
), composed as materialized (
    select l.id, a.disabled_reason,
           case when a.enabled is distinct from false then memoryd.compose(
               l.agent_id, l.message, l.user_id, false, g.embedding, l.id,
               memoryd.conditions_of(o.fit)) end as made
    from locked l
    join given g using (id)
    left join public.agents a on a.agent_id = l.agent_id
    -- They were checked at the insert; an update may have changed them since.
    cross join lateral (
        select case when jsonb_typeof(l.options) = 'object' and f.fault is null then l.options else l.session end as fit
        from memoryd.fault_of_options('context', coalesce(l.options, '{}'), 'build_context') f) o
), quoted as (
    insert into memoryd.quotes as q (command_id, row_ids, hashes)
    select w.id, (w.made).row_ids, (w.made).hashes from composed w where (w.made).row_ids <> '{}'
    on conflict (command_id) do update
    set row_ids = excluded.row_ids, hashes = excluded.hashes, made_at = excluded.made_at, read_in = excluded.read_in
), written as (
    update public.agent_commands c
    set context = (w.made).block,
        status = case when (w.made).block is not null then 'ready' else 'cancelled' end,
        ready_at = case when (w.made).block is not null then clock_timestamp() end,
        error = case when (w.made).block is null then 'agent ' || c.agent_id || ' is disabled'
                     || coalesce(': ' || w.disabled_reason, '') end
    from composed w
    where c.id = w.id
)
select c.id from public.agent_commands c
where c.id = any($1) and c.status = 'pending' and c.id <> all (array(select l.id from locked l))
"""

# A context is a copy of texts of others, as an answer is (see handlers/request.py), but it does not wait for an erasure.
BLOCK_ERASURES = "select memoryd.try_to_block_erasures()"

REGISTERED_AGAIN = 1.0
"""Seconds after which an agent's name that another transaction has locked is tried again: see register_agents()."""
REGISTER = "select memoryd.register_agents($1, make_interval(secs => $2))"


class ContextHandler:
    """pending -> ready, or cancelled."""

    def __init__(self, *, reader: Reader, embedding: Embedding) -> None:
        self._reader = reader
        self._embedding = embedding

    async def prepare(self, jobs: Sequence[Job]) -> Commit:
        rows = await self._reader.fetch(READ, [j.ref for j in jobs])
        messages = {r["id"]: r["message"] for r in rows}
        forgotten = {r["unknown"] for r in rows if r["unknown"] is not None}
        embeddings = await self._embedding.if_possible(messages, asked=True)

        async def commit(connection: AnyConnection, ours: Sequence[Job]) -> set[float]:
            pauses: set[float] = set()
            # By job where a name was on its way; by row where an erasure took the name since the command came.
            unknown = {j.payload["register"] for j in ours if j.payload} | forgotten
            if unknown:
                await connection.execute(REGISTER, sorted(unknown), REGISTERED_AGAIN)
                pauses.add(REGISTERED_AGAIN)
            ids = [j.ref for j in ours if j.ref in messages]
            if ids:
                await connection.execute(BLOCK_ERASURES)
                rows = await connection.fetch(WRITE, ids, [embeddings.get(i) for i in ids])
                if locked := [r["id"] for r in rows]:
                    pauses |= await enqueue_for_later(connection, "context", locked, ours, payload=None)
            return pauses

        return commit
