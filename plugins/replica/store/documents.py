"""The statements of the replica for documents and their files."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from daemon.db.pool import Database
from plugins.replica.rules.collections import title_of
from plugins.replica.rules.decision import RowState
from plugins.replica.rules.document_file import FrontMatter, Text
from plugins.replica.store.entries import CollectionsStore, Statements, columns_of, key_in

LEASE_SECONDS = 10.0

LEASE = """
update memoryd.replica r set daemon_id = $1, leased_until = clock_timestamp() + make_interval(secs => $2)
where r.daemon_id = $1 or r.leased_until < clock_timestamp()
returning r.id
"""
RETURN = "update memoryd.replica r set leased_until = '-infinity', daemon_id = null where r.daemon_id = $1"
FILES = """
select f.path, f.document_id, f.conflict_id, f.user_id, f.base_hash, f.file_hash, f.row_version, f.began_hash,
       f.missing_since is not null as waits,
       coalesce(f.missing_since <= r.deletions_confirmed_at, false) as confirmed
from memoryd.replica_files f cross join memoryd.replica r
order by f.id
"""
HAS_FILES = """
select exists (select from memoryd.replica_files)
       or exists (select from memoryd.replica_collections c where c.file_hash is not null)
"""
OWNERS = "select d.id, d.user_id from public.documents d where d.id = any($1)"
TO_COMPARE = "select d from memoryd.documents_to_compare($1) d"
ROWS = """
select d.id, d.title, d.source, d.document_type,
       case when is_of_chunks then memoryd.text_of_chunks(d.id) else d.content end as content, is_of_chunks,
       memoryd.front_matter(d.metadata) as front_matter,
       d.user_id, d.status, d.created_at, greatest(d.created_at, d.last_modified_agent, d.last_modified_human) as updated,
       d.updated_at as version,
       case when d.drop_path is not null then d.metadata ->> 'folder' end as folder
from public.documents d
cross join lateral (select d.content is null and d.chunked_at is null) as c(is_of_chunks)
where d.id = any($1)
"""
NOTE = "select memoryd.note_replica_files($1, $2, $3, $4, $5, $6, $7, $8, $9)"
MOVE = "select memoryd.move_replica_files($1, $2, $3, $4)"
TAKE = "select t from memoryd.take_edits($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) t"
ADD = "select a from memoryd.add_documents($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) a"
BURY = "select b from memoryd.bury_documents($1, $2, $3, $4) b"
ASK = """
update memoryd.replica_files f set missing_since = case when f.path = any($2) then clock_timestamp() end
from memoryd.hold_replica($1)
where (f.missing_since is not null) <> (f.path = any($2))
"""
RECENT = """
select count(*) from memoryd.replica_tombstones t
where not t.confirmed and t.deleted_at > now() - make_interval(secs => $1)
"""
CONFLICTS = """
select c.id, c.document_id, c.title, c.content, c.front_matter, c.made_at, d.source, d.document_type, d.created_at,
       d.user_id, d.status = 'deleted' as deleted
from memoryd.replica_conflicts c join public.documents d on d.id = c.document_id
"""
CHANGE_CONFLICTS = """
update memoryd.replica_conflicts c set title = n.title, content = n.content, front_matter = n.front_matter
from unnest($2::uuid[], $3::text[], $4::text[], $5::text[]) as n(id, title, content, front_matter),
     memoryd.hold_replica($1)
where c.id = n.id
returning c.id
"""
END_CONFLICTS = "select memoryd.end_conflicts($1)"
TAKE_CONFLICT = "select memoryd.take_conflict($1)"
CONTENTS = """
select f.path, d.title
from memoryd.replica_files f join public.documents d on d.id = f.document_id
where f.conflict_id is null and f.user_id is null and d.user_id is null
"""
ENTRIES = """
select c.path, c.source, c.user_id, c.agent_id, c.org_id, c.tier from memoryd.replica_collections c
where c.file_hash is not null and c.user_id is null
"""
SYNCED = """
update memoryd.replica r set trouble = $2, synced_at = case when $2::text is null then now() else r.synced_at end
where r.daemon_id = $1
"""
NOTE_LEFT_OUT = """
with held as materialized (
    select from memoryd.hold_replica($1)
), gone as (
    delete from memoryd.replica_left_out l using held where l.path <> all ($2)
)
insert into memoryd.replica_left_out as l (path, user_id, reason)
select n.path, n.owner, n.reason
from held, unnest($2::text[], $3::uuid[], $4::text[]) as n(path, owner, reason)
on conflict (path) do update set user_id = excluded.user_id, reason = excluded.reason
where (l.user_id, l.reason) is distinct from (excluded.user_id, excluded.reason)
"""
FORGET = "select memoryd.forget_replica_files($1, $2, $3)"


class Base(NamedTuple):
    """The last common state of a file and its row."""

    path: str
    document: UUID
    conflict: UUID | None
    user: UUID | None
    base: bytes
    file: bytes
    version: datetime | None
    began: bytes | None = None
    waits: bool = False
    """The file is gone, and a person is asked whether to delete its document."""
    confirmed: bool = False
    """The person said yes."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """A text that lost against another change, with what its file says of the document."""

    id: UUID
    document: UUID
    text: Text
    made: datetime
    source: str | None
    document_type: str | None
    created: datetime
    user: UUID | None
    deleted: bool
    """The document is: then the conflict has no file."""


@dataclass(frozen=True, slots=True)
class Document:
    id: UUID
    title: str
    source: str | None
    document_type: str | None
    content: str | None
    is_of_chunks: bool
    """A program writes its chunks, and nobody else its text."""
    front_matter: str
    user: UUID | None
    status: str
    created: datetime
    updated: datetime
    version: datetime
    folder: str | None

    @property
    def row(self) -> RowState:
        return RowState.DELETED if self.status == "deleted" or self.content is None else RowState.THERE

    @property
    def text(self) -> Text | None:
        return None if self.content is None else Text(self.title, self.content, self.front_matter)

    @property
    def front(self) -> FrontMatter:
        return FrontMatter(self.id, self.source, self.document_type, self.created, self.updated)


class Edit(NamedTuple):
    path: str
    document: UUID
    version: datetime
    lost: bool
    title: str
    content: str
    front_matter: str
    time: datetime
    base: bytes
    file: bytes
    began: bytes


class LeaseLostError(Exception):
    """The lease was not renewed in time."""


class Store(Statements):
    """The documents of one database, written as the daemon that keeps the replica."""

    def __init__(self, database: Database, daemon: UUID) -> None:
        super().__init__(database, daemon)
        self._leased_until = 0.0
        self.entries = CollectionsStore(database, daemon)
        """What is remembered, in collections."""

    async def lease(self) -> UUID | None:
        """Takes the replica, or renews the lease; its id, or None while another daemon has it."""
        began = time.monotonic()
        taken: UUID | None = await self._database.fetchval(LEASE, self._daemon, LEASE_SECONDS)
        self._leased_until = 0.0 if taken is None else began + LEASE_SECONDS
        return taken

    def require_lease(self) -> None:
        """Raises LeaseLostError when the lease may have ended: another daemon may work on the folder."""
        if time.monotonic() >= self._leased_until:
            raise LeaseLostError

    async def give_back(self) -> None:
        await self._database.execute(RETURN, self._daemon)

    async def files(self) -> list[Base]:
        return [Base(*row) for row in await self._database.fetch(FILES)]

    async def has_files(self) -> bool:
        return bool(await self._database.fetchval(HAS_FILES))

    async def note(self, files: Sequence[Base]) -> None:
        await self.write(NOTE, [one[:-2] for one in files])

    async def owners(self, ids: Collection[UUID]) -> dict[UUID, UUID | None]:
        """The users of the existing ones of these documents."""
        return {r["id"]: r["user_id"] for r in await self._database.fetch(OWNERS, list(ids))}

    async def to_compare(self, ids: Iterable[UUID]) -> list[UUID]:
        """Documents to compare with their files: these, and those that have changed."""
        return [row[0] for row in await self._database.fetch(TO_COMPARE, list(ids))]

    async def documents(self, ids: Sequence[UUID]) -> dict[UUID, Document]:
        return {r["id"]: Document(*r) for r in await self._database.fetch(ROWS, ids)}

    async def ask_confirmation(self, paths: Sequence[str]) -> None:
        """Asks a person to confirm the deletion of the documents of exactly these files."""
        await self._database.execute(ASK, self._daemon, paths)

    async def recently_buried(self, seconds: float) -> int:
        return int(await self._database.fetchval(RECENT, seconds))

    async def conflicts(self) -> dict[UUID, Conflict]:
        rows = await self._database.fetch(CONFLICTS)
        return {r["id"]: Conflict(r[0], r[1], Text(*r[2:5]), *r[5:]) for r in rows}

    async def end_conflicts(self, ids: Sequence[UUID]) -> None:
        """Ends conflicts; the documents keep the text that they have."""
        if ids:
            await self._database.execute(END_CONFLICTS, ids)

    async def contents(self) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        """The paths and titles of documents, and of files of entries, that belong to no user."""
        documents = [(row["path"], row["title"]) for row in await self._database.fetch(CONTENTS)]
        rows = await self._database.fetch(ENTRIES)
        return documents, [(row["path"], title_of(key_in(row))) for row in rows]

    async def take_conflict(self, conflict: UUID) -> None:
        """Ends a conflict; its text becomes the document's."""
        await self._database.execute(TAKE_CONFLICT, conflict)

    async def note_trouble(self, trouble: str | None) -> None:
        """Notes for status and doctor why the folder cannot be used; None after a synchronisation."""
        await self._database.execute(SYNCED, self._daemon, trouble)

    async def note_skipped(self, files: Sequence[tuple[str, UUID | None, str]]) -> None:
        """Notes the ignored files: path, user and reason of each."""
        await self._database.execute(NOTE_LEFT_OUT, self._daemon, *columns_of(files, 3))
