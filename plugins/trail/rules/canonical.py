"""The one form of JSON that is hashed: the text that Postgres gives for jsonb (docs/trail.md has its rules).

The database writes it; here it is checked that the JSON in a proof is the hashed text, without duplicate names.
`cid_of` names content as IPFS does: CIDv1 of raw bytes with SHA-256, in base32.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any

_PREFIX = bytes([1, 0x55, 0x12, 0x20])
"""Version 1, raw bytes, SHA-256, of 32 bytes."""


def cid_of(content: bytes) -> str:
    return "b" + base64.b32encode(_PREFIX + sha256(content).digest()).decode().lower().rstrip("=")


_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")


class Number(str):
    """A number as it is written, without rounding."""

    __slots__ = ()


def read(text: str) -> Any:
    """The value of a canonical text; numbers are Numbers. Raises ValueError where the text is not canonical."""
    with suppress(ValueError, RecursionError):
        value = json.loads(text, parse_int=Number, parse_float=Number, parse_constant=_refuse)
        if write(value) == text:
            return value
    raise ValueError("it is not written in the canonical form")


def write(value: Any) -> str:
    """The canonical text of JSON whose numbers are Numbers or ints."""
    match value:
        case Number():
            if _NUMBER.fullmatch(value) is None:
                raise ValueError(f"{value} is no number in the canonical form")
            return str(value)
        case None | bool() | int() | str():
            return json.dumps(value, ensure_ascii=False)
        case list():
            return "[" + ", ".join(write(one) for one in value) + "]"
        case Mapping():
            keys = sorted(value, key=lambda key: (len(key.encode()), key.encode()))
            return "{" + ", ".join(f"{write(key)}: {write(value[key])}" for key in keys) + "}"
        case _:
            raise ValueError(f"no JSON value: {type(value).__name__}")


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")
