"""Runs the tests of a host, as they stand upstream, on what memoryd_client has for it.

MEMORYD_UPSTREAM names a folder that has a folder for each host. What tests are left out is counted, with the reasons.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.repository import ROOT


class _Plugin:
    def __init__(self, left_out: Mapping[str, str], put: Callable[[ModuleType], None]) -> None:
        self._reasons = left_out
        self._put = put
        self.left_out: Counter[str] = Counter()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        kept = []
        for item in items:
            reason = next((why for names, why in self._reasons.items() if re.match(names, item.name)), None)
            if reason is None:
                kept.append(item)
            else:
                self.left_out[reason] += 1
        items[:] = kept
        for module in {item.module for item in kept if isinstance(item, pytest.Function)}:
            self._put(module)


def folder_of(host: str) -> Path | None:
    """Where the tests of a host are; None, and a word about it, where there are none."""
    folder = Path(os.environ.get("MEMORYD_UPSTREAM", "")) / host
    if "MEMORYD_UPSTREAM" in os.environ and folder.is_dir():
        sys.path.insert(0, str(ROOT / "clients" / "python" / "src"))
        return folder
    print(f"Set MEMORYD_UPSTREAM to a folder that has a folder {host}.", file=sys.stderr)  # noqa: T201
    return None


def run(files: Sequence[Path], left_out: Mapping[str, str], put: Callable[[ModuleType], None]) -> int:
    """Runs the tests in files; `left_out` has the reasons by the beginning of names, `put` puts ours into a module.

    Returns 0 where all that are not left out passed.
    """
    plugin = _Plugin(left_out, put)
    ended = pytest.main(
        ["-q", "--noconftest", "-c", os.devnull, f"--rootdir={files[0].parent}", "--import-mode=importlib",
         "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", *sys.argv[1:], *map(str, files)],
        plugins=[plugin],
    )  # fmt: skip
    print(f"left out: {plugin.left_out.total()}")  # noqa: T201
    for reason, count in plugin.left_out.items():
        print(f"  {count:3} {reason}")  # noqa: T201
    return int(ended)
