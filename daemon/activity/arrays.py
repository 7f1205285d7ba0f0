"""The counts of histograms as SQL: rows of memoryd.activity have them as arrays, one number for each bucket."""

from __future__ import annotations

from daemon.measures import SECONDS

_BUCKETS = range(1, len(SECONDS) + 2)


def added(column: str) -> str:
    """In an upsert of memoryd.activity as `a`: what the row has and what is added to it."""
    each = (f"coalesce(a.{column}[{n}], 0) + excluded.{column}[{n}]" for n in _BUCKETS)
    return f"array[{', '.join(each)}]"


def summed(column: str) -> str:
    """Of the rows `a` of a group: the sums, bucket by bucket. An array without elements counts as zeros."""
    each = (f"coalesce(sum(a.{column}[{n}]), 0)" for n in _BUCKETS)
    return f"array[{', '.join(each)}]::integer[]"
