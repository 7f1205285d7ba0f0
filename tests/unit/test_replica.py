"""The pure half of the replica: what is decided, what a file says, and names that are safe everywhere."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.replica.documents.index import index
from plugins.replica.rules.decision import Action, RowState, ask_first, decide, match
from plugins.replica.rules.document_file import FrontMatter, Text, read, write
from plugins.replica.rules.paths import (
    MAX_BYTES,
    conflict_path,
    home_for,
    is_document,
    key,
    path_for,
    safe,
    source_of,
    user_of,
)

A, B, C = b"a", b"b", b"c"
ID, OTHER, USER = UUID(int=1), UUID(int=2), UUID("00000000-0000-0000-0000-0000000000aa")
FRONT = FrontMatter(ID, "mail", None, datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC))


@pytest.mark.parametrize(
    ("row", "base", "theirs", "ours", "action"),
    [
        (RowState.THERE, A, A, A, Action.NOTHING),
        (RowState.THERE, None, A, A, Action.NOTE),
        (RowState.THERE, A, B, B, Action.NOTE),
        (RowState.THERE, A, A, B, Action.WRITE),
        (RowState.THERE, A, B, A, Action.TAKE),
        (RowState.THERE, A, B, C, Action.TAKE_BOTH),
        (RowState.THERE, None, B, C, Action.TAKE_BOTH),
        (RowState.THERE, A, None, A, Action.BURY),
        (RowState.THERE, A, None, B, Action.WRITE),
        (RowState.THERE, None, None, A, Action.WRITE),
        (RowState.DELETED, A, A, A, Action.REMOVE),
        (RowState.DELETED, A, B, A, Action.TAKE),
        (RowState.DELETED, A, B, C, Action.TAKE_BOTH),
        (RowState.DELETED, A, None, A, Action.FORGET),
        (RowState.GONE, A, B, None, Action.REMOVE),
        (RowState.GONE, A, None, None, Action.FORGET),
    ],
)
def test_what_is_done(
    row: RowState, base: bytes | None, theirs: bytes | None, ours: bytes | None, action: Action
) -> None:
    assert decide(row, base=base, theirs=theirs, ours=ours) is action


def test_no_text_that_one_side_changed_is_overwritten() -> None:
    for row, base, theirs, ours in itertools.product(RowState, (None, A, B, C), (None, A, B, C), (A, B, C)):
        action = decide(row, base=base, theirs=theirs, ours=ours)
        if action is Action.WRITE:
            assert theirs in (None, base), (row, base, theirs, ours)
        if action is Action.TAKE:
            assert ours in (base, theirs), (row, base, theirs, ours)
        if action is Action.BURY:
            assert ours == base
        if action is Action.REMOVE and row is not RowState.GONE:
            assert theirs == base


@pytest.mark.parametrize(
    ("gone", "of", "asks"), [(10, 10, False), (11, 11, True), (11, 55, False), (12, 55, True)]
)
def test_many_deletions_ask_first(gone: int, of: int, asks: bool) -> None:
    assert ask_first(gone, of=of) is asks


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@given(title=TEXTS.filter(str.strip), body=TEXTS, front_matter=TEXTS)
def test_a_file_says_what_was_written(title: str, body: str, front_matter: str) -> None:
    text = Text(title, body, front_matter)
    said = read(write(FRONT, text))
    assert said is not None
    assert said.id == ID
    assert said.text("").digest() == text.digest()
    assert write(FRONT, said.text("")) == write(FRONT, text)


@given(st.binary(max_size=200))
def test_whatever_a_file_has_can_be_read(data: bytes) -> None:
    read(b"---\n" + data)
    read(data)


@pytest.mark.parametrize(
    ("file", "found", "title", "body"),
    [
        (f"---\nid: {ID}\ntitle: 'It''s'\n---\n\nText\n", ID, "It's", "Text"),
        (f"---\nid: {ID}\ntitle: One\n\nText\n", ID, "One", "Text"),
        (f"id: {ID}\ntitle: One\n---\nText\n", ID, "One", "Text"),
        (f"\ufeff---\r\nid: {ID}\r\ntitle: One\r\n---\r\n\r\nText\r\n", ID, "One", "Text"),
        (f"---\nid: {ID}\ntitle: >\n  One\n  two\n---\nText", ID, "One two", "Text"),
        ("---\nid: nonsense\n---\nText", None, None, "Text"),
        ("Text\n---\nmore", None, None, "Text\n---\nmore"),
        ("title: One\nText", None, None, "title: One\nText"),
        ('---\ntitle: "\\u0000 \\ud800"\n---\nText', None, "\\u0000 \\ud800", "Text"),
    ],
)
def test_front_matter_broken_by_hand(file: str, found: UUID | None, title: str | None, body: str) -> None:
    said = read(file.encode())
    assert said is not None
    assert (said.id, said.title, said.body) == (found, title, body)


def test_lines_that_people_add_to_the_front_matter_are_kept_and_nothing_in_them_is_run() -> None:
    lines = "tags: [a, b]\naliases:\n  - &x one\n  - *x\nrun: !!python/object/apply:os.system [true]"
    said = read(f"---\nid: {ID}\n{lines}\n---\nText".encode())
    assert said is not None
    assert said.front_matter == lines
    assert lines in write(FRONT, said.text("One")).decode()


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("../../etc/passwd", "-..-etc-passwd"),
        (".hidden", "hidden"),
        ("a\nb\tc/d\\e:f", "a b c-d-e-f"),
        ("", "untitled"),
        (" . ", "untitled"),
        ("CON", "CON_"),
        ("nul.txt", "nul.txt_"),
        ("e\u0301", "\u00e9"),
        ("a\u202eb", "a b"),
    ],
)
def test_safe_names(name: str, file: str) -> None:
    assert safe(name) == file


@given(
    title=st.text(),
    source=st.none() | st.text(),
    user=st.none() | st.just(USER),
    name=st.none() | st.text() | st.just("\u202e../" * 100) | st.just(f"/ {UUID(int=9)}"),
)
def test_every_title_has_a_path_that_is_a_documents(
    title: str, source: str | None, user: UUID | None, name: str | None
) -> None:
    path = path_for(title, source, None if user is None else home_for(user, name), taken=())
    assert is_document(path)
    assert source_of(path) in {None, path.split("/")[-2]}
    assert user_of(path) == user
    again = conflict_path(path, "2026-11-22 10.15", taken={key(path)})
    for one in (path, again):
        assert all(0 < len(part.encode()) <= MAX_BYTES for part in one.split("/"))
        assert not any(part.startswith(".") or part != part.strip() for part in one.split("/"))


def test_names_that_differ_in_case_alone_get_a_number() -> None:
    first = path_for("Plan", None, None, taken=())
    assert first == "documents/documents/Plan.md"
    assert path_for("PLAN", None, None, taken={key(first)}) == "documents/documents/PLAN 2.md"
    where = path_for("Plan", "drop", None, folder="a/../CON/b:c", taken=())
    assert where == "documents/drop/a/untitled/CON_/b-c/Plan.md"
    assert path_for("Plan", "ingest", None, folder="/home/ann", taken=()) == "documents/ingest/Plan.md"
    assert source_of("documents/mail/Plan.md") == "mail"
    assert source_of(first) is None


def test_a_name_that_thousands_have_is_found_with_a_few_looks() -> None:
    class Looked(set[str]):
        looks = 0

        def __contains__(self, path: object) -> bool:
            self.looks += 1
            return super().__contains__(path)

    taken = Looked()
    for _ in range(2_000):
        taken.add(key(path_for("Diary", None, None, taken=taken)))
    assert {key(f"documents/documents/Diary {number}.md") for number in range(2, 2_001)} <= taken
    assert taken.looks < 2_000 * 25


def test_a_copy_is_new_and_a_moved_file_is_followed() -> None:
    owners = {ID: None, OTHER: USER}
    copied = match({"a.md": ID, "b.md": ID}, {ID: "b.md"}, owners)
    assert (copied.known, copied.new) == ({ID: "b.md"}, ["a.md"])
    moved = match({"c.md": ID}, {ID: "b.md"}, owners)
    assert (moved.moved, moved.new) == ({ID: "c.md"}, [])
    swapped = match({"a.md": OTHER, "b.md": ID}, {ID: "a.md", OTHER: "b.md"}, owners)
    assert swapped.moved == {ID: "b.md", OTHER: "a.md"}


def test_the_id_of_anothers_document_is_worth_nothing_in_a_users_folder() -> None:
    theirs = f"users/{UUID(int=9)}/stolen.md"
    found = match({theirs: OTHER}, {}, {OTHER: USER})
    assert (found.known, found.new) == ({}, [theirs])


def test_the_index_shows_titles_as_text() -> None:
    text = index([("documents/mail/a b.md", "[x](y) *z*\n# h")])
    assert "- [\\[x\\](y) \\*z\\* \\# h](<documents/mail/a%20b.md>)" in text
