"""Files of entries, as a person reads and changes them."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import asyncpg

from plugins.replica.rules.sections import Section, read_sections
from tests.support.rows import insert, say

USER = UUID("00000000-0000-0000-0000-0000000000aa")
CORE = "knowledge/core.md"


async def know(connection: asyncpg.Connection, title: str, content: str = "Text.", **columns: object) -> UUID:
    """An entry of the team's knowledge, of tier core unless told otherwise."""
    values = {"title": title, "content": content, "tier": "core", "category": "team", "created_by": "planner"}
    return await insert(connection, "shared_knowledge", values | columns)


async def is_called(
    connection: asyncpg.Connection, name: str, *, user: UUID = USER, speaker: str | None = None
) -> UUID:
    """A user has said a name, and a model has read it; the message. `speaker`: who is said to speak."""
    session = await insert(connection, "conversation_sessions", {"user_id": user, "channel": "web"})
    message = await say(connection, session, f"The name is {name}", user_id=user, speaker=speaker)
    await connection.execute(
        "insert into memoryd.names (message_id, user_id, key, name, kind, found_by) "
        "values ($1, $2, lower($3), $3, 'user', 'x')",
        *(message, user, name),
    )
    return message


def sections(root: Path, path: str) -> list[Section]:
    """The sections of a file."""
    said = read_sections((root / path).read_bytes())
    assert said is not None
    return said.sections


def path_of_user(name: str) -> str:
    """A file of the user's."""
    return f"users/{USER}/{name}.md"


def edit(root: Path, path: str, old: str, new: str) -> None:
    """A person replaces words in a file."""
    text = (root / path).read_text("utf-8")
    assert old in text, text
    (root / path).write_text(text.replace(old, new), "utf-8")


def append(root: Path, path: str, text: str) -> None:
    """A person writes at the end of a file."""
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    with (root / path).open("a", encoding="utf-8") as file:
        file.write(text)


def without(root: Path, path: str, *headings: str) -> None:
    """A person deletes the sections whose heading or text contains one of these words."""
    above, *some = (root / path).read_text("utf-8").split("\n## ")
    kept = [one for one in some if not any(words in one for words in headings)]
    assert len(kept) <= len(some) - len(headings)
    (root / path).write_text("\n## ".join([above, *kept]), "utf-8")


def bodies(root: Path, path: str) -> list[str]:
    """The texts of a file's sections."""
    return [one.body for one in sections(root, path)]


def collections(root: Path) -> set[str]:
    """The paths of the files of entries."""
    found = {str(path.relative_to(root)) for path in root.rglob("*.md")}
    return {path for path in found if "/" in path and not path.startswith("documents/")}
