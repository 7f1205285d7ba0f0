"""A drop folder in Google Drive: each file becomes a document once, whatever Drive answers and wherever memoryd is killed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import structlog

from daemon.db.pool import Database
from plugins.documents.drive_drop import DriveDrop
from plugins.documents.drive_files import DriveFiles
from plugins.documents.parsing.parser import ChildParser
from plugins.documents.ports import Parsed
from plugins.files.local import UnreadableFileError
from plugins.replica.drive.api import Api
from plugins.replica.drive.client import Client, open_account
from tests.support.drive.faults import DROP, GARBAGE, HALF, LATE, Fault
from tests.support.drive.files import DOCUMENT, OUTSIDE, ROOT, SHORTCUT, Drive
from tests.support.drive.server import DriveServer
from tests.support.rows import column

SHEET = "application/vnd.google-apps.spreadsheet"
CONTENTS = (
    "select title || ': ' || content from documents where status <> 'deleted' order by title, created_at"
)


class Killed(BaseException):
    """The daemon was killed."""


class Mortal:
    """Drive's calls, until the daemon is killed: before or after one of them."""

    def __init__(self, api: Api, steps: int) -> None:
        self._api = api
        self._left = steps

    def _step(self) -> None:
        if self._left == 0:
            raise Killed
        self._left -= 1

    def __getattr__(self, name: str) -> Any:
        work = getattr(self._api, name)
        if name not in ("get", "content", "create", "create_folder", "change"):
            return work

        def counted(*args: Any, **options: Any) -> Any:
            self._step()
            result = work(*args, **options)
            self._step()
            return result

        return counted


class PlainParser:
    """Reads text. What it cannot read it refuses."""

    async def parse(self, content: bytes, name: str) -> Parsed:
        try:
            return Parsed(content.decode(), Path(name).stem, "text", {})
        except UnicodeDecodeError:
            raise UnreadableFileError("It is no text.") from None

    async def close(self) -> None:
        """Nothing to let go of."""


class Folder:
    """A drop folder, and daemons that take files from it."""

    def __init__(self, server: DriveServer, database: Database, tmp_path: Path) -> None:
        self.server = server
        self.drive: Drive = server.drive
        self.log: list[dict[str, Any]] = []
        self.wrap: Callable[[Api], Any] = lambda api: api
        self._database = database
        self._key = server.write_key(tmp_path / "key.json")

    def make(
        self,
        *,
        folder_id: str = ROOT,
        replica: str | None = None,
        parser: Any = None,
    ) -> DriveDrop:
        """A daemon's part."""
        account = open_account(self._key)
        url = self.server.url
        client = Client(account, timeout_seconds=5.0, base_url=url, pause_seconds=0.002, rest_seconds=0.01)
        self.server.closers.append(client.close)
        api = Api(client)

        def keep(_logger: object, _name: str, event: Any) -> Any:
            self.log.append(dict(event))
            raise structlog.DropEvent

        return DriveDrop(
            DriveFiles(self.wrap(api), folder_id, leave_out=replica),
            database=self._database,
            parser=parser or PlainParser(),
            settle_seconds=0.0,
            scan_seconds=0.02,
            logger=structlog.wrap_logger(None, processors=[keep], wrapper_class=structlog.stdlib.BoundLogger),
            pauses=(0.01, 0.02),
        )

    @asynccontextmanager
    async def running(self, **options: Any) -> AsyncIterator[asyncio.Task[None]]:
        """While it runs."""
        task = asyncio.create_task(self.make(**options).run())
        try:
            yield task
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def emptied(self) -> None:
        """Returns when nothing is left to take."""
        async with asyncio.timeout(90):
            while self.left():
                await asyncio.sleep(0.01)

    async def take_all(self, **options: Any) -> None:
        """Takes what is there."""
        async with self.running(**options):
            await self.emptied()

    async def said(self, event: str) -> dict[str, Any]:
        """A line of the log, once it is there."""
        async with asyncio.timeout(90):
            while not (found := [line for line in self.log if line["event"] == event]):
                await asyncio.sleep(0.01)
        return found[-1]

    def left(self) -> list[str]:
        """What was neither taken nor rejected."""
        return [one for one in self.drive.paths() if not one.startswith(("taken/", "rejected/"))]


@pytest.fixture
def folder(database: Database, tmp_path: Path) -> Iterator[Folder]:
    """An empty drop folder, shared with the account."""
    with DriveServer() as server:
        yield Folder(server, database, tmp_path)


async def contents(connection: asyncpg.Connection) -> list[Any]:
    """Title and text of each document."""
    return list(await column(connection, CONTENTS))


async def test_files_are_read_in_the_child_process_and_moved_away(
    connection: asyncpg.Connection, folder: Folder
) -> None:
    folder.drive.add("Rules.md", "# Rules\n\nTrains only.")
    folder.drive.add("2026/May/Menu.csv", "dish,price\nsoup,4\n", kind="text/csv")
    folder.drive.add("broken.pdf", b"%PDF-1.7 and nothing more", kind="application/pdf")
    folder.drive.add(".hidden.md", "Nobody's.")
    folder.drive.add("taken/old.md", "Taken before.")
    document = folder.drive.add("Plan", kind=DOCUMENT)
    folder.drive.written[document] = "# Plan\n\nWe meet on Friday."
    folder.drive.files[document].modified = folder.drive.files[ROOT].created
    folder.drive.at("Rules.md").modified = datetime(9999, 12, 31, tzinfo=UTC)
    folder.drive.at("2026/May/Menu.csv").modified = datetime(1900, 1, 1, tzinfo=UTC)
    await folder.take_all(parser=ChildParser())
    assert folder.drive.paths() == [
        "rejected/broken.pdf", "rejected/broken.pdf.why.txt", "taken/Menu.csv", "taken/Plan", "taken/Rules.md", "taken/old.md",
    ]  # fmt: skip
    assert folder.drive.text("rejected/broken.pdf.why.txt").strip()
    rows = await connection.fetch("select title, content, source, drop_path from documents order by title")
    assert [(row["title"], row["source"]) for row in rows] == [
        ("Menu", "drop"), ("Plan", "drop"), ("Rules", "drop")
    ]  # fmt: skip
    assert rows[0]["drop_path"] == f"gdrive:{ROOT}/2026/May/Menu.csv"
    assert "We meet on Friday." in rows[1]["content"]
    wrong = "select count(*) from documents where last_modified_human not between 'epoch' and now()"
    assert await connection.fetchval(wrong) == 0


async def test_what_cannot_be_a_document_is_rejected_with_a_reason(
    connection: asyncpg.Connection, folder: Folder
) -> None:
    drive = folder.drive
    drive.add("Sheet", kind=SHEET)
    drive.add("Link", kind=SHORTCUT)
    drive.files[drive.add("Long", kind=DOCUMENT)].modified = drive.files[ROOT].created
    drive.written[drive.at("Long").id] = "x" * 10_000_001
    for name in ("Sheet", "Link"):
        drive.at(name).modified = drive.files[ROOT].created
    drive.add("picture.png", b"\x89PNG\xff\xfe")
    drive.add("no download.txt", "Secret.")
    folder.server.always = (
        f"GET content/{drive.at('no download.txt').id}",
        Fault.status(403, "cannotDownloadFile"),
    )
    big = drive.at("picture.png")
    resource = drive.resource

    def told(one: Any) -> dict[str, Any]:
        said = resource(one)
        return said | ({"size": "200000001"} if one is big else {})

    drive.resource = told  # type: ignore[method-assign]
    await folder.take_all()
    whys = {path: drive.text(path) for path in drive.paths() if path.endswith(".why.txt")}
    assert len(whys) == 5
    assert "Download it" in whys["rejected/Sheet.why.txt"]
    assert "shortcut" in whys["rejected/Link.why.txt"]
    assert "10 MB" in whys["rejected/Long.why.txt"]
    assert "200,000,001 bytes" in whys["rejected/picture.png.why.txt"]
    assert "download" in whys["rejected/no download.txt.why.txt"]
    assert folder.server.asked(f"GET content/{big.id}") == 0
    assert await contents(connection) == []


async def test_a_document_of_googles_waits_while_people_write(folder: Folder) -> None:
    folder.drive.add("Plan", kind=DOCUMENT)
    folder.drive.add("note.md", "Text.")
    async with folder.running():
        await folder.said("files_taken")
        await folder.said("drop_folder_watched")
    assert folder.left() == ["Plan"]


async def test_a_file_is_taken_once_and_a_new_one_of_its_name_is_a_new_edition(
    connection: asyncpg.Connection, folder: Folder
) -> None:
    drive = folder.drive
    drive.add("a.md", "One.")
    await folder.take_all()
    document = await connection.fetchval("select id from documents")
    drive.move("taken/a.md", "a.md")
    await folder.take_all()
    drive.add("b.md", "One.")
    await folder.take_all()
    assert await column(connection, "select drop_path from documents") == [f"gdrive:{ROOT}/b.md"]
    # Two of the same name at once: the later one stands.
    drive.add("b.md", "Two.")
    drive.add("b.md", "Three.")
    await folder.take_all()
    row = await connection.fetchrow("select id, content from documents")
    assert row is not None
    assert tuple(row) == (document, "Three.")
    assert len([path for path in drive.paths() if path.startswith("taken/")]) == 4


FAULTS = [
    Fault.status(403, "userRateLimitExceeded"), Fault.status(404), Fault.status(410), Fault.status(429, retry_after="0"),
    Fault.status(500), Fault.status(503), DROP, LATE, HALF, GARBAGE,
]  # fmt: skip


async def test_whatever_drive_answers_nothing_is_lost_or_taken_twice(
    connection: asyncpg.Connection, folder: Folder
) -> None:
    folder.drive.tells_hashes = False
    for number, fault in enumerate(FAULTS):
        folder.drive.add(f"good {number}.md", f"Text {number}.")
        folder.drive.add(f"bad {number}.bin", f"{number}".encode() + b"\xff\xfe")
        # Each kind of call fails, as often as one call is repeated and once more.
        for request in (
            f"GET files/{ROOT}",
            "GET files",
            "GET content",
            "POST upload",
            "PATCH files",
            "POST files",
        ):
            folder.server.script(request, *[fault] * 5)
        await folder.take_all()
        folder.server.heal()
    numbers = range(len(FAULTS))
    names = [f"rejected/bad {n}.bin{end}" for n in numbers for end in ("", ".why.txt")]
    assert folder.drive.paths() == sorted([*names, *(f"taken/good {n}.md" for n in numbers)])
    assert await contents(connection) == [f"good {n}: Text {n}." for n in numbers]
    assert sum(one.name in ("taken", "rejected") for one in folder.drive.files.values()) == 2


async def test_a_daemon_that_is_killed_at_any_call_loses_nothing(
    connection: asyncpg.Connection, folder: Folder
) -> None:
    folder.drive.add("good.md", "Text.")
    folder.drive.add("bad.bin", b"\xff\xfe")
    killed, step = 0, 0
    while folder.left():
        folder.wrap = lambda api, step=step: Mortal(api, step)  # type: ignore[misc]
        with suppress(Killed):
            async with folder.running() as task:
                while folder.left() and not task.done():
                    await asyncio.sleep(0.005)
                killed += task.done()
        step += 1
    assert killed > 5
    assert folder.drive.paths() == ["rejected/bad.bin", "rejected/bad.bin.why.txt", "taken/good.md"]
    assert await contents(connection) == ["good: Text."]


async def test_one_daemon_takes_and_another_goes_on_when_it_ends(
    connection: asyncpg.Connection, folder: Folder
) -> None:
    async with folder.running():
        await folder.said("drop_folder_watched")
        async with folder.running():
            await folder.said("drop_folder_busy")
        folder.drive.add("a.md", "One.")
        await folder.emptied()
    async with folder.running():
        folder.drive.add("b.md", "Two.")
        await folder.emptied()
    assert await contents(connection) == ["a: One.", "b: Two."]


async def test_a_folder_that_cannot_be_used_says_what_to_do_and_takes_nothing(
    connection: asyncpg.Connection, folder: Folder
) -> None:
    drive = folder.drive
    drive.add("inside/secret.md", "Text.")
    inside = drive.at("inside").id

    async def refused(**options: Any) -> str:
        folder.log.clear()
        async with folder.running(**{"folder_id": inside, **options}):
            line = await folder.said("drop_folder_unavailable")
        assert line["error"] == "EACCES"
        return str(line["reason"])

    assert "in the replica" in await refused(replica=ROOT)
    assert "in the replica" in await refused(replica=inside)
    assert "no such folder" in await refused(folder_id="nothing")
    drive.read_only = True
    assert "only read it" in await refused()
    drive.read_only = False
    drive.trash("inside")
    assert "in the trash" in await refused()
    drive.unshare()
    assert "Make it a member" in await refused()
    assert await contents(connection) == []


async def test_the_replica_below_the_folder_is_left_alone(
    connection: asyncpg.Connection, folder: Folder
) -> None:
    folder.drive.add("replica/one.md", "A document's file.")
    folder.drive.add("two.md", "Dropped.")
    folder.drive.add("three.md", "Outside.", under=OUTSIDE)
    async with folder.running(replica=folder.drive.at("replica").id):
        await folder.said("files_taken")
    assert await contents(connection) == ["two: Dropped."]
    assert folder.left() == ["replica/one.md"]
