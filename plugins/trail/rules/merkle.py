"""Merkle trees of RFC 9162 (RFC 6962): SHA-256, leaves hashed with the prefix 0x00 and inner nodes with 0x01.

A node is named by its level (0: leaves) and its index in it. Only nodes of whole subtrees have a name: what stands at the
right edge of the tree is computed from these. They are stored in tiles of 256 hashes, as C2SP tlog-tiles has them, so that a
proof reads a few rows of any log: tile (0, n) has the hashes of the leaves from 256 n on; tile (l, n) the hashes of the tiles
of level l - 1 that are full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import TypeAlias

Nodes = Callable[[int, int], bytes]
"""The hash of a whole subtree, by level and index."""

HASH_BYTES = 32


def leaf_hash(data: bytes) -> bytes:
    return sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()


class Edge:
    """The right edge of a growing tree: enough to append to it and to tell its root at each size."""

    def __init__(self) -> None:
        self.size = 0
        self._peaks: list[bytes] = []

    def append(self, leaf: bytes) -> None:
        self._peaks.append(leaf)
        whole = self.size
        while whole & 1:
            right = self._peaks.pop()
            self._peaks.append(node_hash(self._peaks.pop(), right))
            whole >>= 1
        self.size += 1

    def root(self) -> bytes:
        if not self._peaks:
            return sha256(b"").digest()
        found = self._peaks[-1]
        for left in reversed(self._peaks[:-1]):
            found = node_hash(left, found)
        return found


def root_of(leaves: Sequence[bytes]) -> bytes:
    edge = Edge()
    for leaf in leaves:
        edge.append(leaf)
    return edge.root()


def root_at(size: int, nodes: Nodes) -> bytes:
    return _range(0, size, nodes) if size else sha256(b"").digest()


def inclusion(index: int, size: int, nodes: Nodes) -> list[bytes]:
    """The proof that leaf `index` is in the tree of `size` leaves: RFC 9162, 2.1.3.1."""
    if not 0 <= index < size:
        raise ValueError(f"leaf {index} is not in a tree of {size} leaves")
    low, high = 0, size
    path: list[bytes] = []
    while high - low > 1:
        middle = low + _left(high - low)
        if index < middle:
            path.append(_range(middle, high, nodes))
            high = middle
        else:
            path.append(_range(low, middle, nodes))
            low = middle
    return path[::-1]


def root_from_inclusion(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes | None:
    """The root that this proof leads to: RFC 9162, 2.1.3.2. None where its length does not suit the tree."""
    if not 0 <= index < size:
        return None
    at, last, found = index, size - 1, leaf
    for other in path:
        if last == 0:
            return None
        if at & 1 or at == last:
            found = node_hash(other, found)
            while not at & 1 and at:
                at >>= 1
                last >>= 1
        else:
            found = node_hash(found, other)
        at >>= 1
        last >>= 1
    return found if last == 0 else None


def _left(count: int) -> int:
    """The greatest power of two below `count`."""
    return 1 << (count - 1).bit_length() - 1


def _range(low: int, high: int, nodes: Nodes) -> bytes:
    """The hash of the leaves from `low` to `high`, which begin where a subtree of their size begins."""
    count = high - low
    if count & (count - 1) == 0:
        level = count.bit_length() - 1
        return nodes(level, low >> level)
    middle = low + _left(count)
    return node_hash(_range(low, middle, nodes), _range(middle, high, nodes))


HEIGHT = 8
WIDTH = 1 << HEIGHT

Tile: TypeAlias = tuple[int, int]
"""Level and number."""
Tiles: TypeAlias = Mapping[Tile, bytes]
"""The hashes of each tile, one after the other."""


class MissingTileError(Exception):
    """A tile that should be there is not, or is too short."""

    def __init__(self, tile: Tile) -> None:
        super().__init__(f"tile {tile[0]}/{tile[1]} of the trail is missing or too short")
        self.tile = tile


def nodes_of(tiles: Tiles) -> Nodes:
    """The nodes of the tree whose tiles these are. They raise MissingTileError."""

    def node(level: int, index: int) -> bytes:
        tile_level, above = divmod(level, HEIGHT)
        first = index << above
        tile = (tile_level, first >> HEIGHT)
        begin = (first % WIDTH) * HASH_BYTES
        end = begin + (HASH_BYTES << above)
        hashes = tiles.get(tile, b"")
        if len(hashes) < end:
            raise MissingTileError(tile)
        return root_of(split(hashes[begin:end]))

    return node


def tiles_for(ask: Callable[[Nodes], object]) -> set[Tile]:
    """Which tiles are read by what asks for nodes."""
    asked: set[Tile] = set()

    def node(level: int, index: int) -> bytes:
        tile_level, above = divmod(level, HEIGHT)
        asked.add((tile_level, (index << above) >> HEIGHT))
        return bytes(HASH_BYTES)

    ask(node)
    return asked


def tiles_of_root(size: int) -> set[Tile]:
    return tiles_for(lambda nodes: root_at(size, nodes))


def edge_of(size: int) -> set[Tile]:
    """The tiles that are not full at this size, and so grow next."""
    edge: set[Tile] = set()
    level, count = 0, size
    while count:
        if count % WIDTH:
            edge.add((level, count // WIDTH))
        count //= WIDTH
        level += 1
    return edge


def grow(edge: Tiles, size: int, leaves: Iterable[bytes]) -> dict[Tile, bytes]:
    """The tiles that change when these hashes are appended to a log of `size` leaves and this edge. Raises MissingTileError."""
    for tile in edge_of(size):
        if len(edge.get(tile, b"")) != (size >> HEIGHT * tile[0]) % WIDTH * HASH_BYTES:
            raise MissingTileError(tile)
    changed: dict[Tile, bytes] = {}

    def append(level: int, index: int, added: bytes) -> None:
        tile = (level, index // WIDTH)
        whole = changed.get(tile, edge.get(tile, b"") if index % WIDTH else b"") + added
        changed[tile] = whole
        if len(whole) == WIDTH * HASH_BYTES:
            append(level + 1, index // WIDTH, root_of(split(whole)))

    for index, leaf in enumerate(leaves, size):
        append(0, index, leaf)
    return changed


def split(hashes: bytes) -> Sequence[bytes]:
    return [hashes[at : at + HASH_BYTES] for at in range(0, len(hashes), HASH_BYTES)]
