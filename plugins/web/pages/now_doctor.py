"""The doctor's checks, for the page Now.

Promise: the doctor runs in a process of its own, so that no model is loaded here and no page waits; for all readers together
at most once in `PAUSE_SECONDS`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from plugins.web.background import Background
from plugins.web.web import Web

PAUSE_SECONDS = 30.0
STALE_SECONDS = 600.0
"""After this time an open page starts the doctor again: some checks read whole tables."""
PATIENCE_SECONDS = 120.0
# -P: the working folder may have a folder `memoryd` that is not ours.
COMMAND = (sys.executable, "-P", "-m", "memoryd", "doctor", "--json")


class NoAnswerError(Exception):
    """The doctor gave no output that can be shown; the message says why."""


def doctor_of(web: Web) -> Background[list[dict[str, Any]]]:
    """The doctor's work, with its last checks."""
    found = web.kept.setdefault("doctor", Background[list[dict[str, Any]]]("doctor", web.log))
    assert isinstance(found, Background)
    return found


def refresh(web: Web, *, older_than: float) -> None:
    """Starts the doctor, unless it began less than `older_than` seconds ago."""
    doctor = doctor_of(web)
    if doctor.age_seconds >= older_than:
        doctor.start(
            lambda: _examine(web.settings.database),
            lambda error: str(error) if isinstance(error, NoAnswerError) else None,
        )


async def _examine(database: str | None) -> list[dict[str, Any]]:
    environment = os.environ | ({} if database is None else {"MEMORYD_DATABASE": database})
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=environment,
    )
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            out, _ = await process.communicate()
    except TimeoutError:
        raise NoAnswerError(
            f"memoryd doctor has not ended within {PATIENCE_SECONDS:.0f} s. Run it in a terminal: it says where it is."
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    try:
        said = json.loads(out)
    except ValueError:
        raise NoAnswerError(
            f"memoryd doctor has ended with {process.returncode} and no output. Run it in a terminal."
        ) from None
    checks: list[dict[str, Any]] = said if isinstance(said, list) else said["checks"]
    order = {"problem": 0, "warning": 1}
    return sorted(checks, key=lambda check: order.get(check["verdict"], 2))
