"""What the doctor says, for the page Now.

Promise: it looks in a process of its own, so that no model is loaded into this one and no page waits; at most once in
`PAUSE_SECONDS`, for all readers together.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from daemon.web.background import Background
from daemon.web.web import Web

PAUSE_SECONDS = 30.0
STALE_SECONDS = 600.0
"""After so long a page that is open lets it look again: some checks read whole tables."""
PATIENCE_SECONDS = 120.0
# -P: the folder that it was started in may have a folder `daemon`, of somebody's.
COMMAND = (sys.executable, "-P", "-m", "daemon", "doctor", "--json")


class NoAnswerError(Exception):
    """The doctor has said nothing that can be shown; the message says why."""


def doctor_of(web: Web) -> Background[list[dict[str, Any]]]:
    """What it has found last."""
    found = web.kept.setdefault("doctor", Background[list[dict[str, Any]]]("doctor", web.log))
    assert isinstance(found, Background)
    return found


def let_look(web: Web, *, older_than: float) -> None:
    """Lets it look, if it has not within so many seconds."""
    doctor = doctor_of(web)
    if doctor.age_seconds >= older_than:
        doctor.start(
            lambda: _look(web.settings.database),
            lambda error: str(error) if isinstance(error, NoAnswerError) else None,
        )


async def _look(database: str | None) -> list[dict[str, Any]]:
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
            f"memoryd doctor has ended with {process.returncode} and said nothing. Run it in a terminal."
        ) from None
    checks: list[dict[str, Any]] = said if isinstance(said, list) else said["checks"]
    order = {"problem": 0, "warning": 1}
    return sorted(checks, key=lambda check: order.get(check["verdict"], 2))
