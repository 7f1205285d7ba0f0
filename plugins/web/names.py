"""Who agents and users are: the names that fields offer, whose rows a page shows, and whether there is somebody.

A user is an id, often one that was made of a name (daemon/ids.py), which nobody makes back. What memoryd knows is the name
under which the user speaks in conversations.

Promise: of support each user whose name is shown is on the audit trail before the page is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daemon.ids import id_of
from handlers.shared.ports import AnyConnection
from plugins.web.forms import id_in, text_in
from plugins.web.render import page
from plugins.web.viewer import Viewer, by_indexes, reading, rows_found
from plugins.web.web import viewer_of, web_of

OFFERED = 20
"""Names that a field offers."""
LOOKED_AT, AMONG, AGENTS_LOOKED_AT = 300, 20, 2000
"""Of each table, the newest rows whose users are offered; of each user, the newest messages that may have the name; agents."""
AGENTS = f"""
select a.agent_id, nullif(a.named_for, '00000000-0000-0000-0000-000000000000') as named_for
from ((select a.agent_id, a.named_for from public.agents a order by lower(a.agent_id) limit {AGENTS_LOOKED_AT})
      union
      (select a.agent_id, a.named_for from public.agents a
       where lower(a.agent_id) >= lower($1) order by lower(a.agent_id) limit {OFFERED})) a
where strpos(lower(a.agent_id), lower($1)) > 0
order by not starts_with(lower(a.agent_id), lower($1)), lower(a.agent_id)
limit {OFFERED}
"""  # noqa: S608 - numbers of ours
# The newest name of user u.id.
NAME = f"""
select m.speaker as name
from (select m.speaker, m.role, m.created_at from public.conversation_messages m
      where m.user_id = u.id order by m.created_at desc limit {AMONG}) m
where m.speaker is not null and m.role = 'user'
order by m.created_at desc limit 1
"""  # noqa: S608
USERS = f"""
select u.id, n.name
from (
    select r.id, max(r.at) as at
    from (
        (select s.user_id as id, s.created_at as at from public.conversation_sessions s
         order by s.created_at desc limit {LOOKED_AT})
        union all
        (select m.user_id, m.created_at from public.agent_memory m
         order by m.created_at at time zone 'utc' desc, m.id desc limit {LOOKED_AT})
        union all
        (select c.user_id, c.created_at from public.agent_commands c order by c.created_at desc limit {LOOKED_AT})) r
    where r.id is not null group by r.id) u
left join lateral ({NAME}) n on true
where strpos(lower(concat_ws(' ', n.name, u.id)), lower($1)) > 0
order by u.at desc
limit {OFFERED}
"""  # noqa: S608
NAMES = f"select u.id, n.name from unnest($1::uuid[]) as u(id) cross join lateral ({NAME}) n"  # noqa: S608
ON_RECORD = "select memoryd.audit_admin_read($1, u.id) from unnest($2::uuid[]) as u(id)"
NO_SUCH_ID = "There is no such user by id, but some speak under such a name."
IS_AGENT = "select exists (select from public.agents a where a.agent_id = $1) as there"
IS_USER = """
select exists (select from public.agent_memory r where r.user_id = $1)
    or exists (select from public.conversation_sessions r where r.user_id = $1)
    or exists (select from public.conversation_messages r where r.user_id = $1)
    or exists (select from public.documents r where r.user_id = $1)
    or exists (select from public.agent_commands r where r.user_id = $1) as there,
    exists (select from public.memory_settings s where s.user_id = $1 and not s.memory_enabled) as off
"""


@dataclass(frozen=True, slots=True)
class Option:
    """What a field takes, and what people call it where that is another."""

    value: str
    label: str


@dataclass(frozen=True, slots=True)
class Nobody:
    """A field that names nobody, the sentence that says so, and whom it may mean."""

    field: str
    sentence: str
    like: list[Option]


async def names_of(
    connection: AnyConnection, viewer: Viewer, users: Iterable[UUID | None]
) -> Mapping[UUID, str]:
    """The names of these users, of those that have one. An end user is told none: the rows are their own."""
    ids = list({user for user in users if user is not None})
    if viewer.user is not None or not ids:
        return {}
    found = {row["id"]: row["name"] for row in await rows_found(connection, viewer, NAMES, ids)}
    await connection.fetch(ON_RECORD, "conversation_messages", list(found))
    return found


async def nobody_of(connection: AnyConnection, viewer: Viewer, asked: Mapping[str, str]) -> list[Nobody]:
    """For each field of a query that names an agent or a user of whom there is nothing: that, and whom it may mean."""
    found: list[Nobody] = []
    if viewer.user is not None:
        return found
    agent, user = text_in(asked, "agent", longest=200), id_in(asked, "user")
    if agent is not None and not (await rows_found(connection, viewer, IS_AGENT, agent))[0]["there"]:
        like = await _offered(connection, viewer, "agent", agent)
        found.append(Nobody("agent", "No agent of this name had a command or a memory yet.", like))
    if user is not None:
        async with by_indexes(connection):
            [known] = await rows_found(connection, viewer, IS_USER, user)
        if known["off"]:
            found.append(Nobody("user", "This user has switched memory off.", []))
        elif not known["there"]:
            like = await _offered(connection, viewer, "user", asked["user"].strip())
            sentence = NO_SUCH_ID if like else "There is no such user: nothing that is stored is theirs."
            found.append(Nobody("user", sentence, like))
    return found


async def nobody_in(request: Request) -> list[Nobody]:
    """The same, of the query of a page."""
    async with reading(web_of(request).database, viewer_of(request)) as connection:
        return await nobody_of(connection, viewer_of(request), request.query_params)


async def offered(request: Request) -> Response:
    """The options of a field, for what was typed so far: /names?agent=PART or /names?user=PART."""
    viewer, asked = viewer_of(request), request.query_params
    field = "agent" if "agent" in asked else "user"
    options: list[Option] = []
    if viewer.user is None:
        async with reading(web_of(request).database, viewer) as connection:
            options = await _offered(connection, viewer, field, text_in(asked, field, longest=200) or "")
    return page(request, "names.html", options=options)


async def _offered(connection: AnyConnection, viewer: Viewer, field: str, part: str) -> list[Option]:
    if field == "agent":
        agents = await rows_found(connection, viewer, AGENTS, part)
        # The name of an agent that works for one user alone is that user's.
        await connection.fetch(ON_RECORD, "agents", [row["named_for"] for row in agents])
        return [Option(row["agent_id"], "") for row in agents]
    async with by_indexes(connection):
        users = await rows_found(connection, viewer, USERS, part)
    await connection.fetch(
        ON_RECORD, "conversation_messages", [row["id"] for row in users if row["name"] is not None]
    )
    return [_option(row["id"], row["name"]) for row in users]


def _option(user: UUID, name: str | None) -> Option:
    """A name where the id was made of it, else the id."""
    with suppress(ValueError):
        if name is not None and id_of(name) == user:
            return Option(name, "")
    return Option(str(user), name or "")


routes: list[Route] = [Route("/names", offered)]
