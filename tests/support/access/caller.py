"""A caller in the world of tests/support/access/isolation.py: acts in a transaction that is undone, and is watched."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from uuid import UUID, uuid4

import asyncpg

from tests.support.access.acting import ANN, BOB, becoming
from tests.support.access.isolation import MARKS, World, build_world, key_of, read_changed, read_world
from tests.support.database.logins import BECOME
from tests.support.database.schemas import connected
from tests.support.rows import column

Version = dict[tuple[str, str], tuple[str, str]]

TRY = """
create procedure pg_temp.try(becoming text, statements text[], inout said text[]) language plpgsql as $$
declare
    statement text;
    found bigint;
    a text; b text; c text; d text; e text; f text; g text; h text; i text;
begin
    foreach statement in array statements loop
        execute becoming;
        begin
            execute statement;
            get diagnostics found = row_count;
            said := array_append(said, case when found = 0 and pg_current_xact_id_if_assigned() is null then '' end);
        exception when others then
            get stacked diagnostics
                a = message_text, b = pg_exception_detail, c = pg_exception_hint, d = pg_exception_context, e = schema_name,
                f = table_name, g = column_name, h = constraint_name, i = pg_datatype_name;
            said := array_append(said, concat_ws(' ', a, b, c, d, e, f, g, h, i));
        end;
        rollback;
    end loop;
end $$
"""
"""Tries each statement in a transaction of its own, without a way to the server and back for each."""


@dataclass(slots=True)
class Place:
    """A connection to the world as its owner; `stranger` is the name of a role that was granted nothing."""

    connection: asyncpg.Connection
    world: World
    stranger: str
    before: Version = field(default_factory=dict)

    def role(self, name: str) -> str:
        """A role's name on this server."""
        return self.stranger if name == "stranger" else name

    @asynccontextmanager
    async def acting(self, user: UUID | None, role: str = "memoryd_user") -> AsyncIterator[None]:
        """As PostgREST would act for this user; nothing of it stays."""
        await self.connection.execute(f"begin; {self.becoming(user, role)}")
        try:
            yield
        finally:
            await self.connection.execute("rollback")

    async def tried(self, user: UUID | None, role: str, statements: Sequence[str]) -> Sequence[str | None]:
        """What each refusal said; "" where a statement found and wrote nothing, None where it did. Nothing of them stays."""
        called = "call pg_temp.try($1, $2, '{}')"
        said: list[str | None] = await self.connection.fetchval(called, self.becoming(user, role), statements)
        return said

    def becoming(self, user: UUID | None, role: str = "memoryd_user") -> str:
        """What makes the rest of a transaction that user's."""
        return becoming(user, role=self.role(role))

    async def back(self) -> None:
        """The owner again."""
        await self.connection.execute(
            "reset role; set local search_path to default; set local row_security = on"
        )

    async def seen(self, relation: str) -> set[str]:
        """Keys of the rows that the caller sees; of a relation that is closed, none."""
        await self.connection.execute("savepoint before")
        try:
            return set(
                map(str, await column(self.connection, f"select {key_of(relation)} from public.{relation}"))
            )
        except asyncpg.InsufficientPrivilegeError as error:
            if "permission denied for" not in str(error):
                raise
            await self.connection.execute("rollback to before")
            return set()

    async def remember_versions(self) -> None:
        """What `changes` compares with."""
        self.before = await self._versions()

    async def _versions(self) -> Version:
        each = [
            f"select '{table}' as name, {key_of(table)}::text as key, xmin::text as born, ctid::text as place "
            f"from public.{table}"
            for table in self.world.tables
        ]
        rows = await self.connection.fetch(" union all ".join(each))
        return {(r["name"], r["key"]): (r["born"], r["place"]) for r in rows}

    async def changes(self, user: UUID | None, role: str, *, erasing: bool = False) -> dict[str, bool]:
        """What was written, added or deleted since the beginning, and whether this user may.

        An erasure also takes conversations of no user in which only this one speaks, and the names of groups in which only
        this one was; it is noted without a name; an agent that a service named for this user is no longer said to be.
        """
        # Whoever writes has a transaction's number, and keeps it when a savepoint is undone.
        if await self.connection.fetchval("select pg_catalog.pg_current_xact_id_if_assigned()") is None:
            return {}
        await self.back()
        after = await self._versions()
        changed = {k for k in self.before.keys() | after.keys() if self.before.get(k) != after.get(k)}
        if not changed:
            return {}
        now = await read_changed(self.connection, self.world, changed)
        return {
            f"{table} {key}": self._right(now, user, role, table, key)
            or (erasing and self._erased(now, user, table, key))
            for table, key in changed
        }

    def _erased(self, now: World, user: UUID | None, table: str, key: str) -> bool:
        if table == "agent_execution_logs":
            return key not in self.world.tables[table] and now.tables[table][key]["step_name"] == "erase"
        if table == "agents":
            was, row = self.world.tables[table][key], now.tables[table][key]
            return bool(was["named_for"] == str(user)) and row == {**was, "named_for": row["named_for"]}
        if table == "chat_groups":
            tables = ("chat_group_members", "conversation_messages")
            there = [
                row for name in tables for row in self.world.tables[name].values() if row["chat_id"] == key
            ]
            return {row["user_id"] for row in there} == {str(user)}
        said = [m for m in self.world.tables["conversation_messages"].values() if m["session_id"] == key]
        return table == "conversation_sessions" and {m["user_id"] for m in said} == {str(user)}

    def _right(self, now: World, user: UUID | None, role: str, table: str, key: str) -> bool:
        was, row = self.world.tables[table].get(key), now.tables[table].get(key)
        if was is None and row is not None and table == "agent_execution_logs":
            # The trail is written whatever one does: by support about rows of all users, by others about themselves.
            return row["user_id"] == str(user) or (
                role == "memoryd_admin" and row["action_type"] == "admin_read"
            )
        if role != "memoryd_user" or user is None:
            return False
        if was is not None and not self.world.is_mine(user, table, key):
            return False
        if row is None or (was is not None and table == "memory_anchors"):
            return True
        # It is still theirs, and no caller sees what they did not see before.
        others = [other for other in (ANN, BOB, None) if other != user]
        return now.is_mine(user, table, key) and not any(
            key in now.readable(other, table)
            and (was is None or key not in self.world.readable(other, table))
            for other in others
        )


def foreign_marks(user: UUID | None) -> list[str]:
    """The marks of all other users' rows."""
    return [mark for owner, mark in MARKS.items() if owner != user or owner is None]


@asynccontextmanager
async def open_place(url: str, *, also: str = "select") -> AsyncIterator[Place]:
    """Builds the world in a database, and runs `also` there."""
    async with connected(url) as connection:
        await build_world(connection)
        await connection.execute(also)
        stranger = f"stranger_{uuid4().hex[:8]}"
        await connection.execute(BECOME.format(stranger))
        await connection.execute(TRY)
        made = Place(connection, await read_world(connection), stranger)
        await made.remember_versions()
        try:
            yield made
        finally:
            await connection.execute(f"drop role {stranger}")
