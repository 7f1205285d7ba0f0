"""What was asked last: pages that wait for a question offer it, so that one click shows what they do."""

from __future__ import annotations

from typing import Any

from plugins.web.viewer import Viewer, by_indexes, ids_found, reading
from plugins.web.web import Web

OFFERED, AMONG = 3, 50
"""Questions that are offered, and the newest rows of each table among which they are."""
LONGEST = 300
# Those of no user come first: of people no more is read than must be.
OF_ALL = f"""
select r.id from (
    (select c.id, c.user_id, c.created_at from public.agent_commands c order by c.created_at desc limit {AMONG})
    union all
    (select m.id, coalesce(m.user_id, s.user_id), m.created_at
     from (select * from public.conversation_messages n order by n.created_at desc limit {AMONG}) m
     join public.conversation_sessions s on s.id = m.session_id
     where m.role = 'user' and coalesce(m.agent_id, s.agent_id) is not null)) r
order by r.user_id is not null, r.created_at desc limit {OFFERED}
"""  # noqa: S608 - numbers of ours
OF_USER = f"""
select m.id from (select * from public.conversation_messages n where n.user_id = $1 order by n.created_at desc limit {AMONG}) m
where m.role = 'user' order by m.created_at desc limit {OFFERED}
"""  # noqa: S608
QUESTIONS = f"""
select c.agent_id as agent, c.user_id as "user", left(c.message, {LONGEST}) as text, c.created_at
from public.agent_commands c where c.id = any($1::uuid[])
union all
select coalesce(m.agent_id, s.agent_id), coalesce(m.user_id, s.user_id), left(m.content, {LONGEST}), m.created_at
from public.conversation_messages m join public.conversation_sessions s on s.id = m.session_id
where m.id = any($1::uuid[])
order by created_at desc
"""  # noqa: S608


async def latest_of(web: Web, viewer: Viewer) -> list[Any]:
    """The latest questions: `text`, `agent`, `user` and `created_at` of each, the newest first."""
    async with reading(web.database, viewer) as connection, by_indexes(connection):
        of = (OF_ALL,) if viewer.user is None else (OF_USER, viewer.user)
        found: list[Any] = await connection.fetch(QUESTIONS, await ids_found(connection, viewer, *of))
    return found
