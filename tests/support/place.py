"""Somebody in the world of tests/support/isolation.py: acts in a transaction that is undone, and is watched."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from uuid import UUID

import asyncpg

from tests.support.isolation import ANN, BOB, MARKS, World, key_of, read_world
from tests.support.rows import column


Version = dict[tuple[str, str], tuple[str, str]]


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
    async def undone(self) -> AsyncIterator[None]:
        """A transaction that leaves nothing behind."""
        transaction = self.connection.transaction()
        await transaction.start()
        try:
            yield
        finally:
            await transaction.rollback()

    @asynccontextmanager
    async def acting(self, user: UUID | None, role: str = "memoryd_user") -> AsyncIterator[None]:
        """As PostgREST would act for this user; nothing of it stays."""
        async with self.undone():
            await self.become(user, role)
            yield

    async def become(self, user: UUID | None, role: str = "memoryd_user") -> None:
        """From now on, in this transaction, that user."""
        claims = "" if user is None else json.dumps({"sub": str(user), "role": "authenticated"})
        await self.connection.execute("select set_config('request.jwt.claims', $1, true)", claims)
        await self.connection.execute(f"set local role {self.role(role)}")

    async def back(self) -> None:
        """The owner again."""
        await self.connection.execute("reset role; set local search_path to default; set local row_security = on")

    async def seen(self, relation: str) -> set[str]:
        """Keys of the rows that whoever this is sees; of a relation that is closed, none."""
        try:
            async with self.connection.transaction():
                return set(map(str, await column(self.connection, f"select {key_of(relation)} from public.{relation}")))
        except asyncpg.InsufficientPrivilegeError as error:
            if "permission denied for" not in str(error):
                raise
            return set()

    async def remember_versions(self) -> None:
        """What is compared with by `wrongs`."""
        self.before = await self._versions()

    async def _versions(self) -> Version:
        each = [
            f"select '{table}' as name, {key_of(table)}::text as key, t.xmin::text as born, t.ctid::text as place from public.{table} t"
            for table in self.world.tables
        ]
        rows = await self.connection.fetch(" union all ".join(each))
        return {(r["name"], r["key"]): (r["born"], r["place"]) for r in rows}

    async def wrongs(self, user: UUID | None, role: str) -> list[str]:
        """What was written, added or deleted since the beginning that this user may not."""
        await self.back()
        after = await self._versions()
        changed = {k for k in self.before.keys() | after.keys() if self.before.get(k) != after.get(k)}
        if not changed:
            return []
        now = await read_world(self.connection)
        return sorted(f"{table} {key}" for table, key in changed if not self._right(now, user, role, table, key))

    def _right(self, now: World, user: UUID | None, role: str, table: str, key: str) -> bool:
        was, row = self.world.tables[table].get(key), now.tables[table].get(key)
        if was is not None and (role != "memoryd_user" or not self.world.is_mine(user, table, key)):
            return False
        if row is None:
            return True
        if was is None and table == "agents":
            # An agent is known from its first command or memory.
            return role == "memoryd_user" and user is not None
        if was is None and table == "agent_execution_logs":
            return row["action_type"] == "admin_read" if role == "memoryd_admin" else row["user_id"] == str(user)
        others = [other for other in (ANN, BOB, None) if other != user]
        hidden = not any(key in now.readable(other, table) for other in others)
        shared_before = was is not None and any(key in self.world.readable(other, table) for other in others)
        return role == "memoryd_user" and now.is_mine(user, table, key) and (hidden or shared_before)


def foreign_marks(user: UUID | None) -> list[str]:
    """The marks of everybody else's rows."""
    return [mark for owner, mark in MARKS.items() if owner != user or owner is None]
