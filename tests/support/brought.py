"""Which packages come with which."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def brought_by(requirements: Iterable[str]) -> set[str]:
    """The packages that pip installs for these."""
    found: set[str] = set()
    asked: set[str] = set()
    waiting = [(Requirement(text), "") for text in requirements]
    while waiting:
        one, extra = waiting.pop()
        if one.marker is not None and not one.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(one.name)
        found.add(name)
        for wanted in {"", *one.extras}:
            if f"{name}[{wanted}]" not in asked:
                asked.add(f"{name}[{wanted}]")
                waiting += [(Requirement(text), wanted) for text in distribution(name).requires or ()]
    return found
