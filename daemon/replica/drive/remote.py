"""What is in the replica's folder in Google Drive: listed after a start, and followed by page token from then on.

A listing may lack what was written a minute before. So in the first minute the folder is listed again and again, and nothing
counts as gone. A token that is too old costs one more listing; what was known and is not in it is asked for.

Promise: what is said to be gone counts as gone only while the folder itself is there.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256

from daemon.replica.drive.api import Api, Node
from daemon.replica.drive.faults import DriveError
from daemon.replica.drive.tree import Tree
from daemon.replica.folder import FolderUnavailable

MOST_CONFIRMED = 1000
"""Files that are asked for one by one when a new listing lacks them."""


class Remote:
    """The folder of this id. Raises FolderUnavailable when it cannot be used, and DriveError."""

    def __init__(self, folder_id: str, api: Api, *, email: str, young_seconds: float) -> None:
        """`email`: the account's, for people who share the folder with it. `young_seconds`: so long a listing may lack what was
        just written.
        """
        self.id = folder_id
        self.is_new = True
        """Something has changed since this was last set to False."""
        self.is_doubtful = False
        """Drive's changes and its answers do not agree: the folder has to be listed again."""
        self._api = api
        self._email = email
        self._share = f"Make {email} a member of its shared drive, as Content manager"
        self._young = young_seconds
        self._drive: str | None = None
        self._tree: Tree | None = None
        self._token: str | None = None
        self._whole_at: float | None = None
        """From then on a listing is whole."""
        self.is_young = True
        """What is there may lack what was written a short time ago."""
        self._dropped = False
        """Something is gone, and whether the folder itself is there was not asked yet."""

    @property
    def is_listed(self) -> bool:
        """Whether it was listed."""
        return self._tree is not None

    @property
    def tree(self) -> Tree:
        """What is in it. Raises DriveError before it was listed."""
        if self._tree is None:
            raise DriveError(errno.ENOTCONN, "The folder in Google Drive was not listed yet.", passes=True)
        return self._tree

    def refresh(self) -> None:
        """Asks Drive what is new."""
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
        """What Drive says now is in a folder, and has this name."""
        return self._api.children([folder], drive=self._drive, name=name)

    def root(self) -> Node:
        """The folder itself, as it is now."""
        try:
            root = self._api.get(self.id)
        except DriveError as error:
            if not error.is_missing:
                raise
            raise self._lost("there is none that this account may see", self._share) from None
        if root.trashed:
            raise self._lost("it is in the trash", "Put it back")
        if not root.is_folder:
            raise self._lost("it is no folder", "Make one")
        self._drive = root.drive
        return root

    def require_rights(self) -> None:
        """Raises FolderUnavailable unless files can be added, and changes be learnt of."""
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

    def take(self, node: Node, *, content: bytes | None = None) -> None:
        """Takes what memoryd itself has changed."""
        if node.trashed or not self.tree.is_folder(node.parent):
            self.drop(node)  # a person has moved it away meanwhile
            return
        if node.sha256 is None and content is not None:
            node = replace(node, sha256=sha256(content).digest())
        self.tree.put(node)
        self.is_new = True

    def drop(self, node: Node) -> None:
        """Forgets what memoryd itself has deleted."""
        self.is_new |= self.tree.drop(node.id)

    def _lost(self, why: str, advice: str) -> FolderUnavailable:
        self.is_doubtful = True
        return FolderUnavailable(
            f"The folder {self.id} in Google Drive cannot be used: {why}. {advice}, or correct MEMORYD_REPLICA."
        )

    def _no_member(self) -> FolderUnavailable:
        return self._lost("this account is no member of its shared drive", self._share)

    def _load(self) -> None:
        """Lists the folder, and applies what changed meanwhile."""
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
        """Takes all that is below these folders."""
        left = list(folders)
        while left:
            found = [node for node in self._api.children(left, drive=self._drive) if not node.trashed]
            left = []
            for node in found:
                if tree.is_folder(node.parent):
                    tree.put(node)
                    left += [node.id] * node.is_folder

    def _confirm(self, tree: Tree, before: Tree) -> None:
        """Asks for what was there before and is not in a new listing: it may lack what is young, and sometimes more."""
        asked = 0
        for node in before.nodes():
            known = tree.get(node.id)
            if known is None and asked < MOST_CONFIRMED:
                asked += 1
                self._put_back(tree, node.id)
            elif known is not None and known.version < node.version and tree.is_folder(node.parent):
                tree.put(node)

    def _put_back(self, tree: Tree, file_id: str) -> None:
        """Takes a file that is there though it is not listed."""
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
        """Applies the changes since the token."""
        last: str | None = None
        while last is None:
            assert self._token is not None
            try:
                changes, following, last = self._api.changes(self._token, drive=self._drive)
            except DriveError as error:
                if error.passes or not may_expire or error.errno not in (errno.ESTALE, errno.EPROTO):
                    raise
                # It is too old, or of another drive. What happened since is in a new listing.
                self.is_doubtful = True
                self._load()
                return
            for change in changes:
                self._dropped |= self._apply(change.id, change.node)
            self._token = following or last
        if self._dropped:
            # If the folder itself is gone, or not shared any more, nothing in it was deleted.
            self.root()
            self._dropped = False

    def _apply(self, file_id: str, node: Node | None) -> bool:
        """Takes one change. Whether something is gone."""
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
            # One that is moved here comes without a word of what is in it.
            try:
                self._fill(tree, node.id)
            except DriveError:
                tree.drop(node.id)
                raise
        return False
