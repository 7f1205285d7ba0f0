"""Who is compared, and the run: each is filled, one after the other; then every question is asked of all in turns.

In turns, so that what else the machine does slows all of them alike.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import asyncpg

from benchmarks.peers import systems
from benchmarks.peers.contrib import trigrams
from benchmarks.peers.environments import SOURCE, CannotInstall, prepare
from benchmarks.peers.hybrid import hybrid
from benchmarks.peers.measure import Answer, System, Tally, Text
from benchmarks.search.bodies import Asked, Body

FOREIGN = 50
"""Questions of each set that are asked of somebody else's rows."""
Made = dict[str, list[tuple[Body, list[list[Text]]]]]
"""Bodies and their rows in batches, by set."""
Figures = dict[str, Any]
"""Of one line of the table; `failed` says why there are none."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One that is compared."""

    title: str
    requirements: tuple[str, ...] = ()
    module: str | None = None
    """What runs in its environment."""
    trigrams: bool = False
    """Whether its database has to have pg_trgm."""


ENTRIES = {
    "memoryd": Entry("memoryd", (str(SOURCE),)),
    "hybrid": Entry("Supabase's hybrid search"),
    "langgraph": Entry(
        "LangGraph PostgresStore 3.2.0",
        ("langgraph-checkpoint-postgres==3.2.0", "psycopg[binary]==3.3.9"),
        "with_langgraph",
    ),
    "mem0": Entry("mem0 2.2.1", ("mem0ai==2.2.1", "psycopg[binary,pool]==3.3.9"), "with_mem0"),
    "hindsight": Entry("hindsight 1.1.0", ("hindsight-api-slim==1.1.0",), "with_hindsight", trigrams=True),
}


@dataclass(slots=True)
class Run:
    """One that is compared, while it is."""

    entry: Entry
    installed: Figures = field(default_factory=dict)
    system: System | None = None
    rate: float = 0.0
    tallies: dict[str, Tally] = field(default_factory=dict)
    failed: str | None = None

    async def start(
        self, name: str, url: str, cache: Path, embeddings_url: str, stack: AsyncExitStack
    ) -> None:
        """Installs and opens it. Raises CannotInstall, CannotRun."""
        opened: AbstractAsyncContextManager[System] = hybrid(url)
        if self.entry.requirements:
            environment = await prepare(cache, name, self.entry.requirements)
            self.installed = {"packages": environment.packages, "disk_mb": round(environment.megabytes)}
            opened = systems.memoryd(url)
            if self.entry.trigrams:
                await stack.enter_async_context(trigrams(url, cache))
            if self.entry.module:
                opened = systems.peer(
                    self.entry.title, self.entry.module, environment.python, url, embeddings_url
                )
        self.system = await stack.enter_async_context(opened)
        self.tallies = {way: Tally() for way in self.system.ways}

    async def fill(self, made: Made, url: str) -> None:
        """Writes all rows, and waits until they can be found."""
        assert self.system is not None
        batches = [batch for bodies in made.values() for _, found in bodies for batch in found]
        began = time.perf_counter()
        for batch in batches:
            await self.system.write(batch)
        await self.system.settle()
        self.rate = sum(map(len, batches)) / (time.perf_counter() - began)
        connection = await asyncpg.connect(url)
        await connection.execute("vacuum analyze")
        await connection.close()

    async def ask(self, question: Asked, body: Body) -> dict[str, Answer]:
        """What comes, by way to ask; nothing of one that failed, now or before."""
        answers: dict[str, Answer] = {}
        if self.failed is None and self.system is not None:
            try:
                for way, ask in self.system.ways.items():
                    answers[way] = await ask(question.text, body.user)
            except systems.CannotRun as problem:
                self.failed = str(problem)
        return answers

    def lines(self) -> list[Figures]:
        """Of the table."""
        if self.failed is not None or self.system is None:
            return [{"system": self.entry.title, **self.installed, "failed": self.failed}]
        memory = systems.resident(self.system.pid)
        rest = {"resident_mb": memory and round(memory), **self.installed}
        return [
            {"system": way, "rows_s": round(self.rate), **tally.figures(), **rest}
            for way, tally in self.tallies.items()
        ]


async def compare(
    names: Sequence[str], server_url: str, embeddings_url: str, cache: Path, made: Made
) -> list[Figures]:
    """The lines of all; of one that cannot be measured, why."""
    runs = []
    async with AsyncExitStack() as stack:
        for name in names:
            url = server_url if name == "memoryd" else await make_database(server_url, f"peer_{name}")
            runs.append(run := Run(ENTRIES[name]))
            try:
                await run.start(name, url, cache, embeddings_url, stack)
                await run.fill(made, url)
            except (CannotInstall, systems.CannotRun) as problem:
                run.failed = str(problem)
        await ask_in_turns(runs, made)
        return [line for run in runs for line in run.lines()]


async def ask_in_turns(runs: Sequence[Run], made: Made) -> None:
    """Each question of all; then some of each set of users whose rows do not answer them."""
    every = [body for bodies in made.values() for body, _ in bodies]
    stranger = {body.user: other for body, other in pairwise([*every, every[0]])}
    for name, bodies in made.items():
        asked = [(question, body) for body, _ in bodies for question in body.questions]
        for question, body in asked:
            for run in runs:
                for way, answer in (await run.ask(question, body)).items():
                    run.tallies[way].add(name, answer, question.evidence)
        for question, body in asked[:: max(1, len(asked) // FOREIGN)]:
            for run in runs:
                for way, answer in (await run.ask(question, stranger[body.user])).items():
                    run.tallies[way].add_foreign(answer)


async def make_database(server_url: str, name: str) -> str:
    """An empty database of that server: its URL."""
    connection = await asyncpg.connect(server_url)
    await connection.execute(f"create database {name} template template0")
    # Else an HNSW index brings the 40 nearest rows of all users, of which few are the user's who asks.
    await connection.execute(f"alter database {name} set hnsw.iterative_scan = strict_order")
    await connection.close()
    url = server_url.replace("/memoryd?", f"/{name}?")
    connection = await asyncpg.connect(url)
    await connection.execute("create extension if not exists vector")
    await connection.close()
    return url
