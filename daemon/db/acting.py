"""The identity of a transaction: a role of Postgres and claims, as a gateway sets them.

Promise: it holds for this transaction alone, and no statement of it runs for longer than it may.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from handlers.shared.ports import AnyConnection

ENTER = """
select set_config('role', $1, true),
       set_config('request.jwt.claims', $2, true),
       set_config('request.jwt.claim.sub', '', true),
       set_config('memoryd.org_id', $3, true),
       set_config('memoryd.last_recall', '', true),
       set_config('statement_timeout', $4, true)
"""


async def act(
    connection: AnyConnection,
    role: str,
    *,
    claims: Mapping[str, str] | None = None,
    org: str = "",
    seconds: float,
) -> None:
    """From now on the transaction has this role and these claims, and statements of `seconds` at most.

    Raises asyncpg.InsufficientPrivilegeError where the login may not take the role.
    """
    await connection.execute(
        ENTER, role, "" if claims is None else json.dumps(claims), org, str(max(1, round(seconds * 1000)))
    )
