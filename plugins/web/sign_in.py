"""Sessions: for who has the token or the password, or whom the proxy before this server names.

Promise: secrets are compared in constant time, and guessing is slow: after five wrong secrets within a minute all are refused
until the minute is over. Only this process knows a session, by a random cookie that no script can read and no other site can
send. A session ends with the process, or some time after its last request.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Literal

WRONG_AT_MOST = 5
MINUTE = 60.0
LONGEST_NAME = 200
NOBODYS_OWN = "support"
"""The name of a reader who signed in with the token or the password: both may be shared by several people."""

LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1"))


@dataclass(slots=True)
class Session:
    """A reader who is signed in. `csrf`: the value that each form must send back."""

    name: str
    csrf: str
    seen_at: float = 0.0
    kept: dict[str, object] = field(default_factory=dict)
    """Values that pages keep in this process for this session only."""


class Guard:
    """The sessions of one server. Give it a `secret` (token or password) or `proxy_header`, never both.

    `proxies`: the networks from which that header is trusted.
    """

    def __init__(
        self,
        *,
        secret: str | None = None,
        kind: Literal["token", "password", "proxy"] = "token",
        proxy_header: str | None = None,
        proxies: Sequence[IPv4Network | IPv6Network] = LOOPBACK,
        minutes: float = 720.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.kind = kind
        self.proxy_header = proxy_header
        self._proxies = tuple(proxies)
        self._hash = None if secret is None else _hash(secret)
        self._seconds = minutes * 60
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._sessions: dict[str, Session] = {}
        self._named: dict[str, Session] = {}
        self._wrong: deque[float] = deque()

    def begin(self, secret: str, *, counts: bool = True) -> str | None:
        """The cookie of a new session; None if the secret is wrong, or too many counted secrets were wrong."""
        if self.is_closed() or self._hash is None:
            return None
        if not hmac.compare_digest(_hash(secret), self._hash):
            if counts:
                self._wrong.append(self._clock())
            return None
        self._forget_old()
        cookie = secrets.token_urlsafe(32)
        self._sessions[cookie] = Session(NOBODYS_OWN, self._csrf(cookie), self._clock())
        return cookie

    def is_closed(self) -> bool:
        """Whether no secret is examined now, because too many were wrong."""
        now = self._clock()
        while self._wrong and now - self._wrong[0] > MINUTE:
            self._wrong.popleft()
        return len(self._wrong) >= WRONG_AT_MOST

    def session_of(self, cookie: str | None) -> Session | None:
        """The session with this cookie, unless it has ended."""
        session = None if cookie is None else self._sessions.get(cookie)
        if session is None or cookie is None:
            return None
        now = self._clock()
        if now - session.seen_at > self._seconds:
            del self._sessions[cookie]
            return None
        session.seen_at = now
        return session

    def takes_from(self, address: str) -> bool:
        """Whether requests from this address are accepted: with a proxy, only the proxy's."""
        if self.kind != "proxy":
            return True
        peer = ip_address(address)
        if isinstance(peer, IPv6Address) and peer.ipv4_mapped is not None:
            peer = peer.ipv4_mapped
        return any(peer in network for network in self._proxies)

    def session_of_proxy(self, name: str) -> Session:
        """The session of the reader whom the proxy names; it needs no cookie."""
        session = self._named.setdefault(name, Session(name, self._csrf(f"proxy {name}")))
        session.seen_at = self._clock()
        self._forget_old()
        return session

    def end(self, cookie: str | None) -> None:
        self._sessions.pop(cookie or "", None)

    def _csrf(self, cookie: str) -> str:
        return hmac.new(self._key, cookie.encode(), hashlib.sha256).hexdigest()

    def _forget_old(self) -> None:
        now = self._clock()
        for sessions in (self._sessions, self._named):
            for key in [k for k, s in sessions.items() if now - s.seen_at > self._seconds]:
                del sessions[key]


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
