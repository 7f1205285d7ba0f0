"""memoryd restore: the database of a backup."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from daemon.cli.common import postgres, settings_or_exit
from daemon.cli.database import migrate_database
from daemon.cli.failure import Failure, Misuse, sentences
from daemon.cli.output import number, remark, say

if TYPE_CHECKING:
    from daemon.settings import Settings
    from plugins.operate.backup.archive import Manifest

SHOWN = 5
"""Differences that are shown; of others the number."""


def restore(
    path: Path = typer.Argument(..., metavar="FILE", help="What memoryd backup wrote."),
) -> None:
    """Bring the database of a backup back, into an empty one: DATABASE_URL, or memoryd's own. All of it, or nothing.

    Then compare it with what was backed up, and migrate it, should this memoryd be newer.
    """
    from plugins.operate.backup.keys import put_back

    settings = settings_or_exit(quiet=True)
    with sentences():
        manifest = checked(settings, path)
        with postgres(settings) as (url, _server):
            made = restored(settings, url, path, manifest)
        for key in put_back(settings, manifest.keys):
            remark(f"Private key written: {key}")
        say(f"Restored: {number(sum(manifest.contents.rows.values()), 'row')}, as of {manifest.made_at}.")
        if made:
            remark(
                f"Roles that may not log in, since a backup has no passwords: {', '.join(made)}. "
                "For each: alter role ... login password '...'"
            )
        if manifest.keys_left_out:
            remark(f"Private keys are not in a backup. Put back: {', '.join(manifest.keys_left_out)}")


def checked(settings: Settings, path: Path) -> Manifest:
    """What the file says of itself, which is whole and suits the settings. Raises Misuse, BackupError."""
    from daemon.db.plan import is_newer
    from plugins.operate.backup.archive import BackupError, read_manifest

    try:
        manifest = read_manifest(path)
    except OSError as error:
        raise Misuse(f"{path} cannot be read: {error.strerror}.") from None
    from importlib.metadata import version

    if is_newer(manifest.memoryd, than=version("memoryd")):
        raise BackupError(f"{path} is of memoryd {manifest.memoryd}. Upgrade memoryd, then try again.")
    contents = manifest.contents
    mine = (settings.embedder, settings.embedding_dimensions)
    if settings.embedder_chosen and mine != (contents.embedder, contents.dimensions):
        raise Misuse(
            f"The backup is embedded by {contents.embedder} in {contents.dimensions} dimensions, and "
            f"MEMORYD_EMBEDDER and MEMORYD_EMBEDDING_DIMENSIONS say {mine[0]} and {mine[1]}. "
            "Set them as in the backup; after it, memoryd reembed changes the model."
        )
    return manifest


def restored(settings: Settings, url: str, path: Path, manifest: Manifest) -> list[str]:
    """Restores, compares and migrates; returns the roles that could log in and now cannot. Raises Failure, BackupError."""
    from plugins.operate.backup.restore import compare, finish, restore_backup

    made = asyncio.run(restore_backup(url, path, manifest.contents))
    unlike = asyncio.run(compare(url, manifest.contents))
    if unlike:
        more = f"; and {len(unlike) - SHOWN:,} more" if len(unlike) > SHOWN else ""
        raise Failure(f"What was restored is not what was backed up: {'; '.join(unlike[:SHOWN])}{more}")
    asyncio.run(migrate_database(settings, url))
    asyncio.run(finish(url))
    return made
