"""Files of text as memories with keys: what Claude's memory tool asks of a folder, with its words.

Promise: each command is one transaction, which locks the files that it changes: no edit is lost, and of two that create one
path one is told that it is there. A path never leads to another's files. Messages are those of Anthropic's own tool on a disk.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memoryd_client import _values as values
from memoryd_client._errors import Refused
from memoryd_client._keyed import DROP, MINE, THERE, put
from memoryd_client.memory import OFF

if TYPE_CHECKING:
    from asyncpg import Record

    from memoryd_client._connections import Connection

ROOT = "/memories"
MOST_LINES = 999_999
WIDTH = 6
"""Of the numbers of lines."""
LEVELS = 2
"""Of a directory that is shown."""

CREATE = """
insert into agent_memory as m (agent_id, user_id, kind, content, metadata, ttl_hours, key)
values ($1, coalesce($2::uuid, memoryd.caller_id()), 'fact', $4, $5::jsonb, null, $3)
on conflict (scope, agent_id, key) where key is not null do update
set content = excluded.content, metadata = excluded.metadata, expires_at = excluded.expires_at
where m.expires_at <= now()
returning 1
"""
READ = f"select m.content, m.metadata from agent_memory m where {MINE} and {THERE} and m.key = $3"  # noqa: S608 - constants
EDIT = READ + " for no key update"
BELOW = f"""
select m.key, coalesce(octet_length(m.metadata ->> 'blank'), octet_length(m.content)) as size
from agent_memory m
where {MINE} and {THERE} and (m.key = $3 or (m.key >= $3 || '/' and m.key < $3 || '0'))
order by m.key
"""  # noqa: S608 - constants
HOLD = f"select from agent_memory m where {MINE} and m.key = any($3::text[]) order by m.key for update"
MOVE = f"""
update agent_memory m set key = $4 || substr(m.key, length($3) + 1) where {MINE} and m.key = any($5::text[])
"""  # noqa: S608 - constants
"""The key begins with $3, which $4 replaces."""


class InvalidCallError(Refused):
    """A message for the model. It repeats the model's own arguments."""


@dataclass(frozen=True)
class Path:
    """A path as it was given, and the key of the file or directory; "memories" is that of the root."""

    given: str
    key: str

    @property
    def is_root(self) -> bool:
        return self.key == "memories"


def path_of(given: object) -> Path:
    """A path below /memories, without . and .. and what is empty. Raises Wrong."""
    if not isinstance(given, str) or not given.startswith(ROOT):
        raise InvalidCallError(f"Path must start with /memories, got: {given}")
    parts: list[str] = []
    for part in given[len(ROOT) :].split("/"):
        if part == "..":
            if not parts:
                raise InvalidCallError(f"Path {given} would escape /memories directory")
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    if given[len(ROOT) :][:1] not in ("", "/"):
        raise InvalidCallError(f"Path must start with /memories, got: {given}")
    key = "/".join(["memories", *parts])
    if len(key.encode(errors="replace")) > 1500 or any(
        c < " " or c == "\x7f" or "\ud800" <= c <= "\udfff" for c in key
    ):
        raise InvalidCallError(f"Path {given!r} is too long, or has characters that a path cannot have.")
    return Path(given, key)


class Files:
    """The files of an agent, in a transaction that has begun."""

    def __init__(self, connection: Connection, whose: tuple[object, ...]) -> None:
        self._connection = connection
        self._whose = whose

    async def view(self, path: Path, view_range: object = None) -> str:
        """A file with numbered lines, or a directory."""
        content = None if path.is_root else await self._content(path)
        if content is None:
            return await self._directory(path)
        lines = content.split("\n")
        if len(lines) > MOST_LINES:
            raise InvalidCallError(f"File {path.given} exceeds maximum line limit of 999,999 lines.")
        first, last = 1, len(lines)
        if isinstance(view_range, (list, tuple)) and len(view_range) == 2:
            first = max(1, int(view_range[0]))
            last = len(lines) if view_range[1] == -1 else int(view_range[1])
        shown = _numbered(lines, first, last)
        return f"Here's the content of {path.given} with line numbers:\n" + shown

    async def create(self, path: Path, text: str) -> str:
        """Writes a file that is not there."""
        if path.is_root or await self._below(path):
            raise InvalidCallError(f"File {path.given} already exists")
        await self._no_file_above(path)
        if not await self._connection.fetchval(CREATE, *self._whose, *_row(path, text)):
            raise (
                InvalidCallError(f"File {path.given} already exists")
                if await self._below(path)
                else Refused(OFF)
            )
        return f"File created successfully at: {path.given}"

    async def str_replace(self, path: Path, old: str, new: str) -> str:
        """Puts a text in the place of another, which the file has once."""
        content = await self._to_edit(path)
        starts = list(_starts(content, old))
        if not starts:
            raise InvalidCallError(
                f"No replacement was performed, old_str `{old}` did not appear verbatim in {path.given}."
            )
        if len(starts) > 1:
            lines = ", ".join(str(content.count("\n", 0, start) + 1) for start in starts)
            raise InvalidCallError(
                f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}. "
                "Please ensure it is unique"
            )
        changed = content.replace(old, new)
        await self._write(path, changed)
        line = content.count("\n", 0, starts[0]) + 1
        return (
            "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
            + _numbered(changed.split("\n"), max(1, line - 2), line + 2)
        )

    async def insert(self, path: Path, at: int, text: str) -> str:
        """Puts lines after line `at`."""
        lines = (await self._to_edit(path)).split("\n")
        if lines[-1] == "":
            lines.pop()
        if not 0 <= at <= len(lines):
            raise InvalidCallError(
                f"Invalid `insert_line` parameter: {at}. It should be within the range [0, {len(lines)}]."
            )
        lines.insert(at, text.rstrip("\n"))
        whole = "\n".join(lines)
        await self._write(path, whole if whole.endswith("\n") else whole + "\n")
        return f"The file {path.given} has been edited."

    async def delete(self, path: Path) -> str:
        """Deletes a file, or a directory with all that is in it."""
        if path.is_root:
            raise InvalidCallError("Cannot delete the /memories directory itself")
        keys = await self._held(path)
        if not keys:
            raise InvalidCallError(f"The path {path.given} does not exist")
        await self._connection.execute(DROP, *self._whose, keys)
        return f"Successfully deleted {path.given}"

    async def rename(self, old: Path, new: Path) -> str:
        """Moves a file or a directory to where nothing is."""
        if old.is_root:
            raise InvalidCallError("Cannot rename the /memories directory itself")
        if new.is_root or await self._below(new):
            raise InvalidCallError(f"The destination {new.given} already exists")
        keys = await self._held(old)
        if not keys:
            raise InvalidCallError(f"The path {old.given} does not exist")
        if new.key.startswith(old.key + "/"):
            raise InvalidCallError(f"The destination {new.given} is in {old.given}")
        if any(len(key.encode()) - len(old.key.encode()) + len(new.key.encode()) > 1500 for key in keys):
            raise InvalidCallError(f"Path {new.given!r} is too long for what is in {old.given}.")
        await self._no_file_above(new)
        await self._connection.execute(MOVE, *self._whose, old.key, new.key, keys)
        return f"Successfully renamed {old.given} to {new.given}"

    async def clear(self) -> str:
        keys = await self._held(path_of(ROOT))
        await self._connection.execute(DROP, *self._whose, keys)
        return "All memory cleared"

    async def _held(self, path: Path) -> list[str]:
        """The keys of a file, or of all in a directory, which nobody else changes until the end of the transaction."""
        keys = [str(row["key"]) for row in await self._below(path)]
        await self._connection.execute(HOLD, *self._whose, keys)
        return keys

    async def _content(self, path: Path, sql: str = READ) -> str | None:
        row = await self._connection.fetchrow(sql, *self._whose, path.key)
        if row is None:
            return None
        blank = json.loads(row["metadata"]).get("blank")
        return str(row["content"]) if blank is None else str(blank)

    async def _to_edit(self, path: Path) -> str:
        content = None if path.is_root else await self._content(path, EDIT)
        if content is None:
            if path.is_root or await self._below(path):
                raise InvalidCallError(f"The path {path.given} is not a file.")
            raise InvalidCallError(f"The path {path.given} does not exist. Please provide a valid path.")
        return content

    async def _write(self, path: Path, text: str) -> None:
        await put(self._connection, self._whose, [(*_row(path, text), None)])

    async def _below(self, path: Path) -> list[Record]:
        return list(await self._connection.fetch(BELOW, *self._whose, path.key))

    async def _no_file_above(self, path: Path) -> None:
        parts = path.key.split("/")
        for end in range(2, len(parts)):
            above = "/".join(parts[:end])
            if await self._content(Path(above, above)) is not None:
                raise InvalidCallError(f"The path /{above} is not a directory.")

    async def _directory(self, path: Path) -> str:
        rows = await self._below(path)
        if not rows and not path.is_root:
            raise InvalidCallError(f"The path {path.given} does not exist. Please provide a valid path.")
        sizes: dict[tuple[str, ...], int] = {}
        whole = 0
        for row in rows:
            parts = str(row["key"])[len(path.key) + 1 :].split("/")
            if any(part.startswith(".") for part in parts[:LEVELS]):
                continue
            whole += row["size"]
            for depth in range(1, min(len(parts), LEVELS) + 1):
                inner = tuple(parts[:depth]) if depth == len(parts) else (*parts[:depth], "")
                sizes[inner] = sizes.get(inner, 0) + row["size"]
        shown = [f"{_size(whole)}\t{path.given}"]
        for inner, size in sorted(sizes.items(), key=lambda one: one[0]):
            shown.append(f"{_size(size)}\t{path.given}/{'/'.join(inner)}")
        return (
            f"Here're the files and directories up to 2 levels deep in {path.given}, excluding hidden items:\n"
            + "\n".join(shown)
        )


def _row(path: Path, text: str) -> tuple[str, str, str]:
    """Key, content and metadata. A memory has some text: in the place of a blank file's stands its path."""
    values.plain("A file", text, blank=True)
    if not values.is_blank(text):
        return path.key, text, "{}"
    return path.key, path.key, json.dumps({"blank": text, "index": False})


def _starts(content: str, old: str) -> list[int]:
    """Where a text begins in another, also where it overlaps itself; an empty one, before each line's end, is in no place."""
    found: list[int] = []
    at = content.find(old) if old else -1
    while at >= 0:
        found.append(at)
        at = content.find(old, at + 1)
    return found


def _numbered(lines: list[str], first: int, last: int) -> str:
    return "\n".join(f"{n:{WIDTH}}\t{line}" for n, line in enumerate(lines[first - 1 : last], first))


def _size(size: int) -> str:
    """As 0B, 8B, 1.5K."""
    if size == 0:
        return "0B"
    power = min((size.bit_length() - 1) // 10, 3)
    scaled = size / 1024**power
    return f"{scaled:.0f}{'BKMG'[power]}" if scaled == int(scaled) else f"{scaled:.1f}{'BKMG'[power]}"
