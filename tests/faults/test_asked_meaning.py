"""ask_memory() with a remote model: a daemon embeds the question, else it is compared by its words; the answer says which."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from langgraph.store.base import Op, PutOp, SearchOp
from memoryd_client.langgraph import MemorydStore

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
                await a_store_of_langgraph_finds_by_meaning(empty_url, connection)
                await a_request_is_its_askers_alone(connection)
                await a_long_question_and_strange_ones_are_answered(connection)
                await a_model_that_does_not_answer_leaves_the_words(connection, model)
                await many_callers_wait_no_longer_than_one(empty_url, connection, model)
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
    found = await asked(connection, SERVICE, "prompt", user_id=ANN, agent_id="alice")
    assert (found["by"], [r["content"] for r in found["result"]][:1]) == ("meaning", [NEAR])
    found = await asked(connection, {"user": ANN}, "read", options='{"memory_type": "task_memory"}')
    assert (found["by"], [r["content"] for r in found["result"]]) == ("meaning", [NEAR])
    found = await asked(connection, {"user": ANN}, "context", agent_id="alice", query=f"plan: {QUESTION}")
    assert (found["by"], NEAR in found["result"]) == ("meaning", True)
    found = await asked(connection, {"user": ANN}, "explain_recall")
    assert (found["by"], found["result"][0]["content"], found["result"][0]["left_out"]) == (
        "meaning",
        NEAR,
        None,
    )
    found = await asked(connection, {"user": ANN}, "explain_context", agent_id="alice")
    assert (found["by"], [NEAR in r["detail"] for r in found["result"] if r["shown"]][-1]) == (
        "meaning",
        True,
    )
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


async def a_store_of_langgraph_finds_by_meaning(url: str, connection: asyncpg.Connection) -> None:
    """In one batch two searches, each by its meaning; what the batch writes is written once, after them."""
    with MemorydStore(url, agent="store") as store:
        for key, text in (("car", NEAR), ("violin", "violin lessons happen weekly")):
            await store.aput(("x",), key, {"text": text})
        await until(connection, IDLE)
        ops: list[Op] = [
            SearchOp(("x",), query=QUESTION), PutOp(("x",), "new", {"text": "?"}), SearchOp(("x",), limit=1)
        ]  # fmt: skip
        results: list[Any] = await store.abatch(ops)
        assert [(item.key, item.score > 0.3) for item in results[0]] == [("car", True), ("violin", False)]
        assert [item.key for item in results[2]] == ["violin"]
        new = await store.aget(("x",), "new")
        assert new is not None
        assert new.value == {"text": "?"}
        await store.adelete(("x",), "new")
    assert await connection.fetchval(LEFT) == 0


async def a_request_is_its_askers_alone(connection: asyncpg.Connection) -> None:
    """And their question's, and is used once."""
    async with acting_as(connection, ANN):
        request = UUID((await ask(connection))["request"])
    for other in ({"user": BOB}, SERVICE):
        async with acting_as(connection, **other):
            assert await ask(connection, request=request) == {"by": "words", "result": []}
    async with acting_as(connection, ANN):
        assert (await ask(connection, query="violin lessons", request=request))["by"] == "words"
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


async def a_long_question_and_strange_ones_are_answered(connection: asyncpg.Connection) -> None:
    """5 MB in several languages, a word of 5 MB, what no text can hold, signs alone."""
    long = f"{QUESTION} wo steht das Auto? {'где машина? 車はどこ ' * 180_000}"
    for text in (long, "x" * 5_000_000):
        assert (await asked(connection, {"user": ANN}, query=text))["by"] in {"meaning", "words"}
    for signs in ("?!", "\u200b\u200d", "\ufeff \n\t"):
        assert (await asked(connection, {"user": ANN}, query=signs))["result"] == []
    with pytest.raises(asyncpg.CharacterNotInRepertoireError):
        await asked(connection, {"user": ANN}, query="\x00")
    assert await connection.fetchval(LEFT) == 0


async def many_callers_wait_no_longer_than_one(
    url: str, connection: asyncpg.Connection, model: Model
) -> None:
    """While the model hangs: every one gets the answer of the words, and none is left waiting."""
    model.always = HANG

    async def one(number: int) -> tuple[object, bool]:
        async with connected(url) as own:
            found = await asked(own, {"user": ANN}, query=f"the workshop {number}")
        return found["by"], [r["content"] for r in found["result"]] == [NEAR]

    answers = await asyncio.gather(*(one(number) for number in range(40)))
    assert answers == [("words", True)] * 40
    model.heal()
    await until(connection, IDLE)
    # Those that the daemon had in hand when their callers gave up are there until they are old.
    await connection.execute("update memory_requests set created_at = now() - interval '2 minutes'")
    await connection.fetch(EXPIRE_ANSWERS, 100)
    assert await connection.fetchval(LEFT) == 0
    found = await asked(connection, {"user": ANN})
    assert (found["by"], [r["content"] for r in found["result"]][:1]) == ("meaning", [NEAR])


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
    # The one above is not yet old: it may have been in the killed daemon's hands.
    assert [text for text in model.texts[before:] if "old question" in text] == []
    await connection.execute("update memory_requests set created_at = now() - interval '2 minutes'")
    await connection.fetch(EXPIRE_ANSWERS, 100)
    assert await connection.fetchval(LEFT) == 0
