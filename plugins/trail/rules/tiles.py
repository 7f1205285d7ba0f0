"""Tiles: the hashes of the log in rows of 256, as C2SP tlog-tiles has them, so that a proof reads a few rows of any log.

Tile (0, n) has the hashes of the leaves from 256 n on; tile (l, n) the hashes of the tiles of level l - 1 that are full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from plugins.trail.rules.merkle import HASH_BYTES, Nodes, root_at, root_of

HEIGHT = 8
WIDTH = 1 << HEIGHT

Tile: TypeAlias = tuple[int, int]
"""Level and number."""
Tiles: TypeAlias = Mapping[Tile, bytes]
"""The hashes of each tile, one after the other."""


class TileMissing(Exception):
    """A tile that should be there is not, or is too short."""

    def __init__(self, tile: Tile) -> None:
        super().__init__(f"tile {tile[0]}/{tile[1]} of the trail is missing or too short")
        self.tile = tile


def nodes_of(tiles: Tiles) -> Nodes:
    """The nodes of the tree whose tiles these are. They raise TileMissing."""

    def node(level: int, index: int) -> bytes:
        tile_level, above = divmod(level, HEIGHT)
        first = index << above
        tile = (tile_level, first >> HEIGHT)
        begin = (first % WIDTH) * HASH_BYTES
        end = begin + (HASH_BYTES << above)
        hashes = tiles.get(tile, b"")
        if len(hashes) < end:
            raise TileMissing(tile)
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
    """The tiles from which the root at this size is computed."""
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
    """The tiles that change when these hashes are appended to a log of `size` leaves with this edge. Raises TileMissing."""
    for tile in edge_of(size):
        if len(edge.get(tile, b"")) != (size >> HEIGHT * tile[0]) % WIDTH * HASH_BYTES:
            raise TileMissing(tile)
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
    """Hashes that stand one after the other."""
    return [hashes[at : at + HASH_BYTES] for at in range(0, len(hashes), HASH_BYTES)]
