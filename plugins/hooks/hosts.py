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

OUR_MODULE = "// memoryd: "
TIMEOUT_SECONDS = 5
LONGEST = 5_000_000
OURS = re.compile(
    r"(?:command -v memoryd >/dev/null 2>&1 && memoryd hook \w+ [a-z-]+ \|\| true"
    r"|(?:'[^']*/memoryd'|\S*/memoryd|memoryd) hook \w+ [a-z-]+)"
)
"""The commands that command_of() makes."""
TOOLS = "Bash|Edit|Write|MultiEdit|NotebookEdit"
OF_TOOLS = ("PostToolUse", "AfterTool")


class Unreadable(Exception):
    """Settings that cannot be changed without a loss; the message says why."""


@dataclass(frozen=True, slots=True)
class Host:
    """A coding agent. `file`: its settings in a project; `own`: in the home folder, the same unless given."""

    name: str
    file: str
    events: tuple[str, ...] = ()
    flat: bool = False
    """Whether an event has commands instead of groups of commands."""
    advice: str = ""
    own: str = ""
    moved: tuple[str, str] = ("", "")
    """A variable that names another folder for one's own settings, and the file in it."""
    tools: str = TOOLS
    """The tools whose use is told."""
    seconds: int = 1
    """How many of the settings' units of time a second has."""
    module: str = ""
    """The file beside this one that is the settings, of a host whose hooks are programs."""

    def path(self, project: Path | None) -> Path:
        """The settings of a project, or of the user."""
        variable, file = self.moved
        if project is None and variable and (folder := os.environ.get(variable)):
            return Path(folder) / file
        return project / self.file if project else Path.home() / (self.own or self.file)

    def path_in(self, project: Path) -> Path:
        """The settings of a project, which may be a stranger's. Raises Unreadable for a link that leads elsewhere."""
        path = project / self.file
        for step in (*list(path.parents)[: len(Path(self.file).parents) - 1][::-1], path):
            if step.is_symlink():
                raise Unreadable(f"{step} is a link, which may lead to a file that is not the project's")
        return path


CLAUDE_CODE = (
    "SessionStart", "UserPromptSubmit", "PostToolUse", "PostToolUseFailure", "PreCompact", "Stop", "SessionEnd",
)  # fmt: skip
HOSTS = {
    host.name: host
    for host in (
        Host("claude-code", ".claude/settings.json", CLAUDE_CODE),
        Host(
            "codex",
            ".codex/hooks.json",
            ("SessionStart", "UserPromptSubmit", "PostToolUse", "PreCompact", "Stop", "SessionEnd"),
            advice="Codex asks whether to trust them: look at /hooks there.",
            moved=("CODEX_HOME", "hooks.json"),
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
        Host(
            "gemini",
            ".gemini/settings.json",
            ("SessionStart", "BeforeAgent", "AfterTool", "AfterAgent", "PreCompress", "SessionEnd"),
            tools="run_shell_command|replace|write_file",
            seconds=1000,
        ),
        Host(
            "copilot",
            ".github/hooks/memoryd.json",
            CLAUDE_CODE,
            flat=True,
            own=".copilot/hooks/memoryd.json",
            moved=("COPILOT_HOME", "hooks/memoryd.json"),
            tools="Bash|Edit|Write|bash|edit|create|str_replace_editor|apply_patch",
        ),
        Host(
            "opencode",
            ".opencode/plugins/memoryd.js",
            own=".config/opencode/plugins/memoryd.js",
            moved=("OPENCODE_CONFIG_DIR", "plugins/memoryd.js"),
            module="opencode.js",
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
    if host.module:
        return _write_module(host, path, program="memoryd" if shared else program)

    def add(hooks: dict[str, Any]) -> None:
        for event in host.events:
            command: dict[str, Any] = {
                "command": command_of(host, event, program=program, shared=shared),
                "timeout": TIMEOUT_SECONDS * host.seconds,
            }
            told: dict[str, Any] = {"matcher": host.tools} if event.startswith(OF_TOOLS) else {}
            if host.flat:
                command |= told
            else:
                command = told | {"hooks": [{"type": "command"} | command]}
            hooks.setdefault(event, []).append(command)

    return _change(host, path, add)


def remove(host: Host, path: Path) -> bool:
    """Removes our commands from the settings; returns whether there were any."""
    if host.module:
        found = _module(path)
        path.unlink(missing_ok=True)
        return bool(found)
    return _change(host, path, lambda _hooks: None)


def installed(host: Host, path: Path) -> bool:
    """Whether the settings name one of our commands at each event of the host."""
    if host.module:
        return read_text(str(path), LONGEST).startswith(OUR_MODULE)
    try:
        hooks = json.loads(read_text(str(path), LONGEST)).get("hooks", {})
        return all(_without_ours(hooks[event]) != hooks[event] for event in host.events)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False


def _module(path: Path) -> str:
    """Our module at this path; "" for none. Raises Unreadable for a file of others."""
    if not path.exists():
        return ""
    text = _read_file(path)
    if not text.startswith(OUR_MODULE):
        raise Unreadable(f"{path} is not memoryd's")
    return text


def _write_module(host: Host, path: Path, *, program: str) -> bool:
    text = Path(__file__).with_name(host.module).read_text(encoding="utf-8")
    text = text.replace('PROGRAM = "memoryd"', f"PROGRAM = {json.dumps(program)}")
    before = _module(path)
    if text != before:
        _write_text(path, text)
    return text != before


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


def _read_file(path: Path) -> str:
    if not path.is_file():
        raise OSError(EINVAL, "it is not a file", str(path))
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return file.read()
    except ValueError:
        raise Unreadable(f"{path} is not a text") from None


def _read(path: Path) -> str:
    if not path.exists():
        return ""
    text = _read_file(path)
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
    _write_text(path, text, newline="\r\n" if "\r\n" in before else "\n")


def _write_text(path: Path, text: str, *, newline: str = "\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not os.access(path, os.W_OK):
        raise PermissionError(13, "is read-only", str(path))
    # A random name: nobody can have made a link there.
    handle, unfinished = mkstemp(prefix=path.name, dir=path.parent)
    with os.fdopen(handle, "w", encoding="utf-8", newline=newline) as file:
        file.write(text)
    Path(unfinished).chmod(path.stat().st_mode if path.exists() else 0o644)
    Path(unfinished).replace(path)
