"""A plugin of memoryd: tells a server of yours about each command that failed."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import ClassVar

import typer
from pydantic import BaseModel, Field

from daemon.cli.common import settings_or_exit
from daemon.cli.failure import Failure, sentences
from daemon.plugins import Check, Command, Core, Examination, Plugin
from daemon.queue.topic import Topic
from daemon.schedule import Tick
from handlers.shared.ports import AnyConnection, Commit, Job, Reader

# A job for each command that failed in the last hour and was not told yet.
FIND = """
with made as (
    insert into memoryd.jobs (topic, ref)
    select 'bell', c.id from public.agent_commands c
    where c.status = 'failed' and c.finished_at > now() - interval '1 hour' and not c.metadata ? 'told'
      and not exists (select from memoryd.jobs j where j.topic = 'bell' and j.ref = c.id)
    returning 1
)
select count(memoryd.wake('bell')) from made
"""
READ = "select id, agent_id, error from public.agent_commands where id = any($1)"
MARK = """update public.agent_commands set metadata = metadata || '{"told": true}' where id = any($1)"""


class BellSettings(BaseModel):
    heading: ClassVar = "Bell"

    bell_url: str | None = Field(
        None, description="Address that is told of commands that failed. Empty: none."
    )


class Bell(Plugin):
    name = "bell"
    settings: ClassVar = (BellSettings,)
    commands: ClassVar = {"bell": Command("memoryd_bell:ring")}

    def ticks(self, core: Core) -> Iterable[Tick]:
        """Every five seconds one of the daemons looks for commands that failed."""
        if core.settings.section(BellSettings).bell_url is not None:
            yield Tick("bell", 5.0, lambda: core.database.fetchval(FIND))

    def topics(self, core: Core) -> Iterable[Topic]:
        """What is done with the jobs."""
        url = core.settings.section(BellSettings).bell_url
        if url is not None:
            yield Topic("bell", Handler(url, core.database), batch=16)

    async def checks(self, examination: Examination) -> AsyncIterator[Check]:
        """What memoryd doctor says of it."""
        url = examination.settings.section(BellSettings).bell_url
        yield Check("bell", "ok", "None is set (MEMORYD_BELL_URL)." if url is None else "It is set.")


class Handler:
    """Posts each failure. The slow half has no transaction; the second half runs in the one that completes the jobs."""

    def __init__(self, url: str, reader: Reader) -> None:
        self._url = url
        self._reader = reader

    async def prepare(self, jobs: Sequence[Job]) -> Commit:
        """An exception fails the batch: it is tried again, with a growing pause."""
        for row in await self._reader.fetch(READ, [job.ref for job in jobs]):
            told = {"command": str(row["id"]), "agent": row["agent_id"], "error": row["error"]}
            await asyncio.to_thread(post, self._url, told)

        async def commit(connection: AnyConnection, ours: Sequence[Job]) -> None:
            await connection.execute(MARK, [job.ref for job in ours])

        return commit


def post(url: str, told: dict[str, str | None]) -> None:
    """Raises OSError."""
    body = json.dumps(told).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 - from the settings
    urllib.request.urlopen(request, timeout=10).close()  # noqa: S310


def ring(text: str = typer.Argument("This is a try.", help="What is told.")) -> None:
    """Ring the bell once."""
    url = settings_or_exit(quiet=True).section(BellSettings).bell_url
    with sentences():
        if url is None:
            raise Failure("There is no bell. Set MEMORYD_BELL_URL.")
        post(url, {"command": None, "agent": None, "error": text})
    typer.echo("It was told.")
