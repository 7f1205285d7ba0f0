"""ask_memory() with a remote model: a daemon embeds the question, else it is compared by its words; the answer says which."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg

from daemon.upkeep import EXPIRE_ANSWERS
from tests.faults.test_any_model import DIMENSIONS, Model
from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.access.refusals import refused
from tests.support.database.schemas import apply, connected
from tests.support.processes.daemons import Daemons
from tests.support.rows import insert, remember
from tests.support.services.openai_server import HANG, Fault
from tests.support.waiting import IDLE, until

QUESTION = "automobile repaired garage"
NEAR = "the car was mended at the workshop"
SERVICE: dict[str, Any] = {"user": None, "role": "memoryd_service"}
LEFT = "select count(*) from memory_requests where kind = 'embed'"
ALIVE = "select count(*) from memoryd.daemons d where exists (select from pg_stat_get_activity(d.backend))"


async def test_a_daemon_embeds_the_question_or_the_words_answer(empty_url: str, tmp_path: Path) -> None:
    await apply(empty_url, dimensions=DIMENSIONS, embedder="openai/made-up")
    daemons = Daemons(empty_url, tmp_path)
    with Model(common=0.0, noise=0.0) as model:
        try:
            async with connected(empty_url) as connection:
                await start(daemons, model)
                await remember(connection, NEAR, user_id=ANN, memory_type="task_memory", kind="fact")
                await remember(connection, "violin lessons happen weekly", user_id=ANN, kind="fact")
                await until(connection, IDLE)
                await a_question_without_a_common_word_finds_by_meaning(connection, model)
                await a_request_is_its_askers_alone(connection)
                await a_model_that_does_not_answer_leaves_the_words(connection, model)
                await without_a_daemon_nothing_is_left(connection, model, daemons)
        finally:
            model.heal()
            await daemons.kill_all()


async def start(daemons: Daemons, model: Model) -> None:
    """A daemon that asks the model."""
    settings: dict[str, Any] = {"embedding_dimensions": DIMENSIONS, "openai_base_url": model.base_url}
    await daemons.start(embedder="openai/made-up", **settings)


async def ask(connection: asyncpg.Connection, kind: str = "recall", **given: object) -> dict[str, Any]:
    """One call; of its answer what it found, and how."""
    given = {"query": QUESTION, **given}
    names = ", ".join(f"{name} => ${n}" for n, name in enumerate(given, 2))
    answer = await connection.fetchval(f"select ask_memory($1, {names})", kind, *given.values())
    return {key: value for key, value in json.loads(answer).items() if key != "recall_id"}


async def asked(
    connection: asyncpg.Connection, who: dict[str, Any], kind: str = "recall", **given: object
) -> dict[str, Any]:
    """Both calls, as a client makes them."""
    async with acting_as(connection, **who):
        first = await ask(connection, kind, **given)
    if "request" not in first:
        return first
    async with acting_as(connection, **who):
        return await ask(connection, kind, **given, request=UUID(first["request"]))


async def a_question_without_a_common_word_finds_by_meaning(
    connection: asyncpg.Connection, model: Model
) -> None:
    """Its first row shares no word with it; what is called directly finds nothing."""
    found = await asked(connection, {"user": ANN})
    assert (found["by"], [r["content"] for r in found["result"]][:1]) == ("meaning", [NEAR])
    assert found["result"][0]["similarity"] > 0.9
    found = await asked(connection, SERVICE, user_id=ANN)
    assert (found["by"], [r["content"] for r in found["result"]][:1]) == ("meaning", [NEAR])
    found = await asked(connection, {"user": ANN}, "read", options='{"memory_type": "task_memory"}')
    assert (found["by"], [r["content"] for r in found["result"]]) == ("meaning", [NEAR])
    found = await asked(connection, {"user": ANN}, "context", agent_id="alice", query=f"plan: {QUESTION}")
    assert (found["by"], NEAR in found["result"]) == ("meaning", True)
    assert len([t for t in model.texts if t == QUESTION]) == 1
    # Called directly, the functions have words alone, and say so.
    async with acting_as(connection, ANN):
        assert await connection.fetch("select * from recall($1)", QUESTION) == []
        read = json.loads(await connection.fetchval('select "agent-memory-read"($1)', QUESTION))
    assert read == {"results": [], "by": "words"}
    assert await connection.fetchval(LEFT) == 0
    # A blank question is not asked of a model; and no kind is guessed.
    assert await asked(connection, {"user": ANN}, query=" ") == {"by": "words", "result": []}
    assert (await refused(connection, "select ask_memory('erase', 'x')"))[:2] == (
        "22023",
        "unknown kind 'erase'",
    )


async def a_request_is_its_askers_alone(connection: asyncpg.Connection) -> None:
    """And is used once."""
    async with acting_as(connection, ANN):
        request = UUID((await ask(connection))["request"])
    for other in ({"user": BOB}, SERVICE):
        async with acting_as(connection, **other):
            assert await ask(connection, request=request) == {"by": "words", "result": []}
    async with acting_as(connection, ANN):
        assert (await ask(connection, request=request))["by"] == "meaning"
        assert (await ask(connection, request=request))["by"] == "words"
    # Requests of other kinds are no questions to embed, and stay.
    recall = await insert(
        connection, "memory_requests", {"kind": "recall", "query": QUESTION, "user_id": ANN}
    )
    async with acting_as(connection, ANN):
        assert (await ask(connection, request=recall))["by"] == "words"
    assert await connection.fetchval("select exists (select from memory_requests where id = $1)", recall)
    assert await connection.fetchval(LEFT) == 0


async def a_model_that_does_not_answer_leaves_the_words(connection: asyncpg.Connection, model: Model) -> None:
    """It hangs, or fails."""
    for fault in (HANG, Fault.status(500)):
        model.always = fault
        found = await asked(connection, {"user": ANN}, query="the workshop that opens late")
        assert (found["by"], [r["content"] for r in found["result"]]) == ("words", [NEAR])
        assert found["result"][0]["similarity"] is None
    model.heal()


async def without_a_daemon_nothing_is_left(
    connection: asyncpg.Connection, model: Model, daemons: Daemons
) -> None:
    """It is killed while it is asked; later one starts."""
    async with acting_as(connection, ANN):
        given_up = await ask(connection, query="where is the violin?")
    await daemons.kill_all()
    async with acting_as(connection, ANN):
        request = await insert(
            connection, "memory_requests", {"kind": "embed", "query": QUESTION, "user_id": ANN}
        )
    async with acting_as(connection, ANN):
        assert (await ask(connection, request=request)) == {"by": "words", "result": []}
    await until(connection, f"select ({ALIVE}) = 0")
    found = await asked(connection, {"user": ANN}, query="the workshop")
    assert (found["by"], [r["content"] for r in found["result"]]) == ("words", [NEAR])
    assert await connection.fetchval(f"{LEFT} and id <> $1", UUID(given_up["request"])) == 0
    # Nobody waits for these: they are not paid for, and go.
    before = len(model.texts)
    await connection.execute(
        "insert into memory_requests (kind, query, user_id, created_at) "
        "select 'embed', 'old question ' || n, $1, now() - interval '2 minutes' from generate_series(1, 9) n",
        ANN,
    )
    await start(daemons, model)
    await until(connection, IDLE)
    assert model.texts[before:] == []
    await connection.execute("update memory_requests set created_at = now() - interval '2 minutes'")
    await connection.fetch(EXPIRE_ANSWERS, 100)
    assert await connection.fetchval(LEFT) == 0
