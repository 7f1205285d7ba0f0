"""How many sequences of steps the tests of the replica play, and how long they are.

Usually a few short ones, always the same. With REPLICA_SEQUENCES so many, other ones each time; with REPLICA_STEPS long ones,
until so many steps were played, and each fourth of them ends with a daemon that is killed at every step that it takes.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from daemon.db.pool import Database
from tests.support.processes.workers import open_database
from tests.support.replica.passes import Replicated

STEPS = int(os.environ.get("REPLICA_STEPS", "0"))
SHORT, LONG = (5, 12), (40, 60)
"""Steps of a sequence: at least, and at most."""
MAX_KILLS = 400

Sequence = list[tuple[Any, ...]]


def number(usual: int) -> int:
    """How many sequences; `usual`: in each run of the tests."""
    if STEPS:
        return max(2 * STEPS // sum(LONG), 1)
    return int(os.environ.get("REPLICA_SEQUENCES", str(usual)))


def run(
    database_url: str,
    steps: st.SearchStrategy[tuple[Any, ...]],
    play: Callable[[Database, Sequence], Coroutine[Any, Any, None]],
    *,
    examples: int,
) -> None:
    """Plays so many sequences, each on the same database."""
    shortest, longest = LONG if STEPS else SHORT
    played: list[int] = []
    with asyncio.Runner() as runner:
        context = open_database(database_url)
        database = runner.run(context.__aenter__())

        @given(sequence=st.lists(steps, min_size=shortest, max_size=longest))
        @settings(
            max_examples=examples,
            deadline=None,
            derandomize=not {"REPLICA_SEQUENCES", "REPLICA_STEPS"} & os.environ.keys(),
            suppress_health_check=list(HealthCheck),
            database=None,
            print_blob=False,
            phases=(Phase.generate,),
        )
        def converge(sequence: Sequence) -> None:
            runner.run(play(database, sequence))
            played.append(len(sequence))

        try:
            converge()
        finally:
            runner.run(context.__aexit__(None, None, None))
            if STEPS:
                sys.stdout.write(f"\n{sum(played)} steps in {len(played)} sequences\n")


async def kill_at_every_step(sequence: Sequence, start: Callable[[], Replicated]) -> None:
    """After long sequences: daemons that are killed at their first step, at their second one, and so on, until one is done."""
    if STEPS and len(sequence) % 4 == 0:
        step = 0
        while await start().killed_at(step) and step < MAX_KILLS:
            step += 1
