"""A small world of several users' rows in every table, and whose they are: what the isolation tests compare with.

Promise: `readable` says what the policies grant, in Python, without asking them. Every text of the world holds its owner's
mark, so that a leak is seen in whatever comes back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from uuid import UUID

import asyncpg

from daemon.db.migration_files import load_sources
from tests.support.access.acting import ANN, BOB, DAN
from tests.support.content.index import UNINDEXED, index_rows
from tests.support.content.sources import own_rows
from tests.support.rows import column, embedding, insert

OWNERS: tuple[UUID | None, ...] = (ANN, BOB, None)
MARKS: Mapping[UUID | None, str] = MappingProxyType({ANN: "markann", BOB: "markbob", None: "markagents"})

RELATIONS = """
select c.relname::text from pg_class c
where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'f')
  and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'e')
"""
TABLES = RELATIONS.replace("'r', 'p', 'v', 'm', 'f'", "'r', 'p', 'f'")

KEYS: Mapping[str, str] = MappingProxyType({"agents": "agent_id", "memory_settings": "user_id"})
"""What names a row, where it is not id."""

BESIDE = ["embedding", "dense_embedding", "sparse_embedding"]
"""What is written beside a row to search it by."""

Row = Mapping[str, Any]
Key = str


@dataclass(frozen=True, slots=True)
class World:
    """All rows of all tables, as their owner sees them: by table and key."""

    tables: Mapping[str, Mapping[Key, Row]]

    def readable(self, user: UUID | None, relation: str) -> set[Key]:
        """Keys of the rows that a user is granted."""
        rows = self.tables[SOURCES.get(relation, relation)]
        return {key for key, row in rows.items() if READS[relation](self, user, row)}

    def readable_by_support(self, relation: str) -> set[Key]:
        """Keys of all rows."""
        rows = self.tables[SOURCES.get(relation, relation)]
        return {
            key for key, row in rows.items() if relation != "shared_memory" or row["agent_id"] == "_shared"
        }

    def is_mine(self, user: UUID | None, table: str, key: Key) -> bool:
        """Whether a statement of this user's may change or delete a row: it is theirs, or hangs on what is."""
        row = self.tables[table][key]
        if user is None:
            return False
        if table == "memory_associations":
            return any(self._owner_of_memory(row[end]) == user for end in ("memory_id", "related_memory_id"))
        if table == "memory_anchors":
            return self._owner_of_memory(row["memory_id"]) == user
        return row.get("user_id") == str(user)

    def _owner_of_memory(self, memory: Any) -> UUID | None:
        owner = self.tables["agent_memory"].get(memory, {}).get("user_id")
        return None if owner is None else UUID(owner)

    def grant(self, user: UUID | None) -> Row | None:
        """A user's row of user_memory_access."""
        return next(
            (r for r in self.tables["user_memory_access"].values() if r["user_id"] == str(user)), None
        )


def grants(access: Row | None, row: Row) -> bool:
    """Whether a row of user_memory_access opens a shared chunk or message: by its role, scope, level, tags and contexts."""
    level = row["access_level"]
    if access is None or level is None or access["visibility_scope"] == "own":
        return False
    if access["user_role"] == "admin":
        return True
    if level > access["access_level"]:
        return False
    tags = set(row["visibility_tags"])
    if access["visibility_scope"] == "tags" and tags and not tags & set(access["allowed_tags"]):
        return False
    metadata, allowed = row["metadata"], access["allowed_contexts"]
    if allowed is None:
        return True
    if isinstance(metadata, dict):
        if "project" not in metadata:
            return True
        named = metadata["project"]
        return named is not None and (named if isinstance(named, str) else json.dumps(named)) in allowed
    return "project" not in (metadata if isinstance(metadata, list) else [metadata])


def _own(_: World, user: UUID | None, row: Row) -> bool:
    return user is not None and row["user_id"] == str(user)


def _own_or_shared(world: World, user: UUID | None, row: Row) -> bool:
    return _own(world, user, row) or grants(world.grant(user), row)


def _member(world: World, user: UUID | None, chat: Any) -> bool:
    members = world.tables["chat_group_members"].values()
    return user is not None and any(m["chat_id"] == chat and m["user_id"] == str(user) for m in members)


def _own_or_of_group(world: World, user: UUID | None, row: Row) -> bool:
    return _own(world, user, row) or _member(world, user, row["chat_id"])


def _message(world: World, user: UUID | None, row: Row) -> bool:
    line = row["role"] != "system" and _member(world, user, row["chat_id"])
    return line or _own_or_shared(world, user, row)


def _both_ends(world: World, user: UUID | None, row: Row) -> bool:
    mine = world.readable(user, "agent_memory")
    return row["memory_id"] in mine and row["related_memory_id"] in mine


def _anchored(world: World, user: UUID | None, row: Row) -> bool:
    return row["memory_id"] in world.readable(user, "agent_memory")


def _spoken_in(world: World, user: UUID | None, row: Row) -> bool:
    seen = world.readable(user, "conversation_messages")
    return _member(world, user, row["id"]) or any(
        world.tables["conversation_messages"][m]["chat_id"] == row["id"] for m in seen
    )


def _shared_own(world: World, user: UUID | None, row: Row) -> bool:
    return row["agent_id"] == "_shared" and _own(world, user, row)


def _never(_: World, __: UUID | None, ___: Row) -> bool:
    return False


SOURCES: Mapping[str, str] = MappingProxyType(
    {"shared_memory": "agent_memory", "conversation_history": "conversation_messages"}
)
"""The tables behind the views."""

READS: Mapping[str, Callable[[World, UUID | None, Row], bool]] = MappingProxyType(
    {
        **dict.fromkeys(load_sources().values(), _own),
        "agent_commands": _own,
        "agent_execution_logs": _own,
        "agent_memory": _own,
        "agent_sessions": _own,
        "agents": _never,
        "chat_group_members": _own,
        "chat_groups": _spoken_in,
        "conversation_history": _message,
        "conversation_messages": _message,
        "conversation_sessions": _own_or_of_group,
        "documents": _own,
        "dream_insights": _own,
        "dream_sessions": _never,
        "memory_anchors": _anchored,
        "memory_associations": _both_ends,
        "memory_chunks": _own_or_shared,
        "memory_queries": _own,
        "memory_requests": _own,
        "memory_settings": _own,
        "shared_knowledge": _never,
        "shared_memory": _shared_own,
        "user_memory_access": _own,
    }
)
"""Whether an end user may read a row, for every table and view."""


def key_of(relation: str) -> str:
    """The column that names a row."""
    return KEYS.get(relation, "id")


async def read_world(connection: asyncpg.Connection) -> World:
    """The world as it is now, but for `BESIDE`."""
    tables: dict[str, dict[Key, Row]] = {str(name): {} for name in await column(connection, TABLES)}
    each = [
        f"select '{table}' as name, to_jsonb(t) - $1::text[] as row from public.{table} t" for table in tables
    ]
    for r in await connection.fetch(" union all ".join(each), BESIDE):
        row = json.loads(r["row"])
        tables[r["name"]][str(row[key_of(r["name"])])] = row
    return World(tables)


async def read_changed(
    connection: asyncpg.Connection, world: World, changed: Iterable[tuple[str, Key]]
) -> World:
    """The world as it is now, of which only the rows that changed since, by table and key, are read."""
    tables = {table: dict(rows) for table, rows in world.tables.items()}
    by_table: dict[str, list[Key]] = {}
    for table, key in changed:
        by_table.setdefault(table, []).append(key)
        tables[table].pop(key, None)
    for table, keys in by_table.items():
        row = f"select to_jsonb(t) - $1::text[] as row from public.{table} t where {key_of(table)}::text = any($2)"
        for one in await connection.fetch(row, BESIDE, keys):
            read = json.loads(one["row"])
            tables[table][str(read[key_of(table)])] = read
    return World(tables)


async def build_world(connection: asyncpg.Connection) -> World:
    """Indexed rows of ANN, BOB and no user in every table. ANN is granted level 1, tag red, context work; BOB nothing.

    DAN has no rows, and is a member of BOB's group chat.
    """
    memories = {owner: await _rows_of(connection, owner) for owner in OWNERS}
    for one, other in ((ANN, BOB), (BOB, ANN), (ANN, None), (BOB, None)):
        await insert(connection, "memory_associations", _link(memories[one], memories[other]))
    await connection.execute(
        "insert into user_memory_access (user_id, access_level, allowed_tags, allowed_contexts, visibility_scope) "
        "values ($1, 1, '{red}', '{work}', 'tags'), ($2, 0, '{}', null, 'own')",
        ANN,
        BOB,
    )
    await connection.execute(
        "update agents set open_to_users = true where agent_id = 'alice'; "
        "insert into dream_sessions (started_by, status) values ('idle', 'completed'); "
        "insert into shared_knowledge (tier, category, title, content, created_by) "
        "values ('core', 'team', 'markagents recipe', 'The markagents recipe of the team.', 'alice')"
    )
    await index_world(connection)
    return await read_world(connection)


def _link(one: UUID, other: UUID) -> dict[str, object]:
    return {"memory_id": one, "related_memory_id": other, "association_type": "similar", "strength": 0.9}


SHARED: tuple[tuple[int | None, list[str], dict[str, str]], ...] = (
    (None, [], {}),
    (0, [], {}),
    (1, ["red"], {"project": "work"}),
    (1, ["blue"], {}),
    (2, [], {}),
    (1, [], {"project": "home"}),
)
"""Levels, tags and metadata of each owner's messages and chunks; the first is private."""


async def _rows_of(connection: asyncpg.Connection, owner: UUID | None) -> UUID:
    mark = MARKS[owner]
    own: dict[str, object] = {"user_id": owner, "agent_id": "alice"}
    text = f"The secret recipe of {mark} since May"
    one = await insert(connection, "agent_memory", own | {"content": text, "kind": "fact"})
    # ANN may write all that is hers: what is under _shared, only its author's agents may.
    shared = own | {
        "agent_id": "alice" if owner == ANN else "_shared",
        "content": f"Another secret {mark}",
        "embedding": embedding(1.0),
    }
    two = await insert(connection, "agent_memory", shared)
    await insert(connection, "memory_associations", _link(one, two))
    command = {"message": text, "context": text, "output": text, "status": "completed"}
    made = await insert(connection, "agent_commands", own | command)
    query = {"command_id": made, "task_keywords": [mark], "retrieved_memory_ids": [one, two]}
    await insert(connection, "memory_queries", own | query)
    insight = {"insight": text, "source_memories": [one, two], "category": "summary", "confidence": 0.9}
    await insert(connection, "dream_insights", own | insight)
    request = {"kind": "recall", "query": text, "status": "done", "result": json.dumps([text])}
    await insert(connection, "memory_requests", own | request)
    session = await insert(connection, "agent_sessions", own | {"current_step": text})
    step = {"session_id": session, "step_name": text, "action_type": "reasoning"}
    await insert(connection, "agent_execution_logs", own | step)
    anchor = {
        "memory_id": one,
        "agent_id": "alice",
        "category": "decision",
        "payload": json.dumps(text),
        "content_hash": b"x",
    }
    await insert(connection, "memory_anchors", anchor)
    if owner is not None:
        await connection.execute(
            "insert into memory_settings (user_id, memory_ttl_hours) values ($1, 99999)", owner
        )
    chat = await insert(connection, "chat_groups", {"platform": "slack", "group_name": mark})
    talk = await insert(connection, "conversation_sessions", own | {"title": text})
    group = await insert(connection, "conversation_sessions", {"title": text, "chat_id": chat})
    document = await insert(connection, "documents", {"user_id": owner, "title": text, "content": text})
    for n, (level, tags, metadata) in enumerate(SHARED):
        openness = {"access_level": level, "visibility_tags": tags, "metadata": json.dumps(metadata)}
        said = {"role": "user", "content": f"Secret message {n} of {mark}", "speaker": f"Speaker {mark}"}
        await insert(connection, "conversation_messages", own | openness | said | {"session_id": talk})
        chunk = {"document_id": document, "chunk_index": n, "chunk_text": f"Secret chunk {n} of {mark}"}
        await insert(connection, "memory_chunks", openness | chunk)
    chatted: dict[str, object] = {"role": "user", "content": f"Secret chat of {mark}"}
    await insert(connection, "conversation_messages", own | chatted | {"chat_id": chat, "session_id": group})
    prompt: dict[str, object] = {"role": "system", "content": f"Secret prompt of {mark}"}
    await insert(connection, "conversation_messages", own | prompt | {"chat_id": chat, "session_id": group})
    if owner == BOB:
        for member in (BOB, DAN):
            await insert(connection, "chat_group_members", {"chat_id": chat, "user_id": member})
    others = ("agent_memory", "conversation_messages", "memory_chunks", "dream_insights", "shared_knowledge")
    await own_rows(connection, owner, text, but=others)
    return one


async def index_world(connection: asyncpg.Connection) -> None:
    """Indexes all rows, as a daemon would; of embeddings it is enough that they are near."""
    for source in await column(connection, "select name from memoryd.sources()"):
        await index_rows(connection, str(source), embedding=embedding(0.6, 0.8))
    assert await column(connection, UNINDEXED, None) == []
    while await connection.fetchval("select memoryd.fold_lexeme_changes()"):
        pass
