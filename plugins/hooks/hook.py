"""`memoryd hook EVENT`: reads an event of a host, notes it in the journal, and answers with a context.

Promise: the exit code is always 0, the host never waits longer than LIMIT_SECONDS, and no process is left behind. A memory that
cannot be stored now is spooled, and a later call stores it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from _thread import start_new_thread

from plugins.hooks import turns
from plugins.hooks.connecting import connect
from plugins.hooks.events import CURSOR, Event, read_event
from plugins.hooks.files import State, read_config, state_folder
from plugins.hooks.privacy import Rules, cleaned
from plugins.hooks.projects import project_of, root_of

TYPE_CHECKING = False  # importing typing takes too long
if TYPE_CHECKING:
    from typing import Any

LIMIT_SECONDS = 1.8
LONGEST_INPUT = 20_000_000
ENDS = ("Stop", "PreCompact", "SessionEnd")
QUIET = ("PostToolUse", "PostToolUseFailure", "AgentResponse")
"""Events that need no database."""
_ASKING: list[State] = []
"""For the calls to the database."""


def main(arguments: list[str]) -> None:
    """Entry point; never returns."""
    try:
        os.umask(0o077)
        # Ends the process in any wait, also for a host that never closes stdin.
        start_new_thread(_end_in_time, ())
        answer = _answer(arguments)
        if answer:
            sys.stdout.write(json.dumps(answer))
            sys.stdout.flush()
    except BaseException as error:  # noqa: BLE001 - a host is never failed
        _log(error)
    os._exit(0)


def _end_in_time() -> None:
    time.sleep(LIMIT_SECONDS)
    for state in _ASKING:
        state.set_away(True)
    _log(TimeoutError())
    os._exit(0)


def _answer(arguments: list[str]) -> dict[str, Any]:
    name = arguments[0] if arguments else ""
    answer: dict[str, Any] = {"continue": True} if name == "beforeSubmitPrompt" else {}
    given = json.loads(sys.stdin.buffer.read(LONGEST_INPUT))
    config = read_config()
    if os.environ.get("MEMORYD_HOOKS", "").lower() in ("off", "0", "false", "no") or not isinstance(
        given, dict
    ):
        return answer
    event = read_event(name, given)
    if event is None or not config:
        return answer
    host = arguments[1] if len(arguments) > 1 else "cursor" if name in CURSOR else "claude-code"
    state = State(state_folder())
    session = f"{host}:{event.session}"
    # The agent may change its folder later: a session belongs to the project in which it began.
    head = state.head(session)
    root = head.get("root") or root_of(os.environ.get("CLAUDE_PROJECT_DIR") or event.folder or os.getcwd())
    if "root" not in head:
        head = {
            "host": host,
            "session": cleaned(event.session, 200),
            "root": root,
            "project": project_of(root),
        }
        state.add(session, head)
    rules = Rules(root)
    if rules.everything:
        return answer
    work = _Work(event, session, head, state, config)
    work.record(rules)
    text = "" if event.name in QUIET else work.with_database()
    if text and host == "cursor":
        # It takes a context at the beginning of a session alone.
        if event.name == "SessionStart":
            answer["additional_context"] = text
    elif text and host == "copilot":
        answer["additionalContext"] = text
    elif text:
        answer["hookSpecificOutput"] = {"hookEventName": name, "additionalContext": text}
    return answer


class _Work:
    def __init__(
        self, event: Event, session: str, head: dict[str, Any], state: State, config: dict[str, Any]
    ) -> None:
        self._event = event
        self._session = session
        self._head = head
        self._state = state
        self._url = str(config.get("url", ""))
        self._agent = str(config.get("agent", ""))
        self._library = config.get("libpq")
        self._text = ""
        self._rules: list[dict[str, Any]] = []
        self._said: list[str] = []
        """What the agent is told of the rules that the prompt states."""

    def record(self, rules: Rules) -> None:
        """Notes the event in the journal, and spools the memories that it completes."""
        event, state = self._event, self._state
        if event.name == "UserPromptSubmit":
            self._keep_rules()
        if (entry := turns.entry_of(event, rules, _now())) is not None:
            state.add(self._session, entry)
        if event.name == "SessionStart" and event.source in ("clear", "compact"):
            state.add(self._session, {"emptied": True})
        # An interrupted turn has no end of its own: it ends with the next prompt, or with the session.
        if event.name in (*ENDS, "UserPromptSubmit"):
            self._spool(self._session, self._head, over=event.name == "SessionEnd")
        if event.name == "SessionStart":
            for session in state.abandoned():
                head = state.head(session)
                if {"host", "session", "project"} <= head.keys() and session != self._session:
                    self._spool(session, head, over=True)
                else:
                    state.forget(session)

    def _keep_rules(self) -> None:
        kept, refused, self._event.text = turns.rules_of(self._event.text, self._agent, self._head, _now())
        self._said += ["A rule of this prompt is not remembered: it contains a secret."] * refused
        self._rules = [rule for rule in kept if self._state.put(rule)]
        if self._rules:
            self._state.add(self._session, {"told": [rule["id"] for rule in self._rules]})

    def with_database(self) -> str:
        """Stores the spooled memories, and returns the context for the host."""
        asks = (self._event.name == "UserPromptSubmit" and self._head.get("host") != "cursor") or (
            self._event.name == "SessionStart" and self._event.source != "resume"
        )
        if not (asks or self._state.waiting()) or self._state.is_away():
            return "\n".join(self._said)
        _ASKING.append(self._state)
        try:
            self._call(asks)
            self._state.set_away(False)
        except Exception as error:  # noqa: BLE001 - what is spooled waits
            self._state.set_away(True)
            _log(error)
        _ASKING.clear()
        return "\n".join([*self._said, *([self._text] if self._text else [])])

    def _call(self, asks: bool) -> None:
        from plugins.hooks import memory

        connection = connect(self._url, self._library)
        told: list[str] = []
        # First the context: what this prompt states is not given back to it.
        if asks and self._event.name == "UserPromptSubmit":
            if prompt := cleaned(self._event.text, memory.LONGEST_QUERY):
                known = _known(self._state.journal(self._session))
                self._text, told = memory.context(
                    connection, self._agent, prompt, self._head["project"], known
                )
        elif asks:
            self._text, told = memory.newest(connection, self._agent, self._head["project"])
        if told:
            self._state.add(self._session, {"told": told})
        ended = memory.store(connection, self._state, self._agent, self._rules)
        self._text = memory.without_ended(self._text, [rule for _, rule, _, _ in ended])
        for rule in self._rules:
            if by := [text for one, _, _, text in ended if one == rule["id"]]:
                self._said.append(
                    f"Not a rule of this project: {rule['content']}. Another session has since said: {by[0]}"
                )
                continue
            self._said.append(f"Remembered as a rule of this project: {rule['content']}")
            self._said += [
                f"It replaces the earlier rule: {text}" for _, text, one, _ in ended if one == rule["id"]
            ]

    def _spool(self, session: str, head: dict[str, Any], *, over: bool) -> None:
        from zlib import crc32

        state = self._state
        journal = state.journal(session)
        spooled = {e["spooled"]: e.get("sum") for e in journal if "spooled" in e}
        for memory in turns.memories_of(journal, self._agent, head, over=over):
            checksum = crc32(memory["content"].encode())
            if spooled.get(memory["id"]) != checksum and state.put(memory):
                state.add(session, {"spooled": memory["id"], "sum": checksum})
        if over:
            state.forget(session)


def _known(journal: list[dict[str, Any]]) -> list[str]:
    """What a session knows: what it has done itself, and what it was told since its host emptied the conversation."""
    done = [e["spooled"] for e in journal if "spooled" in e]
    emptied = max((n for n, e in enumerate(journal) if e.get("emptied")), default=0)
    return [one for e in journal[emptied:] for one in e.get("told", ())] + done


def _now() -> str:
    now = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1e6):06d}Z"


def _log(error: BaseException) -> None:
    """Writes a line for `memoryd hooks status`: the time and the kind of the error, never content."""
    try:
        folder = state_folder()
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "last-error"), "w", encoding="utf-8") as file:
            file.write(f"{_now()} {type(error).__name__} {getattr(error, 'sqlstate', '')}\n")
    except OSError:
        pass
