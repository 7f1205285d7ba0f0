"""The events of all hosts in one form. A field that is missing or has another type is left out."""

from __future__ import annotations

import json
import re
import time

from plugins.hooks.regular import read_text

TYPE_CHECKING = False  # importing typing takes too long
if TYPE_CHECKING:
    from typing import Any

CURSOR = {
    "sessionStart": "SessionStart",
    "beforeSubmitPrompt": "UserPromptSubmit",
    "postToolUse": "PostToolUse",
    "postToolUseFailure": "PostToolUseFailure",
    "afterAgentResponse": "AgentResponse",
    "preCompact": "PreCompact",
    "stop": "Stop",
    "sessionEnd": "SessionEnd",
}
"""Cursor's names of the events."""
GEMINI = {
    "BeforeAgent": "UserPromptSubmit",
    "AfterTool": "PostToolUse",
    "AfterAgent": "Stop",
    "PreCompress": "PreCompact",
}
"""Those of Gemini CLI that are not Claude Code's."""
EVENTS = frozenset(CURSOR.values())

# Patterns are texts here and in what a hook loads: to compile one takes longer than to use it, and few are used in one call.
EDITS = ("edit", "write", "patch", "create", "replace")
PATCHED = r"(?m)^\*\*\* (?:Update|Add|Delete) File: (.+)$"
EXIT_CODE = (
    r"(?i)\A(?:(?:Chunk ID|Wall time):[^\n]*\n)*\W*(?:Error:\s*)?"
    r"(?:(?:Process exited with |Command failed with )?exit(?:ed)?(?: with)? code:?|Process exited with code) ([1-9]\d*)"
)
EXITED = (
    r"(?m)^(?:Exit Code: |<exited with exit code |<shellId: \w+ completed with exit code )([1-9]\d*)>?\s*$"
)
"""How Gemini CLI and Copilot CLI end what a command printed."""
FRAME = r"(?m)^(?:</?untrusted_context>\n?|Output: |Exit Code: \d+\n?|Process Group PGID: \d+\n?|<\w+: \w+ completed with .*>)"
"""What both write around it."""
TOLD_BEFORE = r"(?s)\A\s*(?:<hook_context>.*?</hook_context>\s*)+"
"""What hooks said when the session began: Gemini CLI puts it before the first prompt."""
LATE_RECORD = "/events.jsonl"
"""The record of a session that Copilot CLI writes: what was said last comes a moment after the event."""
MOMENTS, MOMENT_SECONDS = 6, 0.1
LAST_BYTES = 300_000
LONGEST_SESSION = 200
SHELLS = ("sh", "bash", "zsh", "/bin/sh", "/bin/bash", "/bin/zsh")
STOPPED = (
    "user doesn't want",
    "user rejected",
    "interrupted by user",
    "request interrupted",
    "aborted by user",
)
"""A person stopped the tool: it neither failed nor passed."""


class Event:
    """One event: its name in Claude Code, its session and folder, and what happened.

    `text`: the prompt, or the agent's last message. `files`: those that a tool changed. `failure`: the error of a tool;
    None: no failure. `source`: how a session began.
    """

    def __init__(self, name: str, session: str, folder: str, source: str) -> None:
        self.name = name
        self.session = session
        self.folder = folder
        self.source = source
        self.text = ""
        self.command = ""
        self.files: list[str] = []
        self.failure: str | None = None


def read_event(name: str, given: dict[str, Any]) -> Event | None:
    """The event of this name; None for one that hooks ignore."""
    event_name = CURSOR.get(name) or GEMINI.get(name, name)
    if event_name not in EVENTS:
        return None
    roots = given.get("workspace_roots")
    folder = given.get("cwd") or (roots[0] if isinstance(roots, list) and roots else None)
    event = Event(
        event_name,
        (as_text(given.get("session_id")) or as_text(given.get("conversation_id")) or "unknown")[
            :LONGEST_SESSION
        ],
        as_text(folder),
        as_text(given.get("source")),
    )
    if event_name == "UserPromptSubmit":
        prompt = as_text(given.get("prompt"))
        event.text = re.sub(TOLD_BEFORE, "", prompt) if "<hook_context>" in prompt else prompt
    elif event_name in ("PostToolUse", "PostToolUseFailure"):
        _read_tool(event, given)
    elif event_name == "AgentResponse":
        event.text = as_text(given.get("text"))
    elif event_name in ("Stop", "PreCompact", "SessionEnd"):
        event.text = (
            as_text(given.get("last_assistant_message"))
            or as_text(given.get("prompt_response"))
            or _said_at_last(as_text(given.get("transcript_path")))
        )
    return event


def _read_tool(event: Event, given: dict[str, Any]) -> None:
    tool, asked = as_text(given.get("tool_name")), as_object(given.get("tool_input"))
    command = asked.get("command", asked.get("cmd"))
    if isinstance(command, list):
        words = [part for part in command if isinstance(part, str)]
        command = words[-1] if len(words) == 3 and words[0] in SHELLS else " ".join(words)
    event.command = as_text(command)
    if any(word in tool.lower() for word in EDITS):
        patch = re.findall(PATCHED, event.command or as_text(asked.get("patch") or asked.get("input")))
        path = next(
            (as_text(asked[k]) for k in ("file_path", "path", "notebook_path") if as_text(asked.get(k))), ""
        )
        event.files = [*patch, *([path] if path else [])]
        event.command = ""
    answer = given.get("tool_response", given.get("tool_output", given.get("tool_result")))
    event.failure = as_text(given.get("error")) or as_text(given.get("error_message")) or _failure(answer)
    if not event.failure and isinstance(answer, str) and _has_failed(given):
        event.failure = answer or "it failed"
    if event.name == "PostToolUseFailure":
        event.failure = event.failure or "it failed"
    event.failure = event.failure or None
    if _is_stopped(given, answer, event.failure or ""):
        event.files, event.command, event.failure = [], "", None
    elif asked.get("run_in_background") is True and event.command:
        event.command += " &"


def _is_stopped(given: dict[str, Any], answer: object, failure: str) -> bool:
    flags = (given.get("is_interrupt"), as_object(answer).get("interrupted"))
    return True in flags or any(words in failure[:500].lower() for words in STOPPED)


def _failure(answer: object) -> str:
    if isinstance(answer, str):
        if re.match(EXIT_CODE, answer):
            return answer
        answer = as_object(answer)
    if not isinstance(answer, dict):
        return ""
    printed = as_text(answer.get("llmContent")) or as_text(answer.get("text_result_for_llm"))
    if exited := re.search(EXITED, printed[-500:]):
        return re.sub(FRAME, "", printed).strip() or f"exit code {exited[1]}"
    inner = as_object(answer.get("metadata"))
    code = next(
        (
            c
            for c in (answer.get("exit_code"), answer.get("exitCode"), inner.get("exit_code"))
            if isinstance(c, int)
        ),
        0,
    )
    if code == 0 and answer.get("is_error") is not True and answer.get("success") is not False:
        return ""
    said = [as_text(answer.get(k)) for k in ("stdout", "output", "stderr", "error")]
    return "\n".join(part for part in said if part) or f"exit code {code}"


def _has_failed(given: dict[str, Any]) -> bool:
    """Codex says how a command ended in its own record of the session alone: JSON lines."""
    call, transcript = as_text(given.get("tool_use_id")), as_text(given.get("transcript_path"))
    for line in reversed(read_text(transcript, LAST_BYTES, end=True).splitlines() if call else []):
        item = as_object(as_object(as_object(line).get("payload")).get("item")) if call in line else {}
        if item.get("id") == call:
            return item.get("exit_code") not in (0, None)
    return False


def _said_at_last(transcript: str) -> str:
    for moment in range(MOMENTS if transcript.endswith(LATE_RECORD) else 1):
        if moment:
            time.sleep(MOMENT_SECONDS)
        if said := _last_said(transcript, is_over=moment < MOMENTS - 1):
            return said
    return ""


def _last_said(transcript: str, *, is_over: bool) -> str:
    """The agent's messages since the last prompt, from the host's own record of the session: JSON lines.

    `is_over`: of Copilot CLI only one that asks for no tool, which is the last of a turn.
    """
    for line in reversed(read_text(transcript, LAST_BYTES, end=True).splitlines()):
        record = as_object(line)
        message = as_object(record.get("message"))
        content = message.get("content")
        parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
        if record.get("isSidechain"):
            continue  # of a subagent
        if (told := record.get("type")) in ("user.message", "assistant.message"):  # of Copilot CLI
            data = as_object(record.get("data"))
            said = as_text(data.get("content"))
            if told == "user.message" or said or (is_over and data.get("toolRequests")):
                is_last = told == "assistant.message" and not (is_over and data.get("toolRequests"))
                return said if is_last else ""
        if message.get("role") == "user" and any(as_object(p).get("type") != "tool_result" for p in parts):
            return ""
        if message.get("role") == "assistant" and (said := texts_of(parts)):
            return said
    return ""


def texts_of(parts: list[Any]) -> str:
    """The texts of the parts of a message, a line or more each."""
    return "\n".join(text for part in parts if (text := as_text(as_object(part).get("text"))))


def as_text(given: object) -> str:
    """A text of a host; "" for anything else."""
    return given.encode(errors="surrogatepass").decode(errors="replace") if isinstance(given, str) else ""


def as_object(given: object) -> dict[str, Any]:
    """An object of a host, also where it is written as a text; empty for anything else."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            return {}
    return given if isinstance(given, dict) else {}
