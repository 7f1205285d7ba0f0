"""Memory: what an agent, or an end user of an agent, remembers.

Promise: what `remember` returned is stored, once, and found by its words at once; nothing of another identity is read or
changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from memoryd_client import _values as values
from memoryd_client._connected import DatabaseClient
from memoryd_client._database import LONGEST_LIMIT, AnyDatabase, Write
from memoryd_client._errors import NotFound, NotIndexed, Refused, TimedOut, Unavailable, listed
from memoryd_client._identity import Identity, Rights, identity
from memoryd_client._ids import id_of
from memoryd_client._options import ContextOptions, RecallOptions
from memoryd_client._recalling import asked, composed, recall_call, recalled
from memoryd_client._types import IndexState, Kind, MemoryVersion, Recall, Remembered, Source

if TYPE_CHECKING:
    from typing import Unpack  # type: ignore[attr-defined,unused-ignore] # Python 3.11

    from memoryd_client._connections import Connection

SUPERSEDE = """
select supersede_memory(m.id, $4) as id, pg_current_xact_id()::text as transaction
from agent_memory m
where m.id = $3 and m.user_id is not distinct from coalesce($2, memoryd.caller_id())
  and (m.user_id is not null or m.agent_id = $1)
"""
STORED = "select exists (select from agent_memory where id = $1)"
AS_OF = """
select id, kind, content, metadata, valid_from, valid_to, superseded_by
from memory_as_of($1, user_id => coalesce($2, memoryd.caller_id()), max_rows => $3)
"""
REMEMBER = """
select id, what, expires_at, pg_current_xact_id()::text as transaction
from remember($4, agent_id => $1, user_id => $2, kind => $3, metadata => $5::jsonb%s)
"""
KEPT = "select exists (select from agent_memory where id = $1 and content = $2 and metadata = $3::jsonb)"
JUDGE = "select mark_useful($1, $2)"
JUDGE_AS_SERVICE = """
select mark_useful(q.id, $2)
from memory_queries q
where q.id = $1 and q.agent_id is not distinct from $3 and q.user_id is not distinct from $4
"""
FORGET = """
select forget(array(select m.id from agent_memory m
                    where m.id = any($1::uuid[]) and m.user_id is not distinct from coalesce($3, memoryd.caller_id())
                      and (m.user_id is not null or m.agent_id = $2)))
"""
STATES = "select source, id, state, reason, since from index_state($1::uuid[])"

LONGEST_TTL = 876_000
"""A hundred years, as for a user's own limit. Times after the year 9999 are none in Python."""
OFF = "Nothing was stored: this user has switched memory off."
FIRST_PAUSE, LONGEST_PAUSE = 0.002, 0.25
DEFAULT: Literal["default"] = "default"


class Memory(DatabaseClient):
    """What an agent remembers, or with `user` what is remembered of an end user.

    - `database`: a Database, or a URL; then `close()` (or `async with`) closes the connections.
    - `user`: a UUID, or a name (see `id_of`). Its calls are made as this user, by role memoryd_user and the user's claims,
      so the login has to be a gateway's, which may take that role.
    - `rights`: see Identity. With `user` and `rights="service"` the service asks and writes for the user.
    - `org`: the organisation whose knowledge is searched.
    """

    def __init__(
        self,
        database: AnyDatabase | str | None = None,
        *,
        agent: str,
        user: UUID | str | None = None,
        rights: Rights | None = None,
        org: UUID | str | None = None,
    ) -> None:
        super().__init__(
            database, identity(rights or ("service" if user is None else "user"), agent, user, org)
        )

    async def remember(
        self,
        text: str,
        *,
        kind: Kind = "fact",
        ttl_hours: int | Literal["default"] | None = DEFAULT,
        project: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> Remembered:
        """Stores a memory; if it is stored already, it is strengthened, and `known` says so.

        `key`: a name of 1 to 1,500 bytes by which the agent keeps it. The memory that it has kept by it is replaced (`known`).

        `ttl_hours`: hours until it is forgotten, at most 876,000; None for never; left out, what its kind has. `project` is the
        project or channel that it belongs to. Raises MemorydError; Refused also if the user has switched memory off.
        """
        values.plain("text", text)
        given = values.mapping("metadata", metadata)
        if project is not None:
            given["project"] = values.plain("project", project, longest=10_000)
        arguments: list[object] = [
            self._who.agent,
            self._who.named_user,
            values.one_of("kind", kind, Kind),
            text,
            values.in_json("metadata", given),
        ]
        more: dict[str, object] = {}
        if key is not None:
            more["key"] = values.plain("key", key, longest=1500)
        if ttl_hours != DEFAULT:
            hours = None if ttl_hours is None else values.number("ttl_hours", ttl_hours, 1, LONGEST_TTL)
            more["ttl_hours"] = hours
        sql = REMEMBER % "".join(f", {name} => ${nth}" for nth, name in enumerate(more, 6))
        arguments += more.values()

        async def work(connection: Connection) -> Write[Remembered | None]:
            row = await connection.fetchrow(sql, *arguments)
            if row is None:
                return Write(None, "0", "select true", ())
            stored = Remembered(id_of(row["id"]), row["expires_at"], row["what"] != "stored")
            if row["what"] == "replaced":
                return Write(stored, row["transaction"], KEPT, [stored.id, *arguments[3:5]], [stored.id])
            return Write(stored, row["transaction"], STORED, [stored.id], [stored.id])

        stored = await self._database.write(self._who, work, payload=values.strings(arguments[3:]))
        if stored is None:
            raise Refused(OFF)
        return stored

    async def recall(
        self,
        /,
        query: str,
        *,
        count: int = 10,
        sources: Sequence[Source] | None = None,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - its name in SQL
        **options: Unpack[RecallOptions],
    ) -> Recall:
        """Searches what is remembered; at most `count` results, the best first.

        The options are those of recall(). With `profile` the user's facts come first, in addition to `count`: results whose
        metadata have `profile`. Raises MemorydError.
        """
        call = recall_call(query, self._who, options, count=count, sources=sources, filter=filter)
        return await asked(self._database, self._who, call, recalled)

    async def context(self, /, message: str, **options: Unpack[ContextOptions]) -> str:
        """What to know before a task, as one block of text; empty where nothing fits, and for small talk.

        Of the agent, and of the user if there is one. The options are those of build_context().
        """
        given = values.options(options, ContextOptions.__annotations__)
        call = ("context", values.plain("message", message), self._who.agent, self._who.named_user, given)
        return await asked(self._database, self._who, call, composed)

    async def feedback(self, recall: Recall | UUID | str, useful: bool = True) -> None:
        """Says whether a recall helped. Raises NotFound for one that is not this identity's."""
        key = recall.id if isinstance(recall, Recall) else values.ids_of(recall)[0]
        if key is None:
            raise Refused("This recall was not logged, so there is nothing to judge.")

        async def work(connection: Connection) -> bool:
            if self._who.rights == "service":
                found = await connection.fetch(
                    JUDGE_AS_SERVICE, key, useful, self._who.agent, self._who.named_user
                )
                return bool(found)
            await connection.execute(JUDGE, key, useful)
            return True

        try:
            judged = await self._database.read(self._who, work)
        except NotFound:
            judged = False
        if not judged:
            raise NotFound("There is no such recall.", hint="Give what recall returned.")

    async def supersede(self, key: UUID | str, text: str) -> UUID:
        """Replaces a memory by what is true now, and returns its id; the old one stays as history. Raises NotFound."""
        [old] = values.ids_of(key)
        values.plain("text", text)
        new = await self._database.write(
            self._who, lambda c: _superseded(c, self._who, old, text), payload=[text]
        )
        if new is None:
            raise Refused(OFF)
        return new

    async def as_of(self, time: datetime, *, count: int = 100) -> list[MemoryVersion]:
        """What was true of the user at a time, the newest first; also what was replaced since."""
        if self._who.rights == "service" and self._who.user is None:
            raise Refused("as_of needs a user.", hint="Give Memory a user.")
        moment, most = values.moment("time", time), values.number("count", count, 0)
        if moment is None:
            raise Refused("time is missing.", hint="Give a datetime with a time zone.")
        rows = await self._database.read(
            self._who, lambda c: c.fetch(AS_OF, moment, self._who.named_user, most)
        )
        return [values.made(MemoryVersion, row) for row in rows]

    async def forget(self, ids: Iterable[UUID | str] | UUID | str) -> int:
        """Deletes memories for ever and returns how many went; ids of others are treated like ids that do not exist."""
        return await self._changed(FORGET, values.ids_of(ids), self._who.agent, self._who.named_user)

    async def index_state(self, ids: Iterable[UUID | str] | UUID | str) -> list[IndexState]:
        """Whether recall finds these rows; missing rows, and those of others, are left out."""
        keys = values.ids_of(ids)

        rows = await self._database.read(self._who, lambda c: c.fetch(STATES, keys))
        return [values.made(IndexState, row) for row in rows]

    async def wait_indexed(
        self, ids: Iterable[UUID | str] | UUID | str, timeout: float = 10.0
    ) -> list[IndexState]:
        """Returns once all these rows are found by words and by meaning.

        Raises NotIndexed when rows failed, NotFound when rows are not there, TimedOut after `timeout` seconds; a database
        that is away meanwhile is waited for.
        """
        keys = values.ids_of(ids)
        timeout = values.seconds("timeout", timeout, 0, LONGEST_LIMIT)
        loop = asyncio.get_running_loop()
        until, pause = loop.time() + timeout, FIRST_PAUSE
        states: list[IndexState] = []
        away: Unavailable | None = None
        while True:
            try:
                states, away = await self.index_state(keys), None
            except Unavailable as error:
                away = error
            if away is None and _all_indexed(states, keys):
                return states
            left = until - loop.time()
            if left <= 0:
                break
            await asyncio.sleep(min(pause, left))
            pause = min(LONGEST_PAUSE, 2 * pause)
        waiting = [s for s in states if s.state != "indexed"]
        why = "the database cannot be reached" if away else "is a daemon running (`memoryd status`)?"
        raise TimedOut(
            f"{len(waiting) if states else len(keys)} of {len(keys)} rows are not indexed after {timeout:g} seconds: {why}",
            states=states,
        )


def _all_indexed(states: Sequence[IndexState], keys: Sequence[UUID]) -> bool:
    there = {s.id for s in states}
    if missing := [key for key in keys if key not in there]:
        raise NotFound(
            f"{len(missing)} of {len(keys)} rows do not exist, or are not yours{listed(missing, ': ')}.",
            hint="Give ids that were just returned, of rows that are not forgotten.",
        )
    if failed := [s for s in states if s.state == "failed"]:
        raise NotIndexed(failed)
    return all(s.state == "indexed" for s in states)


async def _superseded(connection: Connection, who: Identity, key: UUID, text: str) -> Write[UUID | None]:
    """Replaces a memory of this identity, in a transaction that has begun; None if the user has switched memory off."""
    row = await connection.fetchrow(SUPERSEDE, who.agent, who.named_user, key, text)
    if row is None:
        raise NotFound(
            "There is no such memory, or it is not yours.", hint="Give the id that recall returned."
        )
    if row["id"] is None:
        return Write(None, "0", "select true", ())
    new = id_of(row["id"])
    return Write(new, row["transaction"], STORED, [new], [new])
