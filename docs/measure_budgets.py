"""Measures what budgets.toml limits: how many lines the core and each feature have, how much SQL a recall is, and so on.

Promise: it reads the files of the checkout alone, so everybody measures the same; tests/unit/test_budgets.py compares.

    python -m docs.measure_budgets        prints each figure beside its budget
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from daemon.cli.app import OF_CORE
from daemon.settings import Settings, all_settings
from docs.map_sql import Sources

ROOT = Path(__file__).parent.parent
BUDGETS = ROOT / "budgets.toml"
COUNTED = frozenset({".py", ".sql", ".ts", ".tsx", ".html"})
CODE = ("daemon", "handlers", "memory", "memoryd", "providers", "migrations", "plugins")
MADE = frozenset({"node_modules", "dist", "build"})
REST = {"clients": ("clients",), "docs": ("docs",), "tests": ("tests",), "benchmarks": ("benchmarks",)}
OF_PLUGINS = r"memoryd\.(replica|trail|fact|names$|unread$)|public\.memory_anchors"
"""Tables of plugins, whose SQL stands in migrations/."""
OPTION = "relevant_only"
"""The option of recall that stands for all: a name that means nothing else."""


def read_budgets(text: str | None = None) -> dict[str, int]:
    """The budgets by name, such as {"lines.core": 20000}; `text` is another version of budgets.toml."""
    tables = tomllib.loads(BUDGETS.read_text("utf-8") if text is None else text)
    return {
        f"{table}.{name}": limit
        for table, rows in tables.items()
        if table != "features"
        for name, limit in rows.items()
    }


def measure() -> dict[str, int]:
    """Each figure by the name that it has in budgets.toml; ci.seconds is left out: `time .ci/run` measures it."""
    return {f"lines.{name}": count for name, count in _lines().items()} | {
        **_search("recall"),
        **_search("build_context"),
        **_core(),
        "interface.settings": len(all_settings().model_fields),
        "interface.tables": len(_tables()),
        "interface.public_functions": _count(r'create or replace function public\."?([\w-]+)'),
        "interface.files_with_an_option": sum(
            re.search(rf"\b{OPTION}\b", path.read_text("utf-8")) is not None
            for path in _files(*CODE, *REST["clients"])
        ),
    }


def _core() -> dict[str, int]:
    """The figures of the core alone: of what is left where there is no plugin."""
    files = [path for path in _files(*CODE) if path not in _owners()]
    return {
        "core.python": sum(_length(path) for path in files if path.suffix == ".py"),
        "core.sql": sum(_length(path) for path in files if path.suffix == ".sql"),
        "core.files": len(files),
        "core.settings": len(Settings.model_fields),
        "core.tables": sum(re.match(OF_PLUGINS, name) is None for name in _tables()),
        "core.commands": len(OF_CORE),
    }


@cache
def _owners() -> dict[Path, str]:
    """The feature that claims each file; what none claims is the core's."""
    features: Mapping[str, list[str]] = tomllib.loads(BUDGETS.read_text("utf-8"))["features"]
    return {path: name for name, patterns in features.items() for path in _claimed(name, patterns)}


def _lines() -> dict[str, int]:
    """Lines by feature."""
    owner = _owners()
    counted = dict.fromkeys(["core", *sorted(set(owner.values())), *REST], 0)
    for path in _files(*CODE):
        counted[owner.get(path, "core")] += _length(path)
    for name, folders in REST.items():
        counted[name] = sum(_length(path) for path in _files(*folders))
    return counted


def _claimed(feature: str, patterns: Iterable[str]) -> Iterator[Path]:
    for pattern in patterns:
        found = [each for each in ROOT.glob(pattern) if each.is_file()]
        if not found:
            raise SystemExit(
                f"budgets.toml: {feature} names {pattern}, and there is no such file. Correct the name."
            )
        yield from found


def _search(start: str) -> dict[str, int]:
    """How many SQL functions one function reaches, itself included, and how deep they call each other."""
    calls = Sources().calls
    reached, waiting = set[str](), [start]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += calls[name]

    @cache
    def depth(name: str) -> int:
        return 1 + max((depth(each) for each in calls[name] if name not in calls[each]), default=0)

    return {f"{start}.functions": len(reached), f"{start}.depth": depth(start)}


def _tables() -> set[str]:
    """The tables that stand: created, and not dropped by a later numbered file."""
    name = r"(?:public|memoryd)\.\w+"
    standing = set[str]()
    for path in _files(*CODE):
        sql = path.read_text("utf-8")
        standing.update(re.findall(rf"create table (?:if not exists )?({name})", sql))
        for dropped in re.findall(rf"drop table (?:if exists )?({name}(?:,\s+{name})*)", sql):
            standing.difference_update(re.findall(name, dropped))
    return standing


def _count(pattern: str) -> int:
    """How many names a pattern finds in the code, each once."""
    return len({name for path in _files(*CODE) for name in re.findall(pattern, path.read_text("utf-8"))})


@cache
def _files(*folders: str) -> tuple[Path, ...]:
    return tuple(
        path
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in COUNTED and not MADE.intersection(path.parts) and path.is_file()
    )


def _length(path: Path) -> int:
    return path.read_bytes().count(b"\n")


def main() -> None:
    """Prints the figures."""
    argparse.ArgumentParser(
        description="Prints each figure that budgets.toml limits, beside its budget."
    ).parse_args()
    budgets, figures = read_budgets(), measure()
    lines = (
        f"{name:32} {figures.get(name, '-'):>8} of {budgets.get(name, '-'):>8}\n"
        for name in budgets | figures
    )
    sys.stdout.writelines(lines)


if __name__ == "__main__":
    main()
