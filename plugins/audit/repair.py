"""Repairs findings: those of a rule in one transaction, after a second check.

Promise: only the rows of the findings are changed, each once, and only if the finding still holds once they are locked.
Finding.repair says what a repair does; it does nothing that the role of the connection may not do itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from plugins.audit.rule import SECONDS, Extent, Finding, Repair

if TYPE_CHECKING:
    from handlers.shared.ports import AnyConnection
    from plugins.audit.scan import Rule

EXPIRES_IN_DAYS = 30
REDACTED = "[removed]"

# In the order in which all transactions lock rows (migrations/functions/base/locks.sql).
TABLES = (
    "agent_commands",
    "conversation_messages",
    "agent_memory",
    "documents",
    "memory_chunks",
    "shared_knowledge",
)
LOCK = "select t.id from public.{table} t where t.id = any($1) order by t.id for update"
FORGET = "select public.forget($1::uuid[], 'memory'::text)"
EXPIRE = f"""
update public.agent_memory m
set expires_at = now() + interval '{EXPIRES_IN_DAYS} days'
where m.id = any($1) and m.expires_at is null
"""


@dataclass(frozen=True, slots=True)
class RepairResult:
    """How many rows were changed, and how many findings do not hold any more."""

    rows: int
    gone: int


def intended(finding: Finding) -> str:
    """A sentence that says what the repair of a finding does."""
    rows = "it" if len(finding.ids) == 1 else f"these {len(finding.ids)}"
    match finding.repair:
        case Repair.FORGET:
            return f"forget {rows}" + (f"; {finding.kept} stays" if finding.kept else "")
        case Repair.EXPIRE:
            return f"let {rows} expire in {EXPIRES_IN_DAYS} days"
        case Repair.REDACT:
            return f"write {REDACTED} in {'its place' if len(finding.spans) == 1 else 'their places'}"


async def repair(connection: AnyConnection, rule: Rule, findings: Sequence[Finding]) -> RepairResult:
    """Repairs findings of one rule, in a transaction of their own: all of them, or after an error none.

    Raises asyncpg.PostgresError where the database refuses it.
    """
    planned = {(finding.table, i) for finding in findings for i in finding.ids}
    if not planned:
        return RepairResult(0, 0)
    ids = sorted({i for finding in findings for i in (*finding.ids, finding.kept) if i is not None})
    async with connection.transaction():
        for table in TABLES:
            if any(finding.table == table for finding in findings):
                await connection.fetch(LOCK.format(table=table), ids, timeout=SECONDS)
        found = await rule.find(connection, Extent(), limit=len(ids), ids=ids)
        standing = [f for f in found.findings if any((f.table, i) in planned for i in f.ids)]
        rows = await _apply(connection, standing, planned)
    there = {(finding.table, i) for finding in standing for i in finding.ids}
    return RepairResult(rows, sum(not any((f.table, i) in there for i in f.ids) for f in findings))


async def _apply(
    connection: AnyConnection, findings: Sequence[Finding], planned: set[tuple[str, UUID]]
) -> int:
    rows = [(finding, i) for finding in findings for i in finding.ids if (finding.table, i) in planned]
    if not rows:
        return 0
    ids = [i for _, i in rows]
    match findings[0].repair:
        case Repair.FORGET:
            changed: int = await connection.fetchval(FORGET, ids, timeout=SECONDS)
            return changed
        case Repair.EXPIRE:
            status = await connection.execute(EXPIRE, ids, timeout=SECONDS)
        case _:
            return sum([await _redact(connection, finding) for finding in findings])
    return int(status.rpartition(" ")[2])


async def _redact(connection: AnyConnection, finding: Finding) -> int:
    """Overwrites the spans of a finding that was made in this transaction, its row locked. Returns 1, or 0: the row is gone."""
    changed = 0
    for column in sorted({str(span["column"]) for span in finding.spans}):
        [row] = finding.ids
        text = await connection.fetchval(
            f"select t.{column} from public.{finding.table} t where t.id = $1 for update",
            row,
            timeout=SECONDS,
        )
        if text is None:
            continue
        # From the end, so that the offsets before stay true.
        spans = sorted(
            ((int(str(s["offset"])), int(str(s["length"]))) for s in finding.spans if s["column"] == column),
            reverse=True,
        )
        for offset, length in spans:
            text = text[:offset] + REDACTED + text[offset + length :]
        status = await connection.execute(
            f"update public.{finding.table} t set {column} = $2 where t.id = $1",
            row,
            text,
            timeout=SECONDS,
        )
        changed = max(changed, int(status.rpartition(" ")[2]))
    return changed
