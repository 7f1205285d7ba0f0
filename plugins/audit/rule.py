"""The rules of the audit, their findings, and the rows that they read.

Promise: a finding says which rows and why, and quotes none of their text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from handlers.shared.ports import AnyConnection

SECONDS = 600.0
"""The maximum of one statement: a rule may read all memories."""
ALL_SYSTEMS = ""


class Repair(StrEnum):
    FORGET = "forget"
    EXPIRE = "expire"
    REDACT = "redact"


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The rows to examine: of an agent, of a user, written since a time, imported (`system`: from this one).

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
    """Rows of one table with the same fault. `ids` are those that a repair changes."""

    rule: str
    table: str
    ids: tuple[UUID, ...]
    reason: str
    agent_id: str | None
    user_id: UUID | None
    repair: Repair
    kept: UUID | None = None
    """For copies: the row that stays."""
    spans: tuple[Mapping[str, object], ...] = field(default=())
    """For a text with secrets or personal numbers: `kind`, `column`, `offset` and `length` of each, in characters."""


@dataclass(frozen=True, slots=True)
class Findings:
    """The first findings of a rule, the number of all, and the number of rows that they change."""

    findings: Sequence[Finding]
    total: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlRule:
    """A rule about memories that is one statement. `name`: for --rule; `says`: the fault, `repairs`: its repair, in a sentence.

    `sql` gives `ids`, `kept`, `reason`, `agent_id`, `user_id` and `rank` (the highest come first), from $1 to $5.
    """

    name: str
    says: str
    repairs: str
    repair: Repair
    sql: str

    async def find(
        self, connection: AnyConnection, extent: Extent, *, limit: int, ids: Sequence[UUID] | None = None
    ) -> Findings:
        """The current findings, for the role of the connection. `ids`: only these rows."""
        rows = await connection.fetch(
            LIMITED.format(sql=self.sql), *extent.arguments(ids), limit, timeout=SECONDS
        )
        if not rows:
            return Findings((), 0, 0)
        findings = [
            Finding(
                rule=self.name, table="agent_memory", ids=tuple(r["ids"]), reason=r["reason"], agent_id=r["agent_id"],
                user_id=r["user_id"], repair=self.repair, kept=r["kept"],
            )
            for r in rows
        ]  # fmt: skip
        return Findings(findings, rows[0]["total"], rows[0]["changed"])


LIMITED = """
with found as materialized ({sql})
select f.*, count(*) over () as total, (sum(cardinality(f.ids)) over ())::bigint as changed
from found f
order by f.rank desc, f.ids
limit $6
"""

# Without memories that have a key: they may repeat others. Without outcomes of commands: two runs are two events.
CURRENT = """
($1::text is null or m.agent_id = $1)
  and ($2::uuid is null or m.user_id = $2)
  and ($5::uuid[] is null or m.id = any($5))
  and m.superseded_by is null
  and (m.valid_to is null or m.valid_to > now())
  and (m.expires_at is null or m.expires_at > now())
"""
"""Of agent_memory m: the current memories of the extent's agent and user."""
WRITTEN_BY_HAND = "m.key is null and m.command_id is null"
WITHIN = """
(($3::timestamptz is null or m.created_at >= $3)
  and ($4::text is null or m.metadata ->> 'imported_from' = $4 or ($4 = '' and m.metadata ? 'imported_from')))
"""
"""Of agent_memory m: the memories within the extent's time and import."""
