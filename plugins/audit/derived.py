"""Finds all rows derived from one thing, with the number of steps and the kind of each step.

Promise: a caller that is not the service sees only their own rows. Each row is listed once, by its surest and shortest path. A
row that an agent wrote after a context showed the thing is listed apart, as possibly influenced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING
from uuid import UUID

from plugins.audit.rule import SECONDS

if TYPE_CHECKING:
    from handlers.shared.ports import AnyConnection


class Kind(StrEnum):
    MESSAGE = "message"
    CONVERSATION = "conversation"
    DOCUMENT = "document"
    MEMORY = "memory"
    AGENT = "agent"
    USER = "user"
    COMMAND = "command"
    INSIGHT = "insight"
    KNOWLEDGE = "knowledge"


TABLES = {
    "command": "agent_commands",
    "conversation": "conversation_sessions",
    "message": "conversation_messages",
    "memory": "agent_memory",
    "link": "memory_associations",
    "insight": "dream_insights",
    "document": "documents",
    "chunk": "memory_chunks",
    "knowledge": "shared_knowledge",
    "anchor": "memory_anchors",
    "context": "agent_commands",
}
"""Of each kind of row. A context is the row of its command."""


@dataclass(frozen=True, slots=True)
class Derivation:
    """How rows of one kind come from another: `sql` gives `origin` and `id` for the ids in $1 (of agents: their names)."""

    origin: str
    kind: str
    says: str
    sql: str
    certain: bool = True


# An end user may also read what others say in their group chats, and what is shared with them.
_OWN = "((select memoryd.caller_is_service()) or t.user_id = memoryd.caller_id())"


def _where(table: str, column: str, also: str = _OWN) -> str:
    return f"select t.{column} as origin, t.id from public.{table} t where t.{column} = any($1) and {also}"


_FACTS = f"""
select f.message_id as origin, f.memory_id as id from memoryd.facts_said_in($1) f
union
select i.id::uuid, t.id
from public.agent_memory t
cross join lateral jsonb_array_elements_text(
    case when jsonb_typeof(t.metadata -> 'message_ids') = 'array' then t.metadata -> 'message_ids' else '[]' end) as i(id)
where t.metadata ->> 'from' = 'conversation' and i.id in (select m::text from unnest($1::uuid[]) m) and {_OWN}
"""
_LINKS = """
select t.memory_id as origin, t.id from public.memory_associations t where t.memory_id = any($1)
union all
select t.related_memory_id, t.id from public.memory_associations t where t.related_memory_id = any($1)
"""
_INSIGHTS = f"""
select m.id as origin, t.id
from public.dream_insights t
cross join lateral unnest(t.source_memories) as m(id)
where t.source_memories && $1 and m.id = any($1) and {_OWN}
"""
_NOTED = """
select u as origin, t.id from unnest($1::uuid[]) u join public.shared_knowledge t on t.created_by = u::text
"""
_RELATED = """
select k.id as origin, t.id
from public.shared_knowledge t
cross join lateral unnest(t.related_ids) as k(id)
where t.related_ids && $1 and t.related_ids <> '{}' and k.id = any($1)
"""
_SHOWN = "select s.row_id as origin, s.command_id as id from memoryd.commands_shown($1) s"
_SPOKEN = f"t.role in ('assistant', 'tool') and {_OWN}"

WAYS = (
    Derivation("conversation", "message", "said in it", _where("conversation_messages", "session_id")),
    Derivation("conversation", "memory", "remembered in it", _where("agent_memory", "session_id")),
    Derivation("conversation", "command", "asked in it", _where("agent_commands", "session_id")),
    Derivation("message", "memory", "a fact that it says", _FACTS),
    Derivation("document", "chunk", "a part of it", _where("memory_chunks", "document_id")),
    Derivation("memory", "link", "a link to or from it", _LINKS),
    Derivation("memory", "insight", "drawn from it", _INSIGHTS),
    Derivation("memory", "anchor", "an anchor of it", _where("memory_anchors", "memory_id", "true")),
    Derivation("command", "memory", "its outcome", _where("agent_memory", "command_id")),
    Derivation("agent", "memory", "remembered by it", _where("agent_memory", "agent_id")),
    Derivation("agent", "message", "said by it", _where("conversation_messages", "agent_id", _SPOKEN)),
    Derivation("agent", "insight", "drawn from what it remembers", _where("dream_insights", "agent_id")),
    Derivation("agent", "knowledge", "noted by it", _where("shared_knowledge", "created_by", "true")),
    Derivation("user", "memory", "theirs", _where("agent_memory", "user_id")),
    Derivation("user", "message", "theirs", _where("conversation_messages", "user_id")),
    Derivation("user", "command", "asked by them", _where("agent_commands", "user_id")),
    Derivation("user", "document", "theirs", _where("documents", "user_id")),
    Derivation("user", "insight", "drawn from theirs", _where("dream_insights", "user_id")),
    Derivation("user", "knowledge", "noted by them", _NOTED),
    Derivation("knowledge", "knowledge", "names it in related_ids", _RELATED, certain=False),
    Derivation("message", "context", "shows it", _SHOWN),
    Derivation("memory", "context", "shows it", _SHOWN),
    Derivation("insight", "context", "shows it", _SHOWN),
    Derivation("knowledge", "context", "shows it", _SHOWN),
    Derivation("chunk", "context", "shows it", _SHOWN),
    Derivation(
        "context", "memory", "the outcome of its command", _where("agent_memory", "command_id"), certain=False
    ),
)

THERE = {
    Kind.MESSAGE: f"select exists (select from public.conversation_messages t where t.id = $1 and {_OWN})",
    # A group's conversation belongs to no user: its members see it.
    Kind.CONVERSATION: "select exists (select from public.conversation_sessions t where t.id = $1)",
    Kind.DOCUMENT: f"select exists (select from public.documents t where t.id = $1 and {_OWN})",
    Kind.MEMORY: "select exists (select from public.agent_memory t where t.id = $1)",
    Kind.COMMAND: "select exists (select from public.agent_commands t where t.id = $1)",
    Kind.INSIGHT: "select exists (select from public.dream_insights t where t.id = $1)",
    Kind.KNOWLEDGE: "select exists (select from public.shared_knowledge t where t.id = $1)",
}
SERVICE = "select memoryd.caller_is_service()"


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedRow:
    """A row, `steps` from the thing; `way`: its derivation from the row `origin`. `certain`: every step is certain."""

    kind: str
    id: UUID
    steps: int
    way: str
    origin: UUID | str
    certain: bool

    @property
    def table(self) -> str:
        return TABLES[self.kind]


@dataclass(slots=True)
class Lineage:
    """A thing, whether it exists, and its derived rows, by steps; certain rows first."""

    kind: Kind
    id: UUID | str
    there: bool
    rows: list[DerivedRow] = field(default_factory=list)

    @property
    def certain(self) -> list[DerivedRow]:
        return [row for row in self.rows if row.certain]


async def derived(connection: AnyConnection, kind: Kind, what: UUID | str) -> Lineage:
    """The lineage of this row (for agents: their name; for users: their id), for the role of the connection.

    The row itself may be gone: a fact stays when its message expires.
    """
    service: bool = await connection.fetchval(SERVICE)
    there = True
    if kind in THERE and (service or kind != Kind.KNOWLEDGE):
        there = await connection.fetchval(THERE[kind], what, timeout=SECONDS)
    lineage = Lineage(kind, what, there)
    reached: set[tuple[str, UUID | str]] = {(str(kind), what)}
    # Certain ways first: so what is reached by both counts as certain.
    ways = [way for way in WAYS if way.certain]
    await _follow(connection, lineage, ways, reached, {str(kind): {what: 0}}, service=service)
    begin: dict[str, dict[UUID | str, int]] = {str(kind): {what: 0}}
    for row in lineage.rows:
        begin.setdefault(row.kind, {})[row.id] = row.steps
    await _follow(connection, lineage, WAYS, reached, begin, service=service)
    return lineage


async def _follow(
    connection: AnyConnection,
    lineage: Lineage,
    ways: Sequence[Derivation],
    reached: set[tuple[str, UUID | str]],
    begin: dict[str, dict[UUID | str, int]],
    *,
    service: bool,
) -> None:
    """Follows the derivations from these rows until no new row is found."""
    certain = {(str(lineage.kind), lineage.id), *((row.kind, row.id) for row in lineage.certain)}
    while begin:
        then: dict[str, dict[UUID | str, int]] = {}
        for way in ways:
            origins = begin.get(way.origin)
            if not origins or (way.kind == "knowledge" and not service):
                continue
            for found in await connection.fetch(way.sql, list(origins), timeout=SECONDS):
                key = (way.kind, found["id"])
                if key in reached:
                    continue
                reached.add(key)
                steps = origins[found["origin"]] + 1
                sure = way.certain and (way.origin, found["origin"]) in certain
                if sure:
                    certain.add(key)
                lineage.rows.append(
                    DerivedRow(kind=way.kind, id=found["id"], steps=steps, way=way.says, origin=found["origin"], certain=sure)
                )  # fmt: skip
                then.setdefault(way.kind, {})[found["id"]] = steps
        begin = then
