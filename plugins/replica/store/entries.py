"""The statements of the replica for collections and their entries."""

from __future__ import annotations

from collections.abc import Collection as Some
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from daemon.db.pool import Database
from plugins.replica.rules.collections import Entry, Key, Source, Words
from plugins.replica.rules.merge import Addition, Edit, LostText, NotedEntry, OtherEntry
from plugins.replica.rules.paths import home_for


def columns_of(rows: Sequence[tuple[Any, ...]], width: int) -> list[list[Any]]:
    """Rows as arrays, one for each of the `width` arguments of a statement."""
    return [list(column) for column in zip(*rows, strict=True)] or [[]] * width


class Statements:
    """Runs statements as the daemon that keeps the replica."""

    def __init__(self, database: Database, daemon: UUID) -> None:
        self._database = database
        self._daemon = daemon

    async def write(self, statement: str, rows: Sequence[tuple[Any, ...]], *more: object) -> list[Any]:
        """Writes these rows, if there are any; returns the result.

        The arguments: the daemon's id, an array for each column, and `more`.
        """
        if not rows:
            return []
        columns = columns_of(rows, len(rows[0]))
        return list(await self._database.fetch(statement, self._daemon, *columns, *more))


CHANGES_AT_ONCE = 2_000

COLLECTIONS = """
select c.id, c.source, c.user_id, c.agent_id, c.org_id, c.tier, c.part, c.path, c.preamble, c.file_hash, c.stale, c.erased,
       c.missing, coalesce(c.missing_since <= r.deletions_confirmed_at, false) as confirmed, c.version
from memoryd.replica_collections c cross join memoryd.replica r
"""
NOTE_CHANGES = "update memoryd.replica set noting = true from memoryd.hold_replica($1) where not noting"
NEXT_TRANSACTION = "select pg_snapshot_xmax(pg_current_snapshot())::text"
HAVE_ENDED = "select pg_snapshot_xmin(pg_current_snapshot()) >= $1::text::xid8"
COMPARE = "select memoryd.compare_entries($1, $2)"
CHANGES = """
select c.id, c.source, c.row_id from memoryd.replica_changes c where c.source <> 'document' order by c.id limit $1
"""
PLACED = """
select s.row_id, s.collection_id, s.row_version from memoryd.replica_sections s
where s.source = $1 and s.row_id = any($2)
"""
ENTRIES = """
select e.id, e.user_id, e.agent_id, e.org_id, e.tier, e.label, e.title, e.body, e.author, e.status, e.created_at, e.version
from memoryd.replica_entries e
where e.source = '{source}' and e.id = any($1)
order by e.created_at, e.id
"""
"""The source is not an argument, so that the other tables are left out of the plan."""
FILLED = """
select s.collection_id, count(*) as sections, sum(s.size) as bytes
from memoryd.replica_sections s
where s.collection_id = any($1)
group by s.collection_id
"""
MAKE = """
insert into memoryd.replica_collections (id, source, user_id, agent_id, org_id, tier, part, path)
select n.*
from memoryd.hold_replica($1),
     unnest($2::uuid[], $3::text[], $4::uuid[], $5::text[], $6::uuid[], $7::text[], $8::integer[], $9::text[]) n
"""
PLACE = "select memoryd.place_entries($1, $2, $3, $4, $5, $6, $7, $8)"
SECTIONS = """
select s.row_id, s.label, s.base_hash, s.erased, s.began_hash, s.since
from memoryd.replica_sections s
where s.source = $1 and s.collection_id = $2
"""
ELSEWHERE = """
select s.row_id, s.collection_id, s.base_hash is not null as is_written, s.label,
       case when s.left_collection = $2 then s.left_hash end as left_hash
from memoryd.replica_sections s
where s.source = $1 and s.row_id = any($3) and s.collection_id <> $2
"""
CONFLICTS = """
select c.id, c.row_id, c.label, c.title, c.body, c.made_at, c.base_hash, c.ended, c.since
from memoryd.replica_section_conflicts c
where c.source = $1 and c.row_id = any($2)
order by c.made_at, c.id
"""
TAKE = "select t from memoryd.take_entries($1, $10, $2, $3, $4, $5, $6, $7, $8, $9, $11) t"
ADD = "select a.place, a.id from memoryd.add_entries($1, $7, $2, $3, $4, $5, $6, $8) a"
ADOPT = "select memoryd.adopt_entries($1, $3, $2)"
BURY = "select b from memoryd.bury_entries($1, $4, $5, $2, $3, $6) b"
RECENT = """
select count(*) filter (where b.collection_id = $1) as here, count(*) as everywhere,
       (select count(*) from memoryd.replica_sections) as known
from memoryd.replica_buried b
where b.collection_id is not null and not b.confirmed and b.deleted_at > now() - make_interval(secs => $2)
"""
BURIED = "select b.row_id from memoryd.replica_buried b where b.source = $1 and b.row_id = any($2)"
ERASED = "select e from memoryd.erased_for_good($1) e"
ASK = """
update memoryd.replica_collections c set missing = $3, missing_since = coalesce(c.missing_since, clock_timestamp())
from memoryd.hold_replica($1)
where c.id = $2 and (c.missing <> $3 or c.missing_since is null)
"""
CHANGE_CONFLICTS = """
update memoryd.replica_section_conflicts c set title = n.title, body = n.body, since = f.version + 1
from memoryd.hold_replica($1), unnest($2::uuid[], $3::text[], $4::text[]) as n(id, title, body),
     memoryd.replica_sections s, memoryd.replica_collections f
where c.id = n.id and s.source = c.source and s.row_id = c.row_id and f.id = s.collection_id and not c.ended
  and exists (select from memoryd.existing_rows(array[c.row_id]))
"""
END_CONFLICTS = "select memoryd.end_section_conflicts($1)"
NOTE = "select memoryd.note_collection($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)"
FORGET = """
with gone as (
    delete from memoryd.replica_collections c using memoryd.hold_replica($1)
    where c.id = any($2) and c.erased
    returning c.id
)
insert into memoryd.replica_erased (id) select g.id from gone g on conflict do nothing
"""
HOMES = """
select u.id,
       (select split_part(f.path, '/', 2)
        from (select c.path from memoryd.replica_collections c where c.user_id = u.id and not c.erased
              union all
              select r.path from memoryd.replica_files r join public.documents d on d.id = r.document_id
              where r.user_id = u.id) f
        where starts_with(f.path, 'users/') and starts_with(split_part(f.path, '/', 2) || ' ', u.id || ' ')
        limit 1) as folder,
       (select n.name from memoryd.names n join public.conversation_messages c on c.id = n.message_id
        where n.user_id = u.id and n.kind = 'user' and coalesce(lower(c.speaker), n.key) = n.key
        order by c.created_at desc limit 1) as name
from unnest($1::uuid[]) as u(id)
"""


@dataclass(frozen=True, slots=True)
class Collection:
    """A file of entries, as it was noted."""

    id: UUID
    key: Key
    part: int
    path: str
    preamble: str | None
    file: bytes | None
    stale: bool = True
    erased: bool = False
    missing: int = 0
    confirmed: bool = False
    version: int = 0
    """How often memoryd has written the file."""

    def row(self) -> tuple[Any, ...]:
        """Of a new one: what the database is told."""
        of = self.key
        return self.id, of.source.value, of.user, of.agent, of.org, of.tier, self.part, self.path


@dataclass(frozen=True, slots=True)
class Change:
    source: Source
    id: UUID
    collection: UUID | None
    key: Key | None
    """Where it belongs; None: it is gone."""
    differs: bool
    size: int
    label: str


class PlacedEntry(NamedTuple):
    source: str
    id: UUID
    collection: UUID
    size: int
    label: str


class CollectionsStore(Statements):
    """The collections of one database, written as the daemon that keeps the replica."""

    async def collections(self) -> list[Collection]:
        return [
            Collection(row["id"], key_in(row), *row[6:]) for row in await self._database.fetch(COLLECTIONS)
        ]

    async def note_changes(self) -> str:
        """From now on changes are noted. Returns the transaction before which some may not be."""
        await self._database.execute(NOTE_CHANGES, self._daemon)
        return str(await self._database.fetchval(NEXT_TRANSACTION))

    async def have_ended(self, transaction: str) -> bool:
        return bool(await self._database.fetchval(HAVE_ENDED, transaction))

    async def compare(self, notes: Sequence[int]) -> None:
        """Compares all entries with what is known of them, in place of these notes."""
        await self._database.execute(COMPARE, self._daemon, notes)

    async def changes(self) -> list[tuple[int, str, UUID]]:
        """Notes of changes, the oldest first: number, source, and row."""
        return [tuple(row) for row in await self._database.fetch(CHANGES, CHANGES_AT_ONCE)]

    async def changed(self, source: Source, ids: Sequence[UUID]) -> list[Change]:
        """The new states of these entries, the oldest first."""
        rows = await self._database.fetch(PLACED, source.value, ids)
        placed = {row["row_id"]: (row["collection_id"], row["row_version"]) for row in rows}
        changes = []
        for row in await self._database.fetch(ENTRIES.format(source=source.value), ids):
            of = Key(source, row["user_id"], row["agent_id"], row["org_id"], row["tier"])
            collection, version = placed.pop(row["id"], (None, None))
            differs = version != row["version"]
            size = len(row["body"].encode())
            changes.append(Change(source, row["id"], collection, of, differs, size, row["label"]))
        gone = [Change(source, id_, collection, None, True, 0, "") for id_, (collection, _) in placed.items()]
        return [*gone, *changes]

    async def filled(self, ids: Sequence[UUID]) -> dict[UUID, tuple[int, int]]:
        """How many sections and bytes these collections have."""
        rows = await self._database.fetch(FILLED, ids)
        return {row["collection_id"]: (row["sections"], row["bytes"]) for row in rows}

    async def place(self, notes: Sequence[int], stale: Some[UUID], placed: Sequence[PlacedEntry]) -> None:
        columns = columns_of(placed, len(PlacedEntry._fields))
        await self._database.execute(PLACE, self._daemon, notes, list(stale), *columns)

    async def sections(
        self, source: Source, collection: UUID
    ) -> tuple[dict[UUID, NotedEntry], dict[UUID, LostText]]:
        """The entries of a collection, the oldest first, those that are gone before them; and their conflicts."""
        known = {row["row_id"]: row for row in await self._database.fetch(SECTIONS, source.value, collection)}
        living = [id_ for id_, row in known.items() if not row["erased"]]
        entries = {}
        for row in await self._database.fetch(ENTRIES.format(source=source.value), living):
            words = Words(row["label"], row["title"], row["body"])
            more = row["created_at"], row["version"], row["author"], row["status"]
            entries[row["id"]] = Entry(row["id"], words, *more)
        noted = {}
        for id_ in [*(one for one in known if one not in entries), *entries]:
            row = known[id_]
            began = None if row["began_hash"] is None else row["began_hash"].hex()
            noted[id_] = NotedEntry(
                row["base_hash"], row["label"], row["erased"], entries.get(id_), began, row["since"]
            )
        rows = await self._database.fetch(CONFLICTS, source.value, list(noted)) if noted else []
        return noted, {r["id"]: LostText(r[0], r[1], Words(*r[2:5]), *r[5:]) for r in rows}

    async def elsewhere(
        self, source: Source, collection: UUID, entries: Some[UUID]
    ) -> dict[UUID, OtherEntry]:
        """Those of these entries that are in other collections."""
        if not entries:
            return {}
        rows = await self._database.fetch(ELSEWHERE, source.value, collection, list(entries))
        return {row["row_id"]: OtherEntry(*row[1:]) for row in rows}

    async def write_edits(self, source: Source, time: datetime, edits: Sequence[Edit]) -> list[Any]:
        """Writes people's edits into the rows; returns the ids of the rows that had not changed since the comparison."""
        rows = [
            (e.id, e.version, e.lost, *_columns(e.words), None if e.began is None else bytes.fromhex(e.began))
            for e in edits
        ]
        return [row[0] for row in await self.write(TAKE, rows, source.value, time)]

    async def add(self, to: UUID, time: datetime, additions: Sequence[Addition]) -> list[Any]:
        """Makes entries; the place of each section, and the id of its entry."""
        rows = [(one.wanted, *_columns(one.words)) for one in additions]
        return [
            (additions[row["place"] - 1].place, row["id"]) for row in await self.write(ADD, rows, to, time)
        ]

    async def buried(self, source: Source, entries: Some[UUID]) -> frozenset[UUID]:
        """Those of these entries that a person deleted."""
        rows = await self._database.fetch(BURIED, source.value, list(entries)) if entries else []
        return frozenset(row["row_id"] for row in rows)

    async def erased(self, ids: Some[UUID]) -> frozenset[UUID]:
        """Those of these rows that were erased or deleted for good."""
        rows = await self._database.fetch(ERASED, list(ids)) if ids else []
        return frozenset(row[0] for row in rows)

    async def recently_buried(self, collection: UUID, seconds: float) -> tuple[int, int, int]:
        """How many of its entries were recently deleted without a confirmation."""
        (row,) = await self._database.fetch(RECENT, collection, seconds)
        return row["here"], row["everywhere"], row["known"]

    async def ask_confirmation(self, collection: UUID, missing: int) -> None:
        """Asks a person to confirm the deletion of this number of entries."""
        await self._database.execute(ASK, self._daemon, collection, missing)

    async def end_conflicts(self, ids: Sequence[UUID]) -> None:
        """Ends conflicts; the entries keep the text that they have."""
        if ids:
            await self._database.execute(END_CONFLICTS, ids)

    async def note(
        self,
        one: Collection,
        file: bytes | None,
        *,
        shown: Sequence[tuple[UUID, str, bytes, bytes]],
        conflicts: dict[UUID, bytes],
        gone: Sequence[UUID],
    ) -> None:
        """Notes what file and entries have now. `shown`: id, label, digest and version of each entry in the file."""
        await self._database.execute(
            NOTE,
            self._daemon,
            one.id,
            one.path,
            one.preamble,
            file,
            *columns_of(shown, 4),
            list(conflicts),
            list(conflicts.values()),
            gone,
            one.version,
        )

    async def learn_homes(self, homes: dict[UUID, str], users: Iterable[UUID | None]) -> None:
        """Adds the names of these users' folders: those that are there; else the id, and the name that the user goes by."""
        unknown = {user for user in users if user is not None} - homes.keys()
        rows = await self._database.fetch(HOMES, list(unknown)) if unknown else []
        homes |= {row["id"]: row["folder"] or home_for(row["id"], row["name"]) for row in rows}


def _columns(words: Words) -> tuple[str, str, str, bytes]:
    return words.label, words.title, words.body, words.digest()


def key_in(row: Any) -> Key:
    return Key(Source(row["source"]), row["user_id"], row["agent_id"], row["org_id"], row["tier"])
