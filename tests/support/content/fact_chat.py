"""A user who talks, and what reads it for facts, without a daemon."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, cast
from uuid import UUID, uuid4

from daemon.db.pool import Database
from handlers.shared.embedding import Embedding
from handlers.shared.ports import Job
from plugins.facts.facts import FactsHandler
from tests.support.processes.dreamers import Log, thinker
from tests.support.services.openai_server import OpenAIServer

WEDNESDAY = datetime(2026, 11, 11, 10, tzinfo=UTC)

TAKE = """
with taken as (delete from memoryd.jobs where topic = $1 returning id, topic, lane, ref, payload, attempt, created_at)
select * from taken order by id
"""
SETTING = """
insert into memoryd.settings (key, value) values ('facts', $1) on conflict (key) do update set value = excluded.value
"""
INSERT = """
insert into conversation_messages (session_id, user_id, agent_id, role, content, created_at)
values ($1, $2, 'alice', $3, $4, $5)
returning id
"""
CURRENT = """
select content from agent_memory where user_id = $1 and superseded_by is null and valid_to is null order by content
"""
QUEUE = "select memoryd.queue_stretches(16, '0 seconds')"


class NoEmbedding:
    """An embedder that never answers: what is remembered is found by words."""

    async def if_possible(self, _texts: object, *, asked: bool = False) -> dict[Any, Any]:
        """Nothing."""
        assert asked
        return {}


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


def add(text: str, *evidence: str, **more: object) -> dict[str, object]:
    """An operation that adds a fact."""
    return {
        "text": text,
        "about": "user",
        "valid_from": None,
        "valid_to": None,
        "evidence": list(evidence),
    } | more


def supersede(memory: str, text: str, *evidence: str) -> dict[str, object]:
    """An operation that replaces a memory."""
    return {"id": memory, "text": text, "evidence": list(evidence)}


def end(memory: str, *evidence: str) -> dict[str, object]:
    """An operation that ends a memory."""
    return {"id": memory, "evidence": list(evidence)}


def reply(**operations: Sequence[object]) -> str:
    """A language model's reply: lists of operations, and `names` as pairs of name and kind."""
    lists: dict[str, object] = {"add": [], "supersede": [], "end": [], "names": []}
    names = [
        {"name": one[0], "kind": one[1]} if isinstance(one, tuple) else one
        for one in operations.pop("names", ())
    ]
    return json.dumps(lists | operations | {"names": names})


def shown(request: dict[str, Any]) -> dict[str, Any]:
    """The conversation that a request shows."""
    text = request["messages"][1]["content"]
    found: dict[str, Any] = json.loads(
        text.removeprefix("<conversation>\n").removesuffix("\n</conversation>")
    )
    return found


def id_of(request: dict[str, Any], word: str) -> str:
    """The short id of the memory that has this word."""
    [found] = [one["id"] for one in shown(request)["memories"] if word in one["text"]]
    return str(found)


class Chat:
    """A user who talks, and the handler that reads it; without a provider nothing is read."""

    def __init__(
        self,
        database: Database,
        provider: OpenAIServer | None = None,
        log: Log | None = None,
        *,
        calls: int | None = None,
    ) -> None:
        self.database = database
        self.provider = provider
        self.user = uuid4()
        self.session = uuid4()
        self.log = log or Log()
        self.facts = FactsHandler(
            reader=database,
            embedding=cast("Embedding", NoEmbedding()),
            thinker=None if provider is None else thinker(database, provider, self.log, calls=calls),
            logger=self.log.logger,
        )

    async def write(
        self, *texts: str, role: str = "user", at: datetime = WEDNESDAY, session: UUID | None = None
    ) -> list[UUID]:
        """Messages, which are not read yet. Returns their ids."""
        wanted = "off" if self.provider is None else "model"
        await self.database.execute(SETTING, json.dumps(wanted))
        ids = []
        for text in texts:
            [row] = await self.database.fetch(INSERT, session or self.session, self.user, role, text, at)
            ids.append(row["id"])
        return ids

    async def say(
        self, text: str, answer: str | Callable[[dict[str, Any]], str] = "", *, at: datetime = WEDNESDAY
    ) -> UUID:
        """A message, which is read at once, and what the model answers. Returns the message's id."""
        [message] = await self.write(text, at=at)
        await self.read(answer)
        return message

    async def read(self, answer: str | Callable[[dict[str, Any]], str] = "") -> None:
        """Reads what is unread, as workers do after a pause."""
        if self.provider is not None:
            self.provider.chat = answer if callable(answer) else lambda _: answer or reply()
        await self.database.execute(QUEUE)
        while jobs := jobs_of(await self.database.fetch(TAKE, "facts")):
            commit = await self.facts.prepare(jobs)
            async with self.database.transaction() as connection:
                await commit(connection, jobs)

    async def thinks(self, answer: str | Callable[[dict[str, Any]], str]) -> Callable[[], Awaitable[None]]:
        """Has the model answer about what is unread; returns what writes the effects."""
        assert self.provider is not None
        self.provider.chat = answer if callable(answer) else lambda _: answer
        await self.database.execute(QUEUE)
        jobs = jobs_of(await self.database.fetch(TAKE, "facts"))
        commit = await self.facts.prepare(jobs)

        async def write() -> None:
            async with self.database.transaction() as connection:
                await commit(connection, jobs)

        return write

    async def known(self) -> list[str]:
        """The memories of the user that stand."""
        return [row["content"] for row in await self.database.fetch(CURRENT, self.user)]

    @property
    def left_out(self) -> dict[str, int]:
        """The operations of the last stretch that did not hold."""
        found: dict[str, int] = self.log.values("conversation_read")[-1]["left_out"]
        return found
