"""Files of the drop folder while they are read: no process can be started for it, or they change meanwhile."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from shutil import which

import asyncpg
import pytest
from structlog.testing import capture_logs

from daemon.db.pool import Database
from daemon.logs import get_logger
from plugins.documents.drop import DropFolder
from plugins.documents.ports import Parsed, Parser
from plugins.files.local import UnreadableFileError
from tests.support.waiting import until


class TiredParser:
    """Has no memory for a process the first time."""

    def __init__(self) -> None:
        self._asked = 0

    async def parse(self, content: bytes, name: str) -> Parsed:
        """See `Parser`."""
        self._asked += 1
        if self._asked == 1:
            raise OSError(errno.ENOMEM, "Cannot allocate memory")
        return Parsed(content.decode(), name, "text", {})

    async def close(self) -> None:
        """See `Parser`."""


class SurprisedParser(TiredParser):
    """Reads one file while a person saves another text in its place, or takes it away."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    async def parse(self, content: bytes, name: str) -> Parsed:
        """See `Parser`."""
        if b"first" in content:
            await asyncio.to_thread(self._path.write_text, "The second text.")
        if b"gone" in content:
            await asyncio.to_thread(self._path.unlink)
            raise UnreadableFileError("It cannot be opened.")
        return Parsed(content.decode(), name, "text", {})


@asynccontextmanager
async def dropping(folder: Path, database: Database, parser: Parser) -> AsyncIterator[None]:
    """The part of a daemon that takes files is at work."""
    drop = DropFolder(
        folder, database=database, parser=parser, settle_seconds=0, scan_seconds=0.1, logger=get_logger()
    )
    running = asyncio.create_task(drop.run())
    try:
        yield
    finally:
        running.cancel()
        await asyncio.wait([running])


async def test_a_file_that_is_saved_again_while_it_is_read_is_taken_again(
    connection: asyncpg.Connection, database: Database, tmp_path: Path
) -> None:
    path = tmp_path / "owls.txt"
    path.write_text("The first text.")
    async with dropping(tmp_path, database, SurprisedParser(path)):
        assert await until(connection, "select count(*) = 1 from documents where content like '%second%'")
        # What a person takes back leaves no note.
        path.write_text("It is gone.")
        (tmp_path / "last.txt").write_text("The last text.")
        assert await until(connection, "select count(*) = 1 from documents where content like '%last%'")
    assert list((tmp_path / "rejected").iterdir()) == []


async def test_a_file_that_no_process_can_be_started_for_waits_and_the_log_says_why(
    connection: asyncpg.Connection, database: Database, tmp_path: Path
) -> None:
    (tmp_path / "owls.txt").write_text("Owls hunt at night.")
    with capture_logs() as logs:
        async with dropping(tmp_path, database, TiredParser()):
            assert await until(connection, "select count(*) = 1 from documents")
    told = [(one["event"], one.get("error")) for one in logs if one["log_level"] == "warning"]
    assert told == [("drop_waits_for_parser", "ENOMEM")]


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Nobody may move what stands in the folder of this file, nor can root."""
    if os.geteuid():
        path.parent.chmod(0o555)
    elif not which("chattr") or subprocess.run(["chattr", "+i", path.parent], check=False).returncode:
        pytest.skip("root may move any file of this file system")
    try:
        yield
    finally:
        if os.geteuid():
            path.parent.chmod(0o755)
        else:
            subprocess.run(["chattr", "-i", path.parent], check=True)


class ChoosyParser(TiredParser):
    """Cannot read what says "noise"."""

    async def parse(self, content: bytes, name: str) -> Parsed:
        """See `Parser`."""
        if b"noise" in content:
            raise UnreadableFileError("It is noise.")
        return Parsed(content.decode(), name, "text", {})


@pytest.mark.parametrize(("text", "folder"), [("Owls hunt.", "taken"), ("noise", "rejected")])
async def test_a_file_that_may_not_be_moved_stays_and_holds_up_no_other(
    text: str, folder: str, connection: asyncpg.Connection, database: Database, tmp_path: Path
) -> None:
    stuck, other = tmp_path / "a team" / "owls.txt", tmp_path / "hawks.txt"
    stuck.parent.mkdir()
    stuck.write_text(text)
    with capture_logs() as logs:
        async with dropping(tmp_path, database, ChoosyParser()):
            with held(stuck):
                other.write_text("Hawks hunt by day.")
                assert await until(
                    connection, "select count(*) = 1 from documents where content like 'Hawks%'"
                )
                await moved(tmp_path / "taken" / other.name)
                other.write_text("Hawks sleep at night.")
                await moved(tmp_path / "taken" / "hawks (2).txt")
                assert stuck.read_text() == text
                assert list((tmp_path / "rejected").iterdir()) == []
            # Saved again, it goes where it belongs.
            stuck.write_text(f"{text} Still.")
            await moved(tmp_path / folder / stuck.name)
    told = [one for one in logs if one["log_level"] == "warning"]
    assert [(one["event"], one["error"] in ("EPERM", "EACCES")) for one in told] == [
        ("dropped_file_stays", True)
    ]


async def test_what_is_no_file_and_may_not_be_moved_holds_up_no_other(
    connection: asyncpg.Connection, database: Database, tmp_path: Path
) -> None:
    pipe = tmp_path / "a team" / "pipe"
    pipe.parent.mkdir()
    os.mkfifo(pipe)
    with held(pipe):
        async with dropping(tmp_path, database, ChoosyParser()):
            (tmp_path / "hawks.txt").write_text("Hawks hunt by day.")
            await moved(tmp_path / "taken" / "hawks.txt")
            (tmp_path / "owls.txt").write_text("Owls hunt at night.")
            await moved(tmp_path / "taken" / "owls.txt")
            assert list((tmp_path / "rejected").iterdir()) == []


async def moved(path: Path) -> None:
    """Waits for a file: it is moved after its row is written, and nothing else tells it."""
    async with asyncio.timeout(60):
        while not await asyncio.to_thread(path.exists):
            await asyncio.sleep(0.01)
