"""Graph: memories and the links between them, as a picture and as a list.

Promise: a picture has only as many links as a browser draws smoothly, the strongest first, and says where it was cut. For a
user or an agent only the links of the newest memories are read, so that millions cost no more than thousands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from handlers.shared.ports import AnyConnection
from plugins.web.forms import choice_in, id_in, number_in, text_in, uuid_in
from plugins.web.lists import Conditions, rows_of
from plugins.web.names import nobody_of
from plugins.web.render import page, short
from plugins.web.viewer import Viewer, by_indexes, ids_found, reading, row_of, rows_found
from plugins.web.web import viewer_of, web_of

MOST_MEMORIES = 2000
MOST_LINKS = 6000
LISTED = 100
"""Links in the list: the strongest."""
LOOKED_AT = 5000
"""Memories of a user or an agent whose links are read: the newest."""
TYPES = ("similar", "related", "sequential", "causal")

THE_MEMORY = "select m.id, m.kind, left(m.content, 600) as content from public.agent_memory m where m.id = $1"
THESE = "select m.id, m.kind, left(m.content, 300) as content from public.agent_memory m where m.id = any($1::uuid[])"
# Of the newest memories those with links; those of no user come first, since of people no more is read than must be.
LATEST = """
select m.id
from (select m.id, m.user_id, m.created_at from public.agent_memory m
      order by m.created_at at time zone 'utc' desc, m.id desc limit 200) m
where exists (select from public.memory_associations a where a.memory_id = m.id)
order by m.user_id is not null, m.created_at desc limit 3
"""
OF_AGENT = f"""
select m.id from public.agent_memory m
where m.agent_id = {{}} and m.user_id {{whose}}
order by m.created_at desc, m.id desc
limit {LOOKED_AT}
"""  # noqa: S608 - a number of ours
# No index has a user's memories by time: for a user with very many memories these are nearly the newest.
OF_USER = f"""
select n.id
from (select m.id, m.created_at from public.agent_memory m where m.user_id = {{}} limit {4 * LOOKED_AT}) n
order by n.created_at desc, n.id desc
limit {LOOKED_AT}
"""  # noqa: S608
STRONGEST = """
select a.id from public.memory_associations a
where {conditions}
order by a.strength desc, a.id
limit {limit}
"""
# The links of the memory come first, then those of the memories that they lead to.
TWO_STEPS = """
with own as materialized (
    select a.id, a.memory_id, a.related_memory_id, a.strength from public.memory_associations a
    where a.memory_id = {wanted} and {conditions}
    union all
    select a.id, a.memory_id, a.related_memory_id, a.strength from public.memory_associations a
    where a.related_memory_id = {wanted} and {conditions}
), near as materialized (
    select distinct e.id
    from (select o.memory_id, o.related_memory_id from own o order by o.strength desc, o.id limit 200) o
    cross join lateral (values (o.memory_id), (o.related_memory_id)) as e(id)
    where e.id <> {wanted}
), found as (
    select o.id, o.strength, 1 as steps from own o
    union all
    select a.id, a.strength, 2 from near n join public.memory_associations a on a.memory_id = n.id where {conditions}
    union all
    select a.id, a.strength, 2 from near n join public.memory_associations a on a.related_memory_id = n.id where {conditions}
)
select f.id from found f
group by f.id, f.strength
order by min(f.steps), f.strength desc, f.id
limit {limit}
"""
LINKS = rows_of(
    "public.memory_associations a",
    "a.id, a.memory_id, a.related_memory_id, a.association_type, a.strength",
)
MEMORIES = """
select m.id, m.user_id, m.kind, left(m.content, 300) as content, m.created_at,
       m.superseded_by is not null or coalesce(m.valid_to <= now(), false) as has_ended
from public.agent_memory m
where m.id = any($1::uuid[])
"""


ON_RECORD = "select memoryd.audit_admin_read('memory_associations', u.id) from unnest($1::uuid[]) as u(id)"


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose links to show: of a memory, or of a user, an agent, or both. All None: no links."""

    memory: UUID | None
    user: UUID | None
    agent: str | None
    filters: Conditions

    @property
    def is_nothing(self) -> bool:
        return self.memory is None and self.user is None and self.agent is None


def scope_of(viewer: Viewer, query: Mapping[str, str]) -> Scope:
    """The scope of a query; for an end user without one, their own memories. Raises BadValueError."""
    filters = Conditions()
    filters.where("a.strength >= {}", number_in(query, "least", 0.0, least=0, most=1))
    filters.where_given("a.association_type = {}", choice_in(query, "kind", TYPES))
    user = id_in(query, "user") or viewer.user
    return Scope(uuid_in(query, "memory"), user, text_in(query, "agent", longest=200), filters)


async def ids_of_links(connection: AnyConnection, viewer: Viewer, asked: Scope, *, limit: int) -> list[UUID]:
    """The ids of the links, those of the memory itself first, then the strongest. Raises NotThereError."""
    found = asked.filters
    if asked.memory is not None:
        await row_of(connection, THE_MEMORY, asked.memory)
        sql = TWO_STEPS.format(conditions=found, wanted=f"${len(found.values) + 1}", limit=limit)
        return await ids_found(connection, viewer, sql, *found.values, asked.memory)
    if asked.is_nothing:
        return []
    if asked.agent is None:
        found.where(f"a.memory_id in ({OF_USER})", asked.user)
    elif asked.user is None:
        found.where(f"a.memory_id in ({OF_AGENT.format('{0}', whose='is null')})", asked.agent)
    else:
        found.where(f"a.memory_id in ({OF_AGENT.format('{0}', whose='= {1}')})", asked.agent, asked.user)
    sql = STRONGEST.format(conditions=found, limit=limit)
    return await ids_found(connection, viewer, sql, *found.values)


async def graph(request: Request) -> Response:
    """The page: the picture, which a script draws, and the list."""
    web, viewer, query = web_of(request), viewer_of(request), request.query_params
    asked = scope_of(viewer, query)
    async with reading(web.database, viewer) as connection:
        ids = await ids_of_links(connection, viewer, asked, limit=LISTED + 1)
        links = await connection.fetch(LINKS, ids[:LISTED])
        ends = {row[end] for row in links for end in ("memory_id", "related_memory_id")}
        memories = {row["id"]: row for row in await connection.fetch(MEMORIES, list(ends))}
        memory = None if asked.memory is None else await connection.fetchrow(THE_MEMORY, asked.memory)
        latest = []
        if asked.is_nothing:
            async with by_indexes(connection):
                latest = await connection.fetch(THESE, await ids_found(connection, viewer, LATEST))
        nobody = [] if ids or latest else await nobody_of(connection, viewer, query)
    return page(
        request,
        "graph/graph.html",
        nothing_asked=asked.is_nothing,
        kinds=TYPES,
        memory=memory,
        latest=latest,
        nobody=nobody,
        memories=memories,
        links=[row for row in links if {row["memory_id"], row["related_memory_id"]} <= memories.keys()],
        has_more=len(ids) > LISTED,
        looked_at=LOOKED_AT,
    )


async def data(request: Request) -> Response:
    """The picture's memories and links: `links` name memories by their index in `memories`; `cut`: there are more."""
    web, viewer = web_of(request), viewer_of(request)
    asked = scope_of(viewer, request.query_params)
    async with reading(web.database, viewer) as connection:
        ids = await ids_of_links(connection, viewer, asked, limit=MOST_LINKS + 1)
        links = await rows_found(connection, viewer, LINKS, ids[:MOST_LINKS])
        kept, ends = _cut(links)
        memories = {row["id"]: row for row in await connection.fetch(MEMORIES, ends)}
        if viewer.user is None:
            await connection.execute(ON_RECORD, list({row["user_id"] for row in memories.values()}))
    numbers = {row: number for number, row in enumerate(memories)}
    return JSONResponse(
        {
            "memories": [
                {
                    "id": str(row["id"]),
                    "kind": row["kind"],
                    "text": str(short(row["content"]).unescape()),
                    "written": row["created_at"].isoformat(timespec="seconds"),
                    "ended": row["has_ended"],
                }
                for row in memories.values()
            ],
            "links": [
                {
                    "from": numbers[row["memory_id"]],
                    "to": numbers[row["related_memory_id"]],
                    "kind": row["association_type"],
                    "strength": round(row["strength"], 3),
                }
                for row in kept
                if row["memory_id"] in numbers and row["related_memory_id"] in numbers
            ],
            "cut": len(ids) > MOST_LINKS or len(kept) < len(links),
        }
    )


def _cut(links: list[Any]) -> tuple[list[Any], list[UUID]]:
    """The first links that fit into the picture with both of their memories, and these memories."""
    kept: list[Any] = []
    ends: dict[UUID, None] = {}
    for row in links:
        both = (row["memory_id"], row["related_memory_id"])
        if len(ends) + sum(end not in ends for end in both) <= MOST_MEMORIES:
            ends.update(dict.fromkeys(both))
            kept.append(row)
    return kept, list(ends)


routes: list[Route] = [Route("/graph", graph), Route("/graph/data", data)]
