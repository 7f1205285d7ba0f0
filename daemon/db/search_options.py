"""The options of recall and of contexts, as migrations/functions/search/options.sql declares them.

Promise: the commands, the tools of MCP, the page of recall and both clients take the options from here, so that a new one is
written once (tests/integration/recall/test_options.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal

Kind = Literal["whole", "number", "flag", "names", "roles", "sources", "object", "text", "uuid", "time"]
Of = Literal["recall", "context"]

ROLES = ("user", "assistant", "system", "tool")
"""Of messages."""

_TEXT = r"(?:'((?:[^']|'')*)'|null)(?:::jsonb)?"
_NUMBER, _FLAG = r"(\d+|null)", r"(true|false)"
_COLUMNS = (_TEXT, _TEXT, _NUMBER, _NUMBER, _FLAG, _FLAG, _FLAG, _TEXT, _TEXT, _TEXT)
_ROW = re.compile(r"^        \(" + r",\s*".join(_COLUMNS) + r"\)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Option:
    """One row of memoryd.options(), which says what the columns mean."""

    name: str
    kind: Kind
    lowest: int | None
    highest: int | None
    of: tuple[str, ...]
    """Who takes it: "recall", "context"."""
    argument: bool
    in_prompt: object
    help: str


@cache
def load_options() -> tuple[Option, ...]:
    """All of them, in order."""
    declared = resources.files("migrations") / "functions" / "search" / "options.sql"
    return tuple(_option(row.groups()) for row in _ROW.finditer(declared.read_text(encoding="utf-8")))


def options_of(what: Of) -> Sequence[Option]:
    """Those that a call of recall() or build_context() takes in its argument `options`."""
    return [each for each in load_options() if what in each.of and not each.argument]


def _option(row: Sequence[str | None]) -> Option:
    name, kind, lowest, highest, *taken, argument, in_prompt, _, says = row
    return Option(
        str(name),
        kind,  # type: ignore[arg-type]
        _number(lowest),
        _number(highest),
        tuple(what for what, takes in zip(("recall", "context"), taken, strict=True) if takes == "true"),
        argument == "true",
        None if in_prompt is None else json.loads(in_prompt),
        str(says).replace("''", "'"),
    )


def _number(text: str | None) -> int | None:
    return None if text in (None, "null") else int(str(text))
