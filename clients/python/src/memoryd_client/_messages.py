"""Messages of conversations on their way into the database and out of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from memoryd_client import _values as values
from memoryd_client._database import Write
from memoryd_client._errors import Refused
from memoryd_client._identity import Identity
from memoryd_client._ids import id_of
from memoryd_client._types import Message, Role

if TYPE_CHECKING:
    from memoryd_client._connections import Connection

ADD = """
insert into conversation_messages (session_id, user_id, agent_id, role, speaker, content, metadata)
select $1, coalesce($2, memoryd.caller_id()), $3, m.role, m.speaker, m.content, m.metadata::jsonb
from unnest($4::text[], $5::text[], $6::text[], $7::text[]) with ordinality as m(role, speaker, content, metadata, nth)
order by m.nth
returning id, message_index, pg_current_xact_id()::text as transaction
"""
ADDED = "select exists (select from conversation_messages where id = $1)"
# The service sees every conversation: where it asks for a user, it gets what that user may see. For others row-level security
# decides.
VISIBLE = """
($2::uuid is null or m.user_id = $2
 or m.chat_id = any(array(select g.chat_id from chat_group_members g where g.user_id = $2)))
"""
LOAD = f"""
select m.id, c.role, c.speaker, c.content, c.message_index as index, c.created_at, c.metadata
from load_context($1, $3) c
join conversation_messages m on m.session_id = $1 and m.message_index = c.message_index
where {VISIBLE}
order by c.message_index
"""  # noqa: S608 - of constants
GET = f"""
select m.id, m.role, m.speaker, m.content, m.message_index as index, m.created_at, m.metadata
from conversation_messages m
where m.session_id = $1 and {VISIBLE} and m.created_at >= coalesce($4::timestamptz, '-infinity')
  and not exists (select from memory_settings s where s.user_id = m.user_id and not s.memory_enabled)
order by m.message_index
limit $3
"""  # noqa: S608


def columns(messages: object) -> list[list[str | None]]:
    """The columns of messages, checked: roles, speakers, contents, metadata."""
    roles: list[str | None] = []
    speakers: list[str | None] = []
    contents: list[str | None] = []
    metadata: list[str | None] = []
    if not isinstance(messages, Sequence):
        raise Refused("messages is no list.", hint="Give a list of mappings with role and content.")
    for each in messages:
        if not isinstance(each, Mapping) or not {"role", "content"} <= set(each):
            raise Refused("A message is no mapping with role and content.")
        roles.append(values.one_of("role", each["role"], Role))
        # A turn that only calls a tool has its call in the metadata, and no text.
        silent = each["content"] in {None, ""} and bool(each.get("metadata"))
        contents.append("" if silent else values.plain("content", each["content"]))
        speaker = each.get("speaker")
        speakers.append(None if speaker is None else values.plain("speaker", speaker, longest=200))
        metadata.append(values.in_json("metadata", each.get("metadata")))
    return [roles, speakers, contents, metadata]


async def loaded(connection: Connection, who: Identity, session: UUID, latest: int) -> list[Message]:
    """The latest messages of a session, oldest first."""
    return [
        values.made(Message, row) for row in await connection.fetch(LOAD, session, who.named_user, latest)
    ]


async def added(
    connection: Connection, who: Identity, session: UUID, rows: Sequence[Sequence[str | None]]
) -> Write[list[UUID]]:
    """Adds messages, in a transaction that has begun. Where the user has switched memory off, none."""
    stored = await connection.fetch(ADD, session, who.named_user, who.agent, *rows)
    if not stored:
        return Write([], "0", "select true", ())
    ids = [id_of(row["id"]) for row in sorted(stored, key=lambda row: row["message_index"])]
    return Write(ids, stored[0]["transaction"], ADDED, [ids[0]], ids)
