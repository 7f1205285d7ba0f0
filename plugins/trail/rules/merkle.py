"""Merkle trees of RFC 9162 (RFC 6962): SHA-256, leaves hashed with the prefix 0x00 and inner nodes with 0x01.

A node is named by its level (0: leaves) and its index in it. Only nodes of whole subtrees have a name: what stands at the
right edge of the tree is computed from these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256

Nodes = Callable[[int, int], bytes]
"""The hash of a whole subtree, by level and index."""

HASH_BYTES = 32


def leaf_hash(data: bytes) -> bytes:
    """The hash of a leaf."""
    return sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of two subtrees."""
    return sha256(b"\x01" + left + right).digest()


class Edge:
    """The right edge of a growing tree: enough to append to it and to tell its root at each size."""

    def __init__(self) -> None:
        self.size = 0
        self._peaks: list[bytes] = []

    def append(self, leaf: bytes) -> None:
        """Adds the hash of the next leaf."""
        self._peaks.append(leaf)
        whole = self.size
        while whole & 1:
            right = self._peaks.pop()
            self._peaks.append(node_hash(self._peaks.pop(), right))
            whole >>= 1
        self.size += 1

    def root(self) -> bytes:
        """The root of what was appended so far."""
        if not self._peaks:
            return sha256(b"").digest()
        found = self._peaks[-1]
        for left in reversed(self._peaks[:-1]):
            found = node_hash(left, found)
        return found


def root_of(leaves: Sequence[bytes]) -> bytes:
    """The root of a tree of these hashes of leaves."""
    edge = Edge()
    for leaf in leaves:
        edge.append(leaf)
    return edge.root()


def root_at(size: int, nodes: Nodes) -> bytes:
    """The root of the first `size` leaves."""
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
