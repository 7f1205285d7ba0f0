"""The script of the demo: three agents, their folder, and real commands for `sh`, some of which fail.

Promise: every command works the same on Linux and macOS, with git installed or without, and changes files only
in the demo's folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

AGENTS: Mapping[str, str] = MappingProxyType(
    {
        "builder": "builder, who tests and builds the invoice service",
        "keeper": "keeper, who looks after the build machine and its backups",
        "herald": "herald, who releases the invoice service and tells the world",
    }
)
"""By agent: its identity, which begins its contexts."""

_TOTAL = '''"""Totals of invoices."""


def total(prices: list[float]) -> float:
    """The sum with 19 percent tax, in whole cents."""
    return int(sum(prices) * 119) / 100
'''

_TEST = '''"""Tests of totals."""

import unittest

from total import total


class TotalTest(unittest.TestCase):
    def test_one_price(self) -> None:
        self.assertEqual(total([4.35]), 5.18)
'''

_PUBLISHER = """# Puts the release notes on a page.
mkdir -p "${PAGE:?set it to the name of the page}" && cp NOTES "$PAGE/" && echo "published on $PAGE"
"""


@dataclass(frozen=True, slots=True)
class Step:
    """A task: its text for the agent, the command that does it, and how many hours ago it shall have happened."""

    agent: str
    hours_ago: float
    task: str
    command: str
    succeeds: bool = True

    @property
    def message(self) -> str:
        """The text of the task, with the command on the last line."""
        return f"{self.task}:\n{self.command}"


_TESTS = "cd invoice && python3 -m unittest invoice_test"
_ROUND = "cd invoice && sed 's/int(/round(/' total.py > ../new && mv ../new total.py && grep return total.py"
_PACK = "python3 -m zipfile -c invoice.zip invoice/ && ls -l invoice.zip"
_BACK_UP = "mkdir -p backups/nightly && cp -R invoice backups/nightly/ && ls backups/nightly"
_COMPARE = "diff -r invoice backups/nightly/invoice"
_NOTE = "echo 'v1.0: totals are rounded to cents' > NOTES && cat NOTES"
_PUBLISH = "PAGE=public sh publish.sh"

STEPS = (
    Step("builder", 46.9, "Find out which Python builds the invoice service", "python3 --version"),
    Step("builder", 46.8, "Run the invoice tests", "python3 -m unittest invoice_test", succeeds=False),
    Step("builder", 46.6, "Run the invoice tests in their folder", _TESTS, succeeds=False),
    Step("builder", 46.1, "See how the invoice total is rounded", "grep return invoice/total.py"),
    Step("builder", 45.5, "Round the invoice total to cents instead of cutting it", _ROUND),
    Step("builder", 45.3, "Run the invoice tests in their folder", _TESTS),
    Step("builder", 24.2, "Run the invoice tests in their folder before the nightly build", _TESTS),
    Step("builder", 24.0, "Pack the invoice service for the nightly build", _PACK),
    Step("builder", 4.0, "Run the invoice tests in their folder once more", _TESTS),
    Step("keeper", 44.0, "Check the kernel of the build machine", "uname -sr"),
    Step("keeper", 43.9, "Check the free disk space of the build machine", "df -h ."),
    Step("keeper", 40.0, "List the nightly backup of the invoices", "ls backups/nightly", succeeds=False),
    Step(
        "keeper", 39.9, "Measure the nightly backup of the invoices", "du -sh backups/nightly", succeeds=False
    ),
    Step("keeper", 39.8, "Compare the nightly backup with the invoices", _COMPARE, succeeds=False),
    Step("keeper", 39.5, "Make the nightly backup of the invoices", _BACK_UP),
    Step("keeper", 39.4, "Measure the nightly backup of the invoices", "du -sh backups/nightly"),
    Step("keeper", 20.0, "Check the free disk space of the build machine", "df -h ."),
    Step("keeper", 2.0, "Check the free disk space of the build machine", "df -h ."),
    Step("herald", 30.0, "Show what changed since the last release", "git log --oneline", succeeds=False),
    Step("herald", 29.9, "Show the state of the working copy for the release", "git status", succeeds=False),
    Step("herald", 29.7, "Tag the release in the working copy", "git tag v1.0", succeeds=False),
    Step("herald", 28.6, "Write the release notes by hand, without git", _NOTE),
    Step("herald", 10.0, "Publish the release notes", "sh publish.sh", succeeds=False),
    Step("herald", 9.8, "Publish the release notes on the page called public", _PUBLISH),
    Step("herald", 1.0, "Read the published release notes", "cat public/NOTES"),
)

NEXT = Step("herald", 0.0, "Tag the next release and publish its release notes", _PUBLISH)
"""The last task, whose context the demo shows."""


def make_workspace(folder: Path) -> None:
    """Writes the files for the commands into a new folder."""
    invoice = folder / "invoice"
    invoice.mkdir(parents=True)
    (invoice / "total.py").write_text(_TOTAL, "utf-8")
    (invoice / "invoice_test.py").write_text(_TEST, "utf-8")
    (folder / "publish.sh").write_text(_PUBLISHER, "utf-8")
