"""What may go wrong on the way to Google Drive: nothing counts as deleted, nothing is written twice, no call lasts for ever."""

from __future__ import annotations

import errno
import json
import threading
import time
from hashlib import sha256
from pathlib import Path
from uuid import UUID

import pytest

from plugins.replica.drive.client import open_account
from plugins.replica.drive.folder import DriveFolder
from plugins.replica.folder import FolderUnavailable
from tests.support.drive.calls import EMAIL
from tests.support.drive.faults import DROP, GARBAGE, HALF, HANG, LATE, Fault
from tests.support.drive.server import DriveServer
from tests.support.replica.places import drive_folder

REPLICA = UUID("00000000-0000-0000-0000-00000000000a")
LIMITED = Fault.status(403, "userRateLimitExceeded")
PASSING = [
    LIMITED,
    Fault.status(403, "rateLimitExceeded"),
    Fault.status(429, retry_after="0"),
    Fault.status(500),
    Fault.status(503),
    DROP,
    HALF,
    GARBAGE,
]


@pytest.fixture
def folder(drive_server: DriveServer, tmp_path: Path) -> DriveFolder:
    """A folder that is the replica, with one file."""
    made = drive_folder(drive_server, tmp_path)
    made.identify(REPLICA)
    drive_server.drive.add("One.md", "one")
    made.list()
    return made


def digest(text: str) -> bytes:
    """The hash of a file's bytes."""
    return sha256(text.encode()).digest()


def test_what_passes_is_tried_again(drive_server: DriveServer, folder: DriveFolder) -> None:
    for number, fault in enumerate(PASSING):
        drive_server.script("GET changes", fault)
        drive_server.drive.add(f"{number}.md", "x")
        assert f"{number}.md" in folder.list().files
        drive_server.script("GET content", fault)
        assert folder.read(f"{number}.md") == b"x", fault
    assert len(folder.list().files) == len(PASSING) + 1


def test_what_lasts_makes_the_folder_unavailable_and_deletes_nothing(
    drive_server: DriveServer, tmp_path: Path
) -> None:
    drive_server.drive.add("One.md", "one")
    for fault in (LIMITED, Fault.status(500), GARBAGE, DROP):
        folder = drive_folder(drive_server, tmp_path)
        folder.list()
        drive_server.always = ("GET changes", fault)
        with pytest.raises(FolderUnavailable, match="tried again"):
            folder.list()
        drive_server.heal()


def test_while_drive_wants_a_pause_it_is_not_asked(drive_server: DriveServer, folder: DriveFolder) -> None:
    drive_server.forget_requests()
    drive_server.script("GET changes", Fault.status(429, retry_after="3600"))
    for _ in range(3):
        with pytest.raises(FolderUnavailable, match="limits"):
            folder.list()
    with pytest.raises(OSError, match="limits"):
        folder.read("One.md")
    assert drive_server.requests == ["GET changes"]


def test_a_server_that_cannot_be_reached(drive_server: DriveServer, folder: DriveFolder) -> None:
    drive_server.stop()
    with pytest.raises(FolderUnavailable, match="no connection"):
        folder.list()
    with pytest.raises(OSError, match="no connection"):
        folder.write("Two.md", b"x", replaces=None)
    drive_server.start()


def test_a_call_that_hangs_ends(drive_server: DriveServer, tmp_path: Path) -> None:
    folder = drive_folder(drive_server, tmp_path, timeout_seconds=0.3)
    drive_server.script("POST token", HANG)
    began = time.monotonic()
    with pytest.raises(FolderUnavailable, match=r"no connection|does not answer"):
        folder.list()
    folder = drive_folder(drive_server, tmp_path, timeout_seconds=0.3)
    folder.identify(REPLICA)
    drive_server.script("GET changes", HANG)
    with pytest.raises(FolderUnavailable, match="does not answer"):
        folder.list()
    assert time.monotonic() - began < 10
    drive_server.heal()


def test_a_daemon_that_stops_ends_a_call_at_once(drive_server: DriveServer, folder: DriveFolder) -> None:
    drive_server.script("GET changes", HANG)
    failed: list[BaseException] = []

    def work() -> None:
        try:
            folder.list()
        except FolderUnavailable as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    assert drive_server.hanging.wait(20)
    folder.close()
    thread.join(5)
    assert failed
    with pytest.raises(FolderUnavailable, match="stops"):
        folder.list()
    drive_server.heal()


def test_an_answer_that_is_lost_makes_no_second_file(drive_server: DriveServer, folder: DriveFolder) -> None:
    for request in ("POST upload", "POST files"):
        drive_server.script(request, LATE)
    folder.write("a/Two.md", b"two", replaces=None)
    assert drive_server.drive.paths() == ["One.md", "a/Two.md"]
    # Also when nothing came back at all, and it is tried in the next pass.
    drive_server.script("POST upload", LATE)
    drive_server.always = ("POST upload", DROP)
    with pytest.raises(OSError, match="no connection"):
        folder.write("a/Three.md", b"three", replaces=None)
    drive_server.heal()
    folder.write("a/Three.md", b"three", replaces=None)
    assert drive_server.drive.paths() == ["One.md", "a/Three.md", "a/Two.md"]
    assert set(folder.list().files) == {"One.md", "a/Three.md", "a/Two.md"}


def test_a_file_that_a_person_saves_while_it_is_tried_again_is_theirs(
    drive_server: DriveServer, folder: DriveFolder
) -> None:
    drive = drive_server.drive
    drive_server.script("PATCH upload", Fault.status(503))
    folder.write("One.md", b"new", replaces=digest("one"))
    assert drive.text("One.md") == "new"
    folder.list()
    drive_server.script("PATCH upload", *[Fault.status(503)] * 2)
    with pytest.raises(OSError, match="503"):
        folder.write("One.md", b"newer", replaces=digest("new"))
    assert drive.text("One.md") == "new"


def test_a_long_upload_is_sent_in_parts(drive_server: DriveServer, tmp_path: Path) -> None:
    folder = drive_folder(drive_server, tmp_path, resumable_bytes=1000, part_bytes=700)
    folder.identify(REPLICA)
    content, replaces = bytes(number % 251 for number in range(3000)), None
    for _ in range(2):
        drive_server.script("PUT session", Fault.status(500))
        folder.write("Long.md", content, replaces=replaces)
        content, replaces = content[::-1], sha256(content).digest()
        assert drive_server.drive.at("Long.md").content == content[::-1]
    assert drive_server.drive.paths() == ["Long.md"]
    assert folder.list().files["Long.md"].hash == replaces


def test_a_long_upload_that_drive_forgets_leaves_no_file(drive_server: DriveServer, tmp_path: Path) -> None:
    folder = drive_folder(drive_server, tmp_path, resumable_bytes=1000, part_bytes=700)
    folder.identify(REPLICA)
    drive_server.script("PUT session", *[Fault.status(410)] * 9)
    with pytest.raises(OSError, match="too old"):
        folder.write("Long.md", b"x" * 3000, replaces=None)
    assert drive_server.drive.paths() == []
    drive_server.heal()
    folder.write("Long.md", b"x" * 3000, replaces=None)
    assert drive_server.drive.paths() == ["Long.md"]


@pytest.mark.parametrize("reason", ["storageQuotaExceeded", "teamDriveFileLimitExceeded"])
def test_a_full_drive_is_a_full_disk(drive_server: DriveServer, folder: DriveFolder, reason: str) -> None:
    drive_server.script("POST upload", Fault.status(403, reason))
    with pytest.raises(OSError, match="shared drive") as error:
        folder.write("Two.md", b"x", replaces=None)
    assert error.value.errno == errno.EDQUOT
    assert folder.read("One.md") == b"one"


def test_a_file_that_cannot_be_found_though_it_is_listed_is_not_deleted(
    drive_server: DriveServer, folder: DriveFolder
) -> None:
    drive_server.script("GET content", Fault.status(404))
    with pytest.raises(OSError, match="no such file") as error:
        folder.read("One.md")
    assert not isinstance(error.value, FileNotFoundError)
    drive_server.forget_requests()
    folder.check(REPLICA)
    assert drive_server.asked("GET files") > 0  # the folder is listed anew
    assert set(folder.list().files) == {"One.md"}


def test_the_account_signs_in_again(drive_server: DriveServer, folder: DriveFolder) -> None:
    drive_server.expire_sign_ins()
    folder.list()
    assert drive_server.asked("POST token") == 2


def test_a_key_that_is_refused_says_what_to_do(drive_server: DriveServer, tmp_path: Path) -> None:
    drive_server.refuses_key = True
    with pytest.raises(FolderUnavailable, match="MEMORYD_GDRIVE_KEY_FILE"):
        drive_folder(drive_server, tmp_path).identify(REPLICA)
    drive_server.refuses_key = False
    drive_server.script("GET files", Fault.status(403, "accessNotConfigured"))
    with pytest.raises(FolderUnavailable, match="not enabled"):
        drive_folder(drive_server, tmp_path).identify(REPLICA)
    drive_server.script("POST token", Fault.status(503))
    drive_folder(drive_server, tmp_path).identify(REPLICA)


def test_a_key_file_that_is_missing_or_another_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"MEMORYD_GDRIVE_KEY_FILE is not set.*docs/replica.md"):
        open_account(None)
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        open_account(tmp_path / "none.json")
    path = tmp_path / "key.json"
    secret = "-----BEGIN PRIVATE KEY-----\nSECRET\n-----END PRIVATE KEY-----\n"
    for said in (
        b"",
        b"\xff",
        b"[]",
        b"{}",
        json.dumps({"client_email": EMAIL, "private_key": secret}).encode(),
    ):
        path.write_bytes(said)
        with pytest.raises(ValueError, match="not the key of a service account") as error:
            open_account(path)
        assert "SECRET" not in str(error.value)
