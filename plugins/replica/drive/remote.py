"""The content of the replica's folder in Google Drive: listed after a start, then updated by page token.

A listing may lack files of the last minute. So in the first minute the folder is listed repeatedly, and no file counts as
gone. A token that is too old costs one more listing; known files that it lacks are requested one by one.

Drive has ids and no paths. Names may contain slashes, and two files of one folder may have the same name: the oldest has the
plain path, and the others have a number in theirs. Nothing is renamed in Drive.

Promise: a file counts as gone only while the folder itself exists.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from hashlib import sha256

from plugins.files.local import is_text
from plugins.replica.drive.api import DOCUMENT, Api, Node
from plugins.replica.drive.client import DriveError
from plugins.replica.folder import Entry, FolderUnavailable, Listing


class Tree:
    """What is below one folder."""

    def __init__(self, root: Node) -> None:
        self.root = root
        self._nodes: dict[str, Node] = {root.id: root}
        self._children: dict[str, set[str]] = {root.id: set()}

    def get(self, file_id: str) -> Node | None:
        return self._nodes.get(file_id)

    def children(self, folder: str) -> Iterable[Node]:
        return [self._nodes[one] for one in self._children.get(folder, ())]

    def nodes(self) -> Iterator[Node]:
        """All files and folders but the root, each after its own folder."""
        folders = [self.root.id]
        while folders:
            for node in self.children(folders.pop()):
                yield node
                folders += [node.id] * node.is_folder

    def is_folder(self, file_id: str | None) -> bool:
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

    def paths(self, *, is_young: bool) -> tuple[Listing, dict[str, str]]:
        """All files but hidden ones, by their paths; and the id of each usable file and folder."""
        found, documents = Listing(), 0
        ids: dict[str, str] = {}
        folders = [(self.root.id, "")]
        while folders:
            folder, prefix = folders.pop()
            for name, node in _named(self.children(folder)):
                path = prefix + name
                if node.is_folder:
                    found.folders.add(path)
                    folders.append((node.id, f"{path}/"))
                elif node.md5 is None or not is_text(path):
                    # Such as a shortcut, or a Google document.
                    found.unread.add(path)
                    documents += node.kind == DOCUMENT
                    continue
                else:
                    found.files[path] = _entry(node)
                ids[path] = node.id
        return replace(found, left_out=documents, is_young=is_young), ids


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


MOST_CONFIRMED = 1000
"""Files that are requested one by one when a new listing lacks them."""


class Remote:
    """The folder of this id. Raises FolderUnavailable when it cannot be used, and DriveError."""

    def __init__(self, folder_id: str, api: Api, *, email: str, young_seconds: float) -> None:
        """`email`: of the account, for people who share the folder. `young_seconds`: how long a listing may lack a new file."""
        self.id = folder_id
        self.is_new = True
        """Whether something changed since this was last set to False."""
        self.is_doubtful = False
        """Whether the folder has to be listed again, because Drive's changes and answers disagree."""
        self._api = api
        self._email = email
        self._share = f"Make {email} a member of its shared drive, as Content manager"
        self._young = young_seconds
        self._drive: str | None = None
        self._tree: Tree | None = None
        self._token: str | None = None
        self._whole_at: float | None = None
        """When a listing becomes complete."""
        self.is_young = True
        """Whether the listing may lack recent files."""
        self._dropped = False
        """Whether a file is gone, and the folder itself was not checked yet."""

    @property
    def is_listed(self) -> bool:
        return self._tree is not None

    @property
    def tree(self) -> Tree:
        """The content. Raises DriveError before the first listing."""
        if self._tree is None:
            raise DriveError(errno.ENOTCONN, "The folder in Google Drive was not listed yet.", passes=True)
        return self._tree

    def refresh(self) -> None:
        try:
            if self.is_young or self.is_doubtful:
                self._load()
            else:
                self._follow()
        except DriveError as error:
            if error.is_missing and self._drive is not None:
                raise self._no_member() from None
            raise

    def inside(self, folder: str, *, name: str | None = None) -> Iterable[Node]:
        """The files of this name that are in a folder now."""
        return self._api.children([folder], drive=self._drive, name=name)

    def root(self) -> Node:
        try:
            root = self._api.get(self.id)
        except DriveError as error:
            if not error.is_missing:
                raise
            raise self._lost("there is no such folder that this account may see", self._share) from None
        if root.trashed:
            raise self._lost("it is in the trash", "Put it back")
        if not root.is_folder:
            raise self._lost("it is not a folder", "Make one")
        self._drive = root.drive
        return root

    def require_rights(self) -> None:
        """Raises FolderUnavailable unless files can be added and changes can be read."""
        if not self.root().may_add:
            raise FolderUnavailable(
                f"The account {self._email} may only read the folder {self.id} in Google Drive. Give it the role Content "
                "manager."
            )
        try:
            self._api.start_token(self._drive)
        except DriveError as error:
            if error.is_missing and self._drive is not None:
                raise self._no_member() from None
            raise

    def record(self, node: Node, *, content: bytes | None = None) -> None:
        if node.trashed or not self.tree.is_folder(node.parent):
            self.drop(node)  # a person has moved it out meanwhile
            return
        if node.sha256 is None and content is not None:
            node = replace(node, sha256=sha256(content).digest())
        self.tree.put(node)
        self.is_new = True

    def drop(self, node: Node) -> None:
        self.is_new |= self.tree.drop(node.id)

    def _lost(self, why: str, advice: str) -> FolderUnavailable:
        self.is_doubtful = True
        return FolderUnavailable(
            f"The folder {self.id} in Google Drive cannot be used: {why}. {advice}, or correct MEMORYD_REPLICA."
        )

    def _no_member(self) -> FolderUnavailable:
        return self._lost("this account is not a member of its shared drive", self._share)

    def _load(self) -> None:
        root = self.root()
        token, clock = self._api.start_token(self._drive), time.monotonic()
        tree = Tree(root)
        self._fill(tree, root.id)
        if self._tree is not None:
            self._confirm(tree, self._tree)
        self._whole_at = clock + self._young if self._whole_at is None else self._whole_at
        self.is_young = clock < self._whole_at
        self._tree, self._token, self.is_new, self.is_doubtful = tree, token, True, False
        self._follow(may_expire=False)

    def _fill(self, tree: Tree, *folders: str) -> None:
        left = list(folders)
        while left:
            found = [node for node in self._api.children(left, drive=self._drive) if not node.trashed]
            left = []
            for node in found:
                if tree.is_folder(node.parent):
                    tree.put(node)
                    left += [node.id] * node.is_folder

    def _confirm(self, tree: Tree, before: Tree) -> None:
        """Requests the known files that a new listing lacks: it may lack new files, and sometimes others."""
        asked = 0
        for node in before.nodes():
            known = tree.get(node.id)
            if known is None and asked < MOST_CONFIRMED:
                asked += 1
                self._put_back(tree, node.id)
            elif known is not None and known.version < node.version and tree.is_folder(node.parent):
                tree.put(node)

    def _put_back(self, tree: Tree, file_id: str) -> None:
        """Restores a file that exists though it is not listed."""
        try:
            node = self._api.get(file_id)
        except DriveError as error:
            if not error.is_missing:
                raise
            return
        if tree.is_folder(node.parent) and not node.trashed:
            tree.put(node)
            if node.is_folder:
                self._fill(tree, node.id)

    def _follow(self, *, may_expire: bool = True) -> None:
        last: str | None = None
        while last is None:
            assert self._token is not None
            try:
                changes, following, last = self._api.changes(self._token, drive=self._drive)
            except DriveError as error:
                if error.passes or not may_expire or error.errno not in (errno.ESTALE, errno.EPROTO):
                    raise
                # The token is too old, or belongs to another drive: a new listing has all changes.
                self.is_doubtful = True
                self._load()
                return
            for file_id, node in changes:
                self._dropped |= self._apply(file_id, node)
            self._token = following or last
        if self._dropped:
            # If the folder itself is gone or not shared any more, its files were not deleted.
            self.root()
            self._dropped = False

    def _apply(self, file_id: str, node: Node | None) -> bool:
        """Applies one change; returns whether a file is gone."""
        tree = self.tree
        if file_id == self.id:
            return True
        if node is None or node.trashed or not tree.is_folder(node.parent):
            known = tree.get(file_id)
            if known is None or (node is not None and node.version < known.version):
                return False
            self.drop(known)
            return True
        is_new_folder = node.is_folder and not tree.is_folder(node.id)
        self.is_new |= tree.put(node)
        if is_new_folder:
            # The change of a folder that was moved here does not list its files.
            try:
                self._fill(tree, node.id)
            except DriveError:
                tree.drop(node.id)
                raise
        return False
