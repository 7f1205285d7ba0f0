"""How many sequences of steps the tests of the replica play, and how long they are.

Usually a few short ones, always the same. With REPLICA_SEQUENCES so many, other ones each time; with REPLICA_STEPS long ones,
until so many steps were played, and each fourth of them ends with a daemon that is killed at every step that it takes.
REPLICA_SEED plays the ones of an earlier run again, which told its seed.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from daemon.db.pool import Database
from tests.support.processes.workers import open_database
from tests.support.replica.passes import Replicated

STEPS = int(os.environ.get("REPLICA_STEPS", "0"))
IS_USUAL = not {"REPLICA_SEQUENCES", "REPLICA_STEPS"} & os.environ.keys()
SEED = int(os.environ.get("REPLICA_SEED", "0" if IS_USUAL else secrets.randbelow(2**32)))
SHORT, LONG = (5, 12), (40, 60)
"""Steps of a sequence: at least, and at most."""
MAX_KILLS = 400

Sequence = list[tuple[Any, ...]]


@dataclass(slots=True, kw_only=True)
class Texts:
    """What people and agents wrote, each text as `<1>`, and what of it nobody has replaced who saw it."""

    alive: set[str] = field(default_factory=set)
    number: int = 0
    began: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    """By text that a person wrote: what the file, or its section, said that it began from."""
    origins: dict[tuple[Any, ...], str] = field(default_factory=dict)
    """The texts that files name so."""
    opened: tuple[Any, str] | None = None
    """A file that a program has open, and its text: whatever becomes of the file, that is saved."""
    covered: str = ""
    """What was in files over which a program saved what it had open, since memoryd last looked.

    Who deletes or moves such a file, or deletes what it says of itself, deletes what memoryd wrote into it last.
    """

    def text(self) -> str:
        """A new text."""
        self.number += 1
        self.alive.add(f"<{self.number}>")
        return f"<{self.number}>"

    def changed(self, text: str, *, began: tuple[Any, ...]) -> str:
        """What a person makes of a text."""
        for one in texts(text):
            if self.began.get(one) != began:
                self.origins[began] = one
        self.replaced(text)
        new = self.text()
        self.began[new] = began
        return re.sub(r"<\d+>", new, text)

    def replaced(self, text: str | None) -> None:
        """Somebody saw this text and replaced or deleted it."""
        self.alive -= set(texts(text))

    def later_stands(self, written: str, *, there: str) -> None:
        """A person has written a file. Of persons who began from the same text the later save stands.

        They have seen it, also where somebody brought it back since. `there`: what is in all files now.
        """
        began = {self.began[one] for one in texts(written) if one in self.began} - {()}
        over = {one for one in self.alive if self.began.get(one) in began}
        over |= {self.origins[one] for one in began if one in self.origins}
        self.alive -= over - set(texts(there))


def texts(text: str | None) -> list[str]:
    """Those that it contains."""
    return re.findall(r"<\d+>", text or "")


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

        @seed(SEED)
        @given(sequence=st.lists(steps, min_size=shortest, max_size=longest))
        @settings(
            max_examples=examples,
            deadline=None,
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
                sys.stdout.write(f"\n{sum(played)} steps in {len(played)} sequences, REPLICA_SEED={SEED}\n")


async def kill_at_every_step(sequence: Sequence, start: Callable[[], Replicated]) -> None:
    """After long sequences: daemons that are killed at their first step, at their second one, and so on, until one is done."""
    if STEPS and len(sequence) % 4 == 0:
        step = 0
        while await start().killed_at(step) and step < MAX_KILLS:
            step += 1
