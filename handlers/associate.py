"""A memory is searchable: link it to what came before, in order per agent.

Candidates are the last 30 memories of the agent and `_shared`, and the nearest by embedding among the newest 500
of each before it. Memories of a user are linked to that user's and to those without a user (user_id null), never to another's.

Promise: at most five links that are made here (`automatic`) go out from a memory, each made of the words that both ends have.
Whichever of two memories is indexed last, they are linked: the later memory by its own job if it sees the earlier one,
otherwise by the job of the earlier one, which was queued when that one was indexed and so sees the later one. Later are
the 500 that follow with the same agent and user; for a memory that others' are linked to also the 500 that follow of anyone.

When the words of a memory change, its links go in both directions (memoryd.memories_updated), and are made again: its own,
those of up to 100 memories that were linked to it, and those of later ones that it is now near to. Links by others go too,
for good.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from struct import unpack_from
from typing import Any
from uuid import UUID

import asyncpg

from handlers.shared.embedding import embedding_of
from handlers.shared.ports import AnyConnection, Commit, Job, Reader, RowLockError
from memory.calibration import Calibration
from memory.linking import MAX_LINKS, RELATED, Link, Linkable, link_batch
from memory.vectors import Vectors, nearest_earlier, rows_of, unpacked, unpacked_doubles

WINDOW = 30
REACH = 500
NEIGHBOURS = 5

# When the words were last changed is a version of them, here called updated_at. followed: there is a later memory, of anyone.
READ_NEW = f"""
select m.id, m.agent_id, m.user_id, m.kind, m.keywords, m.created_at, coalesce(m.text_changed_at, m.updated_at) as updated_at,
       e.embedding,
       m.id <> (select l.id from public.agent_memory l
                order by (l.created_at at time zone 'utc') desc, l.id desc limit 1) as followed
from public.agent_memory m
left join lateral {embedding_of("m")} e on true
where m.id = any($1)
"""

# The limits are written out: a plan made for an unknown limit reads everything and sorts.
# The newest REACH memories that the first and the last new one of an agent (and user) may be near to, as strings of fixed-width
# binary values: a row a memory would cost more to decode than the comparison itself. Where one memory is new ($4), only those
# nearest to it are sent. The version that an embedding belongs to is read with it: one that is read later may be of words that
# this embedding says nothing of.
READ_REACH = f"""
with reach as (
    select distinct n.id, n.scope, n.created_at, coalesce(n.text_changed_at, n.updated_at) as updated_at
    from unnest($3::timestamptz[]) as t(moment)
    cross join unnest(array[$1::text, '_shared']) as a(agent_id)
    cross join lateral (
        (select m.* from public.agent_memory m
         where m.agent_id = a.agent_id and m.user_id = $2 and m.created_at <= t.moment
         order by m.created_at desc, m.id desc
         limit {REACH})
        union all
        (select m.* from public.agent_memory m
         where m.agent_id = a.agent_id and m.user_id is null and m.created_at <= t.moment
         order by m.created_at desc, m.id desc
         limit {REACH})
    ) n
), near as (
    select r.*, e.embedding from reach r cross join lateral {embedding_of("r")} e
    where e.embedding is not null
    order by e.embedding <=> $4
    limit $5
)
select string_agg(uuid_send(n.id), '') as ids,
       string_agg(float8send(extract(epoch from n.created_at)::double precision), '') as times,
       string_agg(timestamptz_send(n.updated_at), '') as versions,
       string_agg(vector_send(n.embedding), '') as embeddings,
       min(c.background) as background, min(c.unit) as unit
from near n cross join memoryd.calibration() c
"""

# For every new memory the 30 before it, of its agent and of `_shared`, and the neighbours found; each once. First those of the
# user, then those without a user, so that each part reads one index in order, however many other users there are. Linking takes
# the newest 30.
READ_CANDIDATES = f"""
select m.id, m.agent_id, m.user_id, m.kind, m.keywords, m.created_at, coalesce(m.text_changed_at, m.updated_at) as updated_at
from public.agent_memory m
where m.id in (
    select w.id
    from public.agent_memory n
    cross join lateral (values (n.agent_id), ('_shared')) as s(agent_id)
    cross join lateral (
        (select e.id from public.agent_memory e
         where e.agent_id = s.agent_id and e.user_id = n.user_id and (e.created_at, e.id) < (n.created_at, n.id)
         order by e.created_at desc, e.id desc
         limit {WINDOW})
        union all
        (select e.id from public.agent_memory e
         where e.agent_id = s.agent_id and e.user_id is null and (e.created_at, e.id) < (n.created_at, n.id)
         order by e.created_at desc, e.id desc
         limit {WINDOW})
    ) w
    where n.id = any($1)
    union
    select unnest($2::uuid[])
)
"""

# A foreign key waits for a transaction that deletes or has locked the memory: then only that agent's links wait. Shorter than
# deadlock_timeout: if a client has locked one of the memories and waits for another, this transaction ends, not the client's.
LOCK_TIMEOUT = "set local lock_timeout = '300ms'"

# Compared with the memories as they are once locked; a transaction that changes the words of one waits for this, and then
# unlinks it. A memory whose own words have changed is left to the job of that change; one whose related memory has is linked
# once more.
WRITE = """
with ends as materialized (
    select m.id, coalesce(m.text_changed_at, m.updated_at) as updated_at
    from public.agent_memory m
    where m.id = any($1::uuid[] || $3::uuid[])
    order by m.id
    for key share
), linked as materialized (
    select e.id from ends e join unnest($1::uuid[], $2::timestamptz[]) as v(id, updated_at) using (id, updated_at)
), found as materialized (
    select n.memory_id, n.related_memory_id, n.association_type, n.strength, e.updated_at = v.updated_at as unchanged
    from unnest($4::uuid[], $5::uuid[], $6::text[], $7::double precision[])
         as n(memory_id, related_memory_id, association_type, strength)
    join linked l on l.id = n.memory_id
    join ends e on e.id = n.related_memory_id
    join unnest($3::uuid[], $8::timestamptz[]) as v(id, updated_at) on v.id = n.related_memory_id
), links as (
    select f.memory_id, f.related_memory_id, f.association_type, f.strength from found f where f.unchanged
), superseded as (
    delete from public.memory_associations a
    where a.memory_id in (select l.id from linked l)
      and a.automatic
      and not exists (select from links n
                      where n.memory_id = a.memory_id and n.related_memory_id = a.related_memory_id)
), renewed as (
    update public.memory_associations a
    -- Where the words are the same, what was reinforced stays so.
    set association_type = n.association_type, updated_at = now(),
        strength = case when a.updated_at > (select max(coalesce(m.text_changed_at, m.updated_at))
                                             from public.agent_memory m
                                             where m.id in (a.memory_id, a.related_memory_id))
                        then greatest(a.strength, n.strength) else n.strength end
    from links n
    where a.memory_id = n.memory_id and a.related_memory_id = n.related_memory_id and a.automatic
), written as (
    -- Without `on conflict`, which writes each of them to the log twice. Where somebody else has just made one of these
    -- links, all are made once more.
    insert into public.memory_associations (memory_id, related_memory_id, association_type, strength, automatic)
    select n.memory_id, n.related_memory_id, n.association_type, n.strength, true
    from links n
    where not exists (select from public.memory_associations a
                      where a.memory_id = n.memory_id and a.related_memory_id = n.related_memory_id)
    order by n.memory_id, n.related_memory_id
)
select memoryd.associate_again(array_agg(distinct f.memory_id))
from found f where not f.unchanged
having count(*) > 0
"""

# Those that came after the first and after the last of these memories, and have their embeddings: they may have been linked
# before these were indexed. Not those whose own job waits: it will see these. The limits bound a backlog.
READ_LATER = f"""
with new as materialized (
    select m.id, m.agent_id, m.user_id, m.created_at from public.agent_memory m where m.id = any($1)
), ends as materialized (
    (select distinct on (n.agent_id, n.user_id) n.* from new n order by n.agent_id, n.user_id, n.created_at, n.id)
    union
    (select distinct on (n.agent_id, n.user_id) n.* from new n
     order by n.agent_id, n.user_id, n.created_at desc, n.id desc)
), of_others as materialized (
    select n.created_at, n.id from ends n where n.user_id is null or n.agent_id = '_shared'
), later as (
    select l.id
    from ends n
    cross join lateral (
        (select m.id from public.agent_memory m
         where m.agent_id = n.agent_id and m.user_id = n.user_id and (m.created_at, m.id) > (n.created_at, n.id)
         order by m.created_at, m.id
         limit {REACH})
        union all
        (select m.id from public.agent_memory m
         where m.agent_id = n.agent_id and m.user_id is null and n.user_id is null
           and (m.created_at, m.id) > (n.created_at, n.id)
         order by m.created_at, m.id
         limit {REACH})
    ) l
    union
    select l.id
    from ((select * from of_others order by created_at, id limit 1)
          union
          (select * from of_others order by created_at desc, id desc limit 1)) n
    cross join lateral (
        select m.id from public.agent_memory m
        where ((m.created_at at time zone 'utc'), m.id) > ((n.created_at at time zone 'utc'), n.id)
        order by (m.created_at at time zone 'utc'), m.id
        limit {REACH}
    ) l
)
select m.id, m.agent_id, m.user_id, m.kind, m.keywords, m.created_at, e.embedding, c.background, c.unit
from later l
join public.agent_memory m on m.id = l.id
cross join lateral {embedding_of("m")} e
cross join memoryd.calibration() c
where l.id <> all ($1)
  and not exists (select from memoryd.jobs j where j.topic = 'associate' and j.ref = l.id and j.attempt = 0 offset 0)
  and exists (select from ends n
              where n.agent_id in (m.agent_id, '_shared') and (n.user_id is null or n.user_id = m.user_id))
  and e.embedding is not null
"""

# Those that lack a link which is one of their five strongest.
LINK_LATER = f"""
select memoryd.associate_again(array_agg(distinct l.memory_id))
from unnest($1::uuid[], $2::uuid[], $3::double precision[]) as l(memory_id, related_memory_id, strength)
where not exists (select from public.memory_associations a
                  where a.memory_id = l.memory_id and a.related_memory_id = l.related_memory_id)
  and (select count(*) < {MAX_LINKS} or min(a.strength) < l.strength
       from public.memory_associations a where a.memory_id = l.memory_id and a.automatic)
having count(*) > 0
"""


class AssociateHandler:
    """An indexed memory gets up to five links."""

    def __init__(self, *, reader: Reader) -> None:
        self._reader = reader

    async def prepare(self, jobs: Sequence[Job]) -> Commit:
        new = await self._reader.fetch(READ_NEW, list({j.ref for j in jobs}))
        neighbours: dict[UUID, dict[UUID, float]] = {}
        compared: dict[UUID, datetime] = {}
        for (agent, user), rows in _by_owner(new).items():
            found, of = await self._neighbours(agent, user, [r for r in rows if r["embedding"] is not None])
            neighbours |= found
            compared |= {i: min(version, compared.get(i, version)) for i, version in of.items()}
        near = list({other for found in neighbours.values() for other in found})
        candidates = await self._reader.fetch(READ_CANDIDATES, [r["id"] for r in new], near) if new else []
        links: dict[UUID, list[Link]] = defaultdict(list)
        for link in self._links(new, candidates, neighbours):
            links[link.memory_id].append(link)
        versions = {r["id"]: r["updated_at"] for r in (*candidates, *new)}
        # Of two versions that were read the older: where they differ, the link is not written, and made again.
        versions |= {i: min(read, versions.get(i, read)) for i, read in compared.items()}
        read = {r["id"] for r in new}
        indexed = {j.ref for j in jobs if (j.payload or {}).get("indexed")}
        followed = [r for r in new if r["followed"] and r["id"] in indexed and r["embedding"] is not None]
        missed = await self._from_later(followed)

        async def commit(connection: AnyConnection, ours: Sequence[Job]) -> None:
            mine = [ref for ref in dict.fromkeys(j.ref for j in ours) if ref in read and ref is not None]
            if not mine:
                return
            await connection.execute(LOCK_TIMEOUT)
            try:
                await connection.execute(WRITE, *_columns(mine, links, versions))
            except (asyncpg.LockNotAvailableError, asyncpg.UniqueViolationError) as error:
                raise RowLockError from error
            to_mine = [
                (m.memory_id, m.related_memory_id, m.strength) for m in missed if m.related_memory_id in mine
            ]
            if to_mine:
                await connection.execute(LINK_LATER, *map(list, zip(*to_mine, strict=True)))

        return commit

    async def _neighbours(
        self, agent: str, user: UUID | None, new: Sequence[Any]
    ) -> tuple[dict[UUID, dict[UUID, float]], dict[UUID, datetime]]:
        """For each new memory of one owner the calibrated similarity of its nearest earlier ones, above RELATED.

        With the versions of those that it names.
        """
        if not new:
            return {}, {}
        moments = [r["created_at"] for r in new]
        # A memory may be its own neighbour.
        limit = NEIGHBOURS + 1
        to_one = (new[0]["embedding"], limit) if len(new) == 1 else (None, None)
        (reach,) = await self._reader.fetch(
            READ_REACH, agent, user, list({min(moments), max(moments)}), *to_one
        )
        if reach["ids"] is None:
            return {}, {}
        scale = Calibration(reach["background"], reach["unit"])
        ids: bytes = reach["ids"]
        times = unpacked_doubles(reach["times"])
        found = nearest_earlier(
            _vectors(new),
            _born(new),
            pool=unpacked(reach["embeddings"], len(times)),
            pool_born=times,
            limit=limit,
            above=scale.cosine(RELATED),
        )
        neighbours: dict[UUID, dict[UUID, float]] = {}
        versions: dict[UUID, datetime] = {}
        for memory, nearest in zip(new, found, strict=True):
            near = {UUID(bytes=ids[16 * i : 16 * i + 16]): (i, scale.similarity(c)) for i, c in nearest}
            near.pop(memory["id"], None)
            neighbours[memory["id"]] = {other: similarity for other, (_, similarity) in near.items()}
            versions |= {other: _time_at(reach["versions"], i) for other, (i, _) in near.items()}
        return neighbours, versions

    async def _from_later(self, new: Sequence[Any]) -> list[Link]:
        """The links to these memories that later ones have not made, as they had been linked before these were indexed.

        Among few candidates: which of them are really among the five strongest is found when the later ones are linked again.
        """
        later = await self._reader.fetch(READ_LATER, [r["id"] for r in new]) if new else []
        if not later:
            return []
        scale = Calibration(later[0]["background"], later[0]["unit"])
        neighbours: defaultdict[UUID, dict[UUID, float]] = defaultdict(dict)
        for (agent, user), rows in _by_owner(new).items():
            seeing = [
                r for r in later if agent in (r["agent_id"], "_shared") and user in (None, r["user_id"])
            ]
            if not seeing:
                continue
            found = nearest_earlier(
                _vectors(seeing),
                _born(seeing),
                pool=_vectors(rows),
                pool_born=_born(rows),
                limit=NEIGHBOURS,
                above=scale.cosine(RELATED),
            )
            for memory, nearest in zip(seeing, found, strict=True):
                neighbours[memory["id"]] |= {rows[i]["id"]: scale.similarity(cosine) for i, cosine in nearest}
        ids = {r["id"] for r in new}
        links = self._links(later, [*new, *later], neighbours)
        return [link for link in links if link.related_memory_id in ids]

    def _links(
        self, new: Sequence[Any], candidates: Sequence[Any], neighbours: Mapping[UUID, Mapping[UUID, float]]
    ) -> Iterator[Link]:
        for (agent, user), rows in _by_owner(new).items():
            visible = (
                r
                for r in candidates
                if r["agent_id"] in (agent, "_shared") and (r["user_id"] is None or r["user_id"] == user)
            )
            yield from link_batch(
                [_linkable(r) for r in rows],
                [_linkable(r) for r in visible],
                neighbours=neighbours,
                related=RELATED,
                window=WINDOW,
            )


def _time_at(packed: bytes, index: int) -> datetime:
    """One of the times in an answer of timestamptz_send: microseconds since 2000."""
    (microseconds,) = unpack_from(">q", packed, 8 * index)
    return datetime(2000, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)


def _columns(
    memories: Sequence[UUID], links: Mapping[UUID, Sequence[Link]], versions: Mapping[UUID, datetime]
) -> tuple[list[Any], ...]:
    made = [link for memory in memories for link in links.get(memory, ())]
    related = sorted({link.related_memory_id for link in made})
    return (
        list(memories),
        [versions[m] for m in memories],
        related,
        [link.memory_id for link in made],
        [link.related_memory_id for link in made],
        [link.association_type for link in made],
        [link.strength for link in made],
        [versions[r] for r in related],
    )


def _by_owner(rows: Sequence[Any]) -> dict[tuple[str, UUID | None], list[Any]]:
    owners: defaultdict[tuple[str, UUID | None], list[Any]] = defaultdict(list)
    for row in rows:
        owners[row["agent_id"], row["user_id"]].append(row)
    return owners


def _vectors(rows: Sequence[Any]) -> Vectors:
    return rows_of([r["embedding"].to_numpy() for r in rows])


def _born(rows: Sequence[Any]) -> list[float]:
    return [r["created_at"].timestamp() for r in rows]


def _linkable(row: Any) -> Linkable:
    return Linkable(row["id"], row["kind"], row["agent_id"], frozenset(row["keywords"]), row["created_at"])
