"""The location of the replica: a folder on this machine, or in Google Drive."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.settings import Settings
from plugins.replica.folder import Folder
from plugins.replica.settings import Replica

if TYPE_CHECKING:
    from plugins.replica.drive.api import Api

YOUNG_SECONDS = 60.0
"""How long a listing of Google Drive may lack a new file."""

_ADDRESS = re.compile(r"https?:/+drive\.google\.com/(?:.*/)?folders/([\w-]+)(?:[/?#].*)?")
_ID = re.compile(r"[\w-]{3,200}", re.ASCII)


def open_location(settings: Settings) -> Folder | None:
    """The folder of these settings; None for no replica. Raises ValueError with what to do. Does not call Drive."""
    own = settings.section(Replica)
    if own.replica is None:
        return None
    if (folder_id := drive_id_of(own.replica)) is None:
        from plugins.replica.local_folder import LocalFolder

        return LocalFolder(own.replica.absolute())
    from plugins.replica.drive.folder import DriveFolder
    from plugins.replica.drive.remote import Remote

    api, email = open_drive(settings)
    remote = Remote(folder_id, api, email=email, young_seconds=YOUNG_SECONDS)
    return DriveFolder(remote, api, poll_seconds=own.gdrive_poll_seconds)


def open_drive(settings: Settings) -> tuple[Api, str]:
    """Google Drive with the account of these settings, and the account's address. Raises ValueError with what to do."""
    from plugins.replica.drive.api import Api
    from plugins.replica.drive.client import Client, open_account

    own = settings.section(Replica)
    account = open_account(own.gdrive_key_file)
    client = Client(account, timeout_seconds=settings.provider_timeout_seconds, base_url=own.gdrive_url)
    return Api(client), account.email


def drive_id_of(setting: Path, *, name: str = "MEMORYD_REPLICA") -> str | None:
    """The id of the folder in Google Drive in the setting `name`; None if the setting is a path.

    The folder's address in a browser is accepted too. Raises ValueError with what to do.
    """
    text = str(setting)
    found = text.removeprefix("gdrive:")
    if address := _ADDRESS.fullmatch(found):
        found = address[1]
    elif found == text:
        return None
    if not _ID.fullmatch(found):
        raise ValueError(
            f"{name} is {text!r}: after gdrive: comes the id of a folder, the last part of its address in the browser."
        )
    return found
