"""Which SQL functions call each other, read from the files of migrations/functions.

Needs no database: the catalog knows nothing of the calls in plpgsql.

    python -m docs.map_sql kind_weight            prints what calls this function, over any number of steps, and what it calls
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parent.parent
FUNCTIONS = ROOT / "migrations/functions"


@dataclass(frozen=True, slots=True)
class Function:
    """A function, or all functions of one name."""

    name: str
    file: str
    text: str
    """What is between its name and its end, without comments."""


class Sources:
    """The functions of migrations/functions, and what calls them."""

    def __init__(self, functions: Path = FUNCTIONS) -> None:
        self.files = {
            path.relative_to(functions).as_posix(): path.read_text("utf-8")
            for path in sorted(functions.rglob("*.sql"))
        }
        self.functions = dict(_functions(self.files))

    @cached_property
    def calls(self) -> Mapping[str, tuple[str, ...]]:
        """What each function calls, in the order of its text."""
        return {
            name: tuple(each for each in self.called_in(function.text) if each != name)
            for name, function in self.functions.items()
        }

    @cached_property
    def callers(self) -> Mapping[str, tuple[str, ...]]:
        """Which functions call each."""
        return {
            name: tuple(each for each, called in self.calls.items() if name in called)
            for name in self.functions
        }

    def called_in(self, text: str) -> tuple[str, ...]:
        """The functions that a text calls, each once."""
        named = re.findall(r'\b(?:memoryd|public)\."?([\w-]+)"?\(', text)
        return tuple(dict.fromkeys(name for name in named if name in self.functions))


def _functions(files: Mapping[str, str]) -> Iterator[tuple[str, Function]]:
    made: dict[str, Function] = {}
    for file, text in files.items():
        for found in re.finditer(r'^create or replace function (\w+)\."?([\w-]+)"?\(', text, re.MULTILINE):
            body = text[found.end() : _end(text, found.end())]
            name = found[2]
            other = made.get(name)
            made[name] = Function(
                name=name,
                file=other.file if other else file,
                text=(other.text if other else "") + re.sub(r"--.*", "", body),
            )
    yield from made.items()


def _end(text: str, start: int) -> int:
    """Where the function ends whose arguments begin at `start`."""
    body = re.compile(r"\bas (\$\w*\$)|\bbegin atomic\b|; *(?:--.*)?\n").search(text, start)
    assert body is not None
    if body[0] == "begin atomic":
        return text.index("\nend;", start)
    return text.index(body[1], body.end()) if body[1] else body.end()


def way_to(sources: Sources, name: str) -> Iterator[str]:
    """A line for each function from which this one is reached, indented by the steps to it; each is shown once."""
    shown = {name}
    waiting = [(name, 0)]
    while waiting:
        now, depth = waiting.pop()
        yield f"{'  ' * depth}{now} ({sources.functions[now].file})"
        callers = [each for each in sources.callers[now] if each not in shown]
        shown.update(callers)
        waiting += [(each, depth + 1) for each in reversed(callers)]


def main() -> None:
    """Prints both."""
    parser = argparse.ArgumentParser(description="Prints what calls an SQL function, and what it calls.")
    parser.add_argument("function", help="Its name, without its schema.")
    name, sources = parser.parse_args().function, Sources()
    if name not in sources.functions:
        parser.error(f"There is no function {name} in migrations/functions.")
    lines = ["Called by:", *way_to(sources, name), "", "Calls:", *sources.calls[name]]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
