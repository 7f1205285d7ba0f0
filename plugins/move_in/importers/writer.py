"""Writes an export into the database: all of it in one transaction, or nothing.

Promise: ids are made from the system, the owner and the original id, and existing rows are not changed. So the same export
again adds nothing. No row of another user is changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from plugins.move_in.importers.spool import TABLES, Spool

if TYPE_CHECKING:
    from handlers.shared.ports import AnyConnection

SECONDS = 600.0
OFF = "its user has switched memory off"
RELATIONS = {
    "memories": "public.agent_memory",
    "conversations": "public.conversation_sessions",
    "messages": "public.conversation_messages",
    "commands": "public.agent_commands",
}
THERE = "select count(*) from jsonb_to_recordset($1) as r(id uuid) join {table} t using (id)"

# ttl_hours is null: memories that the other system kept do not expire after the hours of their kind.
WRITE: Mapping[str, str] = {
    "memories": """
insert into public.agent_memory (
    id, user_id, agent_id, kind, content, metadata, source,
    created_at, valid_from, valid_to, expires_at, ttl_hours)
select r.id, r.user_id, r.agent_id, coalesce(r.kind, 'note'), r.content, r.metadata, r.source,
       coalesce(r.created_at, now()), r.valid_from, r.valid_to, r.expires_at, null
from jsonb_to_recordset($1) as r(
    id uuid, user_id uuid, agent_id text, kind text, content text, metadata jsonb, source text,
    created_at timestamptz, valid_from timestamptz, valid_to timestamptz, expires_at timestamptz)
on conflict do nothing
""",
    "conversations": """
insert into public.conversation_sessions (id, user_id, agent_id, title, channel, created_at)
select r.id, r.user_id, r.agent_id, r.title, r.channel, coalesce(r.created_at, now())
from jsonb_to_recordset($1) as r(
    id uuid, user_id uuid, agent_id text, title text, channel text, created_at timestamptz)
on conflict do nothing
""",
    # Without an index each message comes after the existing ones of its conversation.
    "messages": """
insert into public.conversation_messages (
    id, session_id, user_id, agent_id, role, speaker, content, metadata, created_at)
select r.id, r.session_id, r.user_id, r.agent_id, r.role, r.speaker, r.content, r.metadata,
       coalesce(r.created_at, now())
from rows from (jsonb_to_recordset($1) as (
    id uuid, session_id uuid, user_id uuid, agent_id text, role text, speaker text, content text,
    metadata jsonb, created_at timestamptz)) with ordinality as r(
    id, session_id, user_id, agent_id, role, speaker, content, metadata, created_at, nth)
where not exists (select from public.conversation_messages m where m.id = r.id)
order by r.nth
on conflict do nothing
""",
    "commands": """
insert into public.agent_commands (
    id, agent_id, user_id, session_id, message, output, error, exit_code, status, metadata,
    created_at, started_at, finished_at)
select r.id, r.agent_id, r.user_id,
       case when not exists (select from public.conversation_sessions s
                             where s.id = r.session_id and not memoryd.is_session_for(s, r.user_id)) then r.session_id end,
       r.message, r.output, r.error, r.exit_code, r.status, r.metadata,
       r.created_at, r.created_at, r.finished_at
from jsonb_to_recordset($1) as r(
    id uuid, agent_id text, user_id uuid, session_id uuid, message text, output text, error text, exit_code integer,
    status text, metadata jsonb, created_at timestamptz, finished_at timestamptz)
order by r.created_at
on conflict do nothing
""",
}

# Nobody knows when it was said: so no fact is read from it.
UNTIMED = """
delete from memoryd.unread u using jsonb_to_recordset($1) as r(id uuid, created_at timestamptz)
where u.message_id = r.id and r.created_at is null
"""


@dataclass(slots=True)
class WriteResult:
    taken: int = 0
    there: int = 0


async def write(connection: AnyConnection, spool: Spool, *, dry_run: bool) -> dict[str, WriteResult]:
    """Writes all rows in the caller's transaction; with `dry_run` it only counts which exist."""
    counts: dict[str, WriteResult] = {}
    for table in TABLES:
        counts[table] = WriteResult()
        for batch in spool.batches(table):
            rows = await connection.fetchval("select jsonb_array_length($1)", batch, timeout=SECONDS)
            written = 0
            if not dry_run:
                status = await connection.execute(WRITE[table], batch, timeout=SECONDS)
                written = int(status.rpartition(" ")[2])
                if table == "messages":
                    await connection.execute(UNTIMED, batch, timeout=SECONDS)
            # Afterwards, since another import of the same file may have ended meanwhile.
            exist = THERE.format(table=RELATIONS[table])
            there = await connection.fetchval(exist, batch, timeout=SECONDS) - written
            taken = rows - there if dry_run else written
            counts[table].taken += taken
            counts[table].there += there
            if rows > there + taken:
                spool.left_out[table, OFF] += rows - there - taken
    return counts
