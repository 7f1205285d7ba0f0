"""Past sessions: what hosts keep of them as lines of JSON becomes the events that hooks are told, and the same memories.

Promise: one line and at most MOST_ENTRIES entries of a session are in memory. What cannot be read is left out and counted.
Only `memoryd import` loads this.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, BinaryIO

from plugins.hooks import turns
from plugins.hooks.events import as_object, as_text, read_event, texts_of
from plugins.hooks.hosts import TOOLS
from plugins.hooks.privacy import Rules, cleaned
from plugins.hooks.projects import project_of, repository_of, root_of

LONGEST_LINE = 16_000_000
"""Bytes. Longer lines are left out."""
MOST_PARTS = 200_000
"""Texts, brackets and commas of a line: as values of Python each may take 100 bytes. Lines with more are left out."""
PART = re.compile(rb'"[^"]*"?|[\[{,]')
MOST_ENTRIES = 5_000
MOST_CALLS = 200
"""Calls of tools that have no result yet."""
LONGEST_GIVEN = 100_000
"""Characters of what a tool was given, or answered."""
FOLDERS = {"claude-code": ".claude/projects", "codex": ".codex/sessions"}
"""Where each host keeps its sessions, within the home folder."""

COMMAND = re.compile(r"<command-name>(/[\w:-]+)</command-name>")
ARGUMENTS = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)
REMINDER = re.compile(r"<system-reminder>.*?(?:</system-reminder>|\Z)", re.DOTALL)
OF_HOST = re.compile(r"\s*(?:<[a-z_-]+[ >]|# AGENTS\.md instructions|\[Request interrupted by user)")
"""The beginning of what a host writes in the place of a prompt."""
FOLDER = re.compile(r"<cwd>(.*?)</cwd>|Current working directory: (.+)")
INPUT = ("command", "cmd", "file_path", "path", "notebook_path", "patch", "input")

Told = Iterator[tuple[str, dict[str, Any]]]
"""Events by the names of Claude Code. "head": id, folder, repository and time of the session, as far as a line says them."""


def lines_of(
    file: BinaryIO, told: Callable[[int], None], left_out: Counter[tuple[str, str]]
) -> Iterator[bytes]:
    """The lines of a file, without those that are or hold too much, which are counted. `told`: bytes that were read."""
    while line := file.readline(LONGEST_LINE + 1):
        told(len(line))
        if len(line) > LONGEST_LINE:
            why = f"it has more than {LONGEST_LINE // 1_000_000} MB"
        elif len(line) > MOST_PARTS and _holds_many(line):
            why = f"it holds more than {MOST_PARTS:,} values"
        else:
            yield line
            continue
        left_out["line", why] += 1
        while line and not line.endswith(b"\n"):
            line = file.readline(1_000_000)
            told(len(line))


def _holds_many(line: bytes) -> bool:
    plain = line.replace(b"\\\\", b"").replace(b'\\"', b"")
    return next(islice(PART.finditer(plain), MOST_PARTS, None), None) is not None


class Past:
    """The sessions of a host, for the memory of an agent.

    `kept`: by session, when hooks began to keep it themselves. `left_out`: counts of what and why.
    """

    def __init__(
        self, host: str, agent: str, *, kept: Mapping[str, str], left_out: Counter[tuple[str, str]]
    ) -> None:
        self._told = _of_codex if host == "codex" else _of_claude
        self._host, self._agent, self._kept, self._left_out = host, agent, kept, left_out
        self._seen: set[int] = set()

    def memories(self, lines: Iterable[bytes], name: str) -> Iterator[turns.Entry]:
        """The memories of a session, in the order of their beginnings. `name`: of its file, without the ending."""
        session = _Session(self._host, self._agent, name)
        for event, given, record in self._events(lines, session):
            if (at := session.time(record.get("timestamp"))) is None:
                self._left_out["line", "it has no time, and nothing before it has one"] += 1
            elif event != "UserPromptSubmit":
                session.add(event, given, at)
            elif session.rules.everything:
                self._left_out["session", "its project's .memorydignore leaves out everything"] += 1
                return
            elif self._is_kept(session, at):
                break
            else:
                yield from session.end_turn()
                session.skips = self._is_copy(record)
                rules, refused, prompt = turns.rules_of(given["prompt"], self._agent, session.head, at)
                session.add(event, {"prompt": prompt}, at)
                if not session.skips:
                    yield from rules
                    self._left_out.update({("rule", "it contains a secret"): refused} if refused else {})
        if self._is_kept(session, None):
            session.drop_turn()
        yield from session.end_turn(over=True)

    def _events(
        self, lines: Iterable[bytes], session: _Session
    ) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
        """The events of a session, each with its record. What is said of the session itself, it learns."""
        calls: dict[str, tuple[str, dict[str, Any]]] = {}
        for line in lines:
            if not line.strip():
                continue
            if (record := _record(line)) is None:
                self._left_out["line", "it is not a line of JSON"] += 1
                continue
            for event, given in self._told(record, calls):
                if event == "head":
                    session.learn(given)
                    continue
                if event == "UserPromptSubmit":
                    calls.clear()
                yield event, given, record

    def _is_kept(self, session: _Session, upto: str | None) -> bool:
        """Whether hooks have kept the turn that ends here, and so all later ones."""
        began = self._kept.get(session.head["session"])
        return began is not None and (upto is None or began < upto)

    def _is_copy(self, record: dict[str, Any]) -> bool:
        """Whether another session has the same prompt: some hosts copy a session that is resumed."""
        if not (one := as_text(record.get("uuid"))):
            return False
        seen = hash(one) in self._seen
        self._seen.add(hash(one))
        return seen


class _Session:
    """What is known of a session while it is read."""

    def __init__(self, host: str, agent: str, name: str) -> None:
        self.head = {"host": host, "session": cleaned(name, 200), "project": "", "root": ""}
        self.skips = False
        self._agent = agent
        self._known: dict[str, Any] = {}
        self._rules: Rules | None = None
        self._journal: list[turns.Entry] = []
        self._turn: list[turns.Entry] = []
        self._said: dict[str, Any] | None = None
        self._at: datetime | None = None

    def learn(self, given: dict[str, Any]) -> None:
        """What a line says of the session; the first one counts, until a prompt has come."""
        if self._at is None:
            self._at = _time(given.pop("time", None))
        if self._rules is None:
            self._known = {name: value for name, value in given.items() if value} | self._known

    @property
    def rules(self) -> Rules:
        """The private files of its project; from now on the project is settled."""
        if self._rules is None:
            folder = self._known.get("folder") or "/"
            root = root_of(folder)
            gone = self._known.get("repository") if not os.path.isdir(root) else None
            project = repository_of(gone[:1000]) if gone else project_of(root)
            self.head |= {"root": root, "project": cleaned(project, 200) or "/"}
            self.head["session"] = cleaned(self._known.get("session"), 200) or self.head["session"]
            self._rules = Rules(root)
        return self._rules

    def time(self, given: object) -> str | None:
        """The time of a line; without one it is just after the last one."""
        time = _time(given)
        if time is None and self._at is not None:
            time = self._at + timedelta(microseconds=1)
        self._at = time or self._at
        return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if time else None

    def add(self, name: str, given: dict[str, Any], at: str) -> None:
        """Adds an event to the turn. What the agent says is examined at the end, since only the last of it counts."""
        if name == "AgentResponse":
            self._said = given | {"at": at}
        elif (
            not self.skips
            and len(self._turn) < MOST_ENTRIES
            and (event := read_event(name, given)) is not None
            and (entry := turns.entry_of(event, self.rules, at)) is not None
        ):
            self._turn.append(entry)

    def drop_turn(self) -> None:
        """Forgets the turn that goes on."""
        self._turn, self._said = [], None

    def end_turn(self, *, over: bool = False) -> Iterator[turns.Entry]:
        """Ends the turn. Returns memories at the end of the session, and before the journal becomes too long."""
        if self._said and self._turn and (event := read_event("AgentResponse", self._said)):
            at = max(self._said["at"], self._turn[-1]["at"])
            entry = turns.entry_of(event, self.rules, at)
            self._turn += [entry] if entry is not None else []
        self._journal += self._turn
        self.drop_turn()
        if over or len(self._journal) >= MOST_ENTRIES:
            yield from turns.memories_of(self._journal, self._agent, self.head, over=True)
            self._journal = []


def _of_claude(record: dict[str, Any], calls: dict[str, Any]) -> Told:
    """What a line of Claude Code tells (2.0)."""
    if any(record.get(mark) for mark in ("isSidechain", "isMeta", "isCompactSummary")):
        return
    yield "head", {"session": as_text(record.get("sessionId")), "folder": as_text(record.get("cwd"))}
    message = as_object(record.get("message"))
    content = message.get("content")
    parts = (
        [as_object(p) for p in content] if isinstance(content, list) else [{"type": "text", "text": content}]
    )
    said = texts_of([part for part in parts if part.get("type") == "text"])
    if record.get("type") == "assistant":
        if said:
            yield "AgentResponse", {"text": said[-LONGEST_GIVEN:]}
        for part in parts:
            if part.get("type") == "tool_use" and re.fullmatch(TOOLS, as_text(part.get("name"))):
                _call(calls, part.get("id"), as_text(part["name"]), part.get("input"))
    elif record.get("type") == "user":
        for part in parts:
            if part.get("type") == "tool_result" and (
                called := calls.pop(str(part.get("tool_use_id")), None)
            ):
                yield _result(called, _joined(part.get("content")), failed=part.get("is_error") is True)
        if prompt := _prompt(said):
            yield "UserPromptSubmit", {"prompt": prompt}


def _of_codex(record: dict[str, Any], calls: dict[str, Any]) -> Told:
    """What a line of Codex tells: since 0.44 with a payload, before without one and without times."""
    item = as_object(record.get("payload")) or record
    kind = item.get("type")
    if record.get("type") in ("session_meta", "turn_context") or (kind is None and "id" in item):
        git = as_object(item.get("git"))
        yield (
            "head",
            {
                "session": as_text(item.get("id")),
                "folder": as_text(item.get("cwd")),
                "repository": as_text(git.get("repository_url")),
                "time": item.get("timestamp"),
            },
        )
    elif kind == "message":
        said = _joined(item.get("content"))
        if item.get("role") == "assistant" and said:
            yield "AgentResponse", {"text": said}
        elif item.get("role") == "user":
            if found := FOLDER.search(said):
                yield "head", {"folder": (found[1] or found[2]).strip()}
            if prompt := _prompt(said):
                yield "UserPromptSubmit", {"prompt": prompt}
    elif kind in ("function_call", "custom_tool_call", "local_shell_call"):
        given = item.get("arguments", item.get("action", item.get("input")))
        name = as_text(item.get("name")) or "shell"
        _call(calls, item.get("call_id"), name, as_object(given) or {"input": given})
    elif called := calls.pop(str(item.get("call_id")), None):  # its output
        answer = item.get("output")
        yield _result(called, answer if isinstance(answer, (str, dict)) else _joined(answer))


def _call(calls: dict[str, Any], key: object, name: str, given: object) -> None:
    """Notes the call of a tool until its result comes."""
    if len(calls) < MOST_CALLS:
        kept = {
            k: v[:LONGEST_GIVEN] if isinstance(v, str) else v
            for k, v in as_object(given).items()
            if k in INPUT and isinstance(v, (str, list))
        }
        calls[str(key)] = name, kept


def _result(called: tuple[str, Any], answer: object, *, failed: bool = False) -> tuple[str, dict[str, Any]]:
    event = "PostToolUseFailure" if failed else "PostToolUse"
    given = {"tool_name": called[0], "tool_input": called[1], "error" if failed else "tool_response": answer}
    return event, given


def _prompt(said: str) -> str:
    """What a person has said; "" for what the host says in the person's place."""
    said = REMINDER.sub("", said[:LONGEST_GIVEN]).strip()
    if command := COMMAND.search(said):
        given = ARGUMENTS.search(said)
        return f"{command[1]} {given[1] if given else ''}".strip()
    return "" if OF_HOST.match(said) else said


def _joined(content: object) -> str:
    """The texts of a content, of which long ones keep both ends."""
    parts = content if isinstance(content, list) else [{"text": content}]
    said = texts_of(parts)
    half = LONGEST_GIVEN // 2
    return said if len(said) <= LONGEST_GIVEN else said[:half] + "\n" + said[-half:]


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _time(given: object) -> datetime | None:
    try:
        time = datetime.fromisoformat(as_text(given))
        time = (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return time if time.year >= 1970 and time < datetime.now(UTC) + timedelta(days=1) else None
