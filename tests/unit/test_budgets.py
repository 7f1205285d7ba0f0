"""What memoryd weighs stays within budgets.toml: a budget falls with its figure, and rises with a reason in CHANGELOG.md."""

from __future__ import annotations

import re
import subprocess
from itertools import pairwise

import pytest

from docs.measure_budgets import BUDGETS, ROOT, measure, read_budgets

FIGURES = measure()
LIMITS = read_budgets()
ROOM = 1.01
"""A budget may be this much above its figure, so that not every commit has to write it."""


def test_every_figure_has_a_budget() -> None:
    assert set(LIMITS) == {*FIGURES, "ci.seconds"}


@pytest.mark.parametrize("name", FIGURES)
def test_figure_is_within_its_budget(name: str) -> None:
    figure, limit = FIGURES[name], LIMITS[name]
    assert figure <= limit, (
        f"{name} is {figure}, and its budget {limit}. Take something away; or raise the budget, and say what for under "
        '"Grown" in CHANGELOG.md.'
    )
    assert limit <= figure * ROOM, f"{name} is {figure}: lower its budget in budgets.toml, which is {limit}."


def test_every_raised_budget_has_its_reason_in_the_changelog() -> None:
    reasons = _reasons((ROOT / "CHANGELOG.md").read_text("utf-8"))
    assert [rise for rise in _rises(_versions()) if rise not in reasons] == []


def test_a_raised_budget_is_found() -> None:
    assert _rises([{"lines.core": 9, "lines.web": 5}, {"lines.core": 10, "lines.web": 5}]) == [
        ("lines.core", 10)
    ]
    assert _rises([{"lines.core": 9}, {"lines.core": 8, "lines.new": 3}]) == []
    assert _reasons(
        "### Grown\n\n- `lines.core` to 12,300: a door.\n\n### Fixed\n\n- `lines.web` to 5.\n"
    ) == {("lines.core", 12300)}


def _rises(versions: list[dict[str, int]]) -> list[tuple[str, int]]:
    """The budgets that rose from one version to the next, with what they rose to."""
    return [
        (name, limit)
        for before, after in pairwise(versions)
        for name, limit in after.items()
        if limit > before.get(name, limit)
    ]


def _reasons(changelog: str) -> set[tuple[str, int]]:
    """What the sections "Grown" name: "`lines.core` to 12,300"."""
    sections = re.findall(r"^### Grown\n(.*?)(?=^##|\Z)", changelog, re.MULTILINE | re.DOTALL)
    named = re.findall(r"`([\w.]+)` to ([\d,]+)", "".join(sections))
    return {(name, int(limit.replace(",", ""))) for name, limit in named}


def _versions() -> list[dict[str, int]]:
    """budgets.toml as it was committed, oldest first, and as it is; what is no checkout has only the last."""
    commits = _git("log", "--first-parent", "--reverse", "--format=%H", "--", BUDGETS.name).split()
    texts = [_git("show", f"{commit}:{BUDGETS.name}") for commit in commits]
    return [*(read_budgets(text) for text in texts if text), LIMITS]


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False).stdout
