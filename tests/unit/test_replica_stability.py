"""When a file that changed may be read: not while a program writes it, soon after it was closed, and at last in any case."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from daemon.open_files import is_local
from daemon.replica.files.stability import Stability
from daemon.replica.folder import SIGNATURE_BYTES, Entry, Folder
from daemon.replica.local_folder import LocalFolder

BEGAN = 1_800_000_000.0


class Scene:
    """A file, who has it open, and a clock that only the test moves."""

    def __init__(self, *, is_open: bool | None) -> None:
        self.is_open = is_open
        self.clock = 0.0
        self.wrong_by = 0.0
        """So much the file's time is ahead of the clock."""
        self._written = 0.0
        self._settling = Stability(cast("Folder", self), settle_seconds=1.0)

    def is_open_for_writing(self, _path: str) -> bool | None:
        """As a folder tells it."""
        return self.is_open

    def write(self) -> None:
        """The file changes."""
        self._written = self.clock

    def is_settled(self, *, after: float) -> bool:
        """A pass, so many seconds after the one before."""
        self.clock += after
        now = BEGAN + self.clock
        modified = min(BEGAN + self._written + self.wrong_by, now)
        entry = Entry(int(self._written * 1000).to_bytes(SIGNATURE_BYTES, "big"), modified)
        self._settling.begin()
        return self._settling.is_settled("a.md", entry, now=now, clock=self.clock)

    @property
    def is_held(self) -> bool:
        """Whether a person is told of it."""
        return self._settling.is_held("a.md", clock=self.clock)

    @property
    def pause(self) -> float:
        """When the next pass is due."""
        return round(self._settling.pause, 3)


def test_a_file_that_a_program_writes_for_long_is_told_of_until_it_is_read() -> None:
    scene = Scene(is_open=True)
    assert not scene.is_settled(after=0.0)
    for _ in range(2):
        scene.write()
        assert not scene.is_settled(after=29.0)
        assert not scene.is_held
    scene.write()
    assert not scene.is_settled(after=2.0)
    assert scene.is_held
    scene.is_open = False
    scene.is_settled(after=0.5)
    assert not scene.is_held


def test_a_file_that_was_closed_settles_soon() -> None:
    scene = Scene(is_open=False)
    assert not scene.is_settled(after=0.05)
    assert scene.pause == 0.15
    assert scene.is_settled(after=0.15)
    # The next save is a new one.
    scene.write()
    assert not scene.is_settled(after=0.05)
    assert scene.is_settled(after=0.15)


def test_one_that_is_written_in_steps_has_to_stay_the_same_for_longer() -> None:
    scene = Scene(is_open=False)
    for _ in range(100):
        scene.write()
        assert not scene.is_settled(after=0.1)
    assert not scene.is_settled(after=0.8)
    assert scene.is_settled(after=0.1)


def test_where_nobody_knows_who_has_it_open_it_settles_in_a_second() -> None:
    scene = Scene(is_open=None)
    assert not scene.is_settled(after=0.1)
    assert not scene.is_settled(after=0.8)
    assert scene.is_settled(after=0.1)


def test_one_that_is_open_waits_for_a_minute_and_one_that_is_never_closed_not_for_ever() -> None:
    scene = Scene(is_open=True)
    assert not scene.is_settled(after=0.0)
    assert not scene.is_settled(after=59.0)
    assert scene.pause == 1.0
    assert scene.is_settled(after=1.0)
    for _ in range(60):
        scene.write()
        assert not scene.is_settled(after=10.0)
    scene.write()
    assert scene.is_settled(after=10.0)


def test_one_that_was_open_settles_soon_after_it_is_closed() -> None:
    scene = Scene(is_open=True)
    for _ in range(60):
        scene.write()
        assert not scene.is_settled(after=1.0)
    scene.is_open = False
    assert scene.is_settled(after=0.0)


def test_times_that_are_wrong_settle_as_well() -> None:
    scene = Scene(is_open=False)
    scene.wrong_by = 3e9
    assert not scene.is_settled(after=0.1)
    assert scene.is_settled(after=0.2)
    assert scene.is_settled(after=0.0)
    long_ago = Scene(is_open=False)
    long_ago.wrong_by = -BEGAN
    assert long_ago.is_settled(after=0.0)


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
        "import os, sys, time\nfrom daemon.open_files import is_open_for_writing\n"
        "end = time.monotonic() + 0.5\nseen = set()\n"
        "while time.monotonic() < end or len(seen) < 2:\n"
        "    file = os.open(sys.argv[1], os.O_RDONLY); seen.add(is_open_for_writing(file)); os.close(file)\n"
    )
    with writer(path, script):
        looking = subprocess.run([sys.executable, "-c", look, str(path)], timeout=30, check=False)
    assert looking.returncode == 0


def test_a_file_of_a_network_folder_is_of_nobody_knows_whom() -> None:
    assert not is_local(Path("/proc"))
