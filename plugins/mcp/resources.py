"""The resources: the agent's memories, and the insights of dreams about them, as JSON."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import mcp_types as types

from handlers.shared.ports import AnyConnection
from plugins.mcp.answers import LONGEST_CONTENT, shortened
from plugins.mcp.identity import Identity

MEMORIES = """
select id, kind, content, created_at, expires_at
from agent_memory
where user_id is not distinct from $2 and (user_id is not null or agent_id = $1)
  and (expires_at is null or expires_at > now())
  and superseded_by is null and (valid_to is null or valid_to > now())
  and memoryd.in_project(metadata, $3)
order by created_at desc, id
limit 100
"""
INSIGHTS = """
select id, category, insight as content, confidence, generated_at as created_at
from dream_insights
where user_id is not distinct from $2 and (user_id is not null or agent_id = $1) and resolved_at is null
  and ($3::text is null or not exists (select from unnest(source_memories) s(id) left join agent_memory m on m.id = s.id
                                       where m.id is null or not memoryd.in_project(m.metadata, $3)))
order by generated_at desc, id limit 100
"""
ONE = """
select id, kind, content, created_at, expires_at
from agent_memory
where id = $3 and user_id is not distinct from $2 and (user_id is not null or agent_id in ($1, '_shared'))
"""
LISTS = {"memoryd://memories": MEMORIES, "memoryd://insights": INSIGHTS}
ONE_OF = "memoryd://memories/"
JSON = "application/json"
LISTED = [
    types.Resource(
        uri="memoryd://memories",
        name="memories",
        description="The newest 100 memories of this agent, or of the user if one is set; long ones are cut.",
        mime_type=JSON,
    ),
    types.Resource(
        uri="memoryd://insights",
        name="insights",
        description="The newest 100 insights that dreams drew from these memories.",
        mime_type=JSON,
    ),
]
TEMPLATE = types.ResourceTemplate(
    uri_template=ONE_OF + "{id}", name="memory", description="One whole memory.", mime_type=JSON
)


async def read_resource(connection: AnyConnection, who: Identity, uri: str) -> Any:
    """The content of a resource; None if no resource has this address."""
    if uri in LISTS:
        rows = await connection.fetch(LISTS[uri], who.agent, who.user, who.project)
        return [{**dict(row), **shortened(row["content"], LONGEST_CONTENT)} for row in rows]
    try:
        which = UUID(uri.removeprefix(ONE_OF))
    except ValueError:
        return None
    row = await connection.fetchrow(ONE, who.agent, who.user, which) if uri.startswith(ONE_OF) else None
    return None if row is None else dict(row)
