"""Documents in the database that were read from files: finds known ones, writes new ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from uuid import UUID

from daemon.db.pool import Database
from memory.text import is_blank
from plugins.documents.ports import Parsed
from plugins.files.local import File

NOBODY = "'00000000-0000-0000-0000-000000000000'"

# The hashes of those files $1 that are documents of user $2 already.
KNOWN = f"""
select d.drop_path, d.file_hash
from public.documents d
where d.file_hash is not null and md5(d.drop_path) = any(array(select md5(p) from unnest($1::text[]) p))
  and coalesce(d.user_id, {NOBODY}) = coalesce($2::uuid, {NOBODY}) and d.status <> 'deleted'
"""

# Those of the hashes $1 that documents of user $2 have, each with the path of one document.
SAME = """
select d.file_hash, d.drop_path
from public.documents d
where d.file_hash = any($1::bytea[]) and d.user_id is not distinct from $2::uuid and d.status <> 'deleted'
"""

MOVE = """
update public.documents d set drop_path = m.new, metadata = (d.metadata - 'folder') || m.folder::jsonb
from unnest($1::text[], $2::text[], $4::text[]) as m(old, new, folder)
where d.file_hash is not null and md5(d.drop_path) = md5(m.old) and d.user_id is not distinct from $3::uuid
  and d.status <> 'deleted'
"""

# A deleted document becomes active again, since its file was given again.
WRITE = f"""
insert into public.documents as d (
    title, source, document_type, content, metadata, drop_path, file_hash, last_modified_human,
    user_id, access_level, visibility_tags)
select f.title, $8, f.document_type, f.content, f.metadata::jsonb, f.drop_path, f.file_hash, f.modified, $9, $10, $11::text[]
from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bytea[], $7::timestamptz[])
    as f(title, document_type, content, metadata, drop_path, file_hash, modified)
on conflict (md5(drop_path), (coalesce(user_id, {NOBODY}))) where file_hash is not null do update
set title = excluded.title, source = excluded.source, document_type = excluded.document_type,
    content = excluded.content, metadata = excluded.metadata, file_hash = excluded.file_hash,
    last_modified_human = excluded.last_modified_human, access_level = excluded.access_level,
    visibility_tags = excluded.visibility_tags,
    status = case d.status when 'deleted' then 'processing' else d.status end
where d.file_hash <> excluded.file_hash or d.status = 'deleted'
returning drop_path, xmax = 0 as added, case when d.access_level is not null then (memoryd.ignored_limit(
    d.metadata, d.metadata -> 'project', d.access_level, d.visibility_tags)).field end as ignored
"""


@dataclass(frozen=True, slots=True)
class Ownership:
    """The owner of the documents, and who else may read them."""

    source: str
    user: UUID | None = None
    level: int | None = None
    """The access_level. None: only for the user, or only for the agents if there is no user."""
    tags: tuple[str, ...] = ()
    project: str | None = None
    root: str | None = None
    """The drop folder: a file's folder is noted relative to it."""

    def folder_of(self, name: str) -> dict[str, str]:
        """The metadata about the place of a file; `name`: its whole path."""
        path = PurePosixPath(name)
        root = self.root is not None and path.is_relative_to(self.root)
        folder = str(path.parent.relative_to(self.root or "") if root else path.parent)
        return {"file_name": path.name} | ({} if folder == "." else {"folder": folder})


@dataclass(frozen=True, slots=True)
class ReadFile:
    file: File
    parsed: Parsed


def _title(read: ReadFile) -> str:
    named = (each for each in (read.parsed.title, Path(read.file.name).stem.strip()) if each)
    return next((each for each in named if not is_blank(each)), "Untitled")


async def save_moves(database: Database, moves: Sequence[tuple[str, str]], owned: Ownership) -> list[Any]:
    """Writes the new paths of files. `moves`: the old path and the new one of each."""
    folders = [json.dumps(owned.folder_of(new)) for _, new in moves]
    return await database.fetch(MOVE, *map(list, zip(*moves, strict=True)), owned.user, folders)


async def write(database: Database, files: Sequence[ReadFile], owned: Ownership) -> list[Any]:
    """Writes documents in one statement. Returns of each its path, whether it is new, and the field of its metadata that may be
    meant to limit its readers but does not.

    A file that is missing in the answer was not written: its user has switched memory off.
    """
    # In one order, so that two writers of the same files do not wait for each other.
    files = sorted(files, key=lambda f: f.file.name)
    metadata = [dict(f.parsed.metadata) | owned.folder_of(f.file.name) for f in files]
    if owned.project is not None:
        metadata = [m | {"project": owned.project} for m in metadata]
    return await database.fetch(
        WRITE,
        [_title(f) for f in files],
        [f.parsed.document_type for f in files],
        [f.parsed.text for f in files],
        [json.dumps(m) for m in metadata],
        [f.file.name for f in files],
        [f.file.digest for f in files],
        [f.file.modified for f in files],
        *(owned.source, owned.user, owned.level, list(owned.tags)),
    )
