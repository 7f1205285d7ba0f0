"""A language model says where the chunks of a document stand: after they can be found, once, within the budget."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from daemon.db.pool import Database
from handlers.shared.ports import Handler, Job
from plugins.documents.document import DocumentHandler
from plugins.documents.situate import SituateHandler
from providers.ports import UnavailableError
from tests.support.processes.dreamers import Log, thinker
from tests.support.rows import column, insert
from tests.support.services.openai_server import OpenAIServer

PARTS = [f"## Part {n}\n\n" + f"Sentence {n} says something about subject{n}. " * 20 for n in range(12)]
CONTEXTS = "select context from memory_chunks order by chunk_index"
JOBS = "select topic from memoryd.jobs where topic in ('document', 'situate') order by id"
TAKE = """
delete from memoryd.jobs where id = (select min(id) from memoryd.jobs where topic = $1)
returning id, topic, ref, attempt, created_at
"""


def sentences(request: dict[str, Any]) -> str:
    """A sentence for each chunk that was shown."""
    body = request["messages"][1]["content"].removeprefix("<document>\n").removesuffix("\n</document>")
    chunks = json.loads(body)["chunks"]
    said = [{"index": one["index"], "sentence": f"Of the handbook: {one['text'][:9]}"} for one in chunks]
    return json.dumps({"sentences": said})


@pytest.fixture
def provider() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        server.chat = sentences
        yield server


@pytest.fixture
async def log() -> AsyncIterator[Log]:
    log = Log()
    yield log
    for model in log.models:
        await model.close()


async def work(database: Database, topic: str, handler: Handler) -> None:
    """Does the first job of a topic as a worker does."""

    [row] = await database.fetch(TAKE, topic)
    job = Job(row["id"], row["topic"], None, row["ref"], None, row["attempt"], 0, row["created_at"])
    try:
        commit = await handler.prepare([job])
    except UnavailableError:
        await database.execute("insert into memoryd.jobs (topic, ref) values ($1, $2)", topic, job.ref)
        raise
    async with database.transaction() as connection:
        await commit(connection, [job])


async def write(connection: asyncpg.Connection, parts: list[str]) -> UUID:
    return await insert(
        connection, "documents", {"title": "Handbook", "content": "\n\n".join(parts), "status": "processing"}
    )


async def test_chunks_are_found_before_the_model_has_said_where_they_stand_and_asked_about_once(
    connection: asyncpg.Connection, database: Database, provider: OpenAIServer, log: Log
) -> None:
    cut = DocumentHandler(reader=database, situate=True)
    situate = SituateHandler(reader=database, thinker=thinker(database, provider, log))
    document = await write(connection, PARTS)
    await work(database, "document", cut)
    assert await column(connection, "select status from documents") == ["active"]
    by_rule = await column(connection, CONTEXTS)
    assert len(by_rule) == 12

    await work(database, "situate", situate)
    assert await column(connection, JOBS) == []
    assert len(provider.requests) == 2
    with_model = await column(connection, CONTEXTS)
    assert with_model == [
        f"{rule}\nOf the handbook: Handbook"
        if n < 0
        else f"{rule}\nOf the handbook: Part {n} >"[: len(str(rule)) + 27]
        for n, rule in enumerate(by_rule)
    ]
    assert await connection.fetchval(
        "select bool_and(exists (select from memoryd.jobs j where j.ref = c.id and j.topic = 'index')) from memory_chunks c"
    )

    # Of a document that is cut again, only what is new is asked about.
    changed = [
        *PARTS[:5],
        "## Inserted\n\n" + "A new rule about visitors and their badges. " * 20,
        *PARTS[5:],
    ]
    await connection.execute(
        "update documents set content = $2 where id = $1", document, "\n\n".join(changed)
    )
    provider.requests.clear()
    await work(database, "document", cut)
    await work(database, "situate", situate)
    [request] = provider.requests
    assert len(json.loads(sentences(request))["sentences"]) == 1
    assert await connection.fetchval("select count(*) from memory_chunks where situation is null") == 0
    contexts = [str(one) for one in await column(connection, CONTEXTS)]
    assert [one.count("Of the handbook") for one in contexts] == [1] * 13


async def test_without_a_useful_reply_the_rules_context_stands_and_is_not_asked_about_again(
    connection: asyncpg.Connection, database: Database, provider: OpenAIServer, log: Log
) -> None:
    situate = SituateHandler(reader=database, thinker=thinker(database, provider, log))
    await write(connection, PARTS[:2])
    await work(database, "document", DocumentHandler(reader=database, situate=True))
    by_rule = await column(connection, CONTEXTS)
    provider.chat = lambda _: json.dumps({"sentences": [{"index": 99, "sentence": "of another chunk"}]})
    await work(database, "situate", situate)
    assert await column(connection, CONTEXTS) == by_rule
    assert await column(connection, JOBS) == []
    assert len(provider.requests) == 2


async def test_chunks_wait_for_the_budget_of_the_next_hour_and_what_was_said_is_kept(
    connection: asyncpg.Connection, database: Database, provider: OpenAIServer, log: Log
) -> None:
    situate = SituateHandler(reader=database, thinker=thinker(database, provider, log, calls=1))
    await write(connection, PARTS)
    await work(database, "document", DocumentHandler(reader=database, situate=True))
    await work(database, "situate", situate)
    assert await connection.fetchval("select count(situation) from memory_chunks") == 8
    with pytest.raises(UnavailableError) as caught:
        await work(database, "situate", situate)
    assert caught.value.retry_in > 0
    assert not caught.value.asked
    await database.execute(
        "update memoryd.settings set value = value || "
        "jsonb_build_object('hour', (value ->> 'hour')::timestamptz - interval '1 hour') "
        "where key = 'model_calls'"
    )
    await work(database, "situate", situate)
    assert await connection.fetchval("select count(situation) from memory_chunks") == 12
    assert len(provider.requests) == 2


async def test_a_document_that_changes_or_goes_while_the_model_thinks_keeps_nothing_of_it(
    connection: asyncpg.Connection, database: Database, provider: OpenAIServer, log: Log
) -> None:
    """And where there is no model any more, the job is done with nothing."""
    document = await write(connection, PARTS[:2])
    await work(database, "document", DocumentHandler(reader=database, situate=True))
    situate = SituateHandler(reader=database, thinker=thinker(database, provider, log))
    [row] = await database.fetch(TAKE, "situate")

    job = Job(row["id"], "situate", None, document, None, 1, 0, row["created_at"])
    commit = await situate.prepare([job])
    await connection.execute("update memory_chunks set chunk_text = 'other' where chunk_index = 0")
    async with database.transaction() as writing:
        await commit(writing, [job])
    said = "select situation is not null from memory_chunks order by chunk_index"
    assert await column(connection, said) == [False, True]
    await connection.execute("delete from documents")
    await (await situate.prepare([job]))(connection, [job])
    nobody = SituateHandler(reader=database, thinker=None)
    await (await nobody.prepare([job]))(connection, [job])
