"""The tables of the designs in docs/from/: how they are recognised, and where their fields go.

A column of the same name is copied if its type fits (columns.py). This file has only the exceptions. `{name}` is the column of
that name, or null if the table does not have it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Design:
    needs: tuple[str, ...]
    """The columns by which the table is recognised, in alternatives: names separated by blanks."""
    target: str | None = None
    """memoryd's table if it has another name."""
    order: str = "{created_at}, {id}"
    values: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[tuple[str, str], ...] = ()
    """(condition, reason) in SQL of rows that are not taken in."""
    metadata: str | None = "metadata"
    """The column for fields without another place; null: there is none."""


_EXPIRY = """coalesce(({expires_at})::timestamptz,
    case when ({ttl_hours})::integer between 1 and 8760000 and ({created_at})::timestamptz < '9000-01-01'
         then ({created_at})::timestamptz + make_interval(hours => ({ttl_hours})::integer) end)"""
_MISSING = "({0}) is not null and not exists (select from public.{1} p where p.id = ({0})::uuid)"
_SPEAKS = "lower(coalesce({role}, {speaker}))"
_MESSAGES = {
    # Messages are counted again, in the same order: an index may be missing or doubled.
    "message_index": "null::integer",
    "content": "coalesce({content}, {message_text})",
    "role": f"case {_SPEAKS} when 'agent' then 'assistant' else {_SPEAKS} end",
    "speaker": "case when lower({speaker}) not in ('user', 'agent', 'assistant', 'system', 'tool') then {speaker} end",
    "created_at": "coalesce(({created_at})::timestamptz, ({timestamp})::timestamptz, now())",
    "chat_id": "(select p.id from public.chat_groups p where p.id = ({chat_id})::uuid)",
}
_MESSAGE_ORDER = "{session_id}, {message_index}, coalesce({created_at}, {timestamp}), {id}"

# In the order in which they are taken in: referenced tables come first.
DESIGNS: Mapping[str, Design] = {
    "chat_groups": Design(("id platform group_name",), metadata="group_metadata"),
    "conversation_sessions": Design(("id title channel",), metadata=None),
    "conversation_messages": Design(("id session_id role content",), order=_MESSAGE_ORDER, values=_MESSAGES),
    "conversation_history": Design(
        ("id session_id message_text speaker", "id session_id content role"),
        target="conversation_messages",
        order=_MESSAGE_ORDER,
        values=_MESSAGES,
    ),
    "user_memory_access": Design(("user_id user_role access_level",), metadata=None),
    "documents": Design(
        ("id title source document_type", "id gdrive_drop_path gdrive_replica_path"),
        values={
            "title": "coalesce({title}, nullif(regexp_replace("
            "coalesce({gdrive_replica_path}, {gdrive_drop_path}), '^.*/', ''), ''), 'Untitled')",
            "drop_path": "coalesce({drop_path}, {gdrive_drop_path})",
            # The daemon itself names the files of its replica.
            "replica_path": "null::text",
            # Its chunks come with it, so it can be found.
            "status": "coalesce({status}, 'active')",
        },
    ),
    "memory_chunks": Design(
        ("id document_id chunk_text",),
        order="{document_id}, {chunk_index}, {created_at}, {id}",
        values={"chunk_index": "null::integer"},
        left_out=(
            (_MISSING.format("{document_id}", "documents"), "'its document is not there'"),
            ("memoryd.is_blank({chunk_text})", "'chunk_text is blank'"),
        ),
    ),
    "agent_memory": Design(
        ("id content memory_type user_id", "id content agent_id kind"),
        # More than a thousand years means for ever.
        values={
            "ttl_hours": "case when ({ttl_hours})::integer <= 8760000 then ({ttl_hours})::integer end",
            "expires_at": _EXPIRY,
        },
        left_out=(
            (f"{_EXPIRY} <= now()", "'it has expired'"),
            ("memoryd.is_blank({content})", "'content is blank'"),
            (
                "({user_id}) is null and ({agent_id}) is null",
                "'it belongs to nobody: no user_id and no agent_id'",
            ),
        ),
    ),
    "memory_associations": Design(
        ("memory_id related_memory_id association_type strength",),
        left_out=(
            (_MISSING.format("{memory_id}", "agent_memory"), "'a memory that it links was left out'"),
            (_MISSING.format("{related_memory_id}", "agent_memory"), "'a memory that it links was left out'"),
        ),
        metadata=None,
    ),
    "memory_queries": Design(
        ("agent_id retrieved_memory_ids relevance_scores",), order="{query_time}, {id}", metadata=None
    ),
    "dream_insights": Design(
        ("insight source_memories category confidence",), order="{generated_at}, {id}", metadata=None
    ),
    "shared_knowledge": Design(
        ("id tier category title content created_by",),
        # As memoryd.guard_knowledge() refuses them.
        left_out=(
            (
                "memoryd.private_part({category}, {title}, {content}, ({tags})::text[]) is not null",
                "'it holds ' || memoryd.private_part({category}, {title}, {content}, ({tags})::text[])",
            ),
        ),
        metadata=None,
    ),
    "agent_sessions": Design(("id user_id status current_step session_data",), metadata="session_data"),
    "agent_execution_logs": Design(
        ("id session_id step_name action_type",),
        left_out=((_MISSING.format("{session_id}", "agent_sessions"), "'its session is not there'"),),
        metadata="input_data",
    ),
}

DESIGN_FUNCTIONS = (
    "match_memory", "cleanup_expired_memory", "search_shared_knowledge", "touch_knowledge", "expire_low_confidence",
)  # fmt: skip
"""The functions of the designs that memoryd has, too."""


_TYPES: Mapping[str, frozenset[str]] = {
    column: frozenset(types.split())
    for types, columns in {
        "uuid": "id user_id session_id document_id chat_id memory_id related_memory_id",
        "text varchar": "content chunk_text message_text agent_id role speaker title category status "
        "gdrive_drop_path gdrive_replica_path drop_path",
        "timestamptz timestamp": "created_at expires_at timestamp",
        "int2 int4": "ttl_hours",
        "_text _varchar": "tags",
    }.items()
    for column in columns.split()
}
"""The types that the expressions above can read. A table with a column of another type matches no design."""


def is_like(name: str, types: Mapping[str, str]) -> bool:
    """Whether a table of this name belongs to a design; `types` are those of its columns."""
    design = DESIGNS.get(name)
    return (
        design is not None
        and any(types.keys() >= set(one.split()) for one in design.needs)
        and all(type_ in _TYPES.get(column, {type_}) for column, type_ in types.items())
    )
