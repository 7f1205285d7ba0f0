"""A folder with the newest backups: lists and checks them, and writes a new one when the last is old enough.

Promise: a backup is deleted only after a newer one is complete on the disk, and only if memoryd gave it its name.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
from structlog.typing import FilteringBoundLogger

from daemon.logs import describe
from daemon.plugins import Check
from plugins.operate.backup.archive import BackupError
from plugins.operate.backup.dump import PART, make_backup, remove_abandoned
from plugins.operate.settings import Backups

_NAME = re.compile(r"memoryd-(\d{8}T\d{6}Z)\.backup")
_TIME = "%Y%m%dT%H%M%SZ"
SEE_THE_LOG = "The log of the daemon says why: backup_failed."


def name_in(folder: Path) -> Path:
    """The name in this folder of a backup made now."""
    return folder / f"memoryd-{datetime.now(UTC):{_TIME}}.backup"


def backups_in(folder: Path) -> list[tuple[datetime, Path]]:
    """When the backups in a folder were made, and their files, oldest first. Raises OSError.

    A name of the future is none: it would keep the daemon from writing any, and count as the newest when the old ones go.
    """
    files = (path for path in folder.iterdir() if not path.is_symlink() and path.is_file())
    made = sorted((at, path) for path in files if (at := _made(path.name)) is not None)
    return [(at, path) for at, path in made if at <= datetime.now(UTC)]


def _made(name: str) -> datetime | None:
    if (match := _NAME.fullmatch(name)) is not None:
        with suppress(ValueError):  # a month 99
            return datetime.strptime(match[1], _TIME).replace(tzinfo=UTC)
    return None


def check_backups(settings: Backups) -> Check:
    """What the doctor says of the newest backup in MEMORYD_BACKUP_DIR."""
    if settings.backup_dir is None:
        return Check(
            "backups", "ok", "The daemon writes none (MEMORYD_BACKUP_DIR is not set): yours must do."
        )
    folder = settings.backup_dir.expanduser()
    try:
        there = backups_in(folder)
    except OSError as error:
        what = f"{folder} cannot be read: {error.strerror}."
        return Check("backups", "warning", what, "Make it, or change MEMORYD_BACKUP_DIR.")
    if not there:
        return Check("backups", "warning", f"{folder} has no backup yet.", SEE_THE_LOG)
    newest, path = there[-1]
    hours = (datetime.now(UTC) - newest).total_seconds() / 3600
    if hours > 2 * settings.backup_hours:
        what = f"The newest is {hours:,.0f} hours old: {path.name}."
        return Check("backups", "warning", what, SEE_THE_LOG)
    return Check("backups", "ok", f"{len(there)} in {folder}, the newest {hours:,.0f} hours old.")


class BackupFolder:
    """The tick of a daemon with MEMORYD_BACKUP_DIR."""

    def __init__(
        self,
        folder: Path,
        *,
        url: str,
        hours: float,
        kept: int,
        keys: Mapping[str, Path],
        logger: FilteringBoundLogger,
    ) -> None:
        """`hours`: the age of the newest backup at which the next one is made. `kept`: how many stay."""
        self._folder = folder
        self._url = url
        self._every = timedelta(hours=hours)
        self._kept = kept
        self._keys = keys
        self._log = logger

    @property
    def tick_seconds(self) -> float:
        """Seconds between two checks: a backup that failed or was interrupted is soon repeated."""
        return min(600.0, max(1.0, self._every.total_seconds()))

    async def tick(self) -> int:
        """Writes a backup if the newest is old enough, then deletes the surplus. Returns whether it wrote one."""
        began = time.perf_counter()
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            there = backups_in(self._folder)
            if there and datetime.now(UTC) - there[-1][0] < self._every:
                return 0
            target = name_in(self._folder)
            manifest = await make_backup(self._url, target, keys=self._keys)
            for _, old in backups_in(self._folder)[: -self._kept]:
                old.unlink(missing_ok=True)
            for part in self._folder.glob(f"memoryd-*{PART}"):
                with suppress(BackupError, OSError):
                    remove_abandoned(part)
        except (BackupError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            self._log.error("backup_failed", error=_reason(error))
            return 1
        self._log.info(
            "backup_written",
            file=target.name,
            rows=sum(manifest.contents.rows.values()),
            bytes=manifest.bytes,
            ms=round((time.perf_counter() - began) * 1000),
        )
        return 1


def _reason(error: Exception) -> str:
    match error:
        case BackupError():
            return str(error)
        case OSError(strerror=str(reason)):
            return reason
    return describe(error)
