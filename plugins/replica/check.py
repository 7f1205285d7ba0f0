"""What the doctor says of the replica: whether the folder can be used, and what waits for a person."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from uuid import UUID

import asyncpg

from daemon.plugins import Check, split_advice
from daemon.settings import Settings
from plugins.replica.folder import FolderUnavailable
from plugins.replica.location import open_drive_folder
from plugins.replica.settings import Replica

STATUS = """
select r.id, r.leased_until > now() as kept, r.trouble,
       extract(epoch from now() - r.synced_at)::float8 as synced_seconds,
       (select count(*) from memoryd.replica_files f where f.conflict_id is null) as files,
       (select count(*) from memoryd.replica_conflicts c join public.documents d on d.id = c.document_id
        where d.status <> 'deleted')
       + (select count(*) from memoryd.replica_section_conflicts c where not c.ended) as conflicts,
       (select count(*) from memoryd.replica_collections c where c.file_hash is not null) as collections,
       (select count(*) from memoryd.replica_sections s where s.base_hash is not null) as entries,
       (select count(*) from memoryd.replica_buried) as deleted_sections,
       (select coalesce(sum(c.missing), 0) from memoryd.replica_collections c
        where c.missing_since is not null) as waiting_sections,
       (select count(*) from memoryd.replica_tombstones) as deleted,
       (select count(*) from memoryd.replica_files f where f.missing_since is not null) as waiting
from memoryd.replica r
"""


async def check_replica(connection: asyncpg.Connection, settings: Settings) -> Check:
    """The replica of this database, and its folder where the settings here name one."""
    folder = settings.section(Replica).replica
    [row] = await connection.fetch(STATUS)
    begun = row["files"] > 0 or row["collections"] > 0
    if folder is None and not begun:
        return Check("replica", "ok", "None is set (MEMORYD_REPLICA).")
    if folder is not None:
        trouble = await asyncio.to_thread(_trouble, settings, row["id"], begun=begun)
        if trouble is not None:
            return Check("replica", "problem", *split_advice(trouble))
    elif row["trouble"]:
        return Check("replica", "problem", *split_advice(row["trouble"]))
    found = _found(row["files"], row["collections"])
    if row["waiting"]:
        advice = "Put the files back, or run: memoryd replica --confirm-deletions"
        return Check(
            "replica",
            "warning",
            f"{_are(row['waiting'], 'file', 'files')} gone at once; nothing is deleted.",
            advice,
        )
    if row["waiting_sections"]:
        advice = "Put the sections back, or run: memoryd replica --confirm-deletions"
        found = f"{_are(row['waiting_sections'], 'entry', 'entries')} gone at once; none is deleted."
        return Check("replica", "warning", found, advice)
    if row["conflicts"]:
        return Check(
            "replica",
            "warning",
            f"{found} {_are(row['conflicts'], 'conflict', 'conflicts')} not resolved.",
            "Run: memoryd replica conflicts",
        )
    if not row["kept"]:
        advice = "Start a daemon with MEMORYD_REPLICA, or unset it and delete the folder."
        return Check("replica", "warning", f"{found} No daemon keeps them up to date.", advice)
    return Check("replica", "ok", found)


def _found(documents: int, collections: int) -> str:
    files = "1 document is a file" if documents == 1 else f"{documents:,} documents are files"
    kept = "1 file" if collections == 1 else f"{collections:,} files"
    return f"{files}, and what is remembered is {kept}."


def _are(count: int, one: str, many: str) -> str:
    return f"1 {one} is" if count == 1 else f"{count:,} {many} are"


def _trouble(settings: Settings, replica: UUID, *, begun: bool) -> str | None:
    """Why the folder cannot be used; None if it can."""
    try:
        drive = open_drive_folder(settings)
        if drive is not None:
            drive.reach()
            if begun:
                drive.check(replica)
            drive.close()
            return None
    except (FolderUnavailable, ValueError) as error:
        return str(error)
    root = settings.section(Replica).replica
    assert root is not None
    return _local_trouble(root, replica, begun=begun)


def _local_trouble(root: Path, replica: UUID, *, begun: bool) -> str | None:
    if not begun and not root.exists():
        return None
    from plugins.replica.local_folder import LocalFolder

    folder = LocalFolder(root.absolute())
    try:
        if begun:
            folder.check(replica)
        folder.list()
    except FolderUnavailable as error:
        return str(error)
    if not os.access(root, os.W_OK):
        return f"The folder {root} cannot be written. Give the daemon's account the right to."
    return None
