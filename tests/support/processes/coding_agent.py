"""A coding agent that runs `memoryd hook` at its events, as its settings say."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plugins.hooks.libpq import library
from tests.support.processes import forks
from tests.support.repository import ROOT

SECONDS = 20

CONCLUDED = "The sender now waits up to 300 seconds between two tries, with jitter; tenacity is a new dependency of it."
OF = "select kind, content, metadata, ttl_hours, source from agent_memory where agent_id = $1 order by kind, content"


@dataclass(frozen=True, slots=True)
class CodingAgent:
    """A host with a home of its own, in a project."""

    home: Path
    project: Path
    host: str = "claude-code"
    limit: float | None = None
    """Seconds that a hook may take where a test is of its answer; None: as many as in life."""

    @classmethod
    def at(cls, folder: Path, url: str, *, host: str = "claude-code", agent: str = "coding") -> CodingAgent:
        """One whose hooks are installed for this database."""
        made = cls(folder / "home", folder / "project", host)
        made.project.mkdir(exist_ok=True)
        made.configure(url, agent)
        return made

    @property
    def environment(self) -> dict[str, str]:
        """The variables that its hooks run with."""
        given = {k: v for k, v in os.environ.items() if not k.startswith(("MEMORYD_", "XDG_", "CODEX_"))}
        return given | {
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "XDG_STATE_HOME": str(self.home / "state"),
            "PYTHONPATH": str(ROOT),
        }

    @property
    def state(self) -> Path:
        """The folder of journals and spool."""
        return self.home / "state/memoryd/hooks"

    @property
    def spooled(self) -> list[Path]:
        """What waits to be stored."""
        return sorted((self.state / "spool").glob("*.json"))

    def configure(self, url: str, agent: str = "coding") -> None:
        """What `memoryd hooks install` writes."""
        folder = self.home / "config/memoryd"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "hooks.json").write_text(json.dumps({"url": url, "agent": agent, "libpq": library(url)}))

    async def command(self, *arguments: str, folder: Path | None = None, **environment: str) -> forks.Process:
        """A `memoryd` command that its person has started in the project, or in another folder."""
        given, cwd = self.environment | environment, folder or self.project
        return await forks.start(arguments, environment=given, cwd=cwd, stdin=forks.PIPE, stdout=forks.PIPE)

    async def say(self, prompt: str, session: str = "s1") -> str:
        """What it is told with a prompt."""
        answer: Any = await self.tell("UserPromptSubmit", session_id=session, prompt=prompt)
        return "" if answer is None else str(answer["hookSpecificOutput"]["additionalContext"])

    async def start(
        self, event: str, given: bytes, *, close: bool = True, **environment: str
    ) -> asyncio.subprocess.Process:
        """A hook that has been told; without `close` not yet all."""
        program = ["-m", "daemon", "hook"]
        if self.limit is not None:
            change = f"hook.LIMIT_SECONDS = {self.limit}"
            program = ["-c", f"import sys; from plugins.hooks import hook; {change}; hook.main(sys.argv[1:])"]
        process = await asyncio.create_subprocess_exec(
            sys.executable, *program, event, self.host,
            cwd=self.project, env=self.environment | environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(given)
        if close:
            process.stdin.close()
        return process

    async def tell_raw(self, event: str, given: bytes, **environment: str) -> bytes:
        """What a hook answers; it ends with 0 and complains of nothing."""
        process = await self.start(event, given, close=True, **environment)
        out, err = await asyncio.wait_for(process.communicate(), SECONDS)
        assert (process.returncode, err) == (0, b""), (process.returncode, err)
        return out

    async def tell(self, event: str, **given: Any) -> Any:
        """What a hook answers, read; None for nothing."""
        said = {"session_id": "s1", "cwd": str(self.project)} | given
        out = await self.tell_raw(event, json.dumps(said).encode())
        return json.loads(out) if out else None

    async def work(self, prompt: str, concluded: str, *, session: str = "s1") -> None:
        """A whole turn that asks for no context."""
        (self.state / "spool").mkdir(parents=True, exist_ok=True)
        head = {
            "host": self.host,
            "session": session,
            "root": str(self.project),
            "project": str(self.project),
        }
        asked = {"at": "2026-03-01T12:00:00Z", "asked": prompt}
        with (self.state / f"{self.host}_{session}.jsonl").open("a") as journal:
            journal.write(f"{json.dumps(head)}\n{json.dumps(asked)}\n")
        await self.tell("Stop", session_id=session, last_assistant_message=concluded)
