"""JSON Web Tokens as a gateway makes them and PostgREST checks them: HS256, with a role and whose it is.

Part of tests/support/postgrest/server.py.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any
from uuid import UUID

from tests.support.postgrest.errors import RefusedError

SECRET = "a secret of at least thirty-two characters"
SKEW_SECONDS = 30
TIMES: Mapping[str, tuple[Callable[[float], bool], str]] = MappingProxyType(
    {
        "exp": (lambda left: left < -SKEW_SECONDS, "JWT expired"),
        "nbf": (lambda left: left > SKEW_SECONDS, "JWT not yet valid"),
        "iat": (lambda left: left > SKEW_SECONDS, "JWT issued at future"),
    }
)
"""When a claim is wrong that is so many seconds from now, and what is said then."""


def token(
    role: str, user: UUID | None = None, *, secret: str = SECRET, lives: float = 3600, **claims: Any
) -> str:
    """A token of this role, for a user or for none, which expires after so many seconds."""
    said = {"role": role, "iss": "tests", "iat": int(time.time()), "exp": int(time.time() + lives)} | claims
    if user is not None:
        said |= {"sub": str(user)}
    head = _packed(json.dumps({"alg": "HS256", "typ": "JWT"}).encode())
    body = _packed(json.dumps(said).encode())
    return f"{head}.{body}.{_packed(_signature(f'{head}.{body}', secret))}"


def claims_of(sent: str, *, secret: str = SECRET) -> dict[str, Any]:
    """The claims of a token that is ours and has not expired. Raises RefusedError."""
    head, claims, signed, signature = _taken_apart(sent)
    if not isinstance(head, dict) or head.get("alg") != "HS256":
        raise _refused("PGRST301", "Wrong or unsupported encoding algorithm")
    if not hmac.compare_digest(signature, _signature(signed, secret)):
        raise _refused("PGRST301", "No suitable key or wrong key type")
    if not isinstance(claims, dict):
        raise _refused("PGRST303", "Parsing claims failed")
    for name, (is_wrong, said) in TIMES.items():
        value = claims.get(name)
        if value is not None and not isinstance(value, int | float):
            raise _refused("PGRST303", f"The JWT '{name}' claim must be a number")
        if value is not None and is_wrong(value - time.time()):
            raise _refused("PGRST303", said)
    return claims


def _taken_apart(sent: str) -> tuple[Any, Any, str, bytes]:
    """Head, claims, what is signed, and the signature."""
    if not sent:
        raise _refused("PGRST301", "Empty JWT is sent in Authorization header")
    parts = sent.split(".")
    if len(parts) != 3:
        raise _refused("PGRST301", f"Expected 3 parts in JWT; got {len(parts)}")
    try:
        head, claims = (json.loads(_unpacked(part)) for part in parts[:2])
        return head, claims, f"{parts[0]}.{parts[1]}", _unpacked(parts[2])
    except ValueError:
        raise _refused("PGRST301", "JWT cryptographic operation failed") from None


def _signature(signed: str, secret: str) -> bytes:
    return hmac.digest(secret.encode(), signed.encode(), hashlib.sha256)


def _packed(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _unpacked(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _refused(code: str, message: str) -> RefusedError:
    header = f'Bearer error="invalid_token", error_description="{message}"'
    return RefusedError(401, code, message, headers={"WWW-Authenticate": header})
