"""What is refused, with which SQLSTATE and which words; and that a daemon serves the next good row after it."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

import asyncpg
import pytest

from tests.support.content.index import INDEXED, INDEXED_MEMORIES
from tests.support.rows import ask, embedding, one_row, remember
from tests.support.waiting import IDLE, READY, until

NOT_NULL = "23502"
FOREIGN_KEY = "23503"
UNIQUE = "23505"
CHECK = "23514"
MEGABYTES = 5_000_000


@dataclass(frozen=True)
class Bad:
    """A statement that is refused: the SQLSTATE, what the message says, what the hint says is allowed."""

    sql: str
    state: str
    said: str
    hint: str = ""
    args: tuple[object, ...] = ()


COMMAND = "insert into agent_commands (agent_id, message) values "
MEMORY = "insert into agent_memory (agent_id, content) values "
NOBODY = "00000000-0000-0000-0000-000000000000"

BAD = {
    "empty message": Bad(COMMAND + "('alice', '')", CHECK, "message is blank", "Say what the agent is to do."),
    "blank message": Bad(COMMAND + "('alice', E' \\t\\n')", CHECK, "message is blank", "Say what"),
    "null message": Bad(COMMAND + "('alice', null)", NOT_NULL, '"message"'),
    "blank agent": Bad(COMMAND + "('  ', 'x')", CHECK, "agent_id is blank", "1 to 200 characters"),
    "long agent": Bad(COMMAND + "(repeat('a', 201), 'x')", CHECK, "too long", "1 to 200 characters"),
    "null agent": Bad(COMMAND + "(null, 'x')", NOT_NULL, '"agent_id"'),
    "shared agent": Bad(COMMAND + "('_shared', 'x')", CHECK, "agent_id is _shared", "_shared is no agent"),
    "NUL in message": Bad(COMMAND + "('alice', $1)", "22021", "0x00", args=("a\x00b",)),
    "NUL in metadata": Bad(
        "insert into agent_commands (agent_id, message, metadata) values ('alice', 'x', $1)",
        "22P05",
        "unsupported Unicode escape sequence",
        args=('{"a": "\\u0000"}',),
    ),
    "status": Bad(
        "insert into agent_commands (agent_id, message, status) values ('alice', 'x', 'done')",
        CHECK,
        "unknown status 'done'",
        "Statuses: pending, ready, running, completed, failed, cancelled.",
    ),
    "update to status": Bad(
        "update agent_commands set status = 'finished'", CHECK, "unknown status 'finished'", "completed, failed"
    ),
    "exit code": Bad("select complete_command($1, 'x', null)", "22004", "exit_code is null", "0 for success", (NOBODY,)),
    "exit code beyond integers": Bad(f"select complete_command('{NOBODY}', 'x', 4294967296)", "42883", "complete_command"),
    "command id": Bad(f"select complete_command('{NOBODY}', 'x')", "P0002", f"no command {NOBODY}", "claim_command"),
    "null command id": Bad("select complete_command(null, 'x')", "P0002", "no command", "claim_command"),
    "malformed id": Bad("select complete_command('seven', 'x')", "22P02", '"seven"'),
    "agent to claim": Bad("select * from claim_command('nobody')", "22023", "unknown agent 'nobody'", "agent_id from agents"),
    "null agent to claim": Bad("select * from claim_command(null)", "22023", "unknown agent null", "insert into agents"),
    "empty content": Bad(MEMORY + "('alice', '')", CHECK, "content is blank", "Say what is to be remembered."),
    "blank content": Bad(MEMORY + "('alice', E'\\n')", CHECK, "content is blank"),
    "null content": Bad(MEMORY + "('alice', null)", NOT_NULL, '"content"'),
    "memory of a blank agent": Bad(MEMORY + "('', 'x')", CHECK, "agent_id is blank", "_shared is for every agent"),
    "NUL in content": Bad(MEMORY + "('alice', $1)", "22021", "0x00", args=("\x00",)),
    "kind": Bad(
        "insert into agent_memory (agent_id, content, kind) values ('alice', 'x', 'thought')",
        CHECK,
        "unknown kind 'thought'",
        "Kinds: observation, outcome, fact, error, goal, note.",
    ),
    "memory type": Bad(
        "insert into agent_memory (agent_id, content, memory_type) values ('alice', 'x', 'brand')",
        CHECK,
        "unknown memory_type 'brand'",
        "brand_memory, user_preferences, competitive_memory, task_memory, performance_memory",
    ),
    "negative TTL": Bad(
        "insert into agent_memory (agent_id, content, ttl_hours) values ('alice', 'x', -1)",
        CHECK,
        "ttl_hours is -1",
        "null for a memory that is never forgotten",
    ),
    "zero TTL": Bad(
        "insert into agent_memory (agent_id, content, ttl_hours) values ('alice', 'x', 0)", CHECK, "ttl_hours is 0", "from 1 on"
    ),
    "short embedding": Bad(
        "insert into agent_memory (agent_id, content, embedding) values ('alice', 'x', '[1, 2, 3]')",
        "22000",
        "expected 256 dimensions, not 3",
    ),
    "kind of request": Bad(
        "insert into memory_requests (kind, query) values ('search', 'x')",
        CHECK,
        "unknown kind 'search'",
        "Kinds: recall, context, dream, export, erase.",
    ),
    "recall without query": Bad(
        "insert into memory_requests (kind) values ('recall')", CHECK, "lacks its query", "A recall needs a query"
    ),
    "context without agent": Bad(
        "insert into memory_requests (kind, query) values ('context', 'x')", CHECK, "lacks its agent_id", "agent_id and a query"
    ),
    "options": Bad(
        "insert into memory_requests (kind, query, options) values ('recall', 'x', '[1]')",
        CHECK,
        "options is of type array",
        '"match_count"',
    ),
    "name of an option": Bad(
        "insert into memory_requests (kind, query, options) values ('recall', 'x', '{\"count\": 5}')",
        CHECK,
        "unknown option count",
        "Did you mean match_count? Options of a recall: match_count, sources, filter, project, min_score, "
            "relevant_only, exclude_session, exclude_last, since, until, as_of, asked_at, roles, speakers, around, profile.",
    ),
    "match count": Bad("select * from recall('x', match_count => -1)", "22023", "match_count is -1", "0 or more"),
    "null match count": Bad("select * from recall('x', match_count => null)", "22023", "match_count is null", "0 or more"),
    "source": Bad(
        "select * from recall('x', sources => '{web}')",
        "22023",
        "unknown source web",
        "Sources: memory, conversation, document, knowledge, insight.",
    ),
    "options of a question": Bad(
        "select ask_memory('recall', 'x', options => '[]')", CHECK, "options are of type array", "match_count"
    ),
    "count of a question": Bad(
        """select ask_memory('keys', 'x', options => '{"match_count": 1.5}')""", CHECK, "match_count is 1.5", "0 or more"
    ),
    "query to judge": Bad(f"select mark_useful('{NOBODY}', true)", "P0002", f"no query {NOBODY}", "memory_queries"),
    "context of no agent": Bad("select build_context(null, 'x')", "22004", "needs an agent", "build_context('agent'"),
    "context of no task": Bad("select build_context('alice', null)", "22004", "a message"),
}  # fmt: skip


async def test_bad_input_is_refused_with_advice(
    served: asyncpg.Connection, subtests: pytest.Subtests
) -> None:
    await ask(served, "something that a bad update would hit")
    for name, bad in BAD.items():
        with subtests.test(name):
            await _is_refused(served, bad)
    await _serves_the_next(served)


async def test_invalid_associations_are_refused(served: asyncpg.Connection) -> None:
    one, other = await remember(served, "first of two"), await remember(served, "second of two")
    link = (
        "insert into memory_associations (memory_id, related_memory_id, association_type, strength) values "
    )
    await until(served, IDLE)
    await served.execute("delete from memory_associations")
    await _is_refused(
        served,
        Bad(
            link + "($1, $1, 'similar', 0.5)",
            CHECK,
            f"memory {one} is linked to itself",
            "two different",
            (one,),
        ),
    )
    for strength in (-0.1, 1.1, float("nan")):
        await _is_refused(
            served,
            Bad(
                link + "($1, $2, 'similar', $3)", CHECK, "strength is ", "from 0 to 1", (one, other, strength)
            ),
        )
    await _is_refused(
        served,
        Bad(
            link + "($1, $2, 'friend', 0.5)",
            CHECK,
            "unknown association_type 'friend'",
            "causal, similar",
            (one, other),
        ),
    )
    await _is_refused(
        served, Bad(link + "($1, $2, 'similar', 0.5)", FOREIGN_KEY, "foreign key", "", (one, UUID(int=0)))
    )
    await served.execute(link + "($1, $2, 'similar', 0.5)", one, other)
    await _is_refused(
        served, Bad(link + "($1, $2, 'causal', 0.5)", UNIQUE, "duplicate key", "", (one, other))
    )
    await _serves_the_next(served)


async def test_only_a_running_command_is_completed(served: asyncpg.Connection) -> None:
    for status in ("pending", "ready", "cancelled", "completed", "failed"):
        command = await ask(served, "water the plants", agent_id=f"gardener of {status}", status=status)
        if status == "pending":
            await until(served, READY, command)
        now = "ready" if status == "pending" else status
        hint = "Claim it first" if now == "ready" else "its first outcome stands"
        await _is_refused(
            served,
            Bad(
                "select complete_command($1, 'done')",
                "55000",
                f"command {command} is {now}, not running",
                hint,
                (command,),
            ),
        )
        assert await served.fetchval("select output is null from agent_commands where id = $1", command)
    await _serves_the_next(served)


async def test_a_second_outcome_does_not_replace_the_first(served: asyncpg.Connection) -> None:
    command = await ask(served, "mow the lawn", agent_id="mower", status="ready")
    await served.execute("select claim_command('mower')")
    await served.execute("select complete_command($1, 'mown')", command)
    await _is_refused(
        served,
        Bad(
            "select complete_command($1, 'again', 1)",
            "55000",
            "is completed, not running",
            "first outcome stands",
            (command,),
        ),
    )
    row = await one_row(served, "select status, output, exit_code from agent_commands where id = $1", command)
    assert tuple(row) == ("completed", "mown", 0)
    await _serves_the_next(served)
    assert await served.fetchval("select count(*) from agent_memory where command_id = $1", command) == 1


@pytest.mark.first_server
@pytest.mark.parametrize("exit_code", [-1, 1, 256, 2**31 - 1, -(2**31)])
async def test_any_other_exit_code_is_a_failure(served: asyncpg.Connection, exit_code: int) -> None:
    agent = f"fails with {exit_code}"
    command = await ask(served, "divide by zero", agent_id=agent, status="ready")
    await served.execute("select claim_command($1)", agent)
    await served.execute("select complete_command($1, 'no', $2)", command, exit_code)
    memory = "select kind, content, metadata ->> 'exit_code' as code from agent_memory where command_id = $1"
    await until(served, f"select exists ({memory})", command)
    row = await one_row(served, memory, command)
    assert tuple(row) == ("error", f"Task: divide by zero → failed (exit {exit_code})\nno", str(exit_code))
    assert await served.fetchval("select status from agent_commands where id = $1", command) == "failed"


@pytest.mark.first_server
async def test_an_output_of_five_megabytes_is_captured_and_summarised(served: asyncpg.Connection) -> None:
    text = "".join(f"line {n} of a flood of words\n" for n in range(MEGABYTES // 28))[:MEGABYTES]
    command = await ask(served, text, agent_id="flooded")
    await until(served, READY, command)
    claimed = await one_row(served, "select * from claim_command('flooded')")
    assert claimed["message"] == text
    await served.execute("select complete_command($1, $2)", command, text)
    await until(served, IDLE)

    captured = await one_row(served, "select * from agent_memory where command_id = $1", command)
    assert len(captured["content"]) <= 500
    assert captured["content"].startswith("Task: line 0 of a flood of words line 1")
    assert {"flood", "words"} <= set(captured["keywords"])
    assert await served.fetchval(INDEXED, captured["id"])
    assert await served.fetchval("select output from agent_commands where id = $1", command) == text

    memory = await remember(served, text, agent_id="flooded")
    await until(served, IDLE)
    kept = await one_row(served, "select *, length(content) as long from agent_memory where id = $1", memory)
    assert kept["long"] == len(text)
    assert await served.fetchval(INDEXED, memory)
    assert kept["keywords"] == ["line", "flood", "words"]
    assert memory in [
        row["id"] for row in await served.fetch("select * from recall('flood of words', 'flooded')")
    ]
    context = await served.fetchval("select build_context('flooded', $1)", text)
    assert "flood of words" in context
    assert len(context) <= 3000


@pytest.mark.parametrize(
    "text", ["x" * MEGABYTES, "\u00a0\u2003日本語 🤖\ufffe", "'; drop table agent_memory; --", "\\N\r\n\b"]
)
async def test_unusual_text_is_remembered_unchanged(served: asyncpg.Connection, text: str) -> None:
    memory = await remember(served, text, agent_id="odd")
    await until(served, IDLE)
    row = await one_row(
        served,
        f"select content, id in ({INDEXED_MEMORIES}) as indexed from agent_memory where id = $1",
        memory,
    )
    assert tuple(row) == (text, True)


@pytest.mark.parametrize("time", ["-infinity", "infinity", "0044-03-15 12:00:00 BC", "12000-01-01"])
async def test_infinite_times_are_refused(served: asyncpg.Connection, time: str) -> None:
    for table, column, body in (
        ("agent_memory", "created_at", "content"),
        ("agent_commands", "created_at", "message"),
        ("agent_commands", "finished_at", "message"),
    ):
        sql = f"insert into {table} (agent_id, {body}, {column}) values ('historian', 'long ago', '{time}')"
        await _is_refused(served, Bad(sql, CHECK, f"{column} is ", "Times from the year 1 to 9999"))
    await _serves_the_next(served)


@pytest.mark.parametrize("vector", [embedding(), embedding(1e30), embedding(1e-30)])
async def test_an_unusual_embedding_fails_no_query(served: asyncpg.Connection, vector: str) -> None:
    agent = f"odd embedding {vector[:6]}"
    given = await remember(served, "an embedding that points nowhere", agent_id=agent, embedding=vector)
    other = await remember(served, "a perfectly good memory of apples", agent_id=agent)
    await until(served, IDLE)
    found = await served.fetch("select id, score from recall('apples', $1)", agent)
    assert [row["id"] for row in found] == [other]
    query = "select id, score from recall('apples', $1, query_embedding => $2::text::vector)"
    found = await served.fetch(query, agent, vector)
    assert [row["id"] for row in found][:1] == [other]
    assert [row["id"] for row in found if row["id"] == given and row["score"] > 0.7] == []


async def _is_refused(connection: asyncpg.Connection, bad: Bad) -> None:
    with pytest.raises(asyncpg.PostgresError) as raised:
        await connection.fetch(bad.sql, *bad.args)
    error = raised.value
    assert error.sqlstate == bad.state
    assert bad.said in str(error)
    assert bad.hint in (getattr(error, "hint", None) or "")


async def _serves_the_next(connection: asyncpg.Connection) -> None:
    command = await ask(connection, "a good row after a bad one")
    await until(connection, READY, command)
    memory = await remember(connection, "a good memory after a bad one", agent_id="next")
    await until(connection, INDEXED, memory)
    await until(connection, IDLE)
    assert await connection.fetchval("select count(*) from memoryd.dead_letters") == 0
