"""Ids: a UUID stays as it is, any other string is a name with a UUID of its own. A string that is almost a UUID is refused.

The same name is the same UUID in every process and language: it is the name-based UUID (version 5, RFC 9562) of the name's
UTF-8 bytes in NAMESPACE.
"""

from __future__ import annotations

import re
from typing import Final
from uuid import UUID, uuid5

from memoryd_client._errors import Refused

NAMESPACE: Final = UUID("9b1f2c86-5a1e-4c1b-8f0e-2d7c5e43a6b0")
"""A random constant."""

LONGEST_NAME = 10_000
LOOKS_LIKE_A_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
IN_ITS_SHAPE = re.compile(r"[^-]{8}-[^-]{4}-[^-]{4}-[^-]{4}-[^-]{12}")


def id_of(name: UUID | str) -> UUID:
    """The UUID of a name; a UUID, or a string that is written as one (8-4-4-4-12), is that UUID.

    >>> id_of("telegram:42")
    UUID('...')

    Raises Refused for an empty name, one of more than 10,000 characters, one that is no Unicode text, and one that is
    almost a UUID: without the white space, the braces and the "urn:uuid:" around it, it has only hex digits and hyphens, and
    32 digits, or four hyphens and 20 digits or more; or it has 36 characters, with hyphens where a UUID has them.
    """
    if isinstance(name, UUID):
        return UUID(bytes=name.bytes)  # asyncpg's own subclass becomes a plain one
    if not isinstance(name, str):
        raise Refused("An id is a UUID or a string.")
    if LOOKS_LIKE_A_UUID.fullmatch(name):
        return UUID(name)
    if not name or len(name) > LONGEST_NAME:
        raise Refused("An id that is a name has 1 to 10,000 characters.")
    if any("\ud800" <= each <= "\udfff" for each in name):
        raise Refused("An id has a lone surrogate (U+D800 to U+DFFF), so it is no text.")
    if _almost_a_uuid(name):
        raise Refused(
            "An id is almost a UUID. Write all 32 hex digits as 8-4-4-4-12, with nothing around them; "
            "a name has to look different."
        )
    return uuid5(NAMESPACE, name)


def _almost_a_uuid(name: str) -> bool:
    """Whether it was probably meant as a UUID: as a name it would silently be the id of somebody else."""
    bare = name.strip().lower().removeprefix("urn:uuid:").strip("{}")
    if bare.strip("0123456789abcdef-"):  # something else is in it
        return IN_ITS_SHAPE.fullmatch(bare) is not None
    hyphens = bare.count("-")
    digits = len(bare) - hyphens
    return digits == 32 or (digits >= 20 and hyphens == 4)
