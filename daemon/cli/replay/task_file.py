"""A file of tasks with their outcomes, one JSON object a line, read in order of time whatever order it is in.

Promise: a bad line is named by its number and costs nothing but itself; memory grows by a few bytes a task,
not by its text.
"""

from __future__ import annotations

import json
import math
import re
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, BinaryIO
from uuid import UUID

from daemon.ids import id_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_AGENT_LENGTH = 200
_INTEGERS = range(-(2**31), 2**31)

Complain = Callable[[int, str], None]
"""Called with the number of a line and what is wrong with it."""


class BadLineError(ValueError):
    """This line is no task; the message says why."""


@dataclass(frozen=True, slots=True)
class Task:
    """A finished command. Every text can be stored by Postgres; `metadata` is JSON."""

    line: int
    agent_id: str
    message: str
    output: str | None
    exit_code: int | None
    error: str | None
    created_at: datetime
    finished_at: datetime
    user_id: UUID | None
    session_id: UUID | None
    metadata: str

    @property
    def status(self) -> str:
        """By the exit code; where there is none, by whether there is an error."""
        failed = self.error is not None if self.exit_code is None else self.exit_code != 0
        return "failed" if failed else "completed"

    def later(self, by: timedelta) -> Task:
        """The same task at another time. Raises OverflowError beyond the years 1 to 9999."""
        return replace(self, created_at=self.created_at + by, finished_at=self.finished_at + by)


def parse_task(line: bytes, number: int) -> Task:
    """The task on a line. Raises BadLineError."""
    try:
        found = json.loads(line, strict=False)
    except (ValueError, RecursionError):
        raise BadLineError("is not JSON") from None
    if not isinstance(found, dict):
        raise BadLineError("is not a JSON object")
    agent_id, message = _text(found, "agent_id"), _text(found, "message")
    if agent_id is None or not agent_id.strip():
        raise BadLineError("has no agent_id")
    if len(agent_id) > _AGENT_LENGTH or agent_id == "_shared":
        raise BadLineError(
            f"has an agent_id that no agent can have (at most {_AGENT_LENGTH} characters, not _shared)"
        )
    if message is None or not message.strip():
        raise BadLineError("has no message")
    created_at = _time(found, "created_at")
    if created_at is None:
        raise BadLineError("has no created_at")
    return Task(
        line=number,
        agent_id=agent_id,
        message=message,
        output=_text(found, "output"),
        exit_code=_exit_code(found),
        error=_text(found, "error"),
        created_at=created_at,
        finished_at=_time(found, "finished_at") or created_at,
        user_id=_id(found, "user_id"),
        session_id=_id(found, "session_id"),
        metadata=_metadata(found),
    )


class TaskFile:
    """The tasks of a seekable file: scanned once, then read as often as wanted."""

    def __init__(self, file: BinaryIO, complain: Complain) -> None:
        """Scans the file; lines that are no task are complained of and left out from then on."""
        self._file = file
        self._lines, self._offsets, self._times = array("q"), array("q"), array("q")
        self.skipped = 0
        offset, in_order, last = 0, True, -math.inf
        for number, line in enumerate(file, start=1):
            if line.strip():
                try:
                    task = parse_task(line, number)
                except BadLineError as error:
                    complain(number, str(error))
                    self.skipped += 1
                else:
                    moment = (task.created_at - _EPOCH) // _MICROSECOND
                    in_order, last = in_order and moment >= last, moment
                    self._lines.append(number)
                    self._offsets.append(offset)
                    self._times.append(moment)
            offset += len(line)
        self._order: range | list[int] = range(len(self._times))
        if not in_order:
            self._order = sorted(self._order, key=self._times.__getitem__)

    def __len__(self) -> int:
        return len(self._times)

    @property
    def newest(self) -> datetime:
        """When the newest task was given. Raises ValueError when there is none."""
        return _EPOCH + max(self._times) * _MICROSECOND

    @property
    def span(self) -> timedelta:
        """From the first task to the last, and a second, so that one run of the file can follow another."""
        return (max(self._times) - min(self._times)) * _MICROSECOND + timedelta(seconds=1)

    def tasks(self) -> Iterator[Task]:
        """All tasks, in order of time; those of one moment in the file's order."""
        for index in self._order:
            if self._file.tell() != self._offsets[index]:
                self._file.seek(self._offsets[index])
            yield parse_task(self._file.readline(), self._lines[index])


def _text(found: dict[str, Any], name: str) -> str | None:
    value = found.get(name)
    if value is not None and not isinstance(value, str):
        raise BadLineError(f"has {name} {_shown(value)}, which is not a text")
    return None if value is None else _storable(value)


def _storable(text: str) -> str:
    return _UNSTORABLE.sub("\ufffd", text)


def _exit_code(found: dict[str, Any]) -> int | None:
    value = found.get("exit_code")
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value not in _INTEGERS:
        raise BadLineError(f"has exit_code {_shown(value)}, which is not a 32-bit integer")
    return value


def _time(found: dict[str, Any], name: str) -> datetime | None:
    value = found.get(name)
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
        # Without a time zone: UTC, so that a file means the same on every machine.
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        raise BadLineError(
            f"has {name} {_shown(value)}, which is no date such as 2026-05-24T13:38:03Z"
        ) from None


def _id(found: dict[str, Any], name: str) -> UUID | None:
    if _text(found, name) is None:
        return None
    try:
        return id_of(found[name])  # not the storable text: another name
    except ValueError as error:
        raise BadLineError(f"has a wrong {name}: {error}") from None


def _metadata(found: dict[str, Any]) -> str:
    value = found.get("metadata")
    if value is None:
        return "{}"
    if not isinstance(value, dict):
        raise BadLineError("has metadata that is not a JSON object")
    try:
        text = _storable(json.dumps(value, ensure_ascii=False, allow_nan=False))
        if "\\u0000" in text:
            text = json.dumps(_without_nul(value), ensure_ascii=False)
    except (ValueError, RecursionError):
        raise BadLineError("has metadata that Postgres cannot store") from None
    return _storable(text)


def _without_nul(value: Any) -> Any:
    if isinstance(value, str):
        return _storable(value)
    if isinstance(value, dict):
        return {_storable(key): _without_nul(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_nul(inner) for inner in value]
    return value


def _shown(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 40 else text[:39] + "…"
