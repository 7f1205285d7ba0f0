"""What the doctor says of the replica: whether the folder can be used, and what waits for a person."""

from __future__ import annotations

import asyncio
from uuid import UUID

import asyncpg

from daemon.cli.output import number
from daemon.plugins import Check, split_advice
from daemon.settings import Settings
from plugins.replica.folder import FolderUnavailable
from plugins.replica.location import open_location
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
    is_set = settings.section(Replica).replica is not None
    [row] = await connection.fetch(STATUS)
    begun = row["files"] > 0 or row["collections"] > 0
    if not is_set and not begun:
        return Check("replica", "ok", "None is set (MEMORYD_REPLICA).")
    trouble = row["trouble"]
    if is_set:
        trouble = await asyncio.to_thread(_trouble, settings, row["id"] if begun else None)
    if trouble:
        return Check("replica", "problem", *split_advice(trouble))
    documents = number(row["files"], "document is a file", "documents are files")
    found = f"{documents}, and what is remembered is {number(row['collections'], 'file')}."
    for name, one, many in (("waiting", "file", "files"), ("waiting_sections", "entry", "entries")):
        if row[name]:
            gone = f"{number(row[name], f'{one} is', f'{many} are')} gone at once; nothing is deleted."
            advice = f"Put the {'files' if one == 'file' else 'sections'} back, or run: memoryd replica --confirm-deletions"
            return Check("replica", "warning", gone, advice)
    if row["conflicts"]:
        found += f" {number(row['conflicts'], 'conflict is', 'conflicts are')} not resolved."
        return Check("replica", "warning", found, "Run: memoryd replica conflicts")
    if not row["kept"]:
        advice = "Start a daemon with MEMORYD_REPLICA, or unset it and delete the folder."
        return Check("replica", "warning", f"{found} No daemon keeps them up to date.", advice)
    return Check("replica", "ok", found)


def _trouble(settings: Settings, replica: UUID | None) -> str | None:
    """Why the folder cannot be used; None if it can. `replica`: its id, if it has files already."""
    try:
        folder = open_location(settings)
        assert folder is not None
        if replica is not None:
            folder.check(replica)
        folder.reach()
        folder.close()
    except (FolderUnavailable, ValueError) as error:
        return str(error)
    return None
