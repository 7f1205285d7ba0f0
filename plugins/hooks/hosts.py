"""The settings of each host: where they are, and how they name `memoryd hook`. Nothing else in them is changed.

Only `memoryd hooks` loads this.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from errno import EINVAL
from pathlib import Path
from tempfile import mkstemp
from typing import Any

from plugins.hooks.regular import read_text

TIMEOUT_SECONDS = 5
LONGEST = 5_000_000
OURS = re.compile(
    r"(?:command -v memoryd >/dev/null 2>&1 && memoryd hook \w+ [a-z-]+ \|\| true"
    r"|(?:'[^']*/memoryd'|\S*/memoryd|memoryd) hook \w+ [a-z-]+)"
)
"""The commands that command_of() makes."""
TOOLS = "Bash|Edit|Write|MultiEdit|NotebookEdit"


class Unreadable(Exception):
    """Settings that cannot be changed without a loss; the message says why."""


@dataclass(frozen=True, slots=True)
class Host:
    """A coding agent. `file`: its settings, within the project or the home folder."""

    name: str
    file: str
    events: tuple[str, ...]
    flat: bool = False
    """Whether an event has commands instead of groups of commands."""
    advice: str = ""

    def path(self, project: Path | None) -> Path:
        """The settings of a project, or of the user."""
        if project is None and self.name == "codex" and (home := os.environ.get("CODEX_HOME")):
            return Path(home) / "hooks.json"
        return (project or Path.home()) / self.file

    def path_in(self, project: Path) -> Path:
        """The settings of a project, which may be a stranger's. Raises Unreadable for a link that leads elsewhere."""
        path = project / self.file
        for step in (path.parent, path):
            if step.is_symlink():
                raise Unreadable(f"{step} is a link, which may lead to a file that is not the project's")
        return path


HOSTS = {
    host.name: host
    for host in (
        Host(
            "claude-code",
            ".claude/settings.json",
            (
                "SessionStart", "UserPromptSubmit", "PostToolUse", "PostToolUseFailure", "PreCompact", "Stop", "SessionEnd",
            ),
        ),
        Host(
            "codex",
            ".codex/hooks.json",
            ("SessionStart", "UserPromptSubmit", "PostToolUse", "Stop"),
            advice="Codex asks whether to trust them: look at /hooks there.",
        ),
        Host(
            "cursor",
            ".cursor/hooks.json",
            (
                "sessionStart", "beforeSubmitPrompt", "postToolUse", "postToolUseFailure", "afterAgentResponse", "preCompact",
                "stop", "sessionEnd",
            ),
            flat=True,
            advice="Cursor takes no context with a prompt: give its agent the tools of `memoryd mcp`, too.",
        ),
    )
}  # fmt: skip


def command_of(host: Host, event: str, *, program: str, shared: bool) -> str:
    """The command that a host runs. In `shared` settings, which others check out, it does not fail without memoryd."""
    if shared:
        return f"command -v memoryd >/dev/null 2>&1 && memoryd hook {event} {host.name} || true"
    return f"{shlex.quote(program)} hook {event} {host.name}"


def install(host: Host, path: Path, *, program: str, shared: bool) -> bool:
    """Adds our commands to the settings in place of our earlier ones; returns whether the file changed."""

    def add(hooks: dict[str, Any]) -> None:
        for event in host.events:
            command: dict[str, Any] = {
                "command": command_of(host, event, program=program, shared=shared),
                "timeout": TIMEOUT_SECONDS,
            }
            if not host.flat:
                group: dict[str, Any] = {"matcher": TOOLS} if event.startswith("PostToolUse") else {}
                command = group | {"hooks": [{"type": "command"} | command]}
            hooks.setdefault(event, []).append(command)

    return _change(host, path, add)


def remove(host: Host, path: Path) -> bool:
    """Removes our commands from the settings; returns whether there were any."""
    return _change(host, path, lambda _hooks: None)


def installed(host: Host, path: Path) -> bool:
    """Whether the settings name one of our commands at each event of the host."""
    try:
        hooks = json.loads(read_text(str(path), LONGEST)).get("hooks", {})
        return all(_without_ours(hooks[event]) != hooks[event] for event in host.events)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False


def _change(host: Host, path: Path, add: Callable[[dict[str, Any]], None]) -> bool:
    linked, path = path.is_symlink(), path.resolve()  # the file behind a link
    before = _read(path)
    settings = json.loads(before) if before.strip() else {}
    hooks = settings.get("hooks", {}) if isinstance(settings, dict) else None
    if not isinstance(hooks, dict) or not all(isinstance(entries, list) for entries in hooks.values()):
        raise Unreadable(f"{path} has another form than the settings of {host.name}")
    kept = {
        event: left for event, entries in hooks.items() if (left := _without_ours(entries)) or not entries
    }
    add(kept)
    if kept:
        if host.flat:
            settings.setdefault("version", 1)
        settings["hooks"] = kept
    else:
        settings.pop("hooks", None)
    if settings == (json.loads(before) if before.strip() else {}):
        return False
    if (not settings or settings == {"version": 1}) and not linked:
        path.unlink()
        return True
    _write(path, before, settings)
    return True


def _without_ours(entries: list[Any]) -> list[Any]:
    """The entries of an event without our commands, and without groups that had no others."""
    left = []
    for entry in entries:
        if isinstance(entry, dict) and isinstance(entry.get("hooks"), list):
            others = [one for one in entry["hooks"] if not _is_ours(one)]
            if others or not entry["hooks"]:
                left.append(entry | {"hooks": others})
        elif not _is_ours(entry):
            left.append(entry)
    return left


def _is_ours(entry: object) -> bool:
    return isinstance(entry, dict) and OURS.fullmatch(str(entry.get("command", ""))) is not None


def _read(path: Path) -> str:
    if not path.exists():
        return ""
    if not path.is_file():
        raise OSError(EINVAL, "it is not a file", str(path))
    try:
        with path.open(encoding="utf-8", newline="") as file:
            text = file.read()
    except ValueError:
        raise Unreadable(f"{path} is not a text") from None
    try:
        if text.strip():
            json.dumps(json.loads(text, object_pairs_hook=_once), ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        comments = re.search(r"^\s*(?://|/\*)", text, re.MULTILINE)
        raise Unreadable(f"{path} {'has comments' if comments else f'is not JSON ({error})'}") from None
    return text


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a name stands twice in an object")
    return made


def _write(path: Path, before: str, settings: dict[str, Any]) -> None:
    indent = re.search(r"^([ \t]+)\S", before, re.MULTILINE)
    text = json.dumps(settings, indent=indent[1] if indent else 2, ensure_ascii=False)
    text += "\n" if before.endswith("\n") or not before else ""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not os.access(path, os.W_OK):
        raise PermissionError(13, "is read-only", str(path))
    # A random name: nobody can have made a link there.
    handle, unfinished = mkstemp(prefix=path.name, dir=path.parent)
    with os.fdopen(handle, "w", encoding="utf-8", newline="\r\n" if "\r\n" in before else "\n") as file:
        file.write(text)
    Path(unfinished).chmod(path.stat().st_mode if path.exists() else 0o644)
    Path(unfinished).replace(path)
