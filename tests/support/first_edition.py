"""A database that the seventeen migrations of before made, and what of its rows must be the same after it is carried over.

tests/data/first_edition.sql.gz is a dump of such a database, with rows in every table, some of them still waiting for a daemon:
pg_dump --no-owner --inserts --rows-per-insert=50, without the lines that psql or Postgres 18 only understand.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg

from tests.support.rows import column
from tests.support.servers import Server
from tests.support.templates import copied, make_once
from tests.support.tokens import leave_tokens_out

DUMP = Path(__file__).parents[1] / "data" / "first_edition.sql.gz"
TABLES = """
select c.oid::regclass::text from pg_class c
where c.relkind = 'r' and c.relnamespace in ('public'::regnamespace, 'memoryd'::regnamespace)
  and c.relname not in ('migrations', 'function_files', 'entries', 'spare_entries', 'unindexed', 'lexeme_statistics',
                        'lexeme_changes')
order by 1
"""
RENAMED = {
    "memoryd.jobs": {
        "party": "tenant", "turn": "fair_at", "spared": "snoozes", "alone": "solo_attempts", "holder": "claimed_by",
    },
    "memoryd.lanes": {"holder": "leased_by"},
    "memoryd.daemons": {"doorbell": "wake_up"},
}  # fmt: skip
INDEX = {"lexemes", "sparse_embedding", "prior", "says_when", "code"}
"""Columns that memoryd wrote beside the searched text, and which memoryd.entries replaces."""
GONE = {
    "agent_memory": INDEX
    | {"last_modified_human", "valid_from", "valid_to", "superseded_by", "text_changed_at"},
    # The embedding was that of the message and its neighbours.
    "conversation_messages": INDEX | {"embedding"},
    "memory_chunks": INDEX - {"sparse_embedding"} | {"headings", "situation"},
    "memory_associations": {"rested_at"},
    "agents": {"named_for"},
    "dream_sessions": {"insights_judged", "insights_redrawn", "links_faded", "queries_until"},
    # New columns; and a document without content is complete: see test_documents_with_content_wait_to_be_cut_after_it.
    "documents": {"access_level", "visibility_tags", "chunked_at", "file_hash", "status"},
    # Their scope is another one now.
    "shared_knowledge": INDEX | {"scope", "last_modified_human", "said_again"},
    "dream_insights": INDEX
    | {
        "scope",
        "last_modified_human",
        "topic",
        "written_by",
        "sources_hash",
        "evidence_until",
        "judged_until",
        "resolved_at",
        "stale",
        "accessed_count",
        "last_accessed_at",
    },
    "memory_queries": {"patterns", "reason", "knowledge_ids", "knowledge_counted", "insight_ids"},
}


@asynccontextmanager
async def first_edition(server: Server, template: str) -> AsyncIterator[str]:
    """A copy of it; its URL. Whoever made `template` made the roles of the server."""

    async def restore(opened: asyncpg.Connection) -> None:
        with gzip.open(DUMP, "rt", encoding="utf-8") as dump:
            await opened.execute(dump.read())
        await leave_tokens_out(opened)

    await make_once(server, f"{template}_first_edition", restore)
    async with copied(server, f"{template}_first_edition") as url:
        yield url


async def rows(connection: asyncpg.Connection) -> dict[str, list[str]]:
    """Every row of every table, its columns under their names of today."""
    all_rows = {}
    for table in await column(connection, TABLES):
        read = await connection.fetch(f"select to_jsonb(t)::text as row from {table} t")
        names = RENAMED.get(str(table), {})
        values: list[dict[str, Any]] = [json.loads(record["row"]) for record in read]
        gone = GONE.get(str(table), set())
        values = [{key: value for key, value in one.items() if key not in gone} for one in values]
        # All rows are indexed anew: see test_all_rows_wait_to_be_indexed_after_it.
        values = [
            one for one in values if table != "memoryd.jobs" or one["topic"] not in ("index", "document")
        ]
        # Lanes of links and facts have other names today.
        renamed_lanes = table in ("memoryd.jobs", "memoryd.lanes")
        for one in values:
            if renamed_lanes and one["topic"] in ("associate", "facts"):
                one["lane"] = None
        if table == "memoryd.lanes":
            values = [one for one in values if one["lane"] is not None]
        renamed = [{names.get(key, key): value for key, value in one.items()} for one in values]
        name = str(table).replace("memoryd.dead_jobs", "memoryd.dead_letters")
        all_rows[name] = sorted(json.dumps(one, sort_keys=True) for one in renamed)
    return all_rows
