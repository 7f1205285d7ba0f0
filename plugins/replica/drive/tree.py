"""The files below the replica's folder, from Drive's changes, and their paths for memoryd.

Drive has ids and no paths. Names may contain slashes, and two files of one folder may have the same name: the oldest has the
plain path, and the others have a number in theirs. Nothing is renamed in Drive.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256

from daemon.local_files import is_text
from plugins.replica.drive.api import DOCUMENT, Node
from plugins.replica.folder import Entry, Listing


@dataclass(frozen=True, slots=True)
class Paths:
    """The tree as paths."""

    listing: Listing = field(default_factory=Listing)
    ids: dict[str, str] = field(default_factory=dict)
    """Each usable file and folder, by its path."""


class Tree:
    """What is below one folder."""

    def __init__(self, root: Node) -> None:
        self.root = root
        self._nodes: dict[str, Node] = {root.id: root}
        self._children: dict[str, set[str]] = {root.id: set()}

    def get(self, file_id: str) -> Node | None:
        """A file of the tree."""
        return self._nodes.get(file_id)

    def children(self, folder: str) -> Iterable[Node]:
        """The files of a folder."""
        return [self._nodes[one] for one in self._children.get(folder, ())]

    def nodes(self) -> Iterator[Node]:
        """All files and folders but the root, each after its own folder."""
        folders = [self.root.id]
        while folders:
            for node in self.children(folders.pop()):
                yield node
                folders += [node.id] * node.is_folder

    def is_folder(self, file_id: str | None) -> bool:
        """Whether it is a folder of the tree."""
        return file_id in self._children

    def put(self, node: Node) -> bool:
        """Adds a file or folder whose parent is in the tree; returns whether that changes anything.

        Drive may report an older state after a newer one; the older one is ignored.
        """
        before = self._nodes.get(node.id)
        if before is not None and (node.version < before.version or node == before):
            return False
        if node.id == self.root.id:
            self.root = self._nodes[node.id] = node
            return False
        if before is not None and before.parent is not None:
            self._children[before.parent].discard(node.id)
        assert node.parent is not None
        self._nodes[node.id] = node
        self._children[node.parent].add(node.id)
        if node.is_folder:
            self._children.setdefault(node.id, set())
        return before is None or _shown(before) != _shown(node)

    def drop(self, file_id: str) -> bool:
        """Forgets a file, or a folder with its content; returns whether it was in the tree."""
        node = self._nodes.pop(file_id, None)
        if node is None:
            return False
        if node.parent in self._children:
            self._children[node.parent].discard(file_id)
        for child in self._children.pop(file_id, set()):
            self.drop(child)
        return True

    def paths(self, *, is_young: bool) -> Paths:
        """All files but hidden ones, by their paths."""
        found, documents = Paths(), 0
        folders = [(self.root.id, "")]
        while folders:
            folder, prefix = folders.pop()
            for name, node in _named(self.children(folder)):
                path = prefix + name
                if node.is_folder:
                    found.listing.folders.add(path)
                    folders.append((node.id, f"{path}/"))
                elif node.md5 is None or not is_text(path):
                    # Such as a shortcut, or a Google document.
                    found.listing.unread.add(path)
                    documents += node.kind == DOCUMENT
                    continue
                else:
                    found.listing.files[path] = _entry(node)
                found.ids[path] = node.id
        return Paths(replace(found.listing, left_out=documents, is_young=is_young), found.ids)


def _named(nodes: Iterable[Node]) -> Iterable[tuple[str, Node]]:
    """The visible files of one folder, each with a unique name."""
    taken: dict[str, Node] = {}
    others: list[tuple[str, Node]] = []
    for node in sorted(nodes, key=lambda one: (one.created, one.id)):
        name = node.name.replace("/", "-").replace("\0", "-")
        if not name or name.startswith("."):
            continue
        if name in taken:
            others.append((name, node))
        else:
            taken[name] = node
    for name, node in others:
        stem, dot, suffix = name.rpartition(".")
        stem, ending = (stem, dot + suffix) if stem and not node.is_folder else (name, "")
        number = 2
        while (free := f"{stem} {number}{ending}") in taken:
            number += 1
        taken[free] = node
    return taken.items()


def _shown(node: Node) -> tuple[object, ...]:
    """A file as the replica sees it."""
    return node.name, node.kind, node.parent, node.md5, node.created


def _entry(node: Node) -> Entry:
    assert node.md5 is not None
    signature = sha256(f"{node.md5} {node.size}".encode()).digest()
    return Entry(signature, node.when.timestamp(), node.sha256)
