"""The files of examples/, and what each says that it writes."""

from __future__ import annotations

import re
from doctest import ELLIPSIS, OutputChecker
from pathlib import Path

from tests.support.repository import ROOT

EXAMPLES = sorted(p for p in (ROOT / "examples").iterdir() if p.suffix in (".py", ".sh", ".sql", ".ts"))


def command_of(path: Path) -> str:
    """How an example says that it is run."""
    found = re.search(r"^(?:# |-- |// )?Run: (.*)$", path.read_text("utf-8"), re.MULTILINE)
    assert found is not None, path
    return found[1]


def expected_of(path: Path) -> str:
    """What stands below "Output:" in an example: `...` for what differs each time, no blank lines."""
    _, said = re.split(r"^(?:#|--|//) Output:\n", path.read_text("utf-8"), flags=re.MULTILINE)
    return re.sub(r"^(?:#|--|//) ?", "", said, flags=re.MULTILINE)


def as_expected(path: Path, written: str) -> bool:
    """Whether an example wrote that."""
    lines = "".join(f"{line}\n" for line in written.splitlines() if line.strip())
    return OutputChecker().check_output(expected_of(path), lines, ELLIPSIS)
