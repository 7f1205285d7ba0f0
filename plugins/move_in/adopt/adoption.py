"""Moves an application's tables aside, and takes their rows in, within the transaction of the first migration.

Promise: all of it happens, or nothing, whenever it is killed. Tables that are moved aside are neither dropped nor changed: rows
that memoryd refuses stay there, and are counted by reason.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import asyncpg

from daemon.db.errors import MigrationError, is_gone, is_outage
from daemon.db.foreign import move_aside, postgres_names
from daemon.db.migration_files import MigrationFiles
from daemon.db.pool import FIND_VECTOR_SCHEMA, quoted
from handlers.shared.ports import AnyConnection
from plugins.move_in.adopt.columns import Column, fill, map_columns, read_columns
from plugins.move_in.adopt.designs import DESIGNS, Design
from plugins.move_in.adopt.foreign_rows import NotReadableError, stage
from plugins.move_in.adopt.survey import Survey, refuse, survey

BATCH = 1000
"""The number of rows in one statement."""
_PATIENCE_SECONDS = 7 * 86_400.0
"""Seconds, more than any table needs. Without a number the connection's own timeout would end a statement."""
_ROWS = "memoryd_adopted_rows"
"""A copy of the rows, so that nothing is computed on a table that another role has made."""
# The parts of an error that quote a row: errors are counted without them.
_OF_ROW = re.compile(
    r"'(?:[^']|'')*'|(?<=: )\".*\"$|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d+(?:[:.,+-]+\d+)*",
    re.DOTALL,
)

# Times without a zone are taken as UTC. Triggers see the rows as those of an import: neither logged nor read for facts.
_SETTINGS = """
set local timezone = 'UTC';
set local statement_timeout = 0;
set local client_min_messages = error;
set local memoryd.importing = 'on';
insert into memoryd.settings (key, value) values ('broadcast', '"off"')
"""
# Supabase's Broadcast would keep a row for each user of each batch.
_RESET = "set local memoryd.importing = ''; delete from memoryd.settings where key = 'broadcast'"
_SESSIONS = """
insert into public.conversation_sessions (id, user_id, created_at)
select {session}, case when count(distinct {user}) = 1 and bool_and({chat} is null) then (array_agg({user})
       filter (where {user} is not null))[1] end,
       greatest(least(min({created}), now()), '0001-01-02')
from {table} r
where {session} is not null
group by {session}
on conflict do nothing
"""
_QUEUE = """
create temporary table memoryd_adopting on commit drop as
select q.place, q.reason,
       row_number() over (partition by q.reason is null order by q.nth) as n
from (select r.ctid as place, {reason} as reason, row_number() over (order by {order}) as nth from {table} r) q;
create index on pg_temp.memoryd_adopting (n) where reason is null;
analyze pg_temp.memoryd_adopting
"""
_REASONS = "select reason, count(*) as rows from pg_temp.memoryd_adopting group by reason"
# By the places of the rows: so no batch reads the whole table.
_INSERT = """
insert into {target} ({columns})
select {values}
from {table} r
join pg_temp.memoryd_adopting q on q.place = r.ctid
where r.ctid = any(array(select p.place from pg_temp.memoryd_adopting p where p.reason is null and p.n between $1 and $2))
  and q.reason is null and q.n between $1 and $2
order by q.n
"""


@dataclass(slots=True)
class AdoptedRows:
    """The result for the rows of one table."""

    table: str
    rows: int = 0
    taken: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    kept: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


@dataclass(slots=True)
class Adoption:
    """One adoption: `migrate()` calls it before and after it makes the schema. `found` is null where that was there already."""

    schema: str
    also: Collection[str] = ()
    found: Survey | None = None
    taken: list[AdoptedRows] = field(default_factory=list)

    async def move_aside(self, connection: AnyConnection, files: MigrationFiles) -> None:
        """Moves objects with memoryd's names into the schema. Raises MigrationError."""
        self.found, self.taken = await survey(connection, files, also=self.also), []
        if self.found.unlike:
            raise MigrationError(refuse(self.found.unlike))
        if not self.found.moved:
            return
        try:
            await move_aside(connection, self.found.moved, self.schema)
        except asyncpg.InsufficientPrivilegeError as error:
            raise MigrationError(
                f"Only their owner can move tables aside ({error.args[0]}). Nothing was changed. Connect as the role that "
                "owns them and may create schemas in this database, or as a superuser."
            ) from None
        except (asyncpg.DuplicateTableError, asyncpg.DuplicateFunctionError) as error:
            raise MigrationError(
                f"{error.args[0]}: it was moved there before. Nothing was changed. Name another schema: --schema NAME"
            ) from None

    async def take_in(self, connection: AnyConnection, *, dimensions: int) -> None:
        """Takes the rows of the moved tables into memoryd's."""
        assert self.found is not None
        if not self.found.designs:
            return
        await connection.execute(_SETTINGS)
        async with postgres_names(connection):
            for name in self.found.designs:
                try:
                    self.taken.append(await self._take_table(connection, name, dimensions))
                except NotReadableError as error:
                    raise MigrationError(
                        f"{error}, so its rows cannot be taken in. Nothing was changed."
                    ) from None
        await connection.execute(_RESET)

    async def _take_table(self, connection: AnyConnection, name: str, dimensions: int) -> AdoptedRows:
        design, moved = DESIGNS[name], f"{quoted(self.schema)}.{quoted(name)}"
        target, table = f"public.{design.target or name}", f"pg_temp.{_ROWS}"
        forced = await connection.fetchval(
            "select relforcerowsecurity from pg_class where oid = $1::regclass", moved
        )
        if forced:
            # Else the owner would see no row.
            await connection.execute(f"alter table {moved} no force row level security")
        await stage(connection, moved, _ROWS, seconds=_PATIENCE_SECONDS)
        if forced:
            await connection.execute(f"alter table {moved} force row level security")
        given = await read_columns(connection, table)
        wanted = await read_columns(connection, target)
        values, kept, lost = map_columns(
            design,
            given,
            wanted,
            dimensions=dimensions,
            vector_schema=await connection.fetchval(FIND_VECTOR_SCHEMA),
        )
        taken = await _queue(connection, AdoptedRows(name), table, design, given)
        generated = (one for one in await read_columns(connection, moved) if one not in given)
        taken.kept, taken.lost = kept, (*lost, *generated)
        if target == "public.conversation_messages":
            await connection.execute(
                _SESSIONS.format(
                    table=table,
                    session=fill("({session_id})::uuid", given),
                    user=fill("({user_id})::uuid", given),
                    chat=fill("({chat_id})::uuid", given),
                    created=fill(
                        "coalesce(({created_at})::timestamptz, ({timestamp})::timestamptz, now())", given
                    ),
                ),
                timeout=_PATIENCE_SECONDS,
            )
        queued = taken.rows - taken.left_out.total()
        statement = _INSERT.format(
            target=target,
            columns=", ".join(map(quoted, values)),
            values=", ".join(values.values()),
            table=table,
        )
        for first in range(1, queued + 1, BATCH):
            last = min(first + BATCH - 1, queued)
            await _insert(connection, statement, first, last, taken)
        await connection.execute(f"drop table pg_temp.memoryd_adopting, {table}")
        return taken


async def _queue(
    connection: AnyConnection, taken: AdoptedRows, table: str, design: Design, given: Mapping[str, Column]
) -> AdoptedRows:
    """Numbers the rows in the order in which they are taken in; counts those that the design's rules leave out."""
    cases = " ".join(
        f"when {fill(when, given)} then {fill(reason, given)}" for when, reason in design.left_out
    )
    reason = f"case {cases} end" if cases else "null::text"
    await connection.execute(
        _QUEUE.format(table=table, reason=reason, order=fill(design.order, given)), timeout=_PATIENCE_SECONDS
    )
    for row in await connection.fetch(_REASONS):
        taken.rows += row["rows"]
        if row["reason"] is not None:
            taken.left_out[row["reason"]] += row["rows"]
    return taken


async def _insert(
    connection: AnyConnection, statement: str, first: int, last: int, taken: AdoptedRows
) -> None:
    """Takes in the rows of these numbers. If a batch is refused, it takes in each half, down to the single row."""
    try:
        async with connection.transaction():
            status = await connection.execute(statement, first, last, timeout=_PATIENCE_SECONDS)
    except asyncpg.PostgresError as error:
        if is_gone(error) or is_outage(error):
            raise
        if first == last:
            taken.left_out[_OF_ROW.sub("…", str(error.args[0]))] += 1
            return
        middle = (first + last) // 2
        await _insert(connection, statement, first, middle, taken)
        await _insert(connection, statement, middle + 1, last, taken)
    else:
        taken.taken += int(status.rpartition(" ")[2])
