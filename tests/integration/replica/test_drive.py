"""What is peculiar to a folder in Google Drive: ids instead of paths, changes by page token, a trash, documents of Google's."""

from __future__ import annotations

import errno
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from uuid import UUID

import pytest

from plugins.replica.drive.folder import DriveFolder
from plugins.replica.folder import FolderUnavailable
from tests.support.drive.calls import EMAIL
from tests.support.drive.faults import Fault
from tests.support.drive.files import DOCUMENT, OUTSIDE, ROOT, SHORTCUT
from tests.support.drive.server import DriveServer
from tests.support.replica.places import drive_folder

REPLICA = UUID("00000000-0000-0000-0000-00000000000a")


@pytest.fixture
def folder(drive_server: DriveServer, tmp_path: Path) -> DriveFolder:
    """A folder that is the replica."""
    made = drive_folder(drive_server, tmp_path)
    made.identify(REPLICA)
    return made


def paths(folder: DriveFolder) -> list[str]:
    """All files."""
    return sorted(folder.list().files)


def digest(text: str) -> bytes:
    """The hash of a file's bytes."""
    return sha256(text.encode()).digest()


def test_at_rest_one_call_asks_for_changes(drive_server: DriveServer, folder: DriveFolder) -> None:
    for number in range(5):
        drive_server.drive.add(f"a/{number}.md", "x")
    folder.list()
    drive_server.forget_requests()
    assert not folder.changed()
    assert drive_server.requests == ["GET changes"]
    folder.check(REPLICA)
    folder.list()
    folder.check(REPLICA)
    assert drive_server.requests == ["GET changes"] * 2
    drive_server.drive.write("a/1.md", "y")
    assert folder.changed()
    folder.list()
    assert not folder.changed()


def test_what_memoryd_wrote_itself_is_no_news_to_it(drive_server: DriveServer, folder: DriveFolder) -> None:
    folder.write("One.md", b"x", replaces=None)
    before = folder.list()
    assert not folder.changed()
    assert folder.list() is before


def test_in_its_first_minute_a_folder_is_listed_again_and_may_lack_files(
    drive_server: DriveServer, folder: DriveFolder, tmp_path: Path
) -> None:
    folder.write("One.md", b"x", replaces=None)
    drive_server.drive.not_listed_yet = {drive_server.drive.at("One.md").id}
    again = drive_folder(drive_server, tmp_path, young_seconds=3600.0)
    assert (again.list().is_young, paths(again)) == (True, [])
    drive_server.drive.not_listed_yet = set()
    assert again.changed()
    assert (again.list().is_young, paths(again)) == (True, ["One.md"])
    assert not folder.list().is_young


def test_a_token_that_is_too_old_costs_a_new_listing(drive_server: DriveServer, folder: DriveFolder) -> None:
    for name in ("a/One.md", "Two.md", "Three.md"):
        drive_server.drive.add(name, "x")
    folder.list()
    drive_server.drive.expire_tokens()
    drive_server.drive.trash("Two.md")
    drive_server.drive.write("Three.md", "changed")
    assert paths(folder) == ["Three.md", "a/One.md"]
    assert folder.read("Three.md") == b"changed"
    drive_server.forget_requests()
    folder.list()
    assert drive_server.requests == ["GET changes"]


def test_what_a_new_listing_lacks_is_asked_for(drive_server: DriveServer, folder: DriveFolder) -> None:
    drive = drive_server.drive
    for name in ("a/b/One.md", "Two.md", "Three.md"):
        drive.add(name, "x")
    folder.list()
    drive.not_listed_yet = {drive.at(one).id for one in ("a", "Two.md", "Three.md")}
    drive.trash("Three.md")
    drive.expire_tokens()
    assert paths(folder) == ["Two.md", "a/b/One.md"]


def test_a_token_that_is_always_too_old_is_an_error(drive_server: DriveServer, folder: DriveFolder) -> None:
    drive_server.drive.oldest = 10**9
    with pytest.raises(FolderUnavailable):
        folder.list()
    drive_server.drive.oldest = 0
    assert paths(folder) == []


def test_files_of_the_same_name_have_different_paths(drive_server: DriveServer, folder: DriveFolder) -> None:
    drive = drive_server.drive
    for text in ("first", "second", "third"):
        drive.add("a/note.md", text)
    drive.add("a/note 2.md", "another")
    said = {path: folder.read(path).decode() for path in paths(folder)}
    assert said == {
        "a/note.md": "first",
        "a/note 2.md": "another",
        "a/note 3.md": "second",
        "a/note 4.md": "third",
    }
    folder.write("a/note 3.md", b"changed", replaces=digest("second"))
    folder.remove("a/note.md", replaces=digest("first"))
    assert sorted(one.content or b"" for _, one in drive.tree() if one.name == "note.md") == [
        b"changed",
        b"third",
    ]


def test_names_with_slashes_are_no_folders(drive_server: DriveServer, folder: DriveFolder) -> None:
    drive_server.drive.create("slash", "../a/b.md", "text/markdown", ROOT, b"x")
    drive_server.drive.create("dots", "..", "application/vnd.google-apps.folder", ROOT, None)
    drive_server.drive.create("inside", "c.md", "text/markdown", "dots", b"x")
    drive_server.drive.create("slashes", "a/b.md", "text/markdown", ROOT, b"y")
    assert paths(folder) == ["a-b.md"]
    folder.write("a-b.md", b"z", replaces=digest("y"))
    assert drive_server.drive.files["slashes"].name == "a/b.md"


def test_names_that_are_no_text_are_left_alone_and_others_kept_apart(
    drive_server: DriveServer, folder: DriveFolder
) -> None:
    for number, name in enumerate(("a\0.md", "a-.md", "b\ud800.md", "c\udfff.md")):
        drive_server.drive.create(f"file{number}", name, "text/markdown", ROOT, b"x")
    assert paths(folder) == ["a- 2.md", "a-.md"]
    assert folder.list().unread == {"b\ud800.md", "c\udfff.md"}


def test_a_file_from_before_1970_or_after_now_has_a_time_between(
    drive_server: DriveServer, folder: DriveFolder
) -> None:
    for name, year in (("old", 1900), ("new", 9999)):
        made = drive_server.drive.create(name, f"{name}.md", "text/markdown", ROOT, b"x")
        made.modified = datetime(year, 1, 1, tzinfo=UTC)
    files = folder.list().files
    assert files["old.md"].seconds == 0
    assert files["new.md"].modified <= datetime.now(UTC)


def test_documents_of_google_and_shortcuts_are_left_alone(
    drive_server: DriveServer, folder: DriveFolder
) -> None:
    drive_server.drive.add("Minutes", kind=DOCUMENT)
    drive_server.drive.add("One.md", kind=DOCUMENT)
    drive_server.drive.add("documents", kind=SHORTCUT)
    listing = folder.list()
    assert listing.files == {}
    assert listing.left_out == 2
    assert listing.is_unknown("One.md")
    assert listing.is_unknown("documents/mail/Two.md")
    with pytest.raises(OSError, match="shortcut"):
        folder.write("documents/mail/Two.md", b"x", replaces=None)
    assert drive_server.asked("GET content") == 0


def test_folders_are_followed_in_and_out(drive_server: DriveServer, folder: DriveFolder) -> None:
    drive = drive_server.drive
    drive.add("box/deep/one.md", "x", under=OUTSIDE)
    drive.add("two.md", "x")
    assert paths(folder) == ["two.md"]
    drive.change(drive.folder("box", under=OUTSIDE), parent=ROOT)
    assert paths(folder) == ["box/deep/one.md", "two.md"]
    # It is there when its content could not be listed at first, too.
    drive.add("box/deep/three.md", "x")
    drive.move("box", "box", under=OUTSIDE)
    assert paths(folder) == ["two.md"]
    drive.change(drive.folder("box", under=OUTSIDE), parent=ROOT)
    drive_server.script("GET files", *[Fault.status(500)] * 4)
    with pytest.raises(FolderUnavailable):
        folder.list()
    assert paths(folder) == ["box/deep/one.md", "box/deep/three.md", "two.md"]
    trashed = drive.trash("box")
    assert paths(folder) == ["two.md"]
    drive.change(trashed, trashed=False)
    assert paths(folder) == ["box/deep/one.md", "box/deep/three.md", "two.md"]


def test_an_account_that_is_no_member_of_the_shared_drive_says_so(
    drive_server: DriveServer, folder: DriveFolder, tmp_path: Path
) -> None:
    drive_server.drive.add("One.md", "one")
    folder.list()
    drive_server.drive.is_member = False
    for each in (folder, drive_folder(drive_server, tmp_path)):
        with pytest.raises(FolderUnavailable, match="not a member of its shared drive"):
            each.list()
        with pytest.raises(FolderUnavailable, match=f"Make {EMAIL} a member"):
            each.reach()
    drive_server.drive.is_member = True
    assert paths(folder) == ["One.md"]


def test_a_folder_that_is_not_shared_any_more_has_lost_nothing(
    drive_server: DriveServer, folder: DriveFolder
) -> None:
    for number in range(5):
        drive_server.drive.add(f"{number}.md", "x")
    before = paths(folder)
    drive_server.page_size = 2  # the folder itself is on another page of changes than its files
    drive_server.drive.unshare()
    for _ in range(2):
        with pytest.raises(FolderUnavailable, match=EMAIL):
            folder.list()
    with pytest.raises(FolderUnavailable, match=EMAIL):
        folder.check(REPLICA)
    drive_server.drive.share()
    folder.check(REPLICA)
    assert paths(folder) == before


@pytest.mark.parametrize("is_known", [True, False])
def test_a_folder_in_the_trash_has_lost_nothing(
    drive_server: DriveServer, folder: DriveFolder, tmp_path: Path, is_known: bool
) -> None:
    drive_server.drive.add("one.md", "x")
    folder.list()
    if not is_known:
        folder = drive_folder(drive_server, tmp_path)
    drive_server.drive.change(ROOT, trashed=True)
    with pytest.raises(FolderUnavailable, match="trash"):
        folder.list()
    drive_server.drive.change(ROOT, trashed=False)
    assert paths(folder) == ["one.md"]


def test_an_id_that_is_no_folder_or_unknown_says_what_to_do(
    drive_server: DriveServer, tmp_path: Path
) -> None:
    one = drive_server.drive.add("one.md", "x")
    for folder_id, words in ((one, "not a folder"), ("unknown", EMAIL)):
        with pytest.raises(FolderUnavailable, match=words):
            drive_folder(drive_server, tmp_path, folder_id=folder_id).identify(REPLICA)


def test_memoryd_deletes_into_the_trash_and_what_is_erased_for_good(
    drive_server: DriveServer, folder: DriveFolder
) -> None:
    drive = drive_server.drive
    ids = [drive.add(f"{number}.md", "x") for number in range(3)]
    folder.list()
    folder.remove("0.md", replaces=digest("x"))
    folder.remove("1.md", replaces=digest("x"), for_good=True)
    drive.may_delete = False
    folder.remove("2.md", replaces=digest("x"), for_good=True)
    assert [one in drive.files for one in ids] == [True, False, True]
    assert drive.paths() == []


def test_an_account_that_may_only_read_says_so(drive_server: DriveServer, tmp_path: Path) -> None:
    drive_server.drive.read_only = True
    folder = drive_folder(drive_server, tmp_path)
    with pytest.raises(FolderUnavailable, match="role Content manager"):
        folder.reach()
    with pytest.raises(FolderUnavailable, match="role Content manager"):
        folder.identify(REPLICA)
    drive_server.drive.read_only = False
    folder.identify(REPLICA)
    folder.write("One.md", b"x", replaces=None)
    drive_server.drive.read_only = True

    def change() -> None:
        folder.write("One.md", b"y", replaces=digest("x"))

    def add() -> None:
        folder.write("Two.md", b"y", replaces=None)

    def remove() -> None:
        folder.remove("One.md", replaces=digest("x"), for_good=True)

    def move() -> None:
        folder.move("One.md", "Three.md", replaces=digest("x"))

    for work in (change, add, remove, move):
        with pytest.raises(OSError, match="role Content manager") as error:
            work()
        assert error.value.errno == errno.EROFS
    assert drive_server.drive.paths() == ["One.md"]


def test_an_older_state_that_comes_late_is_left_out(drive_server: DriveServer, folder: DriveFolder) -> None:
    drive = drive_server.drive
    drive.add("One.md", "old")
    folder.list()
    folder.write("One.md", b"new", replaces=digest("old"))
    one = drive.at("One.md")
    one.content, one.version = b"old", one.version - 1
    drive.log.append(one.id)
    folder.list()
    assert folder.list().files["One.md"].hash == digest("new")


def test_a_file_that_is_too_long_is_not_fetched(drive_server: DriveServer, folder: DriveFolder) -> None:
    drive_server.drive.add("huge.md", b"x" * 10_000_001)
    folder.list()
    drive_server.forget_requests()
    with pytest.raises(OSError, match="longer"):
        folder.read("huge.md")
    assert drive_server.requests == []


def test_folders_that_a_listing_of_several_leaves_out_are_listed_by_themselves(
    drive_server: DriveServer, tmp_path: Path
) -> None:
    drive = drive_server.drive
    for name in ("a", "b", "c", "c/d", "c/e", "c/e/f"):
        drive.add(f"{name}/one.md", "x")
    for left_out in (["a"], ["b", "c"], ["a", "b", "c", "c/d", "c/e"]):
        drive.left_out_of_groups = {drive.at(one).id for one in left_out}
        assert len(paths(drive_folder(drive_server, tmp_path))) == 6
    drive_server.script("GET files", Fault.status(500))
    assert len(paths(drive_folder(drive_server, tmp_path))) == 6


def test_a_file_that_is_moved_away_while_it_is_written_is_gone(
    drive_server: DriveServer, folder: DriveFolder
) -> None:
    drive_server.drive.add("One.md", "one")
    folder.list()
    drive_server.drive.move("One.md", "One.md", under=OUTSIDE)
    folder.write("One.md", b"two", replaces=digest("one"))
    assert paths(folder) == []


def test_a_single_file_may_be_one_that_cannot_be_changed(
    drive_server: DriveServer, folder: DriveFolder
) -> None:
    folder.write("One.md", b"x", replaces=None)
    folder.list()
    drive_server.script("PATCH upload", Fault.status(403, "insufficientFilePermissions"))
    with pytest.raises(OSError, match="role") as error:
        folder.write("One.md", b"y", replaces=digest("x"))
    assert error.value.errno == errno.EACCES  # with EROFS no other file would be tried
