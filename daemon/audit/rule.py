"""What a rule is, what it finds, and which rows it looks at.

Promise: a finding says which rows and why, and quotes none of their text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

if TYPE_CHECKING:
    from handlers.shared.ports import AnyConnection

SECONDS = 600.0
"""The maximum of one statement: a rule may read all memories."""
ALL_SYSTEMS = ""


class Repair(StrEnum):
    """What is done about a finding."""

    FORGET = "forget"
    SUPERSEDE = "supersede"
    END = "end"
    EXPIRE = "expire"
    REDACT = "redact"


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """Which rows are looked at: of an agent, of a user, written since a time, imported (`system`: from this one).

    A row may be a copy of one outside of `since` and `system`; only rows within are found.
    """

    agent: str | None = None
    user: UUID | None = None
    since: datetime | None = None
    system: str | None = None
    """None: all rows; ALL_SYSTEMS: those that were imported."""

    def arguments(self, ids: Sequence[UUID] | None) -> tuple[object, ...]:
        """$1 to $5 of a rule's SQL. `ids`: no other rows than these."""
        return (self.agent, self.user, self.since, self.system, ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Rows of one table with which one thing is wrong. `ids` are those that a repair changes."""

    rule: str
    table: str
    ids: tuple[UUID, ...]
    reason: str
    agent_id: str | None
    user_id: UUID | None
    repair: Repair
    kept: UUID | None = None
    """Of copies and contradictions: the row that stays, or replaces them."""
    until: datetime | None = None
    """Of what ends: when it ended."""
    spans: tuple[Mapping[str, object], ...] = field(default=())
    """Of a text with a secret or a number of a person: the `kind`, `column`, `offset` and `length` of each, in characters."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a rule found: at most as many findings as were asked for, how many there are, and how many rows they change."""

    findings: Sequence[Finding]
    total: int
    rows: int


class Rule(Protocol):
    """One thing that may be wrong."""

    @property
    def name(self) -> str:
        """As --rule names it."""
        ...

    @property
    def says(self) -> str:
        """In one sentence, what is wrong with what it finds."""
        ...

    @property
    def repairs(self) -> str:
        """In one sentence, what its repair does."""
        ...

    async def find(
        self, connection: AnyConnection, extent: Extent, *, limit: int, ids: Sequence[UUID] | None = None
    ) -> Found:
        """What is wrong now, for the role of the connection. `ids`: no other rows than these."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlRule:
    """A rule about memories that is one statement.

    `sql` gives `ids`, `kept`, `until`, `reason`, `agent_id`, `user_id` and `rank` (the highest come first), from $1 to $5.
    """

    name: str
    says: str
    repairs: str
    repair: Repair
    sql: str

    async def find(
        self, connection: AnyConnection, extent: Extent, *, limit: int, ids: Sequence[UUID] | None = None
    ) -> Found:
        """See Rule."""
        rows = await connection.fetch(
            LIMITED.format(sql=self.sql), *extent.arguments(ids), limit, timeout=SECONDS
        )
        if not rows:
            return Found((), 0, 0)
        findings = [
            Finding(
                rule=self.name, table="agent_memory", ids=tuple(r["ids"]), reason=r["reason"], agent_id=r["agent_id"],
                user_id=r["user_id"], repair=self.repair, kept=r["kept"], until=r["until"],
            )
            for r in rows
        ]  # fmt: skip
        return Found(findings, rows[0]["total"], rows[0]["changed"])


LIMITED = """
with found as materialized ({sql})
select f.*, count(*) over () as total, (sum(cardinality(f.ids)) over ())::bigint as changed
from found f
order by f.rank desc, f.ids
limit $6
"""

# Not what has a key: that stands beside what says the same. Not the outcomes of commands: two runs are two events.
CURRENT = """
($1::text is null or m.agent_id = $1)
  and ($2::uuid is null or m.user_id = $2)
  and ($5::uuid[] is null or m.id = any($5))
  and m.superseded_by is null
  and (m.valid_to is null or m.valid_to > now())
  and (m.expires_at is null or m.expires_at > now())
"""
"""Of agent_memory m: what is remembered now, of the extent's agent and user."""
WRITTEN_BY_HAND = "m.key is null and m.command_id is null"
WITHIN = """
(($3::timestamptz is null or m.created_at >= $3)
  and ($4::text is null or m.metadata ->> 'imported_from' = $4 or ($4 = '' and m.metadata ? 'imported_from')))
"""
"""Of agent_memory m: what is within the extent's time and import."""
