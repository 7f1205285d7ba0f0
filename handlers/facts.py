"""A user said something: what it says of them becomes memories, each fact once, the newest in place of what it contradicts;
and whom and what it names is known from then on.

Promise: a message has its effects once, also after kill -9, since they are written in the transaction that completes its job,
and reading it again changes nothing: memoryd.fact_sources has which facts it said. A message that was changed is read again,
and loses the facts that it does not say any more. (A language model may answer another time differently: then the last reading
counts.)

A user's messages are one lane, so that no two daemons compare one user's facts at the same time. Only what the user says is
read, never what the assistant answered, and of a speaker who is named in a conversation of a user the facts name that speaker.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any
from uuid import UUID, uuid4

import asyncpg

from handlers.shared.fact_finders import FactFinder, Found, RuleFinder, found_names
from handlers.shared.ports import AnyConnection, Commit, Job, Reader, RowsLocked
from memory.facts.find import Fact
from memory.facts.merge import Changes, Known, Source, compared, family, merge

SUBJECT = "The user"

# In a conversation of several users, user_id says who speaks. In a conversation of one user, a name may be somebody else's.
READ = """
select m.id, m.session_id, m.message_index, m.user_id, m.content, m.created_at, m.metadata ->> 'project' as project, m.role,
       coalesce(m.agent_id, s.agent_id, '_shared') as agent_id,
       case when s.user_id is not null and m.chat_id is null then m.speaker end as speaker
from public.conversation_messages m
join public.conversation_sessions s on s.id = m.session_id
where m.id = any($1) and m.user_id is not null
  and not exists (select from public.memory_settings p where p.user_id = m.user_id and not p.memory_enabled)
order by m.created_at, m.message_index
"""

# A transaction that deletes or has locked a message delays only its user's facts.
LOCK_TIMEOUT = "set local lock_timeout = '300ms'"

# Of a message that was erased meanwhile nothing is remembered: an erasure waits for this lock, then deletes both.
LOCK = """
select m.id from public.conversation_messages m where m.id = any($1) order by m.id for key share
"""

# Names are read again each time: a message has those of its last reading.
FORGET_NAMES = """
delete from memoryd.names n where n.message_id = any($1)
"""

NAME = """
insert into memoryd.names (message_id, user_id, key, name, kind, found_by)
select n.message_id, m.user_id, n.key, n.name, n.kind, n.found_by
from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[]) as n(message_id, key, name, kind, found_by)
join public.conversation_messages m on m.id = n.message_id and m.user_id is not null
"""

SAID = """
select s.message_id, f.memory_id, f.user_id, f.slot, f.value
from memoryd.fact_sources s
join memoryd.facts f using (memory_id)
where s.message_id = any($1)
"""

# What the users' facts in these families are, as far as nothing has replaced them: the newest 500 of each, since each new one
# is compared with all of them.
KNOWN = """
with newest as materialized (
    select r.memory_id
    from (select f.memory_id, row_number() over (partition by f.user_id, f.family order by m.created_at desc, m.id) as nth
          from unnest($1::uuid[], $2::text[]) as a(user_id, family)
          join memoryd.facts f on f.user_id = a.user_id and f.family = a.family
          join public.agent_memory m on m.id = f.memory_id
          where m.superseded_by is null and m.user_id = f.user_id) r
    where r.nth <= 500
)
select f.memory_id, f.user_id, m.agent_id, m.metadata ->> 'project' as project,
       m.metadata ->> 'speaker' as speaker, m.session_id, f.slot, f.value, m.content,
       coalesce(m.valid_from, m.created_at) as since,
       -- Messages of one statement have one time.
       case when f.family = 'plan' then
           (select max(c.message_index)
            from memoryd.fact_sources s join public.conversation_messages c on c.id = s.message_id
            where s.memory_id = f.memory_id and s.said_at = coalesce(m.valid_from, m.created_at)) end as message_index
from newest n
join memoryd.facts f on f.memory_id = n.memory_id
join public.agent_memory m on m.id = f.memory_id
where m.superseded_by is null
order by f.memory_id
for no key update of m
"""

FORGET = "select memoryd.forget_facts($1, $2)"

WRITE = """
with said as materialized (
    insert into public.agent_memory
        (id, agent_id, user_id, session_id, kind, memory_type, content, metadata, source, ttl_hours, expires_at, created_at,
         valid_from, valid_to)
    select n.id, n.agent_id, n.user_id, n.session_id, n.kind, n.memory_type, n.content, n.metadata, 'conversation', null,
           n.expires_at, least(n.said_at, now()), n.said_at, case when n.id = any($14::uuid[]) then n.said_at end
    from unnest($1::uuid[], $2::text[], $3::uuid[], $4::uuid[], $5::text[], $6::text[], $7::text[], $8::jsonb[],
                $9::timestamptz[], $10::timestamptz[])
         as n(id, agent_id, user_id, session_id, kind, memory_type, content, metadata, expires_at, said_at)
    returning id, user_id
)
insert into memoryd.facts (memory_id, user_id, family, slot, value)
select s.id, s.user_id, f.family, f.slot, f.value
from said s
join unnest($1::uuid[], $11::text[], $12::text[], $13::text[]) as f(id, family, slot, value) using (id)
"""

SOURCES = """
insert into memoryd.fact_sources (message_id, memory_id, said_at)
select n.message_id, f.memory_id, n.said_at
from unnest($1::uuid[], $2::uuid[], $3::timestamptz[]) as n(message_id, memory_id, said_at)
join memoryd.facts f using (memory_id)
on conflict do nothing
"""

# At most twenty ids, so that a greeting that is said each day does not fill the metadata. Users may write metadata, too: what
# they make of it, any text as a time and as much as fits, must not end a batch.
AGAIN = """
update public.agent_memory m
set metadata = m.metadata || jsonb_build_object(
        'count', s.number, 'last_said', greatest(s.last_said, memoryd.time_or_null(m.metadata ->> 'last_said')),
        'message_ids', s.ids)
from (select f.memory_id, count(*) as number, max(f.said_at) as last_said,
             to_jsonb((array_agg(f.message_id order by f.said_at desc))[:20]) as ids
      from memoryd.fact_sources f where f.memory_id = any($1) group by f.memory_id) s
where m.id = s.memory_id and octet_length(m.metadata::text) < 1000000
"""

# The locks that the trigger check_superseded takes, in one order, so that no two daemons wait for each other.
LOCK_USERS = """
select memoryd.lock(l.name)
from (select distinct memoryd.superseding_lock(u::text) as name from unnest($1::uuid[]) u order by 1) l
"""

# What was said before something that is replaced already has ended with that.
SUPERSEDE = """
update public.agent_memory m
set superseded_by = n.newer,
    valid_to = greatest(m.valid_from, least(n.ended, (
        select min(e.valid_from)
        from memoryd.facts f
        join memoryd.facts o on o.user_id = f.user_id and o.family = f.family and o.slot = f.slot
        join public.agent_memory e on e.id = o.memory_id and e.valid_from > m.valid_from
        where f.memory_id = m.id
          and (e.metadata ->> 'project', e.metadata ->> 'speaker')
              is not distinct from (m.metadata ->> 'project', m.metadata ->> 'speaker'))))
from unnest($1::uuid[], $2::uuid[], $3::timestamptz[]) as n(older, newer, ended)
where m.id = n.older and m.superseded_by is null and exists (select from public.agent_memory e where e.id = n.newer)
"""


class FactsHandler:
    """What users say of themselves is remembered."""

    def __init__(self, *, reader: Reader, finder: FactFinder | None = None) -> None:
        self._reader = reader
        self._finder = finder or RuleFinder()

    async def prepare(self, jobs: Sequence[Job]) -> Commit:
        """Finds the facts of the batch."""
        rows = await self._reader.fetch(READ, list({j.ref for j in jobs}))
        # Of the messages that an import has put back only the names are read: their facts are in the export.
        asked = {j.ref for j in jobs if not _names_alone(j)}
        found: dict[UUID, tuple[Source, Found]] = {}
        for row in rows:
            if row["id"] not in asked:
                read = await asyncio.to_thread(found_names, row["content"])
            elif row["role"] == "user":
                read = await self._finder.find(
                    row["content"], row["created_at"], subject=row["speaker"] or SUBJECT
                )
            else:
                read = Found()
            found[row["id"]] = (_source(row), read)

        async def commit(connection: AnyConnection, ours: Sequence[Job]) -> None:
            await connection.execute(LOCK_TIMEOUT)
            try:
                refs = {j.ref for j in ours if j.ref is not None}
                await _write(connection, sorted(refs), found, asked=refs & asked)
            except asyncpg.LockNotAvailableError as error:
                raise RowsLocked from error

        return commit


def _names_alone(job: Job) -> bool:
    return job.payload is not None and job.payload.get("names") == "alone"


async def _write(
    connection: AnyConnection,
    refs: Sequence[UUID],
    found: dict[UUID, tuple[Source, Found]],
    *,
    asked: AbstractSet[UUID],
) -> None:
    there = {r["id"] for r in await connection.fetch(LOCK, list(refs))}
    await _write_names(connection, refs, {i: read for i, (_, read) in found.items() if i in there})
    refs = sorted(asked)
    said = await connection.fetch(SAID, list(refs))
    # In the order in which it was said: `found` is sorted.
    stated = [
        (source, fact) for i, (source, read) in found.items() if i in there & asked for fact in read.facts
    ]
    kept = _still_said(said, stated)
    outdated = {r["message_id"] for r in said if (r["message_id"], r["memory_id"]) not in kept}
    for message in sorted(outdated):
        await connection.execute(FORGET, [message], [memory for i, memory in kept if i == message])
    done = {(r["message_id"], r["slot"], r["value"]) for r in said}
    # What stood for something else was given its slot.
    put = {(r["message_id"], r["value"]) for r in said}
    new = [
        (s, f)
        for s, f in stated
        if f.corrects
        or (
            (s.message_id, f.slot, f.value) not in done and not (f.instead and (s.message_id, f.value) in put)
        )
    ]
    # A correction has the slot of the plan that it corrected: the message said one already.
    corrected = {r["message_id"] for r in said if r["slot"].startswith("plan:")}
    new = [(s, f) for s, f in new if not (f.corrects and s.message_id in corrected)]
    if not new:
        return
    families = {(s.user_id, one) for s, f in new for one in compared([f])}
    known = await connection.fetch(KNOWN, [u for u, _ in families], [f for _, f in families])
    await _apply(
        connection,
        merge(new, [Known(**r) for r in known], _ids()),
        users=sorted({source.user_id for source, _ in new}),
    )


async def _write_names(connection: AnyConnection, refs: Sequence[UUID], found: Mapping[UUID, Found]) -> None:
    named = [
        (message, name.key, name.name, name.kind, by)
        for message, read in found.items()
        if message in refs
        for name, by in zip(read.names, read.named_by, strict=True)
    ]
    await connection.execute(FORGET_NAMES, refs)
    if named:
        await connection.execute(NAME, *map(list, zip(*named, strict=True)))


def _still_said(said: Sequence[Any], stated: Sequence[tuple[Source, Fact]]) -> set[tuple[UUID, UUID]]:
    """Of what the messages said when they were last read, what they say now: message and memory."""
    now: dict[UUID, list[Fact]] = defaultdict(list)
    users = {}
    for source, fact in stated:
        now[source.message_id].append(fact)
        users[source.message_id] = source.user_id
    return {
        (r["message_id"], r["memory_id"])
        for r in said
        if users.get(r["message_id"]) == r["user_id"]
        and any(
            (f.slot, f.value) == (r["slot"], r["value"])
            or (f.corrects and r["slot"].startswith("plan:") and f.value == r["value"])
            or (f.instead and f.value == r["value"])
            for f in now[r["message_id"]]
        )
    }


async def _apply(connection: AnyConnection, changes: Changes, *, users: Sequence[UUID]) -> None:
    new = changes.new
    if new:
        await connection.execute(
            WRITE,
            [n.memory_id for n in new],
            [n.source.agent_id for n in new],
            [n.source.user_id for n in new],
            [n.source.session_id for n in new],
            ["goal" if family(n.fact.slot) == "goal" else "fact" for n in new],
            [n.fact.memory_type for n in new],
            [n.fact.content for n in new],
            [json.dumps(_metadata(n.source, n.fact)) for n in new],
            [n.fact.forgotten_at(n.source.said_at) for n in new],
            [n.source.said_at for n in new],
            [family(n.fact.slot) for n in new],
            [n.fact.slot for n in new],
            [n.fact.value for n in new],
            changes.ended,
        )
    sources = [(n.memory_id, n.source) for n in new] + changes.again
    await connection.execute(
        SOURCES,
        [s.message_id for _, s in sources],
        [memory for memory, _ in sources],
        [s.said_at for _, s in sources],
    )
    if changes.again:
        await connection.execute(AGAIN, list({memory for memory, _ in changes.again}))
    if changes.superseded:
        older, newer, ended = zip(*changes.superseded, strict=True)
        await connection.execute(LOCK_USERS, users)
        await connection.execute(SUPERSEDE, list(older), list(newer), list(ended))


def _metadata(source: Source, fact: Fact) -> dict[str, object]:
    said_at = source.said_at.isoformat()
    metadata: dict[str, object] = {
        "from": "conversation",
        "session_id": str(source.session_id),
        "message_ids": [str(source.message_id)],
        "rule": fact.rule,
        "confidence": fact.confidence,
        "slot": fact.slot,
        "value": fact.value,
        "count": 1,
        "last_said": said_at,
    }
    if fact.ends is not None:
        metadata["date"] = fact.ends.isoformat()
    if source.project is not None:
        metadata["project"] = source.project
    if source.speaker is not None:
        metadata["speaker"] = source.speaker
    return metadata


def _source(row: Any) -> Source:
    return Source(
        message_id=row["id"],
        session_id=row["session_id"],
        message_index=row["message_index"],
        user_id=row["user_id"],
        agent_id=row["agent_id"],
        project=row["project"],
        speaker=row["speaker"],
        said_at=row["created_at"],
    )


def _ids() -> Iterator[UUID]:
    while True:
        yield uuid4()
