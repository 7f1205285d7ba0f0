"""Secret fields in the database: how many values each key has encrypted, and encrypting all with the newest one.

Promise: no value is logged, and none is in an error. Rows are changed in batches, each in a transaction of its own, and only if
nobody changed them meanwhile: whenever this is ended, the next run goes on where it was, and two may run at once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

import asyncpg

from daemon.db.migrator import WRITE_SETTINGS
from daemon.db.pool import Database
from handlers.shared.ports import AnyConnection
from memory.secrets import MAX_BYTES, SUITE, Encrypted, base64url, binding, from_base64url, read_encrypted
from providers.secret_keys import NotDecrypted, PublicKey, SecretKeys

BATCH = 100
"""Rows; each may have a megabyte of metadata."""
PASSES = 10
"""Over the rows of a column, while others change them."""
TIMEOUT = 600.0
"""Seconds for one statement: on a big table the search for the next rows takes long."""
PLAIN = "plain"
"""The state of a value that is not encrypted; others are ids of keys."""

COLUMNS = """
select c.table_name, c.column_name,
       exists (select from pg_attribute a where a.attrelid = ('public.' || c.table_name)::regclass
                and a.attname = 'user_id' and not a.attisdropped) as has_user
from memoryd.secret_columns() c
"""
# A memory whose section a person deleted from the replica is kept for a while, as it was, and may come back.
BURIED = "memoryd.replica_buried"
REFUSED = (asyncpg.IntegrityConstraintViolationError, asyncpg.DataError, TimeoutError)
"""Why a batch may not be written because of one of its rows. A user may write rows that take long."""

KEY = "select key_id, public_key, fields from public.secrets_key()"
FIELDS = "select value #>> '{}' from memoryd.settings where key = 'secret_fields'"
COUNT = """
select case when memoryd.is_encrypted(v.value) then split_part(v.value ->> 'encrypted', '.', 2) else 'plain' end as state,
       count(*) as number
from {table} t
cross join lateral memoryd.secret_values({value}, $1) v
where {value}::text ~* (memoryd.secret_pattern($1) collate "C")
group by 1
"""
# A row without any such value has one line, so that its id is known and the next batch begins after it.
READ = """
with page as (
    select t.{id} as id from {table} t
    where ($2::uuid is null or t.{id} > $2) and {value}::text ~* (memoryd.secret_pattern($1) collate "C")
    order by t.{id}
    limit $3
)
select p.id, t.xmin::text as version, {user} as user_id, to_json(v.path)::text as path, v.field,
       memoryd.is_encrypted(v.value) as encrypted,
       case when jsonb_typeof(v.value) = 'string' then v.value #>> '{{}}' else v.value::text end as value
from page p
join {table} t on t.{id} = p.id and {value} is not null
left join lateral memoryd.secret_values({value}, $1) v on true
order by p.id
"""
# Locked in one order, so that two who do this at once do not wait for each other.
WRITE = """
with mine as (
    select n.id, n.made
    from unnest($1::uuid[], $2::text[], $3::jsonb[]) as n(id, version, made)
    join {table} t on t.{id} = n.id and t.xmin::text = n.version and {value} is not null
    order by n.id
    for no key update of t
)
update {table} t set {column} = {written}
from mine m
where t.{id} = m.id and {value} is not null
returning m.id
"""


@dataclass(slots=True)
class Reencrypted:
    """What was done, in values, and what was not, by the reason."""

    from_plain: int = 0
    from_former: int = 0
    failed: dict[str, set[str]] = field(default_factory=dict)
    """Why, and the values: `table id, field`."""


@dataclass(frozen=True, slots=True)
class _Column:
    """Where values are: how it is shown, and its names for the statements."""

    table: str
    shown: str
    names: Mapping[str, str]


@dataclass(slots=True)
class _Row:
    """A row to write: its version when it was read, and its new values by their paths."""

    version: str
    made: list[dict[str, object]] = field(default_factory=list)
    plain: int = 0


def encrypted(key: PublicKey, value: bytes, *, field: str, user: UUID | None) -> dict[str, str]:
    """What is written into the metadata: the value, bound to the field and to the user of the row."""
    return Encrypted(key.id, key.encrypt(value, binding(field, user))).as_json()


def decrypted(keys: SecretKeys, value: Encrypted, *, field: str, user: UUID | None) -> bytes:
    """The value. Raises NotDecrypted."""
    return keys.decrypt(value.key_id, value.ciphertext, binding(field, user))


async def public_key(database: Database) -> PublicKey | None:
    """The key that the database gives its clients; None where there is none."""
    row = await database.fetchrow(KEY)
    return None if row is None else PublicKey(from_base64url(row["public_key"]))


async def publish(database: Database, key: PublicKey) -> None:
    """Makes this the key that the database gives its clients."""
    value = {"key_id": key.id, "public_key": base64url(key.raw), "suite": SUITE}
    await database.execute(WRITE_SETTINGS, ["secrets_key"], [json.dumps(value)])


async def fields_of(database: Database) -> list[str]:
    """The names of the secret fields, as the database has them."""
    return [name for name in (await database.fetchval(FIELDS) or "").split("|") if name]


async def count(database: Database) -> Mapping[str, Counter[str]]:
    """Of each table and column how many values each key has encrypted, by its id, and how many are `plain`."""
    fields, counts = await fields_of(database), dict[str, Counter[str]]()
    async with database.connection() as connection:
        for column in await _columns(connection):
            found = await connection.fetch(COUNT.format(**column.names), fields, timeout=TIMEOUT)
            counts[column.shown] = Counter({each["state"]: each["number"] for each in found})
    return counts


async def reencrypt(database: Database, keys: SecretKeys) -> Reencrypted:
    """Encrypts with the newest key what is plain, or was encrypted with another one."""
    await publish(database, keys.newest)
    fields, done = await fields_of(database), Reencrypted()
    async with database.connection() as connection:
        columns = await _columns(connection)
    for column in columns:
        missed = set[str]()
        for _ in range(PASSES):
            missed = await _reencrypt_column(database, keys, fields, column, done)
            if not missed:
                break
        else:
            done.failed["Others changed the row again and again. Run it once more."] = missed
    return done


async def _columns(connection: AnyConnection) -> list[_Column]:
    # The copies last: a row that is deleted meanwhile is found there.
    return [
        *(
            _column(row["table_name"], row["column_name"], row["has_user"])
            for row in await connection.fetch(COLUMNS)
        ),
        _Column(
            BURIED,
            f"{BURIED}.row",
            {
                "table": BURIED,
                "id": "row_id",
                "column": "row",
                "user": "t.user_id",
                # Its other fields are columns. Knowledge and insights have no metadata.
                "value": "case t.source when 'memory' then t.row -> 'metadata' end",
                "written": "jsonb_set(t.row, '{metadata}', memoryd.with_values(t.row -> 'metadata', m.made))",
            },
        ),
    ]


def _column(table: str, column: str, has_user: bool) -> _Column:
    names = {
        "table": f"public.{table}",
        "id": "id",
        "column": column,
        "user": "t.user_id" if has_user else "null::uuid",
        "value": f"t.{column}",
        "written": f"memoryd.with_values(t.{column}, m.made)",
    }
    return _Column(table, f"{table}.{column}", names)


async def _reencrypt_column(
    database: Database,
    keys: SecretKeys,
    fields: list[str],
    column: _Column,
    done: Reencrypted,
) -> set[str]:
    """One pass over the rows. Returns those that others have changed meanwhile."""
    read, write, table = READ.format(**column.names), WRITE.format(**column.names), column.table
    last, missed = None, set[str]()
    while True:
        async with database.connection() as connection:
            found = await connection.fetch(read, fields, last, BATCH, timeout=TIMEOUT)
        if not found:
            return missed
        last = found[-1]["id"]
        batch = _encrypted_rows(keys, found, table, done)
        try:
            written = await _write(database, write, batch)
        except REFUSED:
            # One of them: each by itself, so that the others are done.
            written = set()
            for row_id, row in batch.items():
                try:
                    written |= await _write(database, write, {row_id: row})
                except REFUSED as error:
                    reason = (
                        f"{error.args[0]}."
                        if error.args
                        else f"Writing it took more than {TIMEOUT:g} seconds."
                    )
                    done.failed.setdefault(reason, set()).add(f"{table} {row_id}")
                    written.add(row_id)
                    row.made.clear()
        missed |= {f"{table} {row_id}" for row_id in batch if row_id not in written}
        for row_id in written:
            row = batch[row_id]
            done.from_plain += min(row.plain, len(row.made))
            done.from_former += max(0, len(row.made) - row.plain)


def _encrypted_rows(
    keys: SecretKeys, found: list[asyncpg.Record], table: str, done: Reencrypted
) -> dict[UUID, _Row]:
    """Of these values those that are to be written, by row; `done` is told of those that cannot be decrypted."""
    batch = dict[UUID, _Row]()
    for value in found:
        if value["path"] is None:
            continue
        try:
            made = _encrypted_again(keys, value)
        except NotDecrypted as error:
            done.failed.setdefault(str(error), set()).add(f"{table} {value['id']}, {value['field']}")
            continue
        if made is not None:
            row = batch.setdefault(value["id"], _Row(value["version"]))
            row.made.append(made)
            row.plain += not value["encrypted"]
    return batch


async def _write(database: Database, sql: str, batch: Mapping[UUID, _Row]) -> set[UUID]:
    """The rows that were written: those that nobody changed since they were read."""
    if not batch:
        return set()
    versions = [row.version for row in batch.values()]
    made = [json.dumps(row.made) for row in batch.values()]
    async with database.transaction() as connection:
        rows = await connection.fetch(sql, list(batch), versions, made, timeout=TIMEOUT)
    return {row["id"] for row in rows}


def _encrypted_again(keys: SecretKeys, row: asyncpg.Record) -> dict[str, object] | None:
    """The path and the new value; None where it is encrypted with the newest key already. Raises NotDecrypted."""
    secret: bytes = row["value"].encode()
    if row["encrypted"]:
        value = read_encrypted(row["value"])
        if value is None:
            raise NotDecrypted("It has the form of an encrypted value, and is not in base64url.")
        if value.key_id == keys.newest.id:
            return None
        secret = decrypted(keys, value, field=row["field"], user=row["user_id"])
    if len(secret) > MAX_BYTES:
        raise NotDecrypted(f"It is longer than {MAX_BYTES:,} bytes, and would not fit when it is encrypted.")
    made = encrypted(keys.newest, secret, field=row["field"], user=row["user_id"])
    return {"path": json.loads(row["path"]), "value": made}
