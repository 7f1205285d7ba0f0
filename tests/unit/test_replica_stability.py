"""When a file that changed may be read: not while a program writes it, soon after it was closed, and at last in any case."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from plugins.files.local import is_local
from plugins.replica import changed_files
from plugins.replica.changed_files import ChangedFiles
from plugins.replica.folder import Entry, Folder, Listing
from plugins.replica.local_folder import LocalFolder

BEGAN = 1_800_000_000.0


class Scene:
    """A file, who has it open, and a clock that only the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, is_open: bool | None) -> None:
        self.is_open = is_open
        self.clock = 0.0
        self.wrong_by = 0.0
        """So much the file's time is ahead of the clock."""
        self._written = 0.0
        self._reading = ChangedFiles(cast("Folder", self), settle_seconds=1.0)
        monkeypatch.setattr(changed_files, "time", self)

    def is_open_for_writing(self, _path: str) -> bool | None:
        """As a folder tells it."""
        return self.is_open

    def read(self, _path: str) -> bytes:
        """As a folder reads it."""
        return b"Text."

    def time(self) -> float:
        """The time of day."""
        return BEGAN + self.clock

    def monotonic(self) -> float:
        """The clock that only goes on."""
        return self.clock

    def write(self) -> None:
        """The file changes."""
        self._written = self.clock

    def pause(self, *, after: float) -> float | None:
        """Seconds until the next pass that a pass asks for, counted from the one before; None: the file was read."""
        self.clock += after
        modified = min(BEGAN + self._written + self.wrong_by, self.time())
        found = self._reading.files(Listing({"a.md": Entry(str(self._written).encode(), modified)}), {})
        assert ("a.md" in found.known) == (found.pause is None)
        return None if found.pause is None else round(found.pause, 3)


@pytest.mark.parametrize(
    ("is_open", "passes"),
    [
        (False, [(0.05, 0.15), (0.15, None)]),
        (None, [(0.1, 0.9), (0.8, 0.1), (0.1, None)]),
        (True, [(0.0, 1.0), (59.5, 0.5), (0.5, None)]),
    ],
)
def test_a_file_is_read_soon_after_it_was_closed_and_after_a_minute_while_it_is_open(
    monkeypatch: pytest.MonkeyPatch, is_open: bool | None, passes: list[tuple[float, float | None]]
) -> None:
    scene = Scene(monkeypatch, is_open=is_open)
    for _ in range(2):
        for after, pause in passes:
            assert scene.pause(after=after) == pause
        # The next save is a new one.
        scene.write()


def test_one_that_was_open_is_read_soon_after_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, is_open=True)
    for _ in range(60):
        scene.write()
        assert scene.pause(after=1.0) == 1.0
    scene.is_open = False
    assert scene.pause(after=0.0) is None


def test_times_that_are_wrong_settle_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, is_open=False)
    scene.wrong_by = 3e9
    assert scene.pause(after=0.1) == 0.2
    assert scene.pause(after=0.2) is None
    long_ago = Scene(monkeypatch, is_open=False)
    long_ago.wrong_by = -BEGAN
    assert long_ago.pause(after=0.0) is None


@contextmanager
def writer(path: Path, script: str) -> Iterator[subprocess.Popen[bytes]]:
    """Another program that has a file open for writing."""
    program = subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, stdin=subprocess.PIPE
    )
    assert program.stdout is not None
    program.stdout.readline()
    try:
        yield program
    finally:
        program.kill()
        program.wait()
        for pipe in (program.stdin, program.stdout):
            cast("Any", pipe).close()


def test_the_system_tells_who_writes(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("text")
    folder = LocalFolder(tmp_path)
    assert folder.is_open_for_writing("a.md") is None, "before the folder was listed"
    folder.list()
    assert is_local(tmp_path)
    assert folder.is_open_for_writing("a.md") is False
    assert folder.is_open_for_writing("none.md") is None
    with writer(path, "import sys; f = open(sys.argv[1], 'a'); print(flush=True); sys.stdin.read()"):
        assert folder.is_open_for_writing("a.md") is True
    assert folder.is_open_for_writing("a.md") is False


def test_a_program_that_opens_the_file_while_one_looks_ends_nobody(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("text")
    script = "import os, sys\nprint(flush=True)\nwhile 1: os.close(os.open(sys.argv[1], os.O_WRONLY))"
    look = (
        "import os, sys, time\nfrom plugins.files.local import is_open_for_writing\n"
        "end = time.monotonic() + 0.5\nseen = set()\n"
        "while time.monotonic() < end or len(seen) < 2:\n"
        "    file = os.open(sys.argv[1], os.O_RDONLY); seen.add(is_open_for_writing(file)); os.close(file)\n"
    )
    with writer(path, script):
        looking = subprocess.run([sys.executable, "-c", look, str(path)], timeout=30, check=False)
    assert looking.returncode == 0


def test_a_file_of_a_network_folder_is_of_nobody_knows_whom() -> None:
    assert not is_local(Path("/proc"))
