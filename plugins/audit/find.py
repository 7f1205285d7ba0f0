"""The rules of the audit, and their findings.

Promise: nothing is locked or changed; a rule sees the rows that the role of the connection may read.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from plugins.audit.contradictions import CONTRADICTIONS
from plugins.audit.duplicates import DUPLICATES, NEAR_DUPLICATES
from plugins.audit.empty import EMPTY
from plugins.audit.rule import CURRENT, SECONDS, WITHIN, Extent, Findings, Rule
from plugins.audit.scan import PERSONAL_DATA, SECRETS, ScanRule
from plugins.audit.upkeep import FOUND_BY_RULES, NEVER_USED, OUT_OF_DATE

if TYPE_CHECKING:
    from handlers.shared.ports import AnyConnection

RULES: tuple[Rule, ...] = (
    DUPLICATES,
    NEAR_DUPLICATES,
    CONTRADICTIONS,
    OUT_OF_DATE,
    FOUND_BY_RULES,
    NEVER_USED,
    EMPTY,
)
"""The rules that run by default, in the order of their repair."""
OPTIONAL: tuple[ScanRule, ...] = (SECRETS, PERSONAL_DATA)
"""The rules that read every text, and need the packages of an extra."""


def chosen(names: Sequence[str]) -> tuple[Rule, ...]:
    """The rules of these names; RULES where there are none. Raises ValueError for another name, and for a missing extra."""
    known: dict[str, Rule] = {rule.name: rule for rule in (*RULES, *OPTIONAL)}
    for name in names:
        if name not in known:
            raise ValueError(f"There is no rule {name!r}. Rules: {', '.join(known)}")
    for each in OPTIONAL:
        if each.name in names:
            each.finder()
    return tuple(rule for rule in known.values() if rule.name in names) if names else RULES


async def find(
    connection: AnyConnection, rules: Sequence[Rule], extent: Extent, *, limit: int
) -> AsyncIterator[tuple[Rule, Findings]]:
    """The findings of each rule, at most `limit` of each."""
    for rule in rules:
        yield rule, await rule.find(connection, extent, limit=limit)


LOOKED_AT = f"select count(*) from public.agent_memory m where {CURRENT} and {WITHIN}"


async def count_memories(connection: AnyConnection, extent: Extent) -> int:
    """How many memories are current within the extent."""
    count: int = await connection.fetchval(LOOKED_AT, *extent.arguments(None), timeout=SECONDS)
    return count
