"""The files of the hooks: their configuration, a journal for each session of a host, and the spool.

The spool holds memories that are not stored yet, each in a file of its own that is renamed into place when it is complete: a
killed process loses no earlier memory. The spool is bounded; when it is full, it takes no new memory.
"""

from __future__ import annotations

import json
import os
import re
import time

from plugins.hooks.regular import read_text

TYPE_CHECKING = False  # importing typing takes too long
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

MOST_SPOOLED = 2000
LONGEST_JOURNAL = 1_000_000
"""The newest bytes of a journal that are read."""
AWAY_SECONDS = 30.0
ABANDONED_SECONDS = 3600.0
MOST_ABANDONED = 20


def config_file() -> str:
    """The file in which `memoryd hooks install` writes the configuration of the hooks."""
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(base, "memoryd", "hooks.json")


def state_folder() -> str:
    """The folder of the journals and the spool."""
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(base, "memoryd", "hooks")


def read_config() -> dict[str, Any]:
    """The configuration; empty if hooks were never installed."""
    try:
        read = json.loads(read_text(config_file(), 20_000))
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}


class State:
    """The folder of journals and spool; only its owner can read it."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._spool = os.path.join(folder, "spool")
        os.makedirs(self._spool, mode=0o700, exist_ok=True)

    def add(self, session: str, entry: dict[str, Any]) -> None:
        """Adds an entry to the journal of a session; other processes may write too. A cut line damages no other line."""
        line = "\n" + json.dumps(entry, ensure_ascii=True, separators=(",", ":"))
        self._append(self._journal(session), line.encode())

    def head(self, session: str) -> dict[str, Any]:
        """The first entry of a session; empty where there is no journal."""
        return next(iter(_entries(read_text(self._journal(session), 5000))), {})

    def journal(self, session: str) -> list[dict[str, Any]]:
        """The newest entries of a session, in order."""
        return _entries(read_text(self._journal(session), LONGEST_JOURNAL, end=True))

    def begun(self) -> dict[str, str]:
        """When each session began that hooks keep now, by the session's own id."""
        found: dict[str, str] = {}
        for name in os.listdir(self._folder):
            if name.endswith(".jsonl"):
                head, *entries = _entries(read_text(os.path.join(self._folder, name), 5000)) or [{}]
                at = next((entry["at"] for entry in entries if "at" in entry), None)
                if at and "session" in head:
                    found[head["session"]] = at
        return found

    def abandoned(self) -> list[str]:
        """Sessions without an end whose journal is an hour old."""
        before = time.time() - ABANDONED_SECONDS
        found = []
        for name in os.listdir(self._folder):
            path = os.path.join(self._folder, name)
            try:
                if name.endswith(".jsonl") and os.path.getmtime(path) < before:
                    found.append(name.removesuffix(".jsonl"))
            except FileNotFoundError:
                pass
        return found[:MOST_ABANDONED]

    def forget(self, session: str) -> None:
        _unlink(self._journal(session))

    def put(self, memory: dict[str, Any]) -> bool:
        """Spools a memory in place of an earlier one with its id. False: the spool is full, and the memory was dropped."""
        names = [name for name in os.listdir(self._spool) if name.endswith(".json")]
        before = [name for name in names if name.endswith(f"-{memory['id']}.json")]
        if len(names) >= MOST_SPOOLED and not before:
            self._append(os.path.join(self._folder, "dropped"), b".")
            return False
        path = os.path.join(self._spool, f"{time.time_ns():020d}-{memory['id']}.json")
        unfinished = f"{path}.{os.getpid()}"
        try:
            with open(unfinished, "w", encoding="utf-8") as file:
                json.dump(memory, file)
            os.replace(unfinished, path)
        finally:
            _unlink(unfinished)
        for name in before:
            _unlink(os.path.join(self._spool, name))
        return True

    def spooled(self, most: int) -> Iterator[tuple[str, dict[str, Any]]]:
        """The oldest memories of the spool, each with its file. A file that is no memory is moved to the refused ones."""
        for name in sorted(n for n in os.listdir(self._spool) if n.endswith(".json"))[:most]:
            path = os.path.join(self._spool, name)
            if not os.path.exists(path):
                continue  # another process has stored it
            try:
                memory = json.loads(read_text(path, LONGEST_JOURNAL))
            except (ValueError, RecursionError):
                memory = None
            if isinstance(memory, dict) and isinstance(memory.get("id"), str):
                yield path, memory
            elif os.path.exists(path):
                self.refuse(path)

    def stored(self, path: str) -> None:
        _unlink(path)

    def refuse(self, path: str) -> None:
        """Moves a spooled file that cannot be stored to the refused ones."""
        folder = os.path.join(self._folder, "refused")
        os.makedirs(folder, exist_ok=True)
        try:
            os.replace(path, os.path.join(folder, os.path.basename(path)))
        except FileNotFoundError:
            pass

    def waiting(self) -> int:
        """How many memories wait in the spool."""
        return sum(name.endswith(".json") for name in os.listdir(self._spool))

    def dropped(self) -> int:
        """How many memories were dropped because the spool was full."""
        try:
            return os.path.getsize(os.path.join(self._folder, "dropped"))
        except OSError:
            return 0

    def refused(self) -> int:
        """How many memories the database refused; their files lie beside the spool."""
        folder = os.path.join(self._folder, "refused")
        return len(os.listdir(folder)) if os.path.isdir(folder) else 0

    def last_error(self) -> str:
        """The time and the kind of the last error of a hook; "" for none."""
        return read_text(os.path.join(self._folder, "last-error"), 1000).strip()

    def is_away(self) -> bool:
        """Whether a recent call could not reach the database."""
        try:
            return abs(time.time() - os.path.getmtime(self._away())) < AWAY_SECONDS
        except OSError:
            return False

    def set_away(self, away: bool) -> None:
        """Notes for the next calls whether the database can be reached."""
        if away:
            with open(self._away(), "w", encoding="utf-8"):
                pass
        else:
            _unlink(self._away())

    def _away(self) -> str:
        return os.path.join(self._folder, "away")

    def _journal(self, session: str) -> str:
        return os.path.join(self._folder, re.sub(r"[^A-Za-z0-9_-]", "_", session)[:150] + ".jsonl")

    @staticmethod
    def _append(path: str, data: bytes) -> None:
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, data)
        finally:
            os.close(handle)


def _entries(text: str) -> list[dict[str, Any]]:
    entries = []
    for line in text.splitlines():
        try:
            if isinstance(entry := json.loads(line), dict):
                entries.append(entry)
        except ValueError:
            pass  # the disk was full, or the line is cut at the beginning
    return entries


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
