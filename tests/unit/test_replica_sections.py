"""Entries as sections of a file: whatever they contain, they are read as they were written; and what is decided of them."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.replica.rules.collections import (
    Entry,
    Key,
    Source,
    Words,
    conflict_section,
    key_of,
    path_of,
    preamble,
    said_by,
    section_of,
)
from plugins.replica.rules.document_file import one_line, plain
from plugins.replica.rules.merge import LostText, NotedEntry, OtherEntry, Plan, merge
from plugins.replica.rules.paths import key
from plugins.replica.rules.sections import Section, marked, read_sections, write_sections

COLLECTION, ID, OTHER, USER = (
    UUID(int=9),
    UUID(int=1),
    UUID(int=2),
    UUID("00000000-0000-0000-0000-0000000000aa"),
)
NOW = datetime(2026, 11, 22, tzinfo=UTC)
CORE, MEMORIES = Key(Source.KNOWLEDGE, tier="core"), Key(Source.MEMORY, agent="planner")
KEYS = (CORE, MEMORIES, Key(Source.MEMORY, user=USER), Key(Source.INSIGHT, agent="_shared"))
LABELS = {Source.KNOWLEDGE: "decision", Source.MEMORY: "fact", Source.INSIGHT: "pattern"}

PIECES = st.sampled_from(
    (
        "## Heading",
        "##",
        "# Title",
        "### Deeper",
        "\\## escaped",
        "\\\\## twice",
        f"<!-- id: {ID} -->",
        f"\\<!-- id: {ID}, category: x -->",
        f"<!-- conflict: {ID} -->",
        "<!-- category: decision -->",
        f"<!-- memoryd collection {ID} -->",
        "---",
        "id: 1",
        "```",
        " ",
        "",
        "\r",
        "\u2028",
        "-->",
        "fact, 2026-01-01",
    )
)
TEXTS = st.one_of(
    st.lists(
        st.one_of(PIECES, st.text(st.characters(codec="utf-8", exclude_characters="\0"))), max_size=8
    ).map("\n".join),
    st.text(st.characters(codec="utf-8", exclude_characters="\0")),
)


@st.composite
def entries(draw: st.DrawFn, of: Key) -> Entry:
    """An entry of any text."""
    title = draw(TEXTS.filter(lambda text: bool(text.strip()))) if of.source is Source.KNOWLEDGE else ""
    body = draw(TEXTS.filter(lambda text: bool(text.strip())))
    agent = draw(
        st.one_of(st.none(), st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=10))
    )
    return Entry(draw(st.uuids()), Words(LABELS[of.source], title, body), NOW, b"", agent)


@given(data=st.data(), of=st.sampled_from(KEYS), above=TEXTS)
def test_what_is_written_is_read_again(data: st.DataObject, of: Key, above: str) -> None:
    some = data.draw(st.lists(entries(of), max_size=5))
    above = above.replace("\ufeff", "")
    above = plain("\n".join(line for line in plain(above).split("\n") if not line.startswith("##")))
    file = write_sections(above, [section_of(one, of) for one in some], collection=COLLECTION)
    said = read_sections(file)
    assert said is not None
    assert [one.id for one in said.sections] == [one.id for one in some]
    for section, entry in zip(said.sections, some, strict=True):
        words = said_by(section, of).words("other")
        assert words == Words(entry.words.label, one_line(entry.words.title), plain(entry.words.body))
        assert words.digest() == entry.words.digest()
    # And once more: what was read is written as it was.
    assert write_sections(said.preamble, said.sections, collection=COLLECTION) == file
    assert plain(above) in said.preamble


@given(text=TEXTS, of=st.sampled_from(KEYS))
def test_the_text_of_a_conflict_is_read_again(text: str, of: Key) -> None:
    words = Words(LABELS[of.source], "Title" if of.source is Source.KNOWLEDGE else "", text)
    section = conflict_section(ID, words, NOW, of)
    said = read_sections(write_sections("", [section], collection=COLLECTION))
    assert said is not None
    [found] = said.sections
    assert found == section
    assert said_by(found, of).words(words.label).digest() == words.digest()


@given(st.binary())
def test_any_bytes_are_read_without_an_error(data: bytes) -> None:
    marked(data)
    read_sections(data)


def test_what_editors_do_to_a_file_is_no_change() -> None:
    section = section_of(Entry(ID, Words("fact", "", "One.\n\nTwo."), NOW, b""), MEMORIES)
    file = write_sections(preamble(MEMORIES, COLLECTION), [section, section], collection=COLLECTION)
    for changed in (
        file.replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + file,
        file + b"\n\n",
        file.replace(b"-->\n\nOne", b"-->\nOne"),
        file.replace(b"\n<!-- id", b"\n\n<!-- id"),
    ):
        said = read_sections(changed)
        assert said is not None
        assert said.sections == [section, section]
        assert marked(changed) == COLLECTION


def test_each_collection_has_a_path_that_stands_for_it() -> None:
    for of in (*KEYS, Key(Source.KNOWLEDGE, org=OTHER, tier="learning"), Key(Source.INSIGHT, user=USER)):
        taken: set[str] = set()
        for part in (1, 2, 3):
            path = path_of(of, part, taken=taken, homes={USER: f"{USER} Mia"})
            taken.add(key(path))
            assert key_of(path) == of
            assert key_of(path.replace(" Mia", "")) == key_of(path.replace("Mia", "Ann")) == of
    assert path_of(CORE, 1, taken={key("knowledge/core.md")}, homes={}) == "knowledge/core 2.md"
    for path in (
        "core.md",
        "knowledge/other.md",
        "users/ann/memories.md",
        f"users/ann {USER}/memories.md",
        f"users/{USER}Ann/memories.md",
        "agents/a/b/memories.md",
        "agents/x.md",
    ):
        assert key_of(path) is None


@pytest.mark.parametrize(
    ("heading", "label", "body"),
    [
        ("goal", "goal", "Text."),
        ("Fact, 2026-01-01", "fact", "Text."),
        ("note of planner, 2026-01-01", "note", "Text."),
        ("Ann's birthday", "", "Ann's birthday\n\nText."),
        ("facts about trains", "", "facts about trains\n\nText."),
    ],
)
def test_the_heading_of_a_memory_is_its_kind_or_text(heading: str, label: str, body: str) -> None:
    said = said_by(Section(heading, "Text."), MEMORIES)
    assert (said.label, said.body) == (label, body)


def words(body: str) -> Words:
    """An entry's."""
    return Words("team", "Title", body)


def row(body: str, id_: UUID = ID) -> Entry:
    """An entry as it is in the database."""
    return Entry(id_, words(body), NOW, b"version")


def noted(base: str | None, now: str | None, *, erased: bool = False) -> NotedEntry:
    """An entry that is known."""
    return NotedEntry(
        None if base is None else words(base).digest(), "team", erased, None if now is None else row(now)
    )


def section(body: str, id_: UUID | None = ID) -> Section:
    """A section of a file."""
    return Section("Title", body, id_)


def decided(
    sections: list[Section],
    known: dict[UUID, NotedEntry],
    conflicts: dict[UUID, LostText] | None = None,
    elsewhere: dict[UUID, OtherEntry] | None = None,
) -> Plan:
    """What is decided."""
    return merge(CORE, sections, known, conflicts or {}, elsewhere=elsewhere or {})


@pytest.mark.parametrize(
    ("theirs", "base", "ours", "edits", "added", "removed"),
    [
        ("A", "A", "A", [], [], 0),
        ("A", "A", "B", [], [], 0),
        ("B", "A", "A", [("B", False)], [], 0),
        ("B", "A", "C", [("B", True)], [], 0),
        ("B", None, "C", [("B", True)], [], 0),
        (None, "A", "A", [], [], 1),
        (None, "A", "B", [], [], 0),
        (None, None, "A", [], [], 0),
        ("A", "A", None, [], [], 0),
        ("B", "A", None, [], ["B"], 0),
        (None, "A", None, [], [], 0),
    ],
)
def test_three_hashes_decide_on_an_entry(
    theirs: str | None,
    base: str | None,
    ours: str | None,
    edits: list[tuple[str, bool]],
    added: list[str],
    removed: int,
) -> None:
    plan = decided([] if theirs is None else [section(theirs)], {ID: noted(base, ours)})
    assert [(one.words.body, one.lost) for one in plan.edits] == edits
    assert [one.words.body for one in plan.additions] == added
    assert len(plan.removed) == removed


def test_what_is_erased_goes_whatever_a_person_wrote() -> None:
    plan = decided([section("New.")], {ID: noted("A", None, erased=True)})
    assert (plan.additions, plan.layout) == ([], [])


def test_a_section_without_its_id_is_known_by_its_text_and_a_copy_is_new() -> None:
    plan = decided([section("A", None), section("A", None)], {ID: noted("A", "A")})
    assert (len(plan.additions), plan.removed, plan.layout[0]) == (1, {}, ID)
    plan = decided([section("A"), section("A")], {ID: noted("A", "A")})
    assert [one.wanted for one in plan.additions] == [None]
    plan = decided([section("A", OTHER)], {})
    assert [one.wanted for one in plan.additions] == [OTHER]


def test_a_section_without_text_waits() -> None:
    plan = decided([section("", None), section("")], {ID: noted("A", "A")})
    assert (plan.additions, plan.edits, plan.removed, len(plan.layout)) == ([], [], {}, 2)


def test_an_entry_that_an_agent_moved_away_leaves_its_old_file_unless_a_person_wrote_into_it() -> None:
    moved = {ID: OtherEntry(COLLECTION, is_written=False, label="team", left=words("A").digest())}
    assert decided([section("A")], {}, elsewhere=moved).layout == []
    assert [one.words.body for one in decided([section("B")], {}, elsewhere=moved).additions] == ["B"]


def test_who_deletes_one_of_two_texts_keeps_the_other() -> None:
    other = LostText(OTHER, ID, words("Agent's"), NOW, words("Agent's").digest(), ended=False)
    beside = conflict_section(OTHER, words("Agent's"), NOW, CORE)
    both = decided([section("Mine"), beside], {ID: noted("Mine", "Mine")}, {OTHER: other})
    assert (both.edits, both.removed, both.ended_conflicts) == ([], {}, [])
    mine = decided([section("Mine")], {ID: noted("Mine", "Mine")}, {OTHER: other})
    assert (mine.edits, mine.ended_conflicts) == ([], [OTHER])
    theirs = decided([beside], {ID: noted("Mine", "Mine")}, {OTHER: other})
    assert [one.words.body for one in theirs.edits] == ["Agent's"]
    assert (theirs.removed, theirs.promoted) == ({}, {ID: OTHER})
    neither = decided([], {ID: noted("Mine", "Mine")}, {OTHER: other})
    assert (list(neither.removed), neither.ended_conflicts) == ([ID], [])
