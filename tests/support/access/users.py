"""End users' rows: one in every table that can have one, and looking for what is left of it."""

from __future__ import annotations

import json
from itertools import groupby
from operator import itemgetter
from uuid import UUID

import asyncpg

from tests.support.content.sources import own_rows
from tests.support.rows import insert

COLUMNS = """
select c.oid::regclass::text as name, a.attname
from pg_class c
join pg_attribute a on a.attrelid = c.oid
join pg_type t on t.oid = a.atttypid
left join pg_type e on e.oid = t.typelem and t.typcategory = 'A'
where c.relnamespace in ('public'::regnamespace, 'memoryd'::regnamespace)
  and c.relkind in ('r', 'p', 'm') and a.attnum > 0 and not a.attisdropped
  and coalesce(e.typname, t.typname) in
      ('text', 'varchar', 'bpchar', 'name', 'json', 'jsonb', 'jsonpath', 'xml', 'tsvector', 'bytea', 'uuid', 'citext')
order by 1, 2
"""
ERASE = "select erase_user_memory($1)"
SET = "insert into memory_settings (user_id, {0}) values ($1, $2) on conflict (user_id) do update set {0} = excluded.{0}"


async def decide(connection: asyncpg.Connection, user: UUID, **settings: object) -> None:
    """Sets settings of a user."""
    for name, value in settings.items():
        await connection.execute(SET.format(name), user, value)


async def found(connection: asyncpg.Connection, secret: str) -> dict[str, int]:
    """In which columns of memoryd's tables a text occurs, however it is stored, and in how many rows."""
    # Bytes are shown in hex.
    spelt = 'count(*) filter (where "{0}"::text ilike $1 or "{0}"::text ilike $2)'
    parts = []
    for table, rows in groupby(await connection.fetch(COLUMNS), itemgetter("name")):
        names = [row["attname"] for row in rows]
        places = ", ".join(f"'{table}.{name}'" for name in names)
        counts = ", ".join(spelt.format(name) for name in names)
        parts.append(f"select unnest(array[{places}]) as place, unnest(array[{counts}]) as rows from {table}")
    hits = f"select place, rows from ({' union all '.join(parts)}) c where rows > 0 order by place"
    words = [f"%{secret}%", f"%{secret.encode().hex()}%"]
    return {row["place"]: row["rows"] for row in await connection.fetch(hits, *words)}


async def whole_user(connection: asyncpg.Connection, user: UUID, word: str) -> dict[str, UUID]:
    """A row of the user's in every table, `word` in every column of text that is not an id; returns the ids."""
    said = json.dumps({word: [word, {"deep": word}]})
    mine: dict[str, object] = {"user_id": user, "agent_id": "alice"}
    ids: dict[str, UUID] = {}

    async def add(table: str, values: dict[str, object]) -> UUID:
        ids[table] = await insert(connection, table, values)
        return ids[table]

    session = await add(
        "agent_sessions", mine | {"session_data": said, "error_message": word, "current_step": word}
    )
    await connection.execute(
        "update agent_sessions set completed_steps = array[$2] where id = $1", session, word
    )
    talk = await add("conversation_sessions", mine | {"title": word, "channel": "web"})
    spoken: dict[str, object] = {
        "session_id": talk,
        "role": "user",
        "content": f"say {word} aloud",
        "metadata": said,
    }
    chat = await insert(
        connection, "chat_groups", {"platform": "slack", "group_name": word, "group_metadata": said}
    )
    await add("chat_group_members", {"user_id": user, "chat_id": chat})
    spoken["chat_id"] = chat
    await add("conversation_messages", mine | spoken | {"speaker": word, "visibility_tags": [word]})
    await insert(connection, "conversation_messages",
                 {"session_id": talk, "agent_id": "alice", "role": "assistant", "content": f"I heard {word}"})  # fmt: skip
    command = mine | {"message": f"find {word} at once", "metadata": said, "context": word}
    ended = {"status": "completed", "output": f"found {word}", "exit_code": 0}
    await insert(connection, "agent_commands", command | {"status": "failed", "error": word, "exit_code": 1})
    await add("agent_commands", command | ended)
    # A daemon that runs meanwhile sees these at once: else it may link the memories itself.
    async with connection.transaction():
        one = await add("agent_memory", mine | {"content": f"{word} is a secret", "metadata": said, "source": word,
                                                "ttl_hours": None, "kind": "fact"})  # fmt: skip
        two = await insert(
            connection, "agent_memory", mine | {"content": f"the secret about {word}", "kind": "note"}
        )
        link = {"memory_id": two, "related_memory_id": one, "association_type": "related", "strength": 0.5}
        await add("memory_associations", link)
    await connection.execute(
        "insert into memory_queries (agent_id, user_id, task_keywords, retrieved_memory_ids, relevance_scores) "
        "values ('alice', $1, array[$2], array[$3::uuid], '{0.5}')", user, word, one,
    )  # fmt: skip
    insight: dict[str, object] = {"insight": f"it is always {word}", "source_memories": [one, two]}
    await add("dream_insights", mine | insight | {"category": "pattern", "confidence": 0.6})
    await add("memory_requests", mine | {"kind": "recall", "query": word, "options": said, "status": "done",
                                         "result": said, "error": word})  # fmt: skip
    # Nor may it cut the document before the chunk is there.
    async with connection.transaction():
        document = await add("documents", {"user_id": user, "title": word, "content": f"all of {word}", "metadata": said,
                                           "source": word, "document_type": word, "drop_path": f"/drop/{word}-{user}.md",
                                           "replica_path": f"/replica/{word}-{user}.md", "status": "active"})  # fmt: skip
        await add("memory_chunks", {"document_id": document, "chunk_index": 0, "chunk_text": f"part of {word}",
                                    "context": word, "metadata": said, "visibility_tags": [word]})  # fmt: skip
    await add("shared_knowledge", {"tier": "working", "category": "decision", "title": word, "content": f"we use {word}",
                                   "created_by": str(user), "created_by_name": word, "source": word,
                                   "tags": [word]})  # fmt: skip
    anchor = {
        "memory_id": one,
        "agent_id": "alice",
        "category": "decision",
        "payload": said,
        "content_hash": b"hash",
    }
    await add("memory_anchors", anchor)
    await add("agent_execution_logs", mine | {"session_id": session, "step_name": word, "tool_name": word,
                                              "action_type": "tool_call", "input_data": said, "output_data": said,
                                              "reasoning": word, "error_message": word})  # fmt: skip
    await add("user_memory_access", {"user_id": user, "user_role": "employee", "allowed_tags": [word],
                                     "allowed_contexts": [word]})  # fmt: skip
    await connection.execute("insert into memory_settings (user_id, memory_ttl_hours) values ($1, 500)", user)
    return ids | await own_rows(connection, user, f"all about {word}", but=ids)


async def kept_of(connection: asyncpg.Connection, user: UUID) -> dict[str, int]:
    """How many rows of each table name the user."""
    tables = await connection.fetch(
        "select distinct table_name from information_schema.columns "
        "where table_schema = 'public' and column_name = 'user_id' and table_name in "
        "(select relname from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r')"
    )
    return {
        r["table_name"]: await connection.fetchval(
            f"select count(*) from {r['table_name']} where user_id = $1", user
        )
        for r in tables
    }
