"""The database cluster of a data folder: checked, taken over from a backup, or made.

Promise: a folder with anything but a cluster of our version is refused. A crash while a cluster is made leaves no part of it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from plugins.embedded.account import Account
from plugins.embedded.causes import EmbeddedPostgresError, failure
from plugins.embedded.configuration import FILE as CONFIGURATION
from plugins.embedded.files import Folder, give_all
from plugins.embedded.programs import Programs

CLUSTER = "pg"
"""Its name in the data folder."""
_CHARACTER_TYPES = ("C.UTF-8", "en_US.UTF-8", "C")  # the first that the system knows; text search needs it


def check_cluster(folder: Folder, programs: Programs) -> None:
    """Raises EmbeddedPostgresError if the folder has anything but a cluster of our version."""
    path = folder.path / CLUSTER
    try:
        with _any_owner(folder).within(CLUSTER) as cluster:
            version, filled = cluster.read("PG_VERSION"), bool(cluster.names())
    except FileNotFoundError:
        return
    if version is None:
        if filled:
            raise EmbeddedPostgresError(
                f"{path} is not empty and holds no database: choose another data folder."
            )
        return
    found, ours = version.strip(), programs.version
    if found != str(ours):
        raise EmbeddedPostgresError(
            f"{path} holds the data of PostgreSQL {found}, which PostgreSQL {ours} cannot read: "
            f"start version {found} on it and move the data with pg_dump, or choose another data folder."
        )


def make_or_adopt_cluster(folder: Folder, account: Account, programs: Programs) -> None:
    """Makes the cluster if there is none; gives a cluster that was restored from a backup to its account."""
    if CLUSTER in folder.names() and (folder.path / CLUSTER / "PG_VERSION").exists():
        _adopt(folder, account)
    else:
        _initialise(folder, account, programs)


def _adopt(folder: Folder, account: Account) -> None:
    if account.switch:
        with _any_owner(folder).within(CLUSTER) as cluster:
            if cluster.owner[0] != account.uid:
                give_all(cluster, account.uid, account.gid)


def _initialise(folder: Folder, account: Account, programs: Programs) -> None:
    """Makes the cluster beside its place, then moves it there."""
    for abandoned in folder.path.glob("pg.new-*"):
        shutil.rmtree(abandoned, ignore_errors=True)
    new = Path(tempfile.mkdtemp(prefix="pg.new-", dir=folder.path))
    if account.switch:
        with folder.within(new.name) as made:
            made.give(account.uid, account.gid)
    _run_initdb(new, account, programs)
    with folder.within(new.name) as made:
        handle = made.open_own("postgresql.conf", owner=account.owner, append=True)
        with os.fdopen(handle, "a", encoding="utf-8") as configuration:
            configuration.write(
                f"\ninclude_if_exists = '{CONFIGURATION}'  # written by memoryd at each start\n"
            )
            configuration.flush()
            os.fsync(handle)
    with suppress(FileNotFoundError):
        os.rmdir(CLUSTER, dir_fd=folder.handle)
    folder.rename(new.name, CLUSTER)


def _run_initdb(new: Path, account: Account, programs: Programs) -> None:
    builtin = ("--locale-provider=builtin", "--builtin-locale=C.UTF-8")
    for character_type in _CHARACTER_TYPES:
        done = programs.run(
            "initdb",
            *("--username=postgres", "--auth-local=trust", "--auth-host=scram-sha-256"),
            *("--encoding=UTF8", "--locale=C", f"--lc-ctype={character_type}"),
            "--text-search-config=english",
            *(builtin if programs.version > 16 else ()),
            "--data-checksums",
            account=account,
            cluster=new,
        )
        if done.returncode == 0:
            break
        if "invalid locale name" not in done.stderr or character_type == _CHARACTER_TYPES[-1]:
            trouble = f"Postgres could not make its data folder: {done.stderr.strip()}"
            raise failure(trouble, done.stderr.splitlines(), new.parent)


def _any_owner(folder: Folder) -> Folder:
    """Gives a cluster from a backup to the account: its owner's user id may not exist on this machine."""
    with suppress(FileNotFoundError):
        status = os.stat(CLUSTER, dir_fd=folder.handle, follow_symlinks=False)
        return replace(folder, owners=folder.owners | {status.st_uid})
    return folder
