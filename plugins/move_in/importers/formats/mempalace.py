"""MemPalace: the folder that its export writes, with a file for each room and a section for each drawer."""

from __future__ import annotations

import re
from typing import Any

from plugins.move_in.importers.items import UNKNOWN, Items, Memory, Omission

ROOM = re.compile(r"# (.*?) / (.*)\n")
DRAWER = re.compile(
    r"^## ([^\n]+)\n\n((?:>[^\n]*\n)+)\n\| Field \| Value \|\n\|[-|]+\|\n"
    r"\| Source \| ([^\n]*) \|\n\| Filed \| ([^\n]*) \|\n\| Added by \| ([^\n]*) \|\n",
    re.MULTILINE,
)
INDEX = "# Palace Export"


def items(_path: str, record: Any) -> Items:
    """The drawers of one file, whose `text` is given; of the index none."""
    text = record["text"]
    room = ROOM.match(text)
    if room is None:
        if not text.startswith(INDEX):
            yield Omission("file", UNKNOWN)
        return
    for drawer, quoted, *rest in DRAWER.findall(text):
        source, filed, added_by = (None if field == "unknown" else field for field in rest)
        yield Memory(
            id=drawer,
            text="\n".join(line[2:] for line in quoted.removesuffix("\n").split("\n")),
            created_at=filed,
            metadata={"wing": room[1], "room": room[2], "source": source, "added_by": added_by},
        )
