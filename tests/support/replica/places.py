"""A replica's folder and a person's hands on it, the same for a local folder and one in Google Drive."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from daemon.db.pool import Database
from plugins.replica.drive.api import Api
from plugins.replica.drive.client import Client, open_account
from plugins.replica.drive.folder import DriveFolder
from plugins.replica.drive.remote import Remote
from plugins.replica.folder import Folder, FolderUnavailable
from plugins.replica.local_folder import LocalFolder
from plugins.replica.pass_state import Report
from plugins.replica.rules.document_file import DocumentText, read
from tests.support.drive.files import ROOT
from tests.support.drive.server import DriveServer
from tests.support.replica.passes import Replicated

ENOUGH_PASSES = 8


class Hands(Protocol):
    """What a person does in the folder, by paths."""

    def add(self, path: str, text: str) -> object: ...
    def write(self, path: str, text: str) -> None: ...
    def text(self, path: str) -> str: ...
    def move(self, path: str, to: str) -> None: ...
    def trash(self, path: str) -> object: ...
    def paths(self) -> list[str]: ...


@dataclass
class LocalHands:
    """A person with a file manager."""

    root: Path

    def add(self, path: str, text: str) -> None:
        """A new file."""
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def write(self, path: str, text: str) -> None:
        """Another text."""
        (self.root / path).write_text(text)

    def text(self, path: str) -> str:
        """What a file says."""
        return (self.root / path).read_text()

    def move(self, path: str, to: str) -> None:
        """Moves or renames a file or folder."""
        (self.root / to).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).rename(self.root / to)

    def trash(self, path: str) -> None:
        """Deletes a file or folder."""
        one = self.root / path
        shutil.rmtree(one) if one.is_dir() else one.unlink()

    def paths(self) -> list[str]:
        """All files but hidden ones."""
        found = [str(one.relative_to(self.root)) for one in self.root.rglob("*") if one.is_file()]
        return sorted(one for one in found if not one.startswith("."))


@dataclass
class OnePlace:
    """A folder, and hands on it."""

    folder: Folder
    hands: Hands


def local_location(root: Path) -> OnePlace:
    """A folder of this machine."""
    return OnePlace(LocalFolder(root), LocalHands(root))


def drive_folder(
    server: DriveServer,
    tmp_path: Path,
    *,
    folder_id: str = ROOT,
    timeout_seconds: float = 10.0,
    resumable_bytes: int = 5_000_000,
    part_bytes: int = 4 * 2**20,
    young_seconds: float = 0.0,
    pause_seconds: float = 0.01,
    rest_seconds: float = 3.0,
) -> DriveFolder:
    """The folder in Drive, as a daemon that was just started has it."""
    account = open_account(server.write_key(tmp_path / "key.json"))
    client = Client(
        account,
        timeout_seconds=timeout_seconds,
        base_url=server.url,
        pause_seconds=pause_seconds,
        rest_seconds=rest_seconds,
    )
    server.closers.append(client.close)
    api = Api(client, resumable_bytes=resumable_bytes, part_bytes=part_bytes)
    return DriveFolder(
        Remote(folder_id, api, email=account.email, young_seconds=young_seconds), api, poll_seconds=3600.0
    )


class InDrive(Replicated):
    """A replica in Drive. A new one is a daemon that was just started."""

    def __init__(
        self,
        server: DriveServer,
        tmp_path: Path,
        database: Database,
        *,
        young_seconds: float = 0.0,
        is_patient: bool = False,
    ) -> None:
        """`is_patient`: a pass may fail, and a few passes may not be enough."""
        self.drive = server.drive
        pause, rest = (0.0, 0.0) if is_patient else (0.01, 3.0)
        self.folder = drive_folder(
            server, tmp_path, young_seconds=young_seconds, pause_seconds=pause, rest_seconds=rest
        )
        self._is_patient = is_patient
        super().__init__(tmp_path, database, folder=self.folder)

    async def settle(self) -> Report:
        """Passes until there is nothing left to do; if it is patient, or until there were enough."""
        if not self._is_patient:
            return await super().settle()
        for _ in range(ENOUGH_PASSES):
            with suppress(FolderUnavailable):
                report = await self.once()
                if not report.again and not report.failures and not any(report.counts.values()):
                    return report
        return Report()

    def files(self) -> dict[str, DocumentText]:
        """What the Markdown files say, but README.md and Index.md."""
        found: dict[str, DocumentText] = {}
        for path in self.drive.paths():
            if path.endswith(".md") and path not in ("README.md", "Index.md"):
                said = read(self.drive.at(path).content or b"")
                assert said is not None, path
                found[path] = said
        return found
