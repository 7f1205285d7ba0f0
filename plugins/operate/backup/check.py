"""The doctor's check of backups: whether the folder of the settings has a recent one."""

from __future__ import annotations

from datetime import UTC, datetime

from daemon.plugins import Check
from plugins.operate.backup.folder import backups_in
from plugins.operate.settings import Backups

SEE_THE_LOG = "The log of the daemon says why: backup_failed."


def check_backups(settings: Backups) -> Check:
    """The newest backup of MEMORYD_BACKUP_DIR."""
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
