"""Signals: at SIGTERM and SIGINT a process stops in order, at a second one at once."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

from structlog.typing import FilteringBoundLogger

from daemon.refusal import StoppedAtOnce

SAME_MOMENT_SECONDS = 0.5
"""Signals within it are one: a group of processes gets Ctrl-C, and its leader tells each of them to stop."""


def heed_signals(
    told_to_stop: asyncio.Event,
    *,
    reread: asyncio.Event | None = None,
    grace_seconds: float,
    logger: FilteringBoundLogger,
) -> dict[signal.Signals, Any]:
    """From now on signals set these events; `reread`: at SIGHUP. A second one raises StoppedAtOnce in the loop.

    Returns who heeded them before.
    """
    loop = asyncio.get_running_loop()
    told = 0.0

    def heed(number: signal.Signals) -> None:
        nonlocal told
        if number == signal.SIGHUP and reread is not None:
            reread.set()
        elif not told_to_stop.is_set():
            logger.info("stopping", signal=number.name, grace_seconds=grace_seconds)
            told_to_stop.set()
            told = loop.time()
        elif loop.time() - told > SAME_MOMENT_SECONDS:
            logger.warning("stopping_at_once", signal=number.name)
            raise StoppedAtOnce(128 + number)

    def receive(number: int, _frame: FrameType | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the daemon has stopped
            loop.call_soon_threadsafe(heed, signal.Signals(number))

    # Not add_signal_handler: at the end of the loop it would give the signals back, and one that comes then would end
    # the process before its Postgres is stopped.
    heeded = (signal.SIGTERM, signal.SIGINT, *((signal.SIGHUP,) if reread is not None else ()))
    return {number: signal.signal(number, receive) for number in heeded}


@contextmanager
def signals_heeded(
    told_to_stop: asyncio.Event, *, grace_seconds: float, logger: FilteringBoundLogger
) -> Iterator[None]:
    """Inside, signals set the event; afterwards they are whose they were."""
    before = heed_signals(told_to_stop, grace_seconds=grace_seconds, logger=logger)
    try:
        yield
    finally:
        give_back(before)


def heed_no_more(heeded: Iterable[signal.Signals]) -> None:
    """Ignores these signals from now on: the process is already ending in order."""
    for number in heeded:
        signal.signal(number, lambda _number, _frame: None)


def give_back(before: Mapping[signal.Signals, Any]) -> None:
    """Signals are heeded by those who heeded them before."""
    for number, handler in before.items():
        signal.signal(number, handler)
