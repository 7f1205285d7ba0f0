"""A conversation has paused, or gone on for a while: a language model reads what is new, and what it says changes is written.

Promise: a message has its effects once, also after kill -9 and with two daemons, since what was read is taken off
memoryd.unread in the transaction that writes them. Nothing is deleted: what is ended or superseded stays as history. What
the model says is held against the rows: only messages of this stretch that the user wrote are evidence, only memories that
were shown and have not changed since are changed, and none that was learned later than the evidence. An operation that does
not hold is left out, and counted in the log; the others are written.

A user's stretches are one lane. Which of them is next is for memoryd.queue_stretches() to say, which a tick calls.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import asyncpg
from structlog.typing import FilteringBoundLogger

from handlers.shared.embedding import Embedding, Question, search
from handlers.shared.ports import AnyConnection, Commit, Job, Reader, RowLockError, nothing
from handlers.shared.thinking import NoReplyError, Thinker
from plugins.facts.operations import Changes, KnownFact, Message, held
from plugins.facts.prompt import facts_prompt
from plugins.facts.reply import Operations
from providers.ports import UnavailableError

MESSAGES = 20
"""In a stretch."""
MEMORIES = 30
"""That the model is shown."""
ROOM = 16
"""Stretches in the queue."""
MAX_QUERY = 4_000

# Of a short backlog the oldest messages, of a long one (an import) the newest: from the first or the last unread one. In a
# conversation of several users, user_id says who speaks. In a conversation of one user, a name may be somebody else's.
READ = """
with asked as (
    select m.session_id, m.user_id from public.conversation_messages m
    where m.id = $1
      -- What was queued before MEMORYD_FACTS was changed is not read either.
      and exists (select from memoryd.settings s where s.key = 'facts' and s.value = '"model"')
      and not exists (select from public.memory_settings p where p.user_id = m.user_id and not p.memory_enabled)
), ends as (
    select a.session_id, a.user_id, min(u.message_index) as first, max(u.message_index) as last, count(*) as messages
    from asked a join memoryd.unread u using (session_id, user_id)
    group by 1, 2
), said as (
    select m.*, e.user_id as reader, true as is_new
    from ends e
    cross join lateral (
        select * from public.conversation_messages m
        where m.session_id = e.session_id and m.message_index between e.first and e.last
          and m.role in ('user', 'assistant') and not memoryd.is_blank(m.content)
        order by m.message_index * case when e.messages <= 100 then 1 else -1 end
        limit $2) m
), before as (
    select m.*, b.reader, false as is_new
    from (select s.session_id, s.reader, min(s.message_index) as first from said s group by 1, 2) b
    cross join lateral (
        select * from public.conversation_messages m
        where m.session_id = b.session_id and m.message_index < b.first
          and m.role in ('user', 'assistant') and not memoryd.is_blank(m.content)
        order by m.message_index desc
        limit 2) m
)
select r.id, r.session_id, r.reader as user_id, left(r.content, 2000) as content, r.created_at,
       r.metadata ->> 'project' as project, r.is_new,
       r.role = 'user' and r.user_id = r.reader as is_users,
       (select u.queued_at from memoryd.unread u where u.message_id = r.id and u.user_id = r.reader) as queued_at,
       coalesce(r.agent_id, s.agent_id, '_shared') as agent_id,
       case when r.role = 'assistant' then 'assistant'
            when r.user_id = r.reader and (s.user_id is null or r.chat_id is not null) then 'user'
            when r.user_id = r.reader then coalesce(r.speaker, 'user')
            else coalesce(r.speaker, 'another user') end as by
from (select * from said union all select * from before) r
join public.conversation_sessions s on s.id = r.session_id
order by r.message_index
"""

# What recall brought, and the newest, in the order in which it was learned: what this agent may recall.
SHOW = """
select * from (
    select m.id, m.content, m.valid_to as until, m.created_at
    from public.agent_memory m
    where m.user_id = $1 and m.kind in ('fact', 'note', 'goal') and m.superseded_by is null
      and (m.valid_to is null or m.valid_to > $3) and coalesce(m.expires_at, 'infinity') > now()
      and memoryd.in_project(m.metadata, $5) and ($6 = '_shared' or m.agent_id in ($6, '_shared'))
    order by m.id = any($2) desc, m.created_at desc, m.id
    limit $4) s
order by s.created_at, s.content
"""

# A transaction that deletes or has locked a message delays only its user's facts.
LOCK_TIMEOUT = "set local lock_timeout = '300ms'"

# Of a message that was erased meanwhile nothing is remembered: an erasure waits for this lock, then deletes both.
# Nor is it of a user who has switched memory off meanwhile.
LOCK = """
select m.id from public.conversation_messages m
where m.id = any($1)
  and not exists (select from public.memory_settings p where p.user_id = $2 and not p.memory_enabled)
order by m.id for key share of m
"""

# A message that was changed meanwhile was queued again: it stays, to be read as it is now.
TAKE = """
delete from memoryd.unread u using unnest($1::uuid[], $2::timestamptz[]) as n(message_id, queued_at)
where u.message_id = n.message_id and u.queued_at = n.queued_at and u.user_id = $3
returning u.message_id
"""

# Nothing of this user is read any more: memory was switched off.
DROP = """
delete from memoryd.unread u using public.conversation_messages m
join public.memory_settings p on p.user_id = m.user_id and not p.memory_enabled
where m.id = $1 and u.session_id = m.session_id and u.user_id = m.user_id
"""

# Those that have not changed since they were shown, with when they were last said.
STANDING = """
select m.id, m.content, m.valid_to as until,
       greatest(m.created_at, (select max(s.said_at) from memoryd.fact_sources s where s.memory_id = m.id))
           as said_at
from public.agent_memory m
where m.id = any($1) and m.user_id = $2 and m.superseded_by is null
order by m.id
for no key update of m
"""

# What takes the place of a memory is found where that one was: by its agents, in its project, or in all.
WRITE = """
insert into public.agent_memory
    (id, agent_id, user_id, session_id, kind, content, metadata, source, ttl_hours, created_at, valid_from, valid_to)
select n.id, coalesce(o.agent_id, $2), $3, $4, 'fact', n.content,
       jsonb_strip_nulls(jsonb_build_object(
           'from', 'conversation', 'rule', 'model', 'model', $9::text, 'about', n.about, 'session_id', $4::uuid,
           'project', case when o.id is null then $10::text else o.metadata ->> 'project' end)),
       'conversation', null, least(n.said_at, now()),
       n.begins, case when n.ends is not null then greatest(n.ends, n.begins) end
from unnest($1::uuid[], $5::text[], $6::text[], $7::timestamptz[], $8::timestamptz[], $11::timestamptz[],
            $12::uuid[])
     as n(id, content, about, begins, ends, said_at, older)
left join public.agent_memory o on o.id = n.older
on conflict do nothing
"""

# A memory that a program or a person wrote is not a message's: it stays when the message goes.
SOURCES = """
insert into memoryd.fact_sources (message_id, memory_id, said_at)
select n.message_id, m.id, c.created_at
from unnest($1::uuid[], $2::uuid[]) as n(message_id, memory_id)
join public.agent_memory m on m.id = n.memory_id
join public.conversation_messages c on c.id = n.message_id
where m.id = any($3) or exists (select from memoryd.fact_sources s where s.memory_id = m.id)
on conflict do nothing
"""
TELL = "select memoryd.tell_sources($1)"

SUPERSEDE = """
update public.agent_memory m set superseded_by = n.newer
from unnest($1::uuid[], $2::uuid[]) as n(older, newer)
where m.id = n.older and exists (select from public.agent_memory e where e.id = n.newer)
"""
END = """
update public.agent_memory m
set valid_to = n.ended, valid_from = case when m.valid_from > n.ended then n.ended else m.valid_from end
from unnest($1::uuid[], $2::timestamptz[]) as n(id, ended)
where m.id = n.id
"""

NAME = """
insert into memoryd.names as n (message_id, user_id, key, name, kind, found_by)
select s.message_id, $2, s.key, s.name, s.kind, $6
from unnest($1::uuid[], $3::text[], $4::text[], $5::text[]) as s(message_id, key, name, kind)
on conflict (message_id, key) do update set kind = excluded.kind, found_by = excluded.found_by
"""

AGAIN = "select memoryd.queue_stretches($1, p_user => $2)"


@dataclass(frozen=True, slots=True)
class _StretchAnswer:
    """A stretch that was read, and what the model says of it."""

    messages: Sequence[Any]
    shown: Mapping[str, Any]
    operations: Operations
    model: str

    @property
    def user(self) -> UUID:
        user: UUID = self.messages[0]["user_id"]
        return user


class FactsHandler:
    """What users say of themselves is remembered."""

    def __init__(
        self, *, reader: Reader, embedding: Embedding, thinker: Thinker | None, logger: FilteringBoundLogger
    ) -> None:
        self._reader = reader
        self._embedding = embedding
        self._thinker = thinker
        self._log = logger

    async def prepare(self, jobs: Sequence[Job]) -> Commit:
        """Asks the model about the stretches of the batch. Raises `UnavailableError` where it must wait."""
        if self._thinker is None:  # since the job was written, the model was taken out of the settings
            return nothing
        refs = list(dict.fromkeys(job.ref for job in jobs if job.ref is not None))
        answers = await asyncio.gather(*(self._ask(self._thinker, ref) for ref in refs))
        asked = dict(zip(refs, answers, strict=True))

        async def commit(connection: AnyConnection, ours: Sequence[Job]) -> None:
            await connection.execute(LOCK_TIMEOUT)
            try:
                for job in ours:
                    one = None if job.ref is None else asked[job.ref]
                    if one is not None:
                        await self._write(connection, one)
                        await connection.execute(AGAIN, ROOM, one.user)
            except asyncpg.LockNotAvailableError as error:
                raise RowLockError from error

        return commit

    async def _ask(self, thinker: Thinker, message: UUID) -> _StretchAnswer | None:
        said = await self._reader.fetch(READ, message, MESSAGES)
        if all(row["queued_at"] is None for row in said):
            await self._reader.execute(DROP, message)
            return None
        new = [row for row in said if row["is_new"]]
        memories = await self._memories(new)
        before = [row for row in said if not row["is_new"]]
        try:
            operations = await thinker.ask(facts_prompt(memories, before, new))
        except NoReplyError as silent:
            if silent.reason == "budget spent":
                return None  # the tick waits for the next hour, and begins with what was said last
            if silent.retry_in > 0:
                raise UnavailableError(
                    str(silent), provider=thinker.name, retry_in=silent.retry_in, asked=False
                ) from None
            self._log.warning("conversation_unread", messages=len(new), reason=silent.reason)
            operations = Operations()
        shown = {f"k{nth}": row for nth, row in enumerate(memories, 1)}
        return _StretchAnswer(new, shown, operations, thinker.name)

    async def _memories(self, new: Sequence[Any]) -> list[Any]:
        text = "\n".join(row["content"] for row in new if row["is_users"])[:MAX_QUERY]
        project = new[-1]["project"]
        embeddings = await self._embedding.if_possible({0: text}, asked=True)
        found = await search(
            self._reader,
            Question(text, embeddings.get(0), None),
            user=new[0]["user_id"],
            count=MEMORIES,
            sources=["memory"],
            options={} if project is None else {"project": project},
        )
        ids = [row["id"] for row in found]
        return await self._reader.fetch(
            SHOW, new[0]["user_id"], ids, new[0]["created_at"], MEMORIES, project, new[-1]["agent_id"]
        )

    async def _write(self, connection: AnyConnection, asked: _StretchAnswer) -> None:
        ids = [row["id"] for row in asked.messages]
        queued = [row["queued_at"] for row in asked.messages]
        there = {row["id"] for row in await connection.fetch(LOCK, ids, asked.user)}
        taken = {row["message_id"] for row in await connection.fetch(TAKE, ids, queued, asked.user)} & there
        if not taken:
            return
        standing = {
            row["id"]: row
            for row in await connection.fetch(
                STANDING, [row["id"] for row in asked.shown.values()], asked.user
            )
        }
        messages = {
            f"m{nth}": Message(row["id"], row["created_at"], row["is_users"] and row["id"] in taken)
            for nth, row in enumerate(asked.messages, 1)
        }
        memories = {
            one: KnownFact(row["id"], row["content"], *_stands(standing.get(row["id"]), row))
            for one, row in asked.shown.items()
        }
        changes = held(asked.operations, messages=messages, memories=memories, user=asked.user)
        await self._apply(connection, asked, changes)
        await _write_names(connection, asked, taken)
        self._log.info(
            "conversation_read",
            messages=len(taken),
            memories=len(asked.shown),
            added=len({one.id for one in changes.new} - {newer for _, newer in changes.superseded}),
            superseded=len(changes.superseded),
            ended=len(changes.ended),
            left_out=dict(changes.left_out),
        )

    async def _apply(self, connection: AnyConnection, asked: _StretchAnswer, changes: Changes) -> None:
        last = asked.messages[-1]
        older_of = {newer: older for older, newer in changes.superseded}
        if new := changes.new:
            await connection.execute(
                WRITE,
                [one.id for one in new],
                last["agent_id"],
                asked.user,
                last["session_id"],
                [one.text for one in new],
                [one.about for one in new],
                [one.begins for one in new],
                [one.ends for one in new],
                asked.model,
                last["project"],
                [one.said_at for one in new],
                [older_of.get(one.id) for one in new],
            )
        if changes.sources:
            messages, memories = zip(*changes.sources, strict=True)
            await connection.execute(SOURCES, messages, memories, [one.id for one in changes.new])
            await connection.execute(TELL, sorted(set(memories)))
        if changes.superseded:
            older, newer = zip(*changes.superseded, strict=True)
            await connection.execute(SUPERSEDE, older, newer)
        if changes.ended:
            memories, times = zip(*changes.ended, strict=True)
            await connection.execute(END, memories, times)


async def _write_names(connection: AnyConnection, asked: _StretchAnswer, taken: set[UUID]) -> None:
    said: dict[tuple[UUID, str], tuple[str, str | None]] = {}
    for row in asked.messages:
        if row["id"] in taken and row["is_users"]:
            for name in asked.operations.names:
                # As the message writes it: whoever invents a name has none.
                there = re.search(rf"(?<!\w){re.escape(name.name)}(?!\w)", row["content"], re.IGNORECASE)
                if there is not None:
                    said.setdefault((row["id"], there[0].lower()), (there[0], name.kind))
    if said:
        await connection.execute(
            NAME,
            [message for message, _ in said],
            asked.user,
            [key for _, key in said],
            [name for name, _ in said.values()],
            [kind for _, kind in said.values()],
            asked.model,
        )


def _stands(row: Any, shown: Any) -> tuple[Any, bool]:
    """When a memory was last said, and whether it still is as it was shown."""
    if row is None:
        return None, False
    return row["said_at"], (row["content"], row["until"]) == (shown["content"], shown["until"])
