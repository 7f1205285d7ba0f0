"""Short `memoryd` commands for tests: run to their end as a user would run them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.processes.daemons import environment
from tests.support.processes.forks import Process, start

SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its answer, parsed."""
        return json.loads(self.out)

    @property
    def sentences(self) -> list[str]:
        """What it said on stderr, a line each, log lines left out but for those that tell why it did not start."""
        lines = [line for line in self.err.splitlines() if line.strip()]
        logged = [json.loads(line) if line.startswith("{") else None for line in lines]
        told = [line if one is None else one.get("reason") for line, one in zip(lines, logged, strict=True)]
        return [
            line
            for line, one in zip(told, logged, strict=True)
            if line is not None and (one is None or one["event"] == "start_refused")
        ]


class Commands:
    """Runs commands on one database, or with `url` None on the embedded one of a data folder."""

    def __init__(self, url: str | None, folder: Path, *, whole: bool = False) -> None:
        """`whole`: see forks.start()."""
        self.url = url
        self.folder = folder
        self._whole = whole

    async def __call__(self, *arguments: str, stdin: bytes = b"", **settings: object) -> Finished:
        """A command with these settings (`pool_size=3` sets MEMORYD_POOL_SIZE), at its end."""
        process = await self._start(arguments, settings, stdout=asyncio.subprocess.PIPE)
        try:
            out, err = await asyncio.wait_for(process.communicate(stdin), SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()
            raise AssertionError(f"memoryd {' '.join(arguments)} did not end within {SECONDS} s") from None
        assert process.returncode is not None
        finished = Finished(process.returncode, out.decode(), err.decode())
        assert "Traceback" not in finished.err, finished.err
        return finished

    async def start(
        self, *arguments: str, stdout: int = asyncio.subprocess.PIPE, **settings: object
    ) -> Process:
        """A command that runs, its streams piped."""
        return await self._start(arguments, settings, stdout=stdout)

    async def _start(
        self, arguments: Sequence[str], settings: Mapping[str, object], *, stdout: int
    ) -> Process:
        return await start(
            arguments,
            environment=self._environment(settings),
            cwd=self.folder,
            stdin=asyncio.subprocess.PIPE,
            stdout=stdout,
            whole=self._whole,
        )

    def _environment(self, settings: Mapping[str, object]) -> dict[str, str]:
        given = {"data_dir": self.folder / "data", **settings}
        wanted = environment(self.url or "", given) | {"COLUMNS": "200", "NO_COLOR": "1"}
        if self.url is None:
            del wanted["DATABASE_URL"]
        return wanted


async def memoryd(*arguments: str, url: str, folder: Path, **settings: object) -> Finished:
    """One command on one database, at its end."""
    return await Commands(url, folder)(*arguments, stdin=b"", **settings)
