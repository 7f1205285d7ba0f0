"""Asking the daemon by a row of memory_requests: answers, clear failures, and a notification for each."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.access.refusals import refused
from tests.support.database.logins import GONE
from tests.support.database.schemas import embedded_by
from tests.support.processes.daemons import Daemons
from tests.support.rows import DIMENSIONS, insert, one_row, remember
from tests.support.services.openai_server import OpenAIServer
from tests.support.waiting import ANSWERED, IDLE, until


async def request(connection: asyncpg.Connection, kind: str, **columns: object) -> UUID:
    """Inserts a request; options as a dictionary."""
    if "options" in columns:
        columns["options"] = json.dumps(columns["options"])
    return await insert(connection, "memory_requests", {"kind": kind, **columns})


async def answer(connection: asyncpg.Connection, kind: str, **columns: object) -> tuple[str, Any, str | None]:
    """Status, result and error of a request, when it has been answered."""
    asked = await request(connection, kind, **columns)
    await until(connection, ANSWERED, asked)
    row = await one_row(connection, "select * from memory_requests where id = $1", asked)
    assert row["finished_at"] >= row["created_at"]
    return row["status"], None if row["result"] is None else json.loads(row["result"]), row["error"]


async def test_a_recall_is_answered_with_the_rows_of_recall(served: asyncpg.Connection) -> None:
    near = await remember(served, "the car engine is in for repair", agent_id="driver", kind="fact")
    paraphrase = await remember(served, "automobile motor fixing", agent_id="driver", kind="fact")
    await remember(served, "tax returns are due in May", agent_id="driver", kind="fact")
    await until(served, IDLE)
    status, result, error = await answer(served, "recall", agent_id="driver", query="car engine repair")
    assert (status, error) == ("done", None)
    assert [UUID(row["id"]) for row in result][:2] == [near, paraphrase]
    assert result[0]["score"] > result[1]["score"]
    assert set(result[0]) == {"source", "id", "content", "score", "similarity", "metadata", "created_at"}
    assert result[0]["content"] == "the car engine is in for repair"
    # Only by words it would at most be found as a neighbour: the daemon gave the query its embedding.
    assert min(row["similarity"] for row in result[:2]) > 0.5


async def test_options_limit_a_recall(served: asyncpg.Connection) -> None:
    for n in range(15):
        kind = "fact" if n % 2 else "goal"
        await remember(
            served, f"lanterns {n}", agent_id="lamplighter", kind=kind, metadata=json.dumps({"n": n})
        )
    ask = {"agent_id": "lamplighter", "query": "lanterns"}
    for options, expected in (
        ({}, 10),
        ({"match_count": 3}, 3),
        ({"match_count": "4"}, 4),
        ({"match_count": None}, 10),
        ({"match_count": 0}, 0),
        # A dream may come in between.
        ({"match_count": 50, "sources": ["memory"]}, 15),
        ({"match_count": 50, "filter": {"kind": "goal"}}, 8),
        ({"filter": {"n": 7}}, 1),
        ({"filter": {"n": 70}}, 0),
        ({"sources": ["memory"]}, 10),
        ({"sources": ["document"]}, 0),
        ({"sources": []}, 0),
        ({"sources": None}, 10),
        ({"filter": None}, 10),
    ):
        status, result, error = await answer(served, "recall", **ask, options=options)
        assert (status, error, len(result)) == ("done", None, expected), options


async def test_a_context_is_answered_with_the_block(served: asyncpg.Connection) -> None:
    memory = await remember(served, "the bees swarm in June", agent_id="beekeeper", kind="fact")
    await until(served, IDLE)
    status, result, _ = await answer(served, "context", agent_id="beekeeper", query="when do bees swarm?")
    assert status == "done"
    assert result.startswith("--- CONTEXT")
    assert "the bees swarm in June" in result
    logged = await one_row(served, "select * from memory_queries where agent_id = 'beekeeper'")
    assert (logged["retrieved_memory_ids"], logged["command_id"]) == ([memory], None)
    assert await answer(served, "context", agent_id="nobody yet", query="anything?") == ("done", "", None)


REFUSED: Sequence[tuple[str, dict[str, object], str]] = (
    (
        "recall",
        {"match_count": -1},
        "match_count is -1. Give how many results you want, a whole number, 0 or more.",
    ),
    ("recall", {"match_count": "many"}, 'match_count is "many". Give how many'),
    ("recall", {"match_count": "-1"}, 'match_count is "-1". Give how many'),
    ("recall", {"match_count": 1.5}, "match_count is 1.5. Give how many"),
    ("recall", {"match_count": True}, "match_count is true. Give how many"),
    ("recall", {"match_count": 10**12}, "match_count is 1000000000000. Give how many"),
    ("recall", {"match_count": "99999999999"}, 'match_count is "99999999999". Give how many'),
    ("recall", {"match_count": [1]}, "match_count is [1]. Give how many"),
    (
        "recall",
        {"sources": ["memory", "web"]},
        "unknown source web. Sources: memory, conversation, document, knowledge, insight.",
    ),
    (
        "recall",
        {"sources": "memory"},
        'sources is "memory". Give an array of names, such as ["memory", "insight"].',
    ),
    ("recall", {"sources": {"memory": True}}, 'sources is {"memory": true}. Give an array'),
    ("recall", {"sources": [None]}, "sources is [null]. Give an array"),
    (
        "recall",
        {"filter": "fact"},
        'filter is "fact". Give an object that the metadata contain, such as {"kind": "fact"}.',
    ),
    (
        "recall",
        {"match_count": 3, "count": 5},
        (
            "unknown option count. Did you mean match_count? Options of a recall: "
            "match_count, sources, filter, project, min_score, "
            "relevant_only, exclude_session, exclude_last, since, until, as_of, asked_at, roles, speakers, around, profile."
        ),
    ),
    ("recall", {"Source": ["memory"]}, "unknown option Source. Did you mean sources? Options of a recall:"),
    ("recall", {"filters": None}, "unknown option filters. Did you mean filter? Options of a recall:"),
    ("recall", {"min_score": 2}, "min_score is 2. Give a score from 0 to 1"),
    ("recall", {"min_score": "0.5"}, 'min_score is "0.5". Give a score'),
    (
        "recall",
        {"zzz": 1},
        (
            "unknown option zzz. Options of a recall: match_count, sources, filter, project, min_score, "
            "relevant_only, exclude_session, exclude_last, since, until, as_of, asked_at, roles, speakers, around, profile."
        ),
    ),
    ("recall", {" ": 1}, 'unknown option "". Options of a recall:'),
    (
        "recall",
        {"\x1b[1ma\u202eb" + "k" * 1_000: 1},
        "unknown option ab" + "k" * 53 + ". Options of a recall:",
    ),
    (
        "context",
        {"match_count": 5},
        (
            "unknown option match_count. Options of a context: project, project_only, exclude, exclude_session, exclude_last, "
            "asked_at, words, profile."
        ),
    ),
    ("dream", {"deep": True}, "unknown option deep. A request of kind dream takes no options."),
    ("export", {"sources": []}, "unknown option sources. A request of kind export takes no options."),
    ("erase", {"filter": {}}, "unknown option filter. A request of kind erase takes no options."),
)
"""Kind and options of requests, and what is said of them."""
NEEDED = {"agent_id": "alice", "user_id": ANN, "query": "anything"}


@pytest.mark.parametrize(("kind", "options", "error"), REFUSED)
async def test_options_that_no_answer_can_follow_are_refused_by_the_insert(
    served: asyncpg.Connection, kind: str, options: dict[str, object], error: str
) -> None:
    before = await served.fetchval("select count(*) from memory_requests")
    columns = "kind, agent_id, user_id, query, options"
    for role in ("none",) if kind == "dream" else ("none", "memoryd_user"):
        async with acting_as(served, ANN, role=role):
            state, said, hint = await refused(
                served,
                f"insert into memory_requests ({columns}) values ($1, $2, $3, $4, $5)",
                kind,
                *NEEDED.values(),
                json.dumps(options),
            )
        assert state == "23514"
        assert f"{said}. {hint}".startswith(error)
    assert await served.fetchval("select count(*) from memory_requests") == before


async def test_a_statement_with_one_wrong_request_inserts_none_and_names_it(
    served: asyncpg.Connection,
) -> None:
    with pytest.raises(asyncpg.CheckViolationError, match="unknown option count"):
        await served.execute(
            "insert into memory_requests (kind, query, agent_id, options) "
            "select 'recall', 'x', 'none of these', case n when 7 then '{\"count\": 1}' else '{}' end::jsonb "
            "from generate_series(1, 9) n"
        )
    assert not await served.fetchval(
        "select exists (select from memory_requests where agent_id = 'none of these')"
    )


async def wait_with(connection: asyncpg.Connection, kind: str, options: dict[str, object]) -> UUID:
    """A request with options that an insert refuses today, as one that was waiting when memoryd was upgraded."""
    async with connection.transaction():
        waiting = await request(connection, kind, **NEEDED)
        change = "update memory_requests set options = $2 where id = $1"
        await connection.execute(change, waiting, json.dumps(options))
    return waiting


@pytest.mark.parametrize(("kind", "options", "error"), [r for r in REFUSED if r[0] != "dream"])
async def test_a_request_that_was_waiting_with_such_options_fails_with_the_same_words(
    served: asyncpg.Connection, kind: str, options: dict[str, object], error: str
) -> None:
    waiting = await wait_with(served, kind, options)
    await until(served, ANSWERED, waiting)
    row = await one_row(served, "select status, result, error from memory_requests where id = $1", waiting)
    assert (row["status"], row["result"]) == ("failed", None)
    assert row["error"].startswith(error)
    assert "HINT" not in row["error"]
    assert await served.fetchval("select count(*) from memoryd.dead_letters") == 0


async def test_a_request_that_is_inserted_as_finished_keeps_its_options(served: asyncpg.Connection) -> None:
    """As an import of an older export inserts it."""
    asked = await request(served, "recall", query="x", status="done", options={"count": 5})
    assert (
        await served.fetchval("select options ->> 'count' from memory_requests where id = $1", asked) == "5"
    )


async def test_the_batch_around_a_bad_request_is_answered(served: asyncpg.Connection) -> None:
    async with served.transaction():
        await served.execute(
            "insert into memory_requests (kind, query, agent_id) "
            "select case n % 2 when 0 then 'recall' else 'context' end, 'request ' || n, 'crowd' "
            "from generate_series(1, 60) n"
        )
        await served.execute(
            "update memory_requests set options = '{\"match_count\": -1}' where agent_id = 'crowd' and query like '%0'"
        )
    await until(served, "select not exists (select from memory_requests where status = 'pending')")
    rows = await served.fetch("select status, query, error from memory_requests where agent_id = 'crowd'")
    failed = {row["query"] for row in rows if row["status"] == "failed"}
    assert failed == {f"request {n}" for n in range(10, 61, 10)}
    assert {row["status"] for row in rows if row["query"] not in failed} == {"done"}
    assert await served.fetchval("select count(*) from memoryd.dead_letters") == 0


async def test_a_finished_request_is_notified(served: asyncpg.Connection, shared_url: str) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()
    listener = await asyncpg.connect(shared_url)
    await listener.add_listener("request_finished", lambda *arguments: heard.put_nowait(arguments[3]))
    good = await request(served, "recall", query="anything")
    bad = await wait_with(served, "recall", {"match_count": -1})
    told = [json.loads(await asyncio.wait_for(heard.get(), 90)) for _ in range(2)]
    await listener.close()
    assert sorted(one["id"] for one in told) == sorted(map(str, (good, bad)))
    assert all(one.keys() == {"id"} for one in told)


async def test_a_request_inserted_as_done_is_not_answered(served: asyncpg.Connection) -> None:
    asked = await request(served, "recall", query="anything", status="done")
    await answer(served, "recall", query="anything")
    row = await one_row(
        served, "select status, result, error, finished_at from memory_requests where id = $1", asked
    )
    assert tuple(row) == ("done", None, None, None)


async def test_a_request_of_five_megabytes_is_answered(served: asyncpg.Connection) -> None:
    memory = await remember(served, "needles are in the third haystack", agent_id="farmer", kind="fact")
    await until(served, IDLE)
    status, result, _ = await answer(served, "recall", agent_id="farmer", query="needles haystack " * 300_000)
    assert status == "done"
    assert [UUID(row["id"]) for row in result] == [memory]


async def test_without_its_embedder_a_request_is_answered_by_words(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    with OpenAIServer(dimensions=DIMENSIONS) as server:
        await embedded_by(connection, "openai/any")
        server.stop()
        await daemons.start(
            embedder="openai/any",
            embedding_dimensions=DIMENSIONS,
            openai_api_key="k",
            openai_base_url=server.base_url,
        )
        memory = await remember(connection, "the ferry leaves at noon", kind="fact")
        status, result, _ = await answer(connection, "recall", agent_id="alice", query="ferry")
        assert status == "done"
        assert [(UUID(row["id"]), row["similarity"]) for row in result] == [(memory, None)]


async def test_users_export_and_erase_by_request(served: asyncpg.Connection) -> None:
    user, other = uuid4(), uuid4()
    for somebody in (user, other):
        await remember(served, f"parrot of {somebody}", user_id=somebody)
    await until(served, IDLE)
    for kind in ("export", "erase"):
        async with acting_as(served, user):
            asked = await request(served, kind, user_id=user)
        for forged in (other, None):
            with pytest.raises((asyncpg.InsufficientPrivilegeError, asyncpg.CheckViolationError)):
                async with acting_as(served, user):
                    await request(served, kind, user_id=forged)
        await until(served, ANSWERED, asked)
        async with acting_as(served, user):
            row = await one_row(
                served, "select status, result, error from memory_requests where id = $1", asked
            )
        assert (row["status"], row["error"]) == ("done", None)
        result = json.loads(row["result"])
        if kind == "export":
            assert [m["content"] for m in result["tables"]["agent_memory"]] == [f"parrot of {user}"]
        else:
            assert result["agent_memory"] == 1
            assert "replica_paths" not in result
    assert (
        await served.fetchval("select count(*) from agent_memory where user_id = any($1)", [user, other]) == 1
    )


@pytest.mark.parametrize("kind", ["export", "erase"])
async def test_an_export_or_erase_request_without_a_user_is_refused(
    served: asyncpg.Connection, kind: str
) -> None:
    with pytest.raises(asyncpg.CheckViolationError, match=f"a request of kind {kind} lacks its user_id"):
        await request(served, kind)


async def test_each_request_of_a_batch_is_answered_as_its_own_user(served: asyncpg.Connection) -> None:
    users = [uuid4() for _ in range(4)]
    for user in users:
        await remember(served, f"cockatoo of {user}", user_id=user, kind="fact")
    await remember(served, "cockatoo of the agents", agent_id="_shared", kind="fact")
    await until(served, IDLE)
    owners = [*users, None] * 3
    await served.execute(
        "insert into memory_requests (kind, user_id, query, options) "
        "select 'recall', u, 'cockatoo', '{\"match_count\": 100, \"sources\": [\"memory\"]}' from unnest($1::uuid[]) u", owners,
    )  # fmt: skip
    await until(served, "select not exists (select from memory_requests where status = 'pending')")
    rows = await served.fetch("select user_id, status, result from memory_requests where query = 'cockatoo'")
    assert [r["status"] for r in rows] == ["done"] * 15
    for row in rows:
        contents = sorted(found["content"] for found in json.loads(row["result"]))
        if row["user_id"] is None:
            assert len(contents) == 5
        else:
            assert contents == [f"cockatoo of {row['user_id']}"]


async def test_rows_that_a_user_may_not_select_are_not_found_for_them(served: asyncpg.Connection) -> None:
    """By the rights of the role, not by a condition that memoryd remembers to write: a policy of the operator's own applies."""
    user = uuid4()
    for text in ("a macaw for all to see", "a macaw under seal"):
        await remember(served, text, user_id=user, kind="fact")
    await until(served, IDLE)
    await served.execute(
        "create policy seal on agent_memory as restrictive for select to memoryd_user using (content not like '%under seal')"
    )
    try:
        for kind in ("recall", "context"):
            _, result, _ = await answer(served, kind, agent_id="alice", user_id=user, query="macaw")
            assert "for all to see" in json.dumps(result)
            assert "under seal" not in json.dumps(result)
        _, result, _ = await answer(served, "recall", agent_id="alice", query="macaw")
        assert "macaw" not in json.dumps(result)
    finally:
        await served.execute("drop policy seal on agent_memory")


async def test_a_daemon_that_may_not_act_for_users_fails_the_request_with_advice(
    connection: asyncpg.Connection, database_url: str, daemons: Daemons
) -> None:
    """Rather than answer with its own rights. The roles were made by an administrator who did not grant this one."""
    name = f"keeper_{uuid4().hex[:8]}"
    await connection.execute(
        f"create role {name} login password 'keeper'; grant memoryd_service to {name}; "
        f"grant usage, create on schema memoryd to {name}; "
        f"grant all on all tables in schema memoryd to {name}; grant execute on all functions in schema memoryd to {name}"
    )
    await connection.execute(
        f"grant connect, create on database {await connection.fetchval('select current_database()')} to {name}"
    )
    try:
        parts = urlsplit(database_url)
        host = parts.netloc.rpartition("@")[2]
        daemon = await daemons.start(url=urlunsplit(parts._replace(netloc=f"{name}:keeper@{host}")))
        await remember(connection, "toucan", user_id=ANN)
        await remember(connection, "toucan", user_id=BOB)
        status, result, error = await answer(connection, "recall", user_id=ANN, query="toucan")
        assert (status, result) == ("failed", None)
        assert f'grant memoryd_user to "{name}"' in str(error)
        assert (await answer(connection, "recall", query="toucan"))[0] == "done"
        await connection.execute(f"grant memoryd_user to {name}")
        status, result, _ = await answer(connection, "recall", user_id=ANN, query="toucan")
        assert (status, len(result)) == ("done", 1)
        await daemon.stop()
    finally:
        await daemons.kill_all()
        await connection.execute(GONE.format(name))
