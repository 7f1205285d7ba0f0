"""Where the replica is: a folder of this machine, or one in Google Drive."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.replica.folder import Folder
from daemon.replica.local_folder import LocalFolder
from daemon.settings import Settings

if TYPE_CHECKING:
    from daemon.replica.drive.api import Api
    from daemon.replica.drive.folder import DriveFolder

YOUNG_SECONDS = 60.0
"""So long a listing of Google Drive may lack what was just written."""

_DRIVE = re.compile(r"gdrive:(.*)", re.DOTALL)
_ADDRESS = re.compile(r"https?:/+drive\.google\.com/(?:.*/)?folders/([\w-]+)(?:[/?#].*)?")
_ID = re.compile(r"[\w-]{3,200}", re.ASCII)


def open_location(settings: Settings) -> Folder | None:
    """Where these settings want the replica; None: nowhere. Raises ValueError with what to do. Drive is not asked yet."""
    if settings.replica is None:
        return None
    return open_drive_folder(settings) or LocalFolder(settings.replica.absolute())


def open_drive_folder(settings: Settings) -> DriveFolder | None:
    """The folder in Google Drive that MEMORYD_REPLICA names; None where it is a path. Raises ValueError with what to do."""
    folder_id = None if settings.replica is None else drive_id_of(settings.replica)
    if folder_id is None:
        return None
    from daemon.replica.drive.folder import DriveFolder
    from daemon.replica.drive.remote import Remote

    api, email = open_drive(settings)
    remote = Remote(folder_id, api, email=email, young_seconds=YOUNG_SECONDS)
    return DriveFolder(remote, api, poll_seconds=settings.gdrive_poll_seconds)


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
