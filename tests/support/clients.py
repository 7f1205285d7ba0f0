"""End users as a client library has them: signed in, their claims set, or with claims that name nobody."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

import asyncpg

ANN, BOB = UUID(int=0xA), UUID(int=0xB)


@asynccontextmanager
async def signed_in(connection: asyncpg.Connection, user: UUID | None) -> AsyncIterator[None]:
    """A transaction with an end user's role and claims; also within a test's own transaction both end with the block."""
    claims = {"role": "authenticated"} | ({} if user is None else {"sub": str(user)})
    async with connection.transaction():
        await connection.execute("set local role memoryd_user")
        await connection.execute("select set_config('request.jwt.claims', $1, true)", json.dumps(claims))
        yield
        await connection.execute("reset role; reset request.jwt.claims")
