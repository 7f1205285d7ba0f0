"""Finds the breaks of a trail: each with its row and its kind.

The current log (`now`) is compared with the signed one. The tiles are a second copy of the signed log: if they lead to the
root of a signed checkpoint, differences are reported leaf by leaf. If not, only the checkpoints are left: they show between
which two sizes the history was rewritten.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from plugins.trail.rules.merkle import WIDTH, Edge, Tiles, grow, split
from plugins.trail.rules.note import BadNote, Checkpoint, Note, Verifier

How: TypeAlias = Literal[
    "altered",
    "removed",
    "inserted",
    "reordered",
    "truncated",
    "rewritten",
    "foreign",
    "forged",
    "copy",
    "disputed",
    "unverifiable",
]


@dataclass(frozen=True, slots=True)
class Break:
    """One break: its kind, and its place in the log and its anchor, if known."""

    how: How
    position: int | None
    anchor: str | None
    says: str


@dataclass(frozen=True, slots=True)
class Leaf:
    anchor: str
    hash: bytes
    """Its hash in the tree."""


def check_notes(
    stored: Sequence[Any], origin: str, keys: Sequence[Verifier]
) -> tuple[list[Checkpoint], list[Break]]:
    """This database's checkpoints with a valid signature, by size, and the breaks of the others.

    Each is stored with its size, root and note, and the public key of its signature (verifier).
    """
    good: list[Checkpoint] = []
    breaks: list[Break] = []
    for one in stored:
        try:
            checkpoint = _opened(one, origin, keys)
        except BadNote as error:
            how: How = "foreign" if isinstance(error, _ForeignNoteError) else "forged"
            breaks.append(Break(how, None, None, f"the checkpoint of {one['size']} leaves: {error}"))
        else:
            good.append(checkpoint)
    return sorted(good, key=lambda one: one.size), breaks


class _ForeignNoteError(BadNote):
    """A checkpoint of another database."""


def _opened(stored: Any, origin: str, keys: Sequence[Verifier]) -> Checkpoint:
    note = Note.parse(stored["note"])
    checkpoint = Checkpoint.parse(note.text)
    if checkpoint.origin != origin:
        raise _ForeignNoteError(f"it is of another database, {checkpoint.origin}")
    signed = [str(key) for key in keys if note.is_signed_by(key)]
    if not signed:
        raise BadNote("it is signed with none of the known keys")
    if checkpoint.size != stored["size"]:
        raise BadNote(f"it says that it is of {checkpoint.size}")
    if checkpoint.root != stored["root"] or stored["verifier"] not in signed:
        raise BadNote("its row has another root, or another key, than its note")
    return checkpoint


def compare(now: Sequence[Leaf | None], tiles: Tiles, checkpoints: Sequence[Checkpoint]) -> list[Break]:
    """The differences of the log from the signed one.

    `now`: the leaves by position, None for a missing one. `tiles`: the stored ones. `checkpoints`: this database's, by size,
    with a valid signature.
    """
    hashes = [None if leaf is None else leaf.hash for leaf in now]
    wrong = _unlike(hashes, checkpoints)
    if not wrong:
        return []
    copy = [one for tile, said in sorted(tiles.items()) if tile[0] == 0 for one in split(said)]
    lost = _unlike(copy, checkpoints)
    last = max((one.size for one in checkpoints if one not in lost), default=0)
    breaks = _differences(now, list(copy[:last]))
    rest = [one for one in wrong if one in lost]
    if rest:
        first = rest[0].size
        before = max((one.size for one in checkpoints if one not in rest and one.size < first), default=0)
        if first > len(now):
            says = f"{rest[-1].size} leaves were signed, and the log has {len(now)}"
            breaks.append(Break("truncated", len(now), None, says))
        else:
            says = f"the leaves {before} to {first - 1} are not those that were signed"
            breaks.append(Break("rewritten", before, None, says))
    return breaks


def _unlike(hashes: Sequence[bytes | None], checkpoints: Sequence[Checkpoint]) -> list[Checkpoint]:
    """The checkpoints whose roots do not follow from these hashes."""
    edge, wrong = Edge(), []
    whole = hashes.index(None) if None in hashes else len(hashes)
    for one in checkpoints:
        for leaf in hashes[edge.size : min(one.size, whole)]:
            assert leaf is not None
            edge.append(leaf)
        if edge.size != one.size or edge.root() != one.root:
            wrong.append(one)
    return wrong


def check_tiles(hashes: Sequence[bytes], tiles: Tiles, *, grown: bool) -> list[Break]:
    """Whether the stored tiles are those of the log with these hashes. `grown`: the log is longer by now."""
    right = grow({}, 0, hashes)
    for tile, said in sorted(right.items()):
        stored = tiles.get(tile, b"")
        if stored[: len(said)] != said or (stored != said and not grown):
            says = "the tiles, which proofs are made from, are not those of the log"
            return [Break("copy", tile[1] * WIDTH ** (tile[0] + 1), None, says)]
    if not grown and set(tiles) - set(right):
        return [Break("copy", None, None, "there are tiles that the log does not have")]
    return []


def _differences(now: Sequence[Leaf | None], signed: Sequence[bytes]) -> list[Break]:
    """Each leaf that differs from the signed one. Leaves after the signed ones are new, unless they were signed elsewhere."""
    present = {leaf.hash for leaf in now if leaf is not None}
    positions = {one: position for position, one in enumerate(signed)}
    breaks: list[Break] = []
    gone = {position for position, one in enumerate(signed) if one not in present}
    for position, leaf in enumerate(now[: len(signed)]):
        if leaf is not None and leaf.hash not in positions:
            if position in gone:
                gone.discard(position)
                breaks.append(
                    Break("altered", position, leaf.anchor, "its leaf is not the one that was signed")
                )
            else:
                breaks.append(Break("inserted", position, leaf.anchor, "its leaf was not signed here"))
    end = len(signed)
    while end - 1 in gone and (end > len(now) or now[end - 1] is None):
        end -= 1
        gone.discard(end)
    if end < len(signed):
        says = f"the last leaves that were signed, {end} to {len(signed) - 1}, are gone"
        breaks.append(Break("truncated", end, None, says))
    breaks += [Break("removed", position, None, "the leaf that was signed here is gone") for position in gone]
    kept = [(positions[leaf.hash], leaf) for leaf in now if leaf is not None and leaf.hash in positions]
    in_order = _longest_rise([position for position, _ in kept])
    for number, (position, leaf) in enumerate(kept):
        if number not in in_order:
            breaks.append(Break("reordered", position, leaf.anchor, f"it was signed as leaf {position}"))
    breaks.sort(key=lambda one: -1 if one.position is None else one.position)
    return breaks


def _longest_rise(positions: Sequence[int]) -> set[int]:
    ends: list[int] = []
    numbers: list[int] = []
    before: list[int] = []
    for number, position in enumerate(positions):
        at = bisect_left(ends, position)
        before.append(numbers[at - 1] if at else -1)
        ends[at : at + 1] = [position]
        numbers[at : at + 1] = [number]
    found: set[int] = set()
    number = numbers[-1] if numbers else -1
    while number >= 0:
        found.add(number)
        number = before[number]
    return found
