"""Items as checked rows for the database, in temporary files. So a big export takes little memory, and all of it is read
before the first row is written.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from tempfile import SpooledTemporaryFile
from typing import IO, Any
from uuid import UUID, uuid5

from daemon.ids import NAMESPACE, id_of
from memory.text import is_blank
from plugins.move_in.importers.items import (
    EXPIRED,
    LONGEST_METADATA,
    LONGEST_TEXT,
    NO_TEXT,
    Command,
    Conversation,
    FileEnd,
    Item,
    Memory,
    Message,
    Omission,
    storable,
    text_of,
    time_of,
)
from plugins.move_in.importers.machines import without_machines
from plugins.move_in.importers.times import Times

TABLES = ("memories", "conversations", "messages", "commands")
WHAT = {"memories": "memory", "conversations": "conversation", "messages": "message"}
IN_MEMORY = 16_000_000
BATCH_ROWS = 1000
BATCH_LENGTH = 4_000_000
"""Characters of rows that are sent at once; a longer row is sent by itself."""
SHARED = "_shared"
"""Not an agent: memories under this name belong to every agent."""
INTEGERS = range(-(2**31), 2**31)
BEGUN = "begun"
LACKS = '{"created_at": null,'
"""How the line of a row without a time begins."""
BY_MACHINE = "a machine wrote it, not its user"
TIMELESS = "neither it nor what stands beside it has a time: it has that of the import, and no facts are read from it"
NOBODY = "it names neither user nor agent: give --user or --agent"
Reason = tuple[str, str]
"""How many items were left out or changed, by reason."""


class InvalidItemError(Exception):
    """An item cannot be stored; the message is the reason."""


class Spool:
    """The rows of an export. Close it at the end."""

    def __init__(self, system: str, *, user: UUID | None, agent: str | None) -> None:
        self._system, self._user, self._agent = system, user, agent
        self._files: dict[str, IO[str]] = {
            table: SpooledTemporaryFile(IN_MEMORY, "w+", encoding="utf-8")  # noqa: SIM115 - closed by close()
            for table in TABLES
        }
        self._seen: dict[UUID, int] = {}
        self._times = Times()
        self.left_out: Counter[Reason] = Counter()
        self.changed: Counter[Reason] = Counter()
        self.users: dict[str, UUID] = {}

    def close(self) -> None:
        """Deletes the files."""
        for file in self._files.values():
            file.close()

    def add(self, item: Item) -> None:
        """Adds an item, or counts the reason why not."""
        try:
            match item:
                case Omission():
                    self.left_out[item.what, item.reason] += item.count
                case FileEnd():
                    self._times.end_file(item.created_at)
                case Memory():
                    self._write("memories", self._memory(item))
                case Conversation():
                    self._write("conversations", self._conversation(item))
                case Message():
                    self._write("messages", self._message(item))
                case Command():
                    self._write("commands", self._command(item))
        except InvalidItemError as refused:
            self.left_out[type(item).__name__.lower(), str(refused)] += 1

    def batches(self, table: str) -> Iterator[str]:
        """The rows of a table in their order, as JSON arrays. Those without a time now have that of another."""
        self._files[table].seek(0)
        return batches((self._timed(line, table) for line in self._files[table]), rows=BATCH_ROWS)

    def _timed(self, line: str, table: str) -> str:
        if not line.startswith(LACKS):
            return line
        row = json.loads(line)
        row["created_at"] = self._times.decided(row)
        if row["created_at"] is None:
            self.changed[WHAT[table], TIMELESS] += 1
        return json.dumps(row, default=str) + "\n"

    def _write(self, table: str, row: dict[str, Any]) -> None:
        key, said = row["id"], hash(row.get("content"))
        if key in self._seen:
            if table == "conversations":
                return
            again = (
                "with the same text" if self._seen[key] == said else "with another text: the first is taken"
            )
            raise InvalidItemError(f"its id stands in the export before, {again}")
        self._seen[key] = said
        self._files[table].write(json.dumps(row, default=str) + "\n")

    def _memory(self, item: Memory) -> dict[str, Any]:
        text = self._text(item.text)
        user, agent = self._owner(item.owner, item.agent)
        if item.of_agent:
            user = None
        if user is None and agent is None:
            raise InvalidItemError("it is the agent's own: give --agent" if item.of_agent else NOBODY)
        expires, since, until = (
            self._time("memory", t) for t in (item.expires_at, item.valid_from, item.valid_to)
        )
        if expires is not None and expires <= datetime.now(UTC):
            raise InvalidItemError(EXPIRED)
        if since is not None and until is not None and until < since:
            since = None
            self.changed["memory", "it ended before it began: its beginning is left out"] += 1
        beside = self._times.owner(user, agent)
        return self._times.noted(self._time("memory", item.created_at), beside, item.since) | {
            "id": self._id("memory", item.id, user, agent),
            "user_id": user,
            "agent_id": agent,
            "kind": item.kind,
            "content": text,
            "metadata": self._metadata(item.id, item.metadata, item.project),
            "source": self._system,
            "valid_from": since,
            "valid_to": until,
            "expires_at": expires,
        }

    def _conversation(self, item: Conversation) -> dict[str, Any]:
        user, agent = self._owner(item.owner, item.agent)
        key, time = (
            self._id("conversation", item.id, user, agent),
            self._time("conversation", item.created_at),
        )
        beside = [hash(key)] if time is None else [hash((BEGUN, key))]
        return self._times.noted(time, beside, item.since) | {
            "id": key,
            "user_id": user,
            "agent_id": agent,
            "title": text_of(item.title)[:10_000] or None,
            "channel": self._system,
        }

    def _message(self, item: Message) -> dict[str, Any]:
        did = any(item.metadata.get(k) for k in ("tool_calls", "tool_call_id"))
        text = text_of(item.text) if did and is_blank(text_of(item.text)) else self._text(item.text)
        if item.role == "user":
            text, parts = without_machines(text)
            if parts and is_blank(text):
                raise InvalidItemError(BY_MACHINE)
            if parts:
                self.left_out["part of a message", BY_MACHINE] += parts
        user, agent = self._owner(item.owner, item.agent)
        if user is None and agent is None:
            raise InvalidItemError(NOBODY)
        speaker = text_of(item.speaker).strip()[:200]
        session, time = (
            self._id("conversation", item.conversation, user, agent),
            self._time("message", item.created_at),
        )
        beside = [
            hash(session),
            *([hash((BEGUN, session))] if time is None else self._times.owner(user, agent)),
        ]
        return self._times.noted(time, beside, item.since) | {
            "id": self._id("message", f"{item.conversation} {item.id}", user, agent),
            "session_id": session,
            "user_id": user,
            "agent_id": agent,
            "role": item.role,
            "speaker": speaker or None,
            "content": text,
            "metadata": self._metadata(item.id, item.metadata, item.metadata.get("project")),
        }

    def _command(self, item: Command) -> dict[str, Any]:
        user, agent = self._owner(item.owner, item.agent)
        if agent is None or agent == SHARED:
            raise InvalidItemError("it names no agent: give --agent")
        code = item.exit_code
        if code is not None and (type(code) is not int or code not in INTEGERS):
            raise InvalidItemError("its exit code is no 32-bit integer")
        created = self._time("command", item.created_at)
        if created is None:
            raise InvalidItemError("it has no time")
        finished = self._time("command", item.finished_at)
        output, error = (None if one is None else text_of(one) for one in (item.output, item.error))
        if max(len(output or ""), len(error or "")) > LONGEST_TEXT:
            raise InvalidItemError("its output has more than 10,000,000 characters")
        failed = code != 0 if code is not None else error is not None
        return {
            "id": self._id("command", item.id, user, agent),
            "user_id": user,
            "agent_id": agent,
            "session_id": None if item.session in (None, "") else self._session(item.session),
            "message": self._text(item.text),
            "output": output,
            "error": error,
            "exit_code": code,
            "status": "failed" if failed else "completed",
            "metadata": self._metadata(item.id, item.metadata, item.metadata.get("project")),
            "created_at": created,
            "finished_at": finished if finished is not None and finished >= created else created,
        }

    @staticmethod
    def _session(given: object) -> UUID:
        try:
            return id_of(str(given) if isinstance(given, (str, int)) else "")
        except ValueError:
            raise InvalidItemError("the id of its session is almost a UUID, or no text") from None

    def _id(self, kind: str, given: str, user: UUID | None, agent: str | None) -> UUID:
        if not given or given == "None":
            raise InvalidItemError("it has no id")
        # The id has the owner, so that the same export of two owners makes two rows.
        whose = f"user {user}" if user is not None else f"agent {agent}"
        return uuid5(NAMESPACE, text_of(f"{self._system}\n{kind}\n{whose}\n{given}"))

    def _owner(self, owner: object, agent: object) -> tuple[UUID | None, str | None]:
        named = self._agent if self._agent is not None else text_of(agent).strip() or None
        if named is not None and (len(named) > 200 or not named.isprintable()):
            raise InvalidItemError("the name of its agent is too long, or has characters that are not seen")
        if self._user is not None:
            return self._user, named
        if owner in (None, ""):
            return None, named
        if isinstance(owner, bool) or not isinstance(owner, (str, int)):
            raise InvalidItemError("the id of its user is almost a UUID, or no text: give --user")
        name = str(owner)
        if name not in self.users:
            try:
                self.users[name] = id_of(name)
            except ValueError:
                raise InvalidItemError(
                    "the id of its user is almost a UUID, or no text: give --user"
                ) from None
        return self.users[name], named

    def _text(self, given: object) -> str:
        text = text_of(given)
        if is_blank(text):
            raise InvalidItemError(NO_TEXT)
        if len(text) > LONGEST_TEXT:
            raise InvalidItemError("its text has more than 10,000,000 characters")
        if text != given:
            self.changed["text", "NUL or half a character in it was replaced"] += 1
        return text

    def _time(self, what: str, given: object) -> datetime | None:
        time = time_of(given)
        if time is None and given not in (None, ""):
            self.changed[what, "a time that cannot be read is left out"] += 1
        return time

    def _metadata(self, given: str, extra: object, project: object) -> dict[str, Any]:
        """memoryd's own metadata, and in one field those of the other system, where they mean nothing to memoryd."""
        ours: dict[str, Any] = {
            "imported_from": self._system,
            "original_id": text_of(given)[:1000],
            "trust": "person",
        }
        if named := text_of(project).strip()[:200]:
            ours["project"] = named
        try:
            original = storable(extra)
            fits = len(json.dumps(original)) <= LONGEST_METADATA
        except (ValueError, RecursionError):
            original, fits = None, False
        if not fits:
            self.changed["metadata", "too big or too deep: left out"] += 1
        return {**ours, "original": original} if original and fits else ours


def batches(lines: Iterable[str], *, rows: int) -> Iterator[str]:
    """Rows of JSON, a line each, as arrays: of this many rows at most, and of one longer row alone."""
    batch: list[str] = []
    length = 0
    for line in lines:
        if batch and (len(batch) >= rows or length + len(line) > BATCH_LENGTH):
            yield f"[{','.join(batch)}]"
            batch, length = [], 0
        batch.append(line)
        length += len(line)
    if batch:
        yield f"[{','.join(batch)}]"
