"""The memoryd command line as its user has it: a process, an exit code, and what it said."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.support.daemons import environment

MOST_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Finished:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def sentences(self) -> list[str]:
        """What it said on stderr, a line each, log lines left out."""
        return [line for line in self.err.splitlines() if line.strip() and not line.startswith("{")]


async def memoryd(*arguments: str, url: str, folder: Path, **settings: object) -> Finished:
    """Runs `memoryd <arguments>` to its end with these settings (`poll_seconds=1` sets MEMORYD_POLL_SECONDS)."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "daemon",
        *arguments,
        env=environment(url, settings),
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), MOST_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise AssertionError(f"memoryd {' '.join(arguments)} did not end within {MOST_SECONDS} s") from None
    assert process.returncode is not None
    return Finished(process.returncode, out.decode(), err.decode())
