"""A wire on which Postgres speaks German, as where lc_messages says so: the servers of the tests have no catalogs of messages.

async with GermanWire(url, folder) as wire:
    await asyncpg.connect(wire.url)
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress

from tests.support.database.cut_wire import CutWire

GERMAN = (
    (r"^(?:function name|function) (.+) is not unique", r"Funktion \1 ist nicht eindeutig"),
    (r"Use DROP FUNCTION (.+) first\.", r"Verwenden Sie zuerst DROP FUNCTION \1."),
    (r"cannot drop (.+) because other objects depend on it", r"kann \1 nicht löschen, weil andere Objekte davon abhängen"),
    (r"(.+) depends on (.+)", r"\1 hängt von \2 ab"),
    (r"\bfunction ", "Funktion "),
    (r"\bview ", "Sicht "),
    (r"\bon table ", "für Tabelle "),
    (r'role "(.+)" does not exist', r"Rolle »\1« existiert nicht"),
)  # fmt: skip
TEXTS = b"MDH"
"""The fields of an error that are translated: message, detail, hint."""


class GermanWire(CutWire):
    """Passes on what clients and the server say, errors and notices in German."""

    async def _copy(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, muted: asyncio.Event
    ) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readexactly(5)
                body = await reader.readexactly(int.from_bytes(head[1:]) - 4)
                if head[:1] in (b"E", b"N"):
                    body = b"\0".join(_translated(field) for field in body.split(b"\0"))
                writer.write(head[:1] + (len(body) + 4).to_bytes(4) + body)
                await writer.drain()
        writer.close()


def _translated(field: bytes) -> bytes:
    if field[:1] not in TEXTS or not field:
        return field
    text = field.decode()
    for said, german in GERMAN:
        text = re.sub(said, german, text, flags=re.MULTILINE)
    return text.encode()
