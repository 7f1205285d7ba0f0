"""Takes a value out of a text, and leaves the rest as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugins.audit.rule import SECONDS, Finding

if TYPE_CHECKING:
    from handlers.shared.ports import AnyConnection

REDACTED = "[removed]"


async def redact(connection: AnyConnection, finding: Finding) -> int:
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
