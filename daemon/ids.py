"""Ids of users, sessions and organisations, as people write them: a UUID, or a name that stands for one.

Promise: a name is the same UUID here as in the clients (clients/python/README.md, "Ids"). They share no code, so a test holds
both equal (tests/unit/test_ids.py).
"""

from __future__ import annotations

import re
from typing import Final
from uuid import UUID, uuid5

NAMESPACE: Final = UUID("9b1f2c86-5a1e-4c1b-8f0e-2d7c5e43a6b0")
LONGEST_NAME = 10_000
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_IN_ITS_SHAPE = re.compile(r"[^-]{8}-[^-]{4}-[^-]{4}-[^-]{4}-[^-]{12}")


def id_of(name: str) -> UUID:
    """The UUID of a name; a string that is written as a UUID (8-4-4-4-12) is that UUID.

    Raises ValueError with a sentence, which does not quote the name.
    """
    if _UUID.fullmatch(name):
        return UUID(name)
    if not name or len(name) > LONGEST_NAME:
        raise ValueError("An id that is a name has 1 to 10,000 characters.")
    if any("\ud800" <= each <= "\udfff" for each in name):
        raise ValueError("An id has a lone surrogate (U+D800 to U+DFFF), so it is no text.")
    if _almost_a_uuid(name):
        raise ValueError(
            "An id is almost a UUID. Write all 32 hex digits as 8-4-4-4-12, with nothing around them; "
            "a name has to look different."
        )
    return uuid5(NAMESPACE, name)


def _almost_a_uuid(name: str) -> bool:
    """Whether it was probably meant as a UUID: as a name it would silently be the id of somebody else."""
    bare = name.strip().lower().removeprefix("urn:uuid:").strip("{}")
    if bare.strip("0123456789abcdef-"):  # something else is in it
        return _IN_ITS_SHAPE.fullmatch(bare) is not None
    hyphens = bare.count("-")
    digits = len(bare) - hyphens
    return digits == 32 or (digits >= 20 and hyphens == 4)
