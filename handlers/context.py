"""A command was inserted: write what its agent should know, and make it ready.

The command of a disabled agent is cancelled with the reason. An embedder that is down does not hold a command up:
its context is then curated by keywords alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from handlers.embedding import Embedding
from handlers.ports import AnyConnection, Commit, Job, Reader

READ = """
select c.id, left(c.message, 32768) as message
from public.agent_commands c
where c.id = any($1) and c.status = 'pending'
"""

# An agent whose last user was erased is known no more; its next command makes it known again.
REGISTER = """
select memoryd.register_agents(array_agg(distinct c.agent_id))
from public.agent_commands c
where c.id = any($1) and not exists (select from public.agents a where a.agent_id = c.agent_id)
having count(*) > 0
"""

# Locked in the order of their ids, as by everybody.
WRITE = """
with pending as materialized (
    select c.id from public.agent_commands c
    where c.id = any($1) and c.status = 'pending'
    order by c.id
    for no key update
)
update public.agent_commands c
set context = case when a.enabled then memoryd.compose_context(c.agent_id, c.message, c.user_id, false, n.embedding, c.id) end,
    status = case when a.enabled then 'ready' else 'cancelled' end,
    ready_at = case when a.enabled then clock_timestamp() end,
    error = case when not a.enabled then 'agent ' || c.agent_id || ' is disabled'
                 || coalesce(': ' || a.disabled_reason, '') end
from pending p, unnest($1::uuid[], $2::vector[]) as n(id, embedding), public.agents a
where c.id = p.id and n.id = p.id and c.status = 'pending' and a.agent_id = c.agent_id
"""


class ContextHandler:
    """pending -> ready, or cancelled."""

    def __init__(self, *, reader: Reader, embedding: Embedding) -> None:
        self._reader = reader
        self._embedding = embedding

    async def prepare(self, jobs: Sequence[Job]) -> Commit:
        """Embeds the messages, where that is possible."""
        rows = await self._reader.fetch(READ, [j.ref for j in jobs])
        messages = {r["id"]: r["message"] for r in rows}
        embeddings = await self._embedding.if_possible(messages)

        async def commit(connection: AnyConnection, ours: Sequence[Job]) -> None:
            ids = [j.ref for j in ours if j.ref in messages]
            if ids:
                await connection.execute(REGISTER, ids)
                await connection.execute(WRITE, ids, [embeddings.get(i) for i in ids])

        return commit
