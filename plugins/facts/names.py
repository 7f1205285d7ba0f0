"""A user said something: whom and what it names is known from then on.

Promise: a message has the names of its last reading, those that a language model found (facts.py) beside them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from handlers.shared.ports import AnyConnection, Commit, Job, Reader
from plugins.facts.name_rules import find_names

READ = """
select m.id, m.content from public.conversation_messages m
where m.id = any($1) and m.user_id is not null and m.role = 'user'
  -- What was queued before MEMORYD_FACTS=off is not read either.
  and not exists (select from memoryd.settings s where s.key = 'facts' and s.value = '"off"')
  and not exists (select from public.memory_settings p where p.user_id = m.user_id and not p.memory_enabled)
"""

NAME = """
insert into memoryd.names (message_id, user_id, key, name, kind, found_by)
select m.id, m.user_id, n.key, n.name, n.kind, 'rule'
from unnest($1::uuid[], $2::text[], $3::text[], $4::text[]) as n(message_id, key, name, kind)
join public.conversation_messages m on m.id = n.message_id and m.user_id is not null
on conflict do nothing
"""


class NamesHandler:
    """What users call by name is remembered."""

    def __init__(self, *, reader: Reader) -> None:
        self._reader = reader

    async def prepare(self, jobs: Sequence[Job]) -> Commit:
        """Finds the names of the batch, in a thread: a batch of long messages takes a while."""
        rows = await self._reader.fetch(READ, list({j.ref for j in jobs}))
        found = await asyncio.to_thread(
            lambda: [(row["id"], name) for row in rows for name in find_names(row["content"])]
        )

        async def commit(connection: AnyConnection, ours: Sequence[Job]) -> None:
            refs = {j.ref for j in ours}
            said = [(i, name.key, name.name, name.kind) for i, name in found if i in refs]
            if said:
                await connection.execute(NAME, *map(list, zip(*said, strict=True)))

        return commit
