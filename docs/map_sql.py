"""Draws the map of the SQL: which functions run for what users and the daemon start, and in which files they are.

Promise: it is read from the files of migrations/functions, SQL of handlers and docs/triggers.md, so it says what they call.
Needs no database: the catalog knows nothing of the calls in plpgsql.

    python -m docs.map_sql            prints it, in Markdown
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import Path

ROOT = Path(__file__).parent.parent
FUNCTIONS = ROOT / "migrations/functions"
TRIGGERS = Path(__file__).with_name("triggers.md")
_TRIGGERS = re.compile(r"^\| `([\w.]+)` \| (\w+) \| (.*) \|$", re.MULTILINE)
_TRIGGER = re.compile(r"`(\w+)`(?:\\\*)?(?: \((\w+)\))?")

HEAD = """\
# The map of the SQL

Which SQL functions run for what users and the daemon start. Read from `migrations/functions/` and
the handlers. To change something, find where it starts, follow the tree, and open the file.

- A function stands below the one that calls it, with the first sentence of its comment. Its file stands beside it where it is
  another than its caller's. Functions are in the order of the caller's text, which is mostly the order in which they run.
- *also*: what it calls, too: functions that are shown elsewhere on this page, and small ones that call nothing.
- *writes*: tables whose triggers then run; see [Inserts](#inserts).
- Left out of the trees: who calls (`base/callers.sql`), cleaning of texts (`base/text.sql`), and small helpers that are called
  from everywhere ({helpers}).
"""

LEFT_OUT = ("base/callers.sql", "base/text.sql")
"""Files whose functions are in no tree: they are called from everywhere and say nothing of what happens."""
MANY = 5
"""A function that calls nothing and that this many call is left out of the trees, too."""
SHORT = 12
"""A function that calls nothing and has no more lines than these is named beside its caller."""
DEEP = 3
"""From this depth on, so is every function that calls nothing."""


@dataclass(frozen=True, slots=True)
class Start:
    """What somebody starts: functions, or the INSERTs into a table, or what a handler does."""

    heading: str
    functions: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    """Functions on the way whose branches are shown below the tree, so that it does not become too deep."""
    tables: tuple[str, ...] = ()
    handlers: tuple[str, ...] = ()


STARTS = (
    Start("Recall", ("recall", "explain_recall"), ("find",)),
    Start("Contexts", ("build_context", "explain_context"), ("gather_lines",)),
    Start("Searches by embedding alone", ("match_memory", "search_shared_knowledge")),
    Start("Knowledge of the team", ("note_knowledge", "resolve_knowledge")),
    Start(
        "Inserts",
        tables=(
            "agent_memory", "conversation_messages", "agent_commands", "memory_requests", "shared_knowledge", "documents",
            "memory_chunks", "dream_insights", "memoryd.entries",
        ),
    ),
    Start("Erasure and export", ("erase_user_memory", "export_user_memory")),
    Start(
        "What the daemon does",
        handlers=(
            "handlers/context", "handlers/capture", "handlers/index", "handlers/associate", "plugins/facts/facts",
            "plugins/facts/names", "handlers/request", "handlers/dream/dreamer",
        ),
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Function:
    """A function, or all functions of one name."""

    name: str
    file: str
    purpose: str
    text: str
    """What is between its name and its end, without comments."""
    lines: int


class Sources:
    """The functions of migrations/functions, and what calls them."""

    def __init__(self, functions: Path = FUNCTIONS, *, triggers: Path = TRIGGERS) -> None:
        self._triggers = triggers
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

    @cached_property
    def helpers(self) -> tuple[str, ...]:
        """What is left out of the trees because it is called from everywhere."""
        return tuple(
            sorted(
                name
                for name, function in self.functions.items()
                if function.file not in LEFT_OUT and not self.calls[name] and len(self.callers[name]) >= MANY
            )
        )

    def is_in_trees(self, name: str) -> bool:
        """Whether a tree shows a function where it is called."""
        return self.functions[name].file not in LEFT_OUT and name not in self.helpers

    def called_in(self, text: str) -> tuple[str, ...]:
        """The functions that a text calls, each once."""
        named = re.findall(r'\b(?:memoryd|public)\."?([\w-]+)"?\(', text)
        return tuple(dict.fromkeys(name for name in named if name in self.functions))

    @cached_property
    def trigger_rows(self) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
        """Of docs/triggers.md: table, event, and the functions that run, in this order."""
        return tuple(
            (
                table,
                event,
                tuple(dict.fromkeys(function or name for name, function in _TRIGGER.findall(fired))),
            )
            for table, event, fired in _TRIGGERS.findall(self._triggers.read_text("utf-8"))
        )

    @cached_property
    def triggers(self) -> Mapping[str, tuple[str, ...]]:
        """The functions that an INSERT into each table runs, in this order."""
        return {table: functions for table, event, functions in self.trigger_rows if event == "insert"}

    def written_in(self, text: str) -> tuple[str, ...]:
        """The tables with triggers into which a text inserts rows, each once."""
        named = re.findall(r"\binsert into (?:public\.)?((?:memoryd\.)?\w+)", text)
        return tuple(dict.fromkeys(table for table in named if table in self.triggers))

    def of_handler(self, name: str) -> str:
        """The text of a handler, and of the handlers' modules that it imports."""
        texts: dict[str, str] = {}
        waiting = [name.replace("/", ".")]
        while waiting:
            module = waiting.pop(0)
            if module not in texts:
                path = ROOT / module.replace(".", "/")
                path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
                texts[module] = path.read_text("utf-8")
                waiting += re.findall(
                    r"^from ((?:handlers|plugins)\.[\w.]+) import", texts[module], re.MULTILINE
                )
        return "\n".join(texts.values())


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
                purpose=(other.purpose if other else "") or _purpose(text, found),
                text=(other.text if other else "") + re.sub(r"--.*", "", body),
                lines=(other.lines if other else 0) + body.count("\n") + 1,
            )
    yield from made.items()


def _end(text: str, start: int) -> int:
    """Where the function ends whose arguments begin at `start`."""
    body = re.compile(r"\bas (\$\w*\$)|\bbegin atomic\b|; *(?:--.*)?\n").search(text, start)
    assert body is not None
    if body[0] == "begin atomic":
        return text.index("\nend;", start)
    return text.index(body[1], body.end()) if body[1] else body.end()


def _purpose(text: str, function: re.Match[str]) -> str:
    """The first sentence of the comment above a function; of a public one, of what `comment on function` says."""
    comment = re.search(
        rf"comment on function {function[1]}\.\"?{function[2]}\b[^']*?is\s*(?:%L',[^']*)?\s*((?:'(?:[^']|'')*'\s*)+)",
        text,
    )
    above = re.search(r"(?:^--.*\n)+\Z", text[: function.start()], re.MULTILINE)
    if comment and (function[1] == "public" or not above):
        said = "".join(re.findall(r"'((?:[^']|'')*)'(?!')", comment[1])).replace("''", "'")
    else:
        # Indented lines are a list of columns or arguments.
        lines = takewhile(lambda line: not line.startswith("--   "), above[0].splitlines() if above else [])
        said = " ".join(line.removeprefix("--").strip() for line in lines)
    return re.split(r"(?<=\.) +", said)[0].rstrip(".:")


class Map:
    """The document."""

    def __init__(self, sources: Sources) -> None:
        self._of = sources
        self._shown: set[str] = set()
        self._named: set[str] = set()
        self._apart: list[str] = []

    def draw(self) -> str:
        """In Markdown."""
        lines = [HEAD.format(helpers=_names(self._of.helpers))]
        for start in STARTS:
            lines += [f"## {start.heading}", "", *self._section(start), ""]
        return "\n".join([*lines, *self._rest()]) + "\n"

    def _section(self, start: Start) -> Iterator[str]:
        self._apart = list(start.apart)
        for name in start.functions:
            yield from self._branch(name, file="", depth=0)
        for table in start.tables:
            yield from self._node(f"- an INSERT into `{table}`:", self._of.triggers[table], "", depth=0)
        for handler in start.handlers:
            text = self._of.of_handler(handler)
            yield from self._node(f"- `{handler}.py`:", self._of.called_in(text), text, depth=0)
        for name in start.apart:
            self._apart.remove(name)
            yield from ("", f"### {name}()", "", *self._branch(name, file="", depth=0))

    def _branch(self, name: str, *, file: str, depth: int) -> Iterator[str]:
        self._shown.add(name)
        function = self._of.functions[name]
        where = "" if function.file == file else f" ({function.file})"
        line = f"{'  ' * depth}- `{name}`{where}: {function.purpose}."
        yield from self._node(line, self._of.calls[name], function.text, file=function.file, depth=depth)

    def _node(
        self, line: str, calls: Iterable[str], text: str, *, file: str = "", depth: int
    ) -> Iterator[str]:
        """The line of one that calls, and below it the branches of those that are not shown yet."""
        calls = [name for name in calls if self._of.is_in_trees(name)]
        named = [name for name in calls if self._is_named(name, depth=depth + 1)]
        tables = self._of.written_in(text)
        yield (
            line
            + (f" *also* {_names(named)}." if named else "")
            + (f" *writes* {_names(tables)}." if tables else "")
        )
        self._named.update(named)
        for name in calls:
            if name in self._apart:
                yield f"{'  ' * (depth + 1)}- `{name}`: [below](#{name})."
            elif name not in named and name not in self._shown:
                yield from self._branch(name, file=file, depth=depth + 1)

    def _is_named(self, name: str, *, depth: int) -> bool:
        is_small = depth >= DEEP or self._of.functions[name].lines <= SHORT
        return name in self._shown or (not self._of.calls[name] and is_small)

    def _rest(self) -> Iterator[str]:
        yield from (
            "## What else there is",
            "",
            "Functions in no tree. Those above, the daemon, clients, views, policies, or triggers of other events call them.",
            "",
        )
        for file in self._of.files:
            left = [
                name
                for name, function in self._of.functions.items()
                if function.file == file and name not in self._shown | self._named
            ]
            if left:
                yield f"- {file}: {_names(left)}"


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def draw(sources: Sources | None = None) -> str:
    """The document, in Markdown."""
    return Map(sources or Sources()).draw()


if __name__ == "__main__":
    argparse.ArgumentParser(description="Prints the map of the SQL.").parse_args()
    sys.stdout.write(draw())
