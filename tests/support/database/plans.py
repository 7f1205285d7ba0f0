"""What a plan of Postgres, as JSON, reads."""

from __future__ import annotations

from typing import Any


def scans(plan: Any) -> set[str]:
    """The tables that a plan reads from end to end."""
    if isinstance(plan, list):
        return {name for part in plan for name in scans(part)}
    if not isinstance(plan, dict):
        return set()
    own = {plan["Relation Name"]} if plan.get("Node Type") == "Seq Scan" else set()
    return own | {name for part in plan.values() for name in scans(part)}


def read_of(table: str, plan: Any) -> float:
    """Of a plan that was run: how many rows of a table its node that read most of them has read."""
    if isinstance(plan, list):
        return max((read_of(table, part) for part in plan), default=0)
    if not isinstance(plan, dict):
        return 0
    own = plan["Actual Rows"] * plan["Actual Loops"] if plan.get("Relation Name") == table else 0
    return max([own, *(read_of(table, part) for part in plan.values())])
