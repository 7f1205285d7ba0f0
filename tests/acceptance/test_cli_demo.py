"""memoryd demo: runs to its end, for real, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.folders import server_folder
from tests.support.processes.commands import Commands


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A short temporary folder of its own, to see what is left in it."""
    with server_folder() as folder:
        folder.chmod(0o755)
        monkeypatch.setenv("TMPDIR", str(folder))
        yield folder


def left(folder: Path) -> list[str]:
    """Files in the folder, and processes that mention it."""
    processes = [p.info["cmdline"] or [] for p in psutil.process_iter(["cmdline"]) if p.pid != os.getpid()]
    return sorted(path.name for path in folder.iterdir()) + [
        " ".join(words) for words in processes if any(str(folder) in word for word in words)
    ]


async def test_the_demo_runs_to_its_end_and_leaves_nothing(elsewhere: Path, tmp_path: Path) -> None:
    shown = await Commands(None, tmp_path)("demo")
    assert shown.code == 0, shown.out + shown.err
    for part in ("✗ builder", "✓ keeper", "causal", "correction, confidence", "pattern, confidence"):
        assert part in shown.out
    assert "--- CONTEXT" in shown.out
    assert "Insights:" in shown.out
    assert "★" in shown.out
    assert "published on public" in shown.out.partition("--- END CONTEXT ")[2]
    assert left(elsewhere) == []
    assert left(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_an_interrupted_demo_leaves_nothing(
    number: signal.Signals, elsewhere: Path, tmp_path: Path
) -> None:
    process = await Commands(None, tmp_path).start("demo")
    assert process.stdout is not None
    async with asyncio.timeout(60):
        while "2." not in (line := (await process.stdout.readline()).decode()):
            assert line, "the demo ended early"
        process.send_signal(number)
        _, err = await process.communicate()
    assert process.returncode == 130
    assert b"Traceback" not in err
    assert left(elsewhere) == []
