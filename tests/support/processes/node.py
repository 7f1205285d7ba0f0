"""Programs of Node and npm, as the tests of the TypeScript client and of the edge functions run them."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

NPM = (
    "--no-audit",
    "--no-fund",
    "--prefer-offline",
    "--loglevel=error",
    "--fetch-retries=1",
    "--fetch-retry-mintimeout=1000",
    "--fetch-retry-maxtimeout=5000",
)
NODE = (20, 14)
"""The first that ends with its tests, whatever supabase-js keeps open."""
INSTALL_SECONDS, TEST_SECONDS = 240.0, 240.0


async def run(folder: Path, *command: str, seconds: float, **environment: str) -> tuple[int, str]:
    """The exit code and what was written."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env=os.environ | environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        said, _ = await asyncio.wait_for(process.communicate(), seconds)
    except TimeoutError:
        os.killpg(process.pid, 9)
        await process.wait()
        raise
    assert process.returncode is not None
    return process.returncode, said.decode("utf-8", "replace")
