"""Knowledge: a team's knowledge, its decisions, and their outcomes.

Promise: known knowledge is not stored again; nothing of another organisation is read or changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from memoryd_client import _values as values
from memoryd_client._connected import DatabaseClient
from memoryd_client._database import AnyDatabase, Write
from memoryd_client._identity import identity
from memoryd_client._options import RecallOptions
from memoryd_client._recalling import asked, recall_call, recalled
from memoryd_client._types import Confidence, Decision, DecisionRate, Noted, Recall, Tier

if TYPE_CHECKING:
    from typing import Unpack  # type: ignore[attr-defined,unused-ignore] # Python 3.11

    from memoryd_client._connections import Connection

NOTE = """
select what, id, surprise, neighbour, reason, pg_current_xact_id()::text as transaction
from note_knowledge($1, $2, $3, title => $4, tier => $5, confidence => $6, tags => $7::text[], related_ids => $8::uuid[],
                    decision_context => $9::jsonb, outcome => $10::jsonb, source => $11, strengthen => $12)
"""
NOTED = "select exists (select from shared_knowledge where id = $1)"
DECISIONS = """
select id, title, created_by, confidence, tags, created_at, review_by, state, because, success
from decisions(agent_id => $1, tag => $2, open_only => $3, match_count => $4)
"""
RATES = "select by, value, decisions, open, scored, succeeded, rate from decision_rates()"
RESOLVE = "select resolve_knowledge($1)"
TOUCH = "select touch_knowledge($1)"


class Knowledge(DatabaseClient):
    """What the team of an agent knows. Agents and the service call it; end users may not.

    `org`: the organisation; without one, what belongs to none. `database` and `rights`: see Memory.
    """

    def __init__(
        self,
        database: AnyDatabase | str | None = None,
        *,
        agent: str,
        rights: Literal["service", "login"] = "service",
        org: UUID | str | None = None,
    ) -> None:
        super().__init__(database, identity(rights, agent, None, org))

    async def note(  # noqa: PLR0913 - the arguments of note_knowledge(), each by its name
        self,
        text: str,
        category: str,
        *,
        title: str | None = None,
        tier: Tier | None = None,
        confidence: Confidence = "high",
        tags: Sequence[str] = (),
        related_ids: Iterable[UUID | str] | UUID | str = (),
        decision_context: Mapping[str, Any] | None = None,
        outcome: Mapping[str, Any] | None = None,
        source: str | None = None,
        strengthen: bool = True,
    ) -> Noted:
        """Notes knowledge for the team; if an entry says it already, that entry is strengthened.

        `related_ids`: for an outcome its decision, for a correction the corrected entry. `decision_context` of a decision:
        reasoning, alternatives, assumptions, kill_criteria, review_by; `outcome` of an outcome: success, result, notes,
        scored_at. With `strengthen=False` a known entry is left as it is. Raises MemorydError; Refused also for what an
        agent keeps to itself, such as credentials.
        """
        labels = values.list_of("tags", tags, lambda t: values.plain("A tag", t)) or []
        arguments = (
            values.plain("text", text),
            values.plain("category", category, longest=200),
            self._who.agent,
            None if title is None else values.plain("title", title, longest=10_000),
            None if tier is None else values.one_of("tier", tier, Tier),
            values.one_of("confidence", confidence, Confidence),
            labels,
            values.ids_of(related_ids),
            None if decision_context is None else values.in_json("decision_context", decision_context),
            None if outcome is None else values.in_json("outcome", outcome),
            None if source is None else values.plain("source", source, longest=10_000),
            values.flag("strengthen", strengthen),
        )

        async def work(connection: Connection) -> Write[Noted]:
            row = await connection.fetchrow(NOTE, *arguments)
            assert row is not None
            noted = values.made(Noted, row)
            if noted.id is None:
                return Write(noted, "0", "select true", ())
            return Write(noted, row["transaction"], NOTED, [noted.id], [noted.id])

        return await self._database.write(
            self._who, work, payload=values.strings((text, *arguments[3:], *labels))
        )

    async def recall(
        self,
        /,
        query: str,
        *,
        count: int = 10,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - its name in SQL
        **options: Unpack[RecallOptions],
    ) -> Recall:
        """Searches the team's knowledge, with decisions and outcomes; at most `count` results, the best first.

        The options are those of Memory.recall. Raises MemorydError.
        """
        call = recall_call(query, self._who, options, count=count, sources=["knowledge"], filter=filter)
        return await asked(self._database, self._who, call, recalled)

    async def decisions(
        self, *, agent: str | None = None, tag: str | None = None, open_only: bool = True, count: int = 50
    ) -> list[Decision]:
        """The team's decisions, those to review first; with `agent` or `tag` only theirs.

        Without `open_only` also those that have an outcome.
        """
        arguments = (
            None if agent is None else values.plain("agent", agent, longest=200),
            None if tag is None else values.plain("tag", tag),
            values.flag("open_only", open_only),
            values.number("count", count, 0),
        )
        rows = await self._database.read(
            self._who, lambda c: c.fetch(DECISIONS, *arguments), payload=values.strings(arguments)
        )
        return [values.made(Decision, row) for row in rows]

    async def decision_rates(self) -> list[DecisionRate]:
        """How often decisions came out well: of all, and by agent, tag and confidence."""
        rows = await self._database.read(self._who, lambda c: c.fetch(RATES))
        return [values.made(DecisionRate, row) for row in rows]

    async def resolve(self, key: UUID | str) -> int:
        """Ends a project, thread or commitment and the entries that name it; how many were ended. Raises NotFound."""
        [one] = values.ids_of(key)
        return await self._changed(RESOLVE, one)

    async def touch(self, key: UUID | str) -> None:
        """Says that an entry was used, so that it does not expire. Raises NotFound."""
        [one] = values.ids_of(key)
        await self._database.read(self._who, lambda c: c.execute(TOUCH, one))
