"""The replica in Google Drive with a real daemon, over HTTP to a server that speaks Drive v3."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.support.drive.calls import EMAIL
from tests.support.drive.faults import HANG, ODD
from tests.support.drive.files import OUTSIDE, ROOT
from tests.support.drive.server import DriveServer
from tests.support.processes.commands import Commands
from tests.support.processes.daemons import Daemons
from tests.support.rows import insert
from tests.support.waiting import until


@pytest.fixture
def drive_server() -> Iterator[DriveServer]:
    """An empty folder in Drive, shared with the account."""
    with DriveServer() as server:
        yield server


@pytest.fixture
def settings(drive_server: DriveServer, tmp_path: Path) -> dict[str, Any]:
    """What a daemon must be told."""
    return {
        "replica": f"gdrive:{ROOT}",
        "gdrive_key_file": drive_server.write_key(tmp_path / "key.json"),
        "gdrive_url": drive_server.url,
        "gdrive_poll_seconds": 1,
        "drive_young_seconds": 1.0,
    }


async def appears(server: DriveServer, path: str, *, with_text: str) -> str:
    """The text of a file, once it contains this."""
    async with asyncio.timeout(90):
        while path not in server.drive.paths() or with_text not in server.drive.text(path):
            await asyncio.sleep(0.01)
    return server.drive.text(path)


async def test_a_document_is_a_file_in_drive_that_people_edit_and_delete(
    connection: asyncpg.Connection,
    daemons: Daemons,
    memoryd: Commands,
    drive_server: DriveServer,
    settings: dict[str, Any],
) -> None:
    drive = drive_server.drive
    daemon = await daemons.start(**settings)
    for title in ("Travel rules", "Menu"):
        await insert(connection, "documents", {"title": title, "source": "upload", "content": "Fly economy."})
    written = await appears(drive_server, "documents/upload/Travel rules.md", with_text="Fly economy.")
    drive.write("documents/upload/Travel rules.md", written.replace("economy", "business"))
    assert await until(
        connection,
        "select count(*) = 1 from memory_chunks c join documents d on d.id = c.document_id "
        "where c.chunk_text = 'Fly business.' and d.last_modified_human is not null",
    )
    drive.add("note.md", "Bring a coat.")
    added = await until(connection, "select id from documents where content = 'Bring a coat.'")
    written = await appears(drive_server, "note.md", with_text=f"id: {added}")
    hashed = sha256(written.encode()).digest()
    assert await until(connection, "select true from memoryd.replica_files where file_hash = $1", hashed)

    # A daemon that is started again does not fetch what it knows.
    await daemon.stop()
    drive.move("documents/upload/Menu.md", "elsewhere/Menu.md")
    drive.trash("note.md")
    drive_server.forget_requests()
    daemon = await daemons.start(**settings)
    assert await until(connection, "select status = 'deleted' from documents where title = 'note'")
    assert await until(
        connection, "select replica_path = 'elsewhere/Menu.md' from documents where title = 'Menu'"
    )
    fetched = [
        drive.files[one.rpartition("/")[2]].name
        for one in drive_server.requests
        if one.startswith("GET content")
    ]
    assert "Travel rules.md" not in fetched

    # A folder beside it takes files.
    await daemon.stop()
    drive.add("dropped.md", "Leave the key at the desk.", under=OUTSIDE)
    daemon = await daemons.start(**settings, drop_folder=f"gdrive:{OUTSIDE}", drop_settle_seconds=0)
    await appears(drive_server, "documents/drop/dropped.md", with_text="Leave the key")
    await daemon.event("files_taken")
    assert [path for path, _ in drive.tree(OUTSIDE)] == ["taken", "taken/dropped.md"]

    # The folder is not shared any more.
    drive.unshare()
    line = await daemon.event("replica_unavailable")
    assert EMAIL in line["reason"]
    found = {c["name"]: c for c in (await memoryd("doctor", "--json", **settings)).json}["replica"]
    assert found["verdict"] == "problem"
    assert EMAIL in found["advice"]
    drive.share()
    await daemon.event("replica_available")
    assert await connection.fetchval("select count(*) from documents where status = 'deleted'") == 1

    # It stops while Drive does not answer.
    drive_server.script("GET changes", HANG)
    assert await asyncio.to_thread(drive_server.hanging.wait, 30)
    assert await asyncio.wait_for(daemon.stop(), 20) == 0
    assert daemon.events("replica_failed") == []
    assert "Fly" not in daemon.text()


@pytest.mark.parametrize(("name", "value", "said"), [
    ("gdrive_key_file", "", "MEMORYD_GDRIVE_KEY_FILE is not set"),
    ("drop_folder", "gdrive:a/b", "MEMORYD_DROP_FOLDER is 'gdrive:a/b'"),
])  # fmt: skip
async def test_a_start_with_settings_that_cannot_be_says_what_to_do(
    daemons: Daemons, settings: dict[str, Any], name: str, value: str, said: str
) -> None:
    daemon = await daemons.start(wait=False, **(settings | {name: value}))
    assert await daemon.process.wait() == 1
    await daemon.stop()
    assert said in daemon.text()


async def test_parts_that_fail_are_started_again_and_the_doctor_says_so(
    connection: asyncpg.Connection,
    daemons: Daemons,
    memoryd: Commands,
    drive_server: DriveServer,
    settings: dict[str, Any],
) -> None:
    drive_server.drive.add("dropped.md", "Leave the key at the desk.", under=OUTSIDE)
    drive_server.always = ("GET", ODD)
    daemon = await daemons.start(**settings, drop_folder=f"gdrive:{OUTSIDE}", drop_settle_seconds=0)
    first = {
        part: await daemon.event("part_failed", part=part, timeout=90) for part in ("replica", "drop folder")
    }
    assert {line["error"] for line in first.values()} == {"TypeError"}
    assert await until(connection, "select count(*) = 2 from memoryd.daemons, jsonb_object_keys(failing)")
    found = {c["name"]: c for c in (await memoryd("doctor", "--json", **settings)).json}["parts"]
    assert found["verdict"] == "problem"
    assert "drop folder" in found["found"]
    assert "The drop folder of" in (await memoryd("status")).out
    assert first["replica"]["again_seconds"] == 1.0
    await daemon.event("part_failed", part="replica", again_seconds=2.0, timeout=90)
    drive_server.heal()
    await appears(drive_server, "documents/drop/dropped.md", with_text="Leave the key")
    assert await daemon.stop() == 0
