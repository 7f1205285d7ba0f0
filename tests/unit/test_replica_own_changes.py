"""What memoryd writes into the replica is no news; whatever a person does to the same file is."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

from daemon.replica.local_folder import LocalFolder
from daemon.replica.watch.own_changes import MAX_PATHS, OwnChanges


def digest(text: bytes) -> bytes:
    """The hash of a file's bytes."""
    return sha256(text).digest()


def test_a_file_is_memoryds_own_work_until_a_person_touches_it(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    path = tmp_path / "documents/a.md"
    assert not folder.is_own_work("documents/a.md")
    folder.write("documents/a.md", b"One.", replaces=None)
    assert folder.is_own_work("documents/a.md")
    folder.write("documents/a.md", b"Two.", replaces=digest(b"One."))
    assert folder.is_own_work("documents/a.md")
    path.write_bytes(b"Mine")
    os.utime(path, ns=(1, path.stat().st_mtime_ns + 1))
    assert not folder.is_own_work("documents/a.md")
    folder.write("documents/a.md", b"Three.", replaces=digest(b"Mine"))
    path.unlink()
    assert not folder.is_own_work("documents/a.md"), "a person deleted it"
    folder.write("documents/a.md", b"Four.", replaces=None)
    folder.remove("documents/a.md", replaces=digest(b"Four."))
    assert folder.is_own_work("documents/a.md")
    path.write_bytes(b"Four.")
    assert not folder.is_own_work("documents/a.md"), "a person put it back"
    for strange in ("..", "../etc/passwd", "/etc/passwd", ".", ""):
        assert not folder.is_own_work(strange)


def test_of_much_work_little_is_remembered() -> None:
    work = OwnChanges()
    for number in range(10 * MAX_PATHS + 1):
        work.remember(f"{number}.md", (1, 2, 3))
    assert work.is_as_left(f"{10 * MAX_PATHS}.md", (1, 2, 3))
    assert "0.md" not in work
