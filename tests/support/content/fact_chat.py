"""A user who talks, and what finds facts and names in what they say, without a daemon."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

from daemon.db.pool import Database
from handlers.facts import FactsHandler
from handlers.shared.fact_finders import ModelFinder, RuleFinder
from handlers.shared.ports import Job
from tests.support.processes.dreamers import Log, thinker
from tests.support.services.openai_server import OpenAIServer

WEDNESDAY = datetime(2026, 11, 11, 10, tzinfo=UTC)

TAKE = """
with taken as (delete from memoryd.jobs where topic = 'facts' returning id, topic, lane, ref, payload, attempt, created_at)
select * from taken order by id
"""
INSERT = """
insert into conversation_messages (session_id, user_id, agent_id, role, content, created_at)
values ($1, $2, 'alice', 'user', $3, $4)
returning id
"""
CURRENT = "select content from agent_memory where user_id = $1 and superseded_by is null order by content"


def jobs_of(rows: Sequence[Any]) -> list[Job]:
    """Rows of memoryd.jobs as a worker claims them."""
    return [
        Job(
            r["id"],
            r["topic"],
            r["lane"],
            r["ref"],
            json.loads(r["payload"] or "null"),
            1,
            0,
            r["created_at"],
        )
        for r in rows
    ]


def reply(
    *facts: tuple[str, str, str] | tuple[str, str, str, str], names: Sequence[tuple[str, str]] | None = None
) -> str:
    """A language model's reply."""
    keys = ("attribute", "value", "sentence", "last_day")
    said: dict[str, object] = {"facts": [dict(zip(keys, (*one, None), strict=False)) for one in facts]}
    if names is not None:
        said["names"] = [{"name": name, "kind": kind} for name, kind in names]
    return json.dumps(said)


class Chat:
    """A user who talks, and a handler that asks the model."""

    def __init__(
        self,
        database: Database,
        provider: OpenAIServer | None = None,
        log: Log | None = None,
        *,
        calls: int | None = None,
    ) -> None:
        """Without a provider by rules alone."""
        self.database = database
        self.provider = provider
        self.user = uuid4()
        self.session = uuid4()
        self.handler = FactsHandler(
            reader=database,
            finder=RuleFinder()
            if provider is None or log is None
            else ModelFinder(thinker(database, provider, log, calls=calls)),
        )

    async def say(self, text: str, answer: str = "", *, at: datetime = WEDNESDAY) -> UUID:
        """A message, which is read as a worker does, and what the model answers. Returns the message's id."""
        if answer and self.provider is not None:
            self.provider.chat = lambda _: answer
        [row] = await self.database.fetch(INSERT, self.session, self.user, text, at)
        await self.read()
        message: UUID = row["id"]
        return message

    async def read(self) -> None:
        """Does the jobs that wait."""
        jobs = jobs_of(await self.database.fetch(TAKE))
        commit = await self.handler.prepare(jobs)
        async with self.database.transaction() as connection:
            await commit(connection, jobs)

    async def known(self) -> list[str]:
        """The memories of the user that stand."""
        return [row["content"] for row in await self.database.fetch(CURRENT, self.user)]
