"""What every store of files does for the replica: a local folder, and one in Google Drive over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from plugins.replica.folder import FolderUnavailable, StaleFile
from plugins.replica.rules.paths import IDENTITY
from tests.support.drive.server import DriveServer
from tests.support.replica.places import OnePlace, drive_folder, local_location

REPLICA = UUID("00000000-0000-0000-0000-00000000000a")
USER = "users/00000000-0000-0000-0000-0000000000aa/documents/mail"


@pytest.fixture(params=["local", "drive", "a person's drive in small pages without hashes"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OnePlace]:
    """A folder that is the replica."""
    if request.param == "local":
        made = local_location(tmp_path / "replica")
        made.folder.identify(REPLICA)
        yield made
        return
    with DriveServer(page_size=2 if "small" in request.param else 1000) as server:
        server.drive.tells_hashes = "without" not in request.param
        server.drive.shared_drive = "a-shared-drive" if request.param == "drive" else None
        folder = drive_folder(server, tmp_path)
        folder.identify(REPLICA)
        yield OnePlace(folder, server.drive)
        folder.close()


def digest(text: str) -> bytes:
    """The hash of a file's bytes."""
    return sha256(text.encode()).digest()


def listed(place: OnePlace) -> dict[str, str]:
    """All files, with what they say."""
    return {path: place.folder.read(path).decode() for path in place.folder.list().files}


def test_it_is_the_replica_of_one_database(place: OnePlace) -> None:
    place.folder.check(REPLICA)
    place.folder.identify(REPLICA)
    with pytest.raises(FolderUnavailable, match="another database"):
        place.folder.check(uuid4())
    with pytest.raises(FolderUnavailable, match="another database"):
        place.folder.identify(uuid4())
    assert place.folder.list().files == {}


def test_a_mark_that_is_damaged_is_nobodys(place: OnePlace) -> None:
    for content in ("", "[]", '"x"', "{}", "\0", json.dumps({"replica": None})):
        place.hands.write(IDENTITY, content)
        place.folder.list()
        with pytest.raises(FolderUnavailable):
            place.folder.check(REPLICA)


def test_a_mark_that_is_gone_makes_the_folder_unavailable(place: OnePlace) -> None:
    place.hands.trash(IDENTITY)
    place.folder.list()
    with pytest.raises(FolderUnavailable, match="--rewrite"):
        place.folder.check(REPLICA)


def test_files_are_written_read_moved_and_removed(place: OnePlace) -> None:
    folder = place.folder
    folder.write("documents/mail/One.md", b"first", replaces=None)
    folder.write("Two.md", b"two", replaces=None)
    assert listed(place) == {"documents/mail/One.md": "first", "Two.md": "two"}
    folder.write("documents/mail/One.md", b"second", replaces=digest("first"))
    folder.move("documents/mail/One.md", "other/Three.md", replaces=digest("second"))
    assert listed(place) == {"other/Three.md": "second", "Two.md": "two"}
    folder.remove("Two.md", replaces=digest("two"))
    folder.remove("other/Three.md", replaces=digest("second"), for_good=True)
    assert place.hands.paths() == []
    assert folder.list().files == {}
    assert {"documents", "documents/mail", "other"} <= folder.list().folders


def test_what_a_person_does_is_seen(place: OnePlace) -> None:
    place.hands.add("a/b/one.md", "one")
    place.hands.add("two.md", "two")
    assert listed(place) == {"a/b/one.md": "one", "two.md": "two"}
    before = place.folder.list().files["two.md"].signature
    place.hands.write("two.md", "changed")
    place.hands.move("a/b", "b")
    assert listed(place) == {"b/one.md": "one", "two.md": "changed"}
    assert place.folder.list().files["two.md"].signature != before
    place.hands.move("two.md", "b/three.md")
    place.hands.trash("b/one.md")
    assert listed(place) == {"b/three.md": "changed"}
    place.hands.trash("b")
    place.hands.trash("a")
    assert place.folder.list().folders == set()


def test_a_file_that_is_another_one_by_now_is_left_alone(place: OnePlace) -> None:
    folder = place.folder
    for name in ("One.md", "Two.md", "Three.md"):
        folder.write(name, b"mine", replaces=None)
    folder.list()
    place.hands.write("One.md", "a person's")
    for replaces in (digest("mine"), digest("never there")):
        with pytest.raises(StaleFile):
            folder.write("One.md", b"new", replaces=replaces)
        with pytest.raises(StaleFile):
            folder.remove("One.md", replaces=replaces)
        with pytest.raises(StaleFile):
            folder.move("One.md", "Four.md", replaces=replaces)
    with pytest.raises(StaleFile):
        folder.write("Two.md", b"new", replaces=None)
    with pytest.raises(StaleFile):
        folder.move("Two.md", "Three.md", replaces=digest("mine"))
    place.hands.trash("Two.md")
    for name in ("Two.md", "Five.md"):
        with pytest.raises(StaleFile):
            folder.write(name, b"new", replaces=digest("mine"))
        with pytest.raises(StaleFile):
            folder.remove(name, replaces=digest("mine"))
    assert listed(place) == {"One.md": "a person's", "Three.md": "mine"}
    with pytest.raises(StaleFile):
        folder.write("gone/One.md", b"new", replaces=digest("mine"))
    assert folder.list().folders == set()


def test_hidden_files_are_not_listed(place: OnePlace) -> None:
    place.hands.add(".hidden.md", "x")
    place.hands.add(".folder/one.md", "x")
    place.hands.add("notes.txt", "x")
    listing = place.folder.list()
    assert set(listing.files) == {"notes.txt"}
    assert listing.folders == set()


def test_a_users_folder_goes_with_its_last_file(place: OnePlace) -> None:
    folder = place.folder
    for name in ("One.md", "Two.md"):
        folder.write(f"{USER}/{name}", b"x", replaces=None)
    folder.remove(f"{USER}/One.md", replaces=digest("x"))
    assert USER in folder.list().folders
    place.hands.add(f"{USER}/.kept", "a person's")
    folder.remove(f"{USER}/Two.md", replaces=digest("x"))
    assert USER in folder.list().folders
    folder.write(f"{USER}/Three.md", b"x", replaces=None)
    place.hands.trash(f"{USER}/.kept")
    folder.list()
    folder.move(f"{USER}/Three.md", "documents/Three.md", replaces=digest("x"))
    assert folder.list().folders <= {"users", "documents"}


def test_nothing_outside_is_reached(place: OnePlace) -> None:
    for path in ("../one.md", "/etc/passwd", "a/../../one.md", ""):
        with pytest.raises(OSError, match=r"."):
            place.folder.read(path)
        with pytest.raises(OSError, match=r"."):
            place.folder.write(path, b"x", replaces=None)


def test_what_is_not_there_is_an_error(place: OnePlace) -> None:
    with pytest.raises(FileNotFoundError):
        place.folder.read("none.md")
    place.hands.add("file.md", "x")
    place.folder.list()
    with pytest.raises(OSError, match=r"."):
        place.folder.write("file.md/inside.md", b"x", replaces=None)


def test_strange_names_are_kept(place: OnePlace) -> None:
    names = ["it's.md", "a\\b.md", "a\nb.md", "é.md", "é.md".encode().decode(), "(x) [y] & z.md", "日本.md"]
    for name in set(names):
        place.folder.write(f"in {name}/{name}", name.encode(), replaces=None)
    assert listed(place) == {f"in {name}/{name}": name for name in set(names)}
