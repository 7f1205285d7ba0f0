"""A memory is searchable: link it to what came before, in order per agent.

Candidates are the last 30 memories of the agent and `_shared`, and the nearest by embedding among the newest 1,000
of each before it. Memories of a user are linked to that user's and to nobody's (user_id null), never to another's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import numpy as np

from handlers.ports import AnyConnection, Commit, Job, Reader
from memory.linking import Link, Linkable, link_batch

WINDOW = 30
REACH = 1000
NEIGHBOURS = 5
NEAR = 0.5
"""Cosine similarity from which a memory is a neighbour."""

READ_NEW = """
select m.id, m.agent_id, m.user_id, m.kind, m.keywords, m.created_at, m.embedding
from public.agent_memory m
where m.id = any($1)
"""

# For every new memory the 30 before it, and for every agent the newest REACH up to the newest of the batch; each row once.
# Fetched with its embedding only where it is within reach.
READ_EARLIER = """
with new as materialized (
    select m.id, m.agent_id, m.created_at
    from public.agent_memory m
    where m.id = any($1)
), scopes as (
    select agent_id, scope, max(created_at) as newest
    from new cross join lateral (values (agent_id), ('_shared')) as s(scope)
    group by agent_id, scope
), windowed as (
    select w.id
    from new n
    cross join lateral (values (n.agent_id), ('_shared')) as s(scope)
    cross join lateral (
        select m.id from public.agent_memory m
        where m.agent_id = s.scope and (m.created_at, m.id) < (n.created_at, n.id)
        order by m.created_at desc, m.id desc
        limit $2
    ) w
), reachable as (
    select r.id
    from scopes s
    cross join lateral (
        select m.id from public.agent_memory m
        where m.agent_id = s.scope and m.created_at <= s.newest
        order by m.created_at desc, m.id desc
        limit $3
    ) r
), near as (
    select id, true as reach from reachable
    union all
    select id, false from windowed
)
select m.id, m.agent_id, m.user_id, m.kind, m.keywords, m.created_at,
       case when bool_or(near.reach) then m.embedding end as embedding
from near
join public.agent_memory m using (id)
group by m.id
"""

WRITE = """
insert into public.memory_associations (memory_id, related_memory_id, association_type, strength)
select n.memory_id, n.related_memory_id, n.association_type, n.strength
from unnest($1::uuid[], $2::uuid[], $3::text[], $4::double precision[])
     as n(memory_id, related_memory_id, association_type, strength)
where exists (select from public.agent_memory m where m.id = n.memory_id)
  and exists (select from public.agent_memory m where m.id = n.related_memory_id)
order by n.memory_id, n.related_memory_id
on conflict (memory_id, related_memory_id) do update
set association_type = excluded.association_type,
    strength = greatest(memory_associations.strength, excluded.strength),
    updated_at = now()
"""


class AssociateHandler:
    """An indexed memory gets up to five links."""

    def __init__(self, *, reader: Reader) -> None:
        self._reader = reader

    async def prepare(self, jobs: Sequence[Job]) -> Commit:
        """Computes the links of the batch."""
        wanted = {j.ref for j in jobs}
        new = await self._reader.fetch(READ_NEW, list(wanted))
        earlier = await self._reader.fetch(READ_EARLIER, [r["id"] for r in new], WINDOW, REACH) if new else []
        links: dict[UUID, list[Link]] = defaultdict(list)
        for link in _link(new, earlier):
            links[link.memory_id].append(link)

        async def commit(connection: AnyConnection, ours: Sequence[Job]) -> None:
            mine = [link for ref in dict.fromkeys(j.ref for j in ours) if ref is not None for link in links.get(ref, ())]
            if mine:
                await connection.execute(
                    WRITE,
                    [link.memory_id for link in mine],
                    [link.related_memory_id for link in mine],
                    [link.association_type for link in mine],
                    [link.strength for link in mine],
                )

        return commit


def _link(new: Sequence[Any], earlier: Sequence[Any]) -> list[Link]:
    by_owner: dict[tuple[str, UUID | None], list[Any]] = defaultdict(list)
    for row in new:
        by_owner[row["agent_id"], row["user_id"]].append(row)
    links: list[Link] = []
    for (agent, user), rows in by_owner.items():
        visible = [
            r for r in earlier if r["agent_id"] in (agent, "_shared") and (r["user_id"] is None or r["user_id"] == user)
        ]
        links += link_batch(
            [_linkable(r) for r in rows],
            [_linkable(r) for r in visible],
            neighbours=_neighbours(rows, visible),
            window=WINDOW,
        )
    return links


def _neighbours(new: Sequence[Any], earlier: Sequence[Any]) -> Mapping[UUID, Mapping[UUID, float]]:
    """For each new memory the cosine similarity of its nearest earlier ones."""
    pool = [r for r in earlier if r["embedding"] is not None]
    rows = [r for r in new if r["embedding"] is not None]
    if not pool or not rows:
        return {}
    similarity = np.stack([r["embedding"].to_numpy() for r in rows]) @ np.stack([r["embedding"].to_numpy() for r in pool]).T
    ages = np.array([r["created_at"].timestamp() for r in pool])
    found: dict[UUID, dict[UUID, float]] = {}
    for row, near in zip(rows, similarity, strict=True):
        near = np.where(ages <= row["created_at"].timestamp(), near, -1.0)
        best = np.argpartition(-near, min(NEIGHBOURS + 1, len(near) - 1))[: NEIGHBOURS + 1]
        found[row["id"]] = {
            pool[i]["id"]: float(near[i]) for i in best if near[i] > NEAR and pool[i]["id"] != row["id"]
        }
    return found


def _linkable(row: Any) -> Linkable:
    return Linkable(
        id=row["id"],
        kind=row["kind"],
        agent_id=row["agent_id"],
        keywords=frozenset(row["keywords"]),
        created_at=row["created_at"],
    )
