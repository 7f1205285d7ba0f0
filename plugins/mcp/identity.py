"""The identity of the server's calls: an agent, or an end user of an agent.

Promise: each call sets its identity in its own transaction, and never has more rights than that identity. If the database
login cannot be that identity, the start is refused.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from uuid import UUID

from daemon.db.pool import Database
from handlers.shared.ports import AnyConnection
from plugins.operate.callers import act

WHO = "select memoryd.caller_id() as user_id, memoryd.caller_is_service() as service"

MOST_FOUND = 10_000


@dataclass(frozen=True, slots=True)
class Identity:
    """Who calls: with a `user` that end user, with the rights of memoryd_user; else an agent, with those of memoryd_service."""

    agent: str
    user: UUID | None = None
    org: UUID | None = None
    project: str | None = None
    """The project of calls that name none."""
    found: dict[UUID, str] = field(default_factory=dict, compare=False)
    """The newest results of recall, by id, with their sources: what the tool get may read."""

    def add_found(self, results: Mapping[UUID, str]) -> None:
        """Keeps what was found, and of all that was found the newest."""
        for one, source in results.items():
            self.found.pop(one, None)
            self.found[one] = source
        for one in list(self.found)[:-MOST_FOUND]:
            del self.found[one]

    @property
    def role(self) -> str:
        return "memoryd_service" if self.user is None else "memoryd_user"

    @property
    def claims(self) -> dict[str, str] | None:
        """The claims that a gateway sets for an end user; None for an agent."""
        return None if self.user is None else {"sub": str(self.user), "role": self.role}


class WrongLoginError(ValueError):
    """The login of the database cannot act as this identity; the message says what to do."""


@asynccontextmanager
async def acting(database: Database, identity: Identity, *, seconds: float) -> AsyncIterator[AnyConnection]:
    """A transaction with this identity. No statement in it runs for longer than `seconds`."""
    async with database.transaction() as connection:
        await act(
            connection,
            identity.role,
            claims=identity.claims,
            org="" if identity.org is None else str(identity.org),
            seconds=seconds,
        )
        yield connection


async def check_identity(database: Database, identity: Identity, *, seconds: float) -> None:
    """Raises WrongLoginError if the login may not take the role, or is another user in memoryd.logins."""
    import asyncpg

    try:
        async with acting(database, identity, seconds=seconds) as connection:
            who = await connection.fetchrow(WHO)
    except (asyncpg.InsufficientPrivilegeError, asyncpg.InvalidParameterValueError) as error:
        raise WrongLoginError(
            f"The login of DATABASE_URL cannot act as {identity.role} ({error.args[0]}). "
            f"As the owner of the database, grant {identity.role} to the login."
        ) from None
    assert who is not None
    if identity.user is not None and (who["service"] or who["user_id"] != identity.user):
        raise WrongLoginError(
            "The login of DATABASE_URL is another end user (memoryd.logins), and cannot act for this one. "
            "Give --user that user's id, or use another login."
        )
