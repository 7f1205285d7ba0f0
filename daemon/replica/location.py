"""Where the replica is: a folder of this machine, or one in Google Drive. What differs between them, but for the files."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Collection, Coroutine
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from watchfiles import Change

from daemon.open_files import is_local
from daemon.replica.files.stability import SETTLE_SECONDS
from daemon.replica.folder import Folder, FolderUnavailable
from daemon.replica.local_folder import LocalFolder
from daemon.settings import Settings
from daemon.watching import NotWatched, changes

if TYPE_CHECKING:
    from daemon.replica.drive.api import Api
    from daemon.replica.drive.folder import DriveFolder

DEBOUNCE_MS = 50
AGAIN_SECONDS = 0.2
"""Until a folder is watched again. Where that lasts for no change, for twice as long the next time."""
BLIND_AFTER = 2
"""Attempts to watch a folder that failed, when a person is told."""
MAX_EVENTS = 1_000
"""Paths of events at once. Where there are more, the system may have left some out: then all files are looked at."""
SCAN_SECONDS = 60.0
"""Between two scans of the whole replica while nothing happens."""
DRIVE_SETTLE_SECONDS = 3.0
"""Some programs save by deleting a file and adding a new one, which Drive tells of one after the other."""

_DRIVE = re.compile(r"gdrive:(.*)", re.DOTALL)
_ADDRESS = re.compile(r"https?:/+drive\.google\.com/(?:.*/)?folders/([\w-]+)(?:[/?#].*)?")
_ID = re.compile(r"[\w-]{3,200}", re.ASCII)

Wake: TypeAlias = Callable[[Collection[str] | None], None]
"""Something changed at these paths; None: somewhere."""
Blind: TypeAlias = Callable[[BaseException], None]
"""The system tells of no changes, because of this error."""
Watch: TypeAlias = Callable[[Wake, Blind, asyncio.Event, asyncio.Event], Coroutine[Any, Any, None]]
"""Calls the first argument when something changed, while the folder is available; the events say when it is, and is not."""


class Pages(Protocol):
    """A folder that tells of changes since a page token."""

    @property
    def name(self) -> str:
        """Which folder it is."""
        ...

    def resume(self, token: str | None) -> None:
        """Goes on from a token that was kept."""
        ...

    def bookmark(self) -> str | None:
        """The token to keep."""
        ...


@dataclass(frozen=True, slots=True)
class Location:
    """A folder, and how one learns of changes in it."""

    folder: Folder
    watch: Watch
    settle_seconds: float = SETTLE_SECONDS
    is_told: Callable[[], bool] = lambda: True
    """Whether `watch` learns of all changes now, of whoever makes them."""
    pages: Pages | None = None
    close: Callable[[], None] = lambda: None
    """Ends what is running in other threads."""


def open_location(settings: Settings) -> Location | None:
    """Where these settings want the replica; None: nowhere. Raises ValueError with what to do. Drive is not asked yet."""
    if settings.replica is None:
        return None
    if (drive_folder := open_drive_folder(settings)) is not None:
        return drive_location(drive_folder, poll_seconds=settings.gdrive_poll_seconds)
    return local_location(settings.replica.absolute(), scan_seconds=SCAN_SECONDS)


def open_drive_folder(settings: Settings) -> DriveFolder | None:
    """The folder in Google Drive that MEMORYD_REPLICA names; None where it is a path. Raises ValueError with what to do."""
    folder_id = None if settings.replica is None else drive_id_of(settings.replica)
    if folder_id is None:
        return None
    from daemon.replica.drive.folder import DriveFolder
    from daemon.replica.drive.remote import Remote

    api, email = open_drive(settings)
    return DriveFolder(Remote(folder_id, api, email=email), api)


def open_drive(settings: Settings) -> tuple[Api, str]:
    """Google Drive as the account of these settings has it, and the account's address. Raises ValueError with what to do."""
    from daemon.replica.drive.account import open_account
    from daemon.replica.drive.api import Api
    from daemon.replica.drive.client import Client

    account = open_account(settings.gdrive_key_file)
    client = Client(account, timeout_seconds=settings.provider_timeout_seconds, base_url=settings.gdrive_url)
    return Api(client), account.email


def drive_id_of(setting: Path, *, name: str = "MEMORYD_REPLICA") -> str | None:
    """The id of the folder in Google Drive that a setting of this name is; None where it is a path.

    The address of the folder, as the browser shows it, is understood too. Raises ValueError with what to do.
    """
    text = str(setting)
    given = _DRIVE.fullmatch(text)
    address = _ADDRESS.fullmatch(text if given is None else given[1])
    if given is None and address is None:
        return None
    found = address[1] if address is not None else given[1] if given is not None else ""
    if not _ID.fullmatch(found):
        raise ValueError(
            f"{name} is {text!r}: after gdrive: comes the id of a folder, the last part of its address in the browser."
        )
    return found


def local_location(root: Path, *, scan_seconds: float) -> Location:
    """A folder of this machine. `scan_seconds`: between two attempts to watch it, where that is not possible."""

    watched = asyncio.Event()
    folder = LocalFolder(root)

    async def watch(wake: Wake, blind: Blind, available: asyncio.Event, unavailable: asyncio.Event) -> None:
        # When the folder was away, it may be another one by now: it is watched again.
        failures = 0
        while True:
            await available.wait()
            watched.set()
            # As soon as it is watched: a pass may have listed it before, and missed what changed in between.
            asyncio.get_running_loop().call_soon(wake, None)
            try:
                options = {"debounce": DEBOUNCE_MS, "step": DEBOUNCE_MS, "stop_event": unavailable}
                async with aclosing(changes(root, watch_filter=partial(_is_seen, root), **options)) as found:
                    async for some in found:
                        failures = 0
                        changed = await asyncio.to_thread(_news, folder, some)
                        if changed is None or changed:
                            wake(changed)
            except NotWatched as error:
                failures += 1
                if failures == BLIND_AFTER and not isinstance(error.__cause__, FileNotFoundError):
                    blind(error.__cause__ or error)
            watched.clear()
            if available.is_set():
                await asyncio.sleep(min(AGAIN_SECONDS * 2 ** min(failures, 20), scan_seconds))

    def is_told() -> bool:
        return watched.is_set() and is_local(root)

    return Location(folder, watch, is_told=is_told)


def _is_seen(root: Path, _change: Change, path: str) -> bool:
    return path == os.fspath(root) or not Path(path).name.startswith(".")


def _news(folder: LocalFolder, found: set[tuple[Change, str]]) -> set[str] | None:
    """The paths that others changed; None: too many for that."""
    if len(found) > MAX_EVENTS:
        return None
    paths = {os.path.relpath(path, folder.root) for _, path in found}
    return None if "." in paths else {path for path in paths if not folder.is_own_work(path)}


def drive_location(folder: DriveFolder, *, poll_seconds: float) -> Location:
    """A folder in Google Drive, which is asked for changes every `poll_seconds`."""

    async def watch(wake: Wake, _blind: Blind, available: asyncio.Event, _unavailable: asyncio.Event) -> None:
        while True:
            await available.wait()
            await asyncio.sleep(poll_seconds)
            try:
                changed = await asyncio.to_thread(folder.changed)
            except FolderUnavailable:
                changed = True  # the pass says why
            if changed:
                wake(None)

    return Location(folder, watch, DRIVE_SETTLE_SECONDS, pages=folder, close=folder.close)
