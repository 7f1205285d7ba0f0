"""As whom a call is made.

Promise: each transaction sets its own identity, which ends with the transaction.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from memoryd_client._errors import Refused
from memoryd_client._ids import id_of
from memoryd_client._values import one_of, plain

Rights = Literal["service", "user", "login"]

# Text: it holds nothing but constants, a UUID and a number, and so needs no round trip beside the begin.
ENTER = """
begin;
select set_config('role', '{role}', true), set_config('request.jwt.claims', '{claims}', true),
       set_config('request.jwt.claim.sub', '', true), set_config('memoryd.org_id', '{org}', true),
       set_config('memoryd.project', '', true), set_config('memoryd.last_recall', '', true),
       set_config('statement_timeout', '{milliseconds}', true)
"""


@dataclass(frozen=True)
class Identity:
    """As whom a call is made.

    - `service`: an agent or a backend, with role memoryd_service; what concerns a user names the user.
    - `user`: an end user, with role memoryd_user and this user's claims, as a gateway sets them.
    - `login`: with the login's own rights; for end users who have a login (memoryd.logins), or a role of your own.
    """

    rights: Rights
    agent: str | None = None
    user: UUID | None = None
    org: UUID | None = None

    def __post_init__(self) -> None:
        one_of("rights", self.rights, Rights)
        if self.rights == "user" and self.user is None:
            raise Refused("rights='user' needs a user.")
        if self.rights == "login" and self.user is not None:
            raise Refused("rights='login' acts as the user of the login.", hint="Leave user out.")

    @property
    def named_user(self) -> UUID | None:
        """The user that the service names in its statements; for other roles the database knows the user."""
        return self.user if self.rights == "service" else None

    def enter(self, seconds: float) -> str:
        """SQL that begins a transaction as this identity."""
        claims = "" if self.rights != "user" else json.dumps({"sub": str(self.user), "role": "memoryd_user"})
        role = {"service": "memoryd_service", "user": "memoryd_user", "login": "none"}[self.rights]
        return ENTER.format(
            role=role, claims=claims, org=self.org or "", milliseconds=max(1, round(seconds * 1000))
        )


def identity(
    rights: Rights, agent: str | None, user: UUID | str | None = None, org: UUID | str | None = None
) -> Identity:
    """An identity of names. Raises Refused."""
    if agent is not None:
        plain("agent", agent, longest=200)
    return Identity(rights, agent, None if user is None else id_of(user), None if org is None else id_of(org))
