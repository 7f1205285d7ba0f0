"""Callers of memoryd's HTTP servers: the socket and the name that they call, and the identity of their transactions.

Promise: a server answers to its own names alone: a page that a browser shows would get in by a name of its own (DNS rebinding).
A header that no browser writes names nothing, whatever part of it looks like a name. An identity (a role of Postgres and
claims, as a gateway sets them) holds for one transaction alone, and no statement of it runs for longer than it may.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Mapping

from handlers.shared.ports import AnyConnection

LOOPBACK = "127.0.0.1"
LOCAL = (LOOPBACK, "localhost", "::1")
ENTER = """
select set_config('role', $1, true),
       set_config('request.jwt.claims', $2, true),
       set_config('request.jwt.claim.sub', '', true),
       set_config('memoryd.org_id', $3, true),
       set_config('memoryd.last_recall', '', true),
       set_config('statement_timeout', $4, true)
"""

_HOST = re.compile(r"(\[[0-9a-f]*:[0-9a-f:.]*\]|[^\s:@/?#,;\\\[\]]+)(:[0-9]{0,5})?")


def listen(port: int, host: str = LOOPBACK, *, queue: int = 128) -> socket.socket:
    """A socket that listens; port 0 is any free one. `queue`: clients that may wait for it. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named, since asyncio turns Nagle's algorithm off only where the socket says TCP: else each answer waits 40 ms.
    opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((host, port))
        # Now: what is only bound can be bound again by others, and the log would name an address that refuses.
        opened.listen(queue)
    except OSError:
        opened.close()
        raise
    return opened


def name_in(host: str) -> str:
    """The name or address in lower case, without brackets and port; empty where there is none."""
    found = _HOST.fullmatch(host.strip().lower())
    return "" if found is None else found[1].strip("[]")


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
