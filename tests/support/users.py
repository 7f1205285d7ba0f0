"""End users in tests: what they see and may do, as PostgREST would have them ask."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

import asyncpg

ANN, BOB = UUID(int=0xA), UUID(int=0xB)


@asynccontextmanager
async def signed_in(
    connection: asyncpg.Connection, user: UUID | None, *, role: str = "memoryd_user"
) -> AsyncIterator[None]:
    """A transaction with an end user's role and claims; without a user, with claims that name nobody."""
    claims = {"role": "authenticated"} | ({} if user is None else {"sub": str(user)})
    async with connection.transaction():
        await connection.execute(f"set local role {role}")
        await connection.execute("select set_config('request.jwt.claims', $1, true)", json.dumps(claims))
        yield
        # Within a test's own transaction nothing else would end them.
        await connection.execute("reset role; reset request.jwt.claims")
