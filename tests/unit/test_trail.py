"""The pure half of the trail: trees, tiles, notes, proofs, and what was done to a log, found by what is left of it."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import partial

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memory.outcome import category_of
from plugins.trail.rules import canonical
from plugins.trail.rules.audit import Leaf, check_tiles, compare
from plugins.trail.rules.canonical import cid_of
from plugins.trail.rules.merkle import (
    MissingTileError,
    edge_of,
    grow,
    inclusion,
    leaf_hash,
    nodes_of,
    root_at,
    root_from_inclusion,
    root_of,
    tiles_for,
    tiles_of_root,
)
from plugins.trail.rules.note import BadNote, Checkpoint, Note, Verifier, sign, verifier_of
from plugins.trail.rules.proof import Proof, check, leaf_of

KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
ORIGIN = "memoryd/00000000-0000-0000-0000-000000000001"
SIZES = (1, 2, 3, 7, 8, 255, 256, 257, 600)


def leaves_of(count: int) -> list[bytes]:
    return [leaf_hash(str(n).encode()) for n in range(count)]


def test_the_roots_of_the_published_test_vectors() -> None:
    """Of RFC 6962's reference implementation."""
    data = [
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    ]
    leaves = [leaf_hash(bytes.fromhex(one)) for one in data]
    assert root_of([]).hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert root_of(leaves[:1]).hex() == "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
    assert root_of(leaves[:3]).hex() == "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77"
    assert root_of(leaves).hex() == "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"


def test_a_known_cid() -> None:
    assert cid_of(b"hello world") == "bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e"


@given(st.lists(st.integers(1, 300), min_size=1, max_size=6))
@settings(max_examples=15)
@example([256, 256, 88])
def test_tiles_lead_to_every_root_and_proof(parts: list[int]) -> None:
    leaves = leaves_of(sum(parts))
    tiles: dict[tuple[int, int], bytes] = {}
    size = 0
    for part in parts:
        edge = {tile: tiles[tile] for tile in edge_of(size)}
        tiles |= grow(edge, size, leaves[size : size + part])
        size += part
    for at in {*(one for one in SIZES if one <= size), size}:
        needed = {tile: tiles[tile] for tile in tiles_of_root(at)}
        assert root_at(at, nodes_of(needed)) == root_of(leaves[:at])
        for index in {0, at // 2, at - 1}:
            needed = {tile: tiles[tile] for tile in tiles_for(partial(inclusion, index, at))}
            path = inclusion(index, at, nodes_of(needed))
            assert root_from_inclusion(leaves[index], index, at, path) == root_of(leaves[:at])
            assert root_from_inclusion(leaves[index], index, at, [*path, bytes(32)]) is None
            if at > 1:
                assert root_from_inclusion(leaves[index], index, at, path[:-1]) is None
                assert root_from_inclusion(leaves[index], (index + 1) % at, at, path) != root_of(leaves[:at])


def test_a_tile_that_is_missing_or_short_is_named() -> None:
    tiles = grow({}, 0, leaves_of(300))
    with pytest.raises(MissingTileError, match="tile 0/1"):
        root_at(300, nodes_of({tile: hashes for tile, hashes in tiles.items() if tile != (0, 1)}))
    with pytest.raises(MissingTileError):
        grow({(0, 1): tiles[0, 1][:-1], (1, 0): tiles[1, 0]}, 300, leaves_of(1))


def proof_of(row: str, index: int = 3, size: int = 5) -> Proof:
    salt = bytes(range(32))
    leaf = leaf_of(row, salt)
    leaves = leaves_of(size)
    leaves[index] = leaf_hash(leaf)
    nodes = nodes_of(grow({}, 0, leaves))
    return Proof(
        index,
        inclusion(index, size, nodes),
        sign(Checkpoint(ORIGIN, size, root_of(leaves)), KEY),
        leaf,
        row,
        salt,
    )


def test_a_proof_with_one_changed_bit_in_any_byte_does_not_hold() -> None:
    row = canonical.write({"id": "a", "payload": {"content": "größer\n", "n": canonical.Number("1.50")}})
    text = str(proof_of(row)).encode()
    keys = [verifier_of(KEY, ORIGIN)]
    assert check(Proof.parse(text.decode()), keys).row["payload"]["content"] == "größer\n"
    for place in range(len(text)):
        for bit in (0x01, 0x20, 0x80):
            changed = bytearray(text)
            changed[place] ^= bit
            with pytest.raises((BadNote, UnicodeDecodeError)):
                check(Proof.parse(bytes(changed).decode()), keys)
    for changed_text in (text + b"\n", text[:-1], b"", b"\x00" * 100, text.replace(b"\n", b"\r\n"), text * 2):
        with pytest.raises(BadNote):
            check(Proof.parse(changed_text.decode()), keys)


def test_the_row_of_another_proof_and_a_row_that_is_not_canonical_are_refused() -> None:
    one, other = proof_of('{"id": "a"}'), proof_of('{"id": "b"}')
    mixed = Proof(one.index, one.path, one.note, one.leaf, other.row, other.salt)
    with pytest.raises(BadNote, match="not the one that was anchored"):
        check(mixed, [verifier_of(KEY, ORIGIN)])
    with pytest.raises(BadNote, match="canonical"):
        check(proof_of('{"id": "a", "id": "b"}'), [verifier_of(KEY, ORIGIN)])


def test_foreign_signatures_are_counted_and_a_second_of_the_same_key_is_refused() -> None:
    note = sign(Checkpoint(ORIGIN, 1, bytes(32)), KEY)
    witness = Ed25519PrivateKey.from_private_bytes(b"\x02" * 32)
    other = sign(Checkpoint("witness.example", 1, bytes(32)), witness).signatures[0]
    both = Note.parse(str(note) + other.line())
    assert both.is_signed_by(verifier_of(KEY, ORIGIN))
    assert not both.is_signed_by(verifier_of(witness, ORIGIN))
    with pytest.raises(BadNote):
        both.is_signed_by(verifier_of(witness, "witness.example"))  # it has signed something else
    with pytest.raises(BadNote, match="twice"):
        Note.parse(str(note) + note.signatures[0].line()).is_signed_by(verifier_of(KEY, ORIGIN))


def test_a_public_key_is_read_as_it_is_written_only() -> None:
    text = str(verifier_of(KEY, ORIGIN))
    assert Verifier.parse(text) == verifier_of(KEY, ORIGIN)
    for place in range(len(text)):
        with pytest.raises(BadNote):
            Verifier.parse(text[:place] + chr(ord(text[place]) ^ 1) + text[place + 1 :])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=20,
)


@given(JSON)
@settings(max_examples=50)
def test_what_is_written_is_read(value: object) -> None:
    text = canonical.write(value)
    assert json.loads(text) == value
    assert canonical.write(canonical.read(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[1,2]",
        '{"b": 1, "a": 2}',
        "1e5",
        "NaN",
        "01",
        '"\\u0041"',
        " 1",
        '{"a": 1, "a": 1}',
        "[" * 100_000,
    ],
)
def test_what_is_not_canonical_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="canonical"):
        canonical.read(text)


def checkpoints_of(leaves: list[bytes], *sizes: int) -> list[Checkpoint]:
    return [Checkpoint(ORIGIN, size, root_of(leaves[:size])) for size in sizes]


@given(
    st.integers(1, 40),
    st.integers(0, 39),
    st.integers(0, 39),
    st.sampled_from(["alter", "remove", "gap", "insert", "move", "cut"]),
)
@settings(max_examples=120)
def test_whatever_is_done_to_a_leaf_is_named(size: int, place: int, other: int, how: str) -> None:
    place, other = place % size, other % size
    signed = leaves_of(size)
    checkpoints = checkpoints_of(signed, max(1, size // 2), size)
    now: list[Leaf | None] = [Leaf(str(n), one) for n, one in enumerate(signed)]
    tiles = grow({}, 0, signed)
    assert compare(now, tiles, checkpoints) == []
    expected: set[tuple[str, int | None, str | None]] = set()
    if how == "alter":
        now[place] = Leaf("x", leaf_hash(b"x"))
        expected = {("altered", place, "x")}
    elif how == "remove":
        del now[place]
        expected = {("truncated" if place == size - 1 else "removed", place, None)}
    elif how == "gap":
        now[place] = None
        expected = {("truncated" if place == size - 1 else "removed", place, None)}
    elif how == "insert":
        now.insert(place, Leaf("x", leaf_hash(b"x")))
        expected = {("inserted", place, "x")}
    elif how == "move" and place != other:
        now.insert(other, now.pop(place))
        found = compare(now, tiles, checkpoints)
        assert {one.how for one in found} == {"reordered"}
        assert {one.position for one in found} <= {place, other}
        expected = {(one.how, one.position, one.anchor) for one in found}
    elif how == "cut":
        del now[place:]
        expected = {("truncated", place, None)}
    assert {(one.how, one.position, one.anchor) for one in compare(now, tiles, checkpoints)} == expected
    if expected:
        # Where the copy is gone as well, the checkpoints still tell that something was done.
        assert {one.how for one in compare(now, {}, checkpoints)} <= {"rewritten", "truncated"}
        assert compare(now, {}, checkpoints) != []


def test_a_change_of_any_tile_is_named() -> None:
    hashes = leaves_of(600)
    tiles = grow({}, 0, hashes)
    assert {level for level, _ in tiles} == {0, 1}
    assert check_tiles(hashes, tiles, grown=False) == []
    for tile, said in tiles.items():
        for other in (b"", said[:-32], said + said[:32], leaf_hash(b"x") + said[32:]):
            assert [one.how for one in check_tiles(hashes, tiles | {tile: other}, grown=False)] == ["copy"]
    assert [one.how for one in check_tiles(hashes, tiles | {(2, 0): b"x"}, grown=False)] == ["copy"]
    # Places that were given while it was read are no break, but what was there before must be there.
    longer = grow({}, 0, leaves_of(900))
    assert check_tiles(hashes, longer, grown=True) == []
    assert check_tiles(hashes, longer | {(1, 0): b"x"}, grown=True) != []


def test_words_of_significance() -> None:
    said = {
        "We decided after the OUTAGE": "incident",
        "Data-loss in region 2": "incident",
        "we Decided to wait": "decision",
        "decidedly odd": None,
        "no outage today": None,
        "launched without any outage": "milestone",
        "it didn't decided": None,
        "It went\nlive": "milestone",
        "": None,
    }
    assert {text: category_of(text) for text in said} == said


def test_a_leaf_is_hmac_sha256_of_the_row() -> None:
    """As docs/trail.md has it for those who compute it themselves."""
    key = bytes(range(32))
    pads = [bytes(one ^ pad for one in key.ljust(64, b"\0")) for pad in (0x36, 0x5C)]
    inner = hashlib.sha256(pads[0] + b'{"id": "a"}').digest()
    assert leaf_of('{"id": "a"}', key) == hashlib.sha256(pads[1] + inner).digest()
    assert base64.b64encode(leaf_hash(b""))[:4] == b"bjQL"
