"""Work in the background of the pages: one at a time, and each failure is a sentence."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import asyncpg
import pytest
import structlog
from structlog.testing import capture_logs

from plugins.web.background import Background


def background() -> Background[int]:
    return Background("verify", structlog.get_logger())


async def ended(work: Background[int]) -> None:
    while work.runs:
        await asyncio.sleep(0)


def failing(error: Exception) -> Callable[[], Awaitable[int]]:
    async def work() -> int:
        raise error

    return work


async def test_one_runs_at_a_time_and_the_last_result_stays_until_the_next() -> None:
    work, gate = background(), asyncio.Event()

    async def wait() -> int:
        work.report(7)
        await gate.wait()
        return 1

    assert work.start(wait, lambda _: None)
    assert not work.start(failing(ValueError()), lambda _: None)
    await asyncio.sleep(0)
    assert (work.runs, work.done, work.result) == (True, 7, None)
    gate.set()
    await ended(work)
    assert (work.result, work.trouble) == (1, None)
    assert work.start(wait, lambda _: None)
    assert (work.done, work.result) == (0, 1)
    await ended(work)


@pytest.mark.parametrize(
    ("error", "says", "logged"),
    [
        (ValueError("Set the key."), "Set the key.", False),
        (asyncpg.InterfaceError("connection lost"), "does not answer", False),
        (asyncpg.QueryCanceledError("canceled"), "took too long", False),
        (KeyError("a user's text"), "log of memoryd web", True),
    ],
)
async def test_a_failure_is_told_and_only_ours_is_an_error(error: Exception, says: str, logged: bool) -> None:
    work = background()
    with capture_logs() as logs:
        work.start(failing(error), lambda e: str(e) if isinstance(e, ValueError) else None)
        await ended(work)
    assert work.trouble is not None
    assert says in work.trouble
    assert any(line["log_level"] == "error" for line in logs) is logged
    assert "a user's text" not in str(logs)
