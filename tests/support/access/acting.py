"""Acting as another role than the database's owner: the one way in which a test becomes an end user, a service or support.

`acting_as` does what a gateway such as PostgREST does: in a transaction, it takes a role and sets the claims of a token.
For a caller who connects without a gateway, under a login of their own, see `tests.support.database.logins.login`.

A test sets a role or claims by hand only where the form of the claims, or the setting of them, is what it tests.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

import asyncpg

ANN, BOB, CAT, DAN = UUID(int=0xA), UUID(int=0xB), UUID(int=0xC), UUID(int=0xD)
"""Four end users."""

NOBODY = json.dumps({"role": "authenticated"})
"""Claims of a valid token that names no user."""

BEFORE = """
select current_setting('role') as role, coalesce(current_setting('request.jwt.claims', true), '') as claims
"""
BACK = "select pg_catalog.set_config('role', $1, true), pg_catalog.set_config('request.jwt.claims', $2, true)"


def becoming(user: UUID | None, *, role: str = "memoryd_user", claims: str | None = None) -> str:
    """SQL after which the rest of a transaction is this user's; claims given as text stand instead of the user's own."""
    if claims is None:
        claims = "" if user is None else json.dumps({"sub": str(user), "role": "authenticated"})
    quoted = claims.replace("'", "''")
    return f"set local role {role}; set local request.jwt.claims = '{quoted}'"


@asynccontextmanager
async def acting_as(
    connection: asyncpg.Connection,
    user: UUID | None,
    *,
    role: str = "memoryd_user",
    claims: str | None = None,
) -> AsyncIterator[None]:
    """A transaction as this user: with the role, and the claims that a gateway sets for the user's token.

    - `user` None and no `claims`: a role without any claims, as a service or support has it.
    - `claims` given as text: these are set instead, for tests of what claims may look like.
    - `role` may be any that the connection may take; "none" is the connection's own.

    The transaction is committed at the end, and rolled back by an exception. Within a transaction of the test's own it is a
    savepoint, and the role and the claims of before come back at the end. A statement that is expected to fail goes through
    `tests.support.access.refusals.refused`, or pytest.raises stands around the whole block: a failed transaction takes no more.
    """
    async with connection.transaction():
        before = await connection.fetchrow(BEFORE)
        assert before is not None
        if user is None and claims is None and not before["claims"]:
            await connection.execute(f"set local role {role}")
        else:
            await connection.execute(becoming(user, role=role, claims=claims))
        yield
        await connection.execute(BACK, before["role"], before["claims"])
