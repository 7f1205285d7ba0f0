"""Who agents and users are: the names that fields offer, whose rows a page shows, and whether there is somebody.

A user is an id, often one that was made of a name (daemon/ids.py), which nobody makes back. What memoryd knows are the names
under which the user speaks in conversations.

Promise: of support each look is on the audit trail before the page is shown. A name beside rows belongs to the read of these
rows; names among which somebody chooses are one row of many users, so that no user's own trail is filled by them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid5

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daemon.ids import NAMESPACE
from handlers.shared.ports import AnyConnection
from plugins.web.forms import SAFE, BadValueError, Option, id_in, text_in
from plugins.web.render import page
from plugins.web.viewer import Viewer, begins, by_indexes, holds, reading, rows_found
from plugins.web.web import viewer_of, web_of

OFFERED = 20
"""Names that a field offers."""
LOOKED_AT, AMONG, AGENTS_LOOKED_AT = 1000, 50, 2000
"""Of each table, the newest rows whose users are offered; of each user, the newest messages that may have a name; agents."""
NAMED_AMONG = 20_000
"""The same, where a name stands for the only user who has it: where there are older rows, it is asked who is meant."""
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
# The names of user u.id, the newest first.
NAMES_OF = f"""
select array_agg(s.name order by s.at desc) as names
from (select m.speaker as name, max(m.created_at) as at
      from (select m.speaker, m.role, m.created_at from public.conversation_messages m
            where m.user_id = u.id order by m.created_at desc limit {AMONG}) m
      where m.speaker is not null and m.role = 'user' group by m.speaker) s
"""  # noqa: S608 - a number of ours
NAMES = f"select u.id, n.names[1] as name from unnest($1::uuid[]) as u(id) cross join lateral ({NAMES_OF}) n"  # noqa: S608
OF_USERS = (
    ("agent_memory", "created_at", " at time zone 'utc'"), ("agent_commands", "created_at", ""),
    ("documents", "updated_at", ""), ("conversation_sessions", "created_at", ""), ("conversation_messages", "created_at", ""),
)  # fmt: skip
"""Tables with rows of users, each with its time and that time's cast, where its index has one."""
NO_ONE = "'00000000-0000-0000-0000-000000000000'::uuid"
_ROWS = " union all ".join(
    f"(select w.*, row_number() over (order by w.at desc, w.id desc) as nth from ("  # noqa: S608 - names of ours
    f"select coalesce(r.user_id, {NO_ONE}) as id, r.{time} as at from public.{table} r "
    f"where (r.{time}{zone}, coalesce(r.user_id, {NO_ONE})) < ($1::timestamptz{zone}, $2::uuid) "
    f"order by r.{time}{zone} desc, 1 desc limit $3) w)"
    for table, time, zone in OF_USERS
)
_LATER = " or ".join(
    f"exists (select from public.{table} r where r.user_id = u.id and r.{time} > u.at)"
    for table, time, _ in OF_USERS
)
# The users of the newest $3 rows of each table before $1 and $2 (a time, and a user), the last seen first, whom words $4 name,
# and $5. Where a table has more rows, users who may stand in these are left for later: the last row is where that begins.
USERS = f"""
with looked as materialized ({_ROWS}), rest as materialized (
    select l.at, l.id from looked l where l.nth = $3 order by l.at desc, l.id desc limit 1
)
(select u.id, u.at, n.names, true as is_user
 from (select l.id, max(l.at) as at from looked l where l.id <> {NO_ONE} group by l.id order by 2 desc, 1 desc offset 0) u
 cross join lateral ({NAMES_OF}) n
 where not exists (select from rest where (u.at, u.id) < (rest.at, rest.id))
   and ($1 > now() or not ({_LATER}))
   and ({holds("$4", "coalesce(array_to_string(n.names, ' '), '')", or_else=begins("u.id"))} or u.id = $5)
 order by u.at desc, u.id desc limit $6)
union all
select rest.id, rest.at, null, false from rest
"""  # noqa: S608
# The users whose ids lie between $1 and $2: two, where there are several.
BETWEEN = " union ".join(
    f"(select r.user_id as id from public.{table} r where r.user_id between $1 and $2 order by r.user_id {way} limit 1)"  # noqa: S608
    for table, _, _ in OF_USERS
    for way in ("asc", "desc")
)
SHORT_ID = re.compile(r"(?:.*\()?([0-9a-f]{8})\)?", re.DOTALL)
"""The beginning of an id, alone or behind a name: as pages and fields show users."""
# The agent of a user who has one alone: in conversations, else in memories.
AGENT_OF = f"""
select coalesce(c.agent, m.agent) as agent from
    (select case when count(distinct s.agent_id) = 1 then min(s.agent_id) end as agent
     from (select s.agent_id from public.conversation_sessions s where s.user_id = $1 limit {LOOKED_AT}) s) c,
    (select case when count(distinct s.agent_id) = 1 then min(s.agent_id) end as agent
     from (select s.agent_id from public.agent_memory s where s.user_id = $1 limit {LOOKED_AT}) s) m
"""  # noqa: S608 - a number of ours
FIRST = (datetime.max.replace(tzinfo=UTC), UUID(int=2**128 - 1))
"""The position before all users."""
ON_RECORD = "select memoryd.audit_admin_names($1::uuid[])"
NO_SUCH_USER = "There is no such user: nothing that is stored is theirs."
SEVERAL = "Several users have this name, or may have: choose one."
IS_AGENT = "select exists (select from public.agents a where a.agent_id = $1) as there"
_THERE = " or ".join(
    f"exists (select from public.{table} r where r.user_id = $1)"
    for table in ("chat_group_members", *(table for table, _, _ in OF_USERS))
)
IS_USER = f"""
select {_THERE} as there, exists (select from public.memory_settings s where s.user_id = $1 and not s.memory_enabled) as off
"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class Nobody:
    """A field that names nobody, the sentence that says so, and whom it may mean."""

    field: str
    sentence: str
    like: list[Option]


async def names_of(
    connection: AnyConnection, viewer: Viewer, users: Iterable[UUID | None]
) -> Mapping[UUID, str]:
    """The names of these users, told apart, of whom has one; rows of theirs were read before. An end user is told none."""
    ids = list({user for user in users if user is not None})
    if viewer.user is not None or not ids:
        return {}
    found = {
        row["id"]: row["name"] for row in await rows_found(connection, viewer, NAMES, ids) if row["name"]
    }
    alike = {name for name, many in Counter(found.values()).items() if many > 1}
    return {user: f"{name} ({str(user)[:8]})" if name in alike else name for user, name in found.items()}


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
            found.append(Nobody("user", "Memory is switched off for this user.", []))
        elif not known["there"]:
            found.append(Nobody("user", NO_SUCH_USER, []))
    return found


async def agent_of(connection: AnyConnection, viewer: Viewer, user: UUID) -> str | None:
    """The agent that works for a user, where it is one alone."""
    async with by_indexes(connection):
        [row] = await rows_found(connection, viewer, AGENT_OF, user)
    agent: str | None = row["agent"]
    return agent


async def with_user(request: Request) -> Request:
    """The request with the id of its user, where it has a name that one user alone has; `request.state.user_named`: their name.

    Raises BadValueError where several users have that name, or none has. Only support asks for users by names.
    """
    viewer, sent = viewer_of(request), request.method not in SAFE
    values = request.state.form if sent else request.query_params
    field = "id" if values.get("kind") == "user" else "user"
    given = values.get(field, "").strip()
    if not given or viewer.user is not None or request.url.path.startswith("/names/"):
        return request
    user = id_in(values, field)
    assert user is not None
    async with reading(web_of(request).database, viewer) as connection:
        if given.lower() != str(user):
            user = await _named(connection, viewer, values, field, user)
        if not sent and (name := (await names_of(connection, viewer, [user])).get(user)):
            await connection.execute(ON_RECORD, [user])
            request.state.user_named = f"{name} ({str(user)[:8]})"
    asked = QueryParams(
        [(name, str(user) if name == field else value) for name, value in values.multi_items()]
    )
    if sent:
        request.state.form = asked
        return request
    return Request({**request.scope, "query_string": str(asked).encode()}, request.receive)


async def _named(
    connection: AnyConnection, viewer: Viewer, values: Mapping[str, str], field: str, user: UUID
) -> UUID:
    """The only user whom a field names: as programs do (`user`), by the beginning of their id, or by all words of a name."""
    async with by_indexes(connection):
        [known] = await rows_found(connection, viewer, IS_USER, user)
        if known["there"] or known["off"]:
            return user
        if begin := SHORT_ID.fullmatch(values[field].strip().lower()[-210:]):
            low, high = int(begin[1] + 24 * "0", 16), int(begin[1] + 24 * "f", 16)
            near = await rows_found(connection, viewer, BETWEEN, UUID(int=low), UUID(int=high))
            if len(near) == 1:
                return UUID(str(near[0]["id"]))
    name = text_in(values, field, longest=200)
    if name is None:
        raise BadValueError(NO_SUCH_USER, field=field)
    found, older = await users_like(connection, viewer, name, most=OFFERED, among=NAMED_AMONG)
    words = set(name.lower().split())
    whole = [row for row in found if any(words <= set(one.lower().split()) for one in row["names"] or ())]
    if len(whole) == 1 and older is None and len(found) < OFFERED:
        return UUID(str(whole[0]["id"]))
    like = [Option(str(row["id"]), _option(row).label) for row in whole or found]
    sentence = SEVERAL if whole else NO_SUCH_USER
    raise BadValueError(sentence, field=field, like=like)


async def nobody_in(request: Request, asked: Mapping[str, str] | None = None) -> list[Nobody]:
    """The same, of the query of a page unless given."""
    async with reading(web_of(request).database, viewer_of(request)) as connection:
        return await nobody_of(connection, viewer_of(request), asked or request.query_params)


async def offered(request: Request) -> Response:
    """The options of the field `agent` or `user`, for what was typed so far."""
    viewer, asked, field = viewer_of(request), request.state.form, request.path_params["field"]
    options: list[Option] = []
    if viewer.user is None:
        async with reading(web_of(request).database, viewer) as connection:
            options = await _offered(connection, viewer, field, text_in(asked, field, longest=200) or "")
    return page(request, "names.html", options=options)


async def _offered(connection: AnyConnection, viewer: Viewer, field: str, part: str) -> list[Option]:
    if field == "agent":
        agents = await rows_found(connection, viewer, AGENTS, part)
        # The name of an agent that works for one user alone is that user's.
        named = [row["named_for"] for row in agents if row["named_for"] is not None]
        await connection.execute(ON_RECORD, named)
        return [Option(row["agent_id"], "") for row in agents]
    users, _ = await users_like(connection, viewer, part, most=OFFERED, among=LOOKED_AT)
    return [_option(row) for row in users]


async def users_like(
    connection: AnyConnection,
    viewer: Viewer,
    part: str,
    *,
    most: int,
    among: int,
    before: tuple[datetime, UUID] = FIRST,
) -> tuple[list[Any], Any]:
    """Users whose names or id have these words, the last seen first: `id`, `names` or None, and when they were seen (`at`).

    At most `most`, found by the newest `among` rows of each table before `before`. Then, where there are older rows: their `at`
    and `id`, the position to go on from.
    """
    async with by_indexes(connection):
        rows = await rows_found(connection, viewer, USERS, *before, among, part, uuid5(NAMESPACE, part), most)
    found = [row for row in rows if row["is_user"]]
    # Whoever was found, with a name or without, and the user at whom the next page begins.
    await connection.execute(ON_RECORD, [row["id"] for row in rows if row["id"].int])
    return found, next((row for row in rows if not row["is_user"]), None)


def _option(user: Any) -> Option:
    """A name where the id was made of it, else the id; with what tells users of one name apart."""
    names = user["names"] or []
    value = next((name for name in names if uuid5(NAMESPACE, name) == user["id"]), str(user["id"]))
    called = ", ".join(names[:3])
    return Option(value, f"{called} ({str(user['id'])[:8]}, last seen {user['at']:%Y-%m-%d})".lstrip())


routes: list[Route] = [Route("/names/{field}", offered, methods=["POST"])]
