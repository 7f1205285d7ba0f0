"""Spans for OpenTelemetry: what follows from a row belongs to the trace that its metadata name; collectors that misbehave."""

from __future__ import annotations

import asyncio
import json
import secrets
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from tests.support.content.fact_chat import add, reply
from tests.support.processes.daemons import Daemons
from tests.support.rows import ask, insert, remember, say
from tests.support.services.openai_server import POISON, OpenAIServer
from tests.support.services.otlp_collector import Collector, Span
from tests.support.services.played_server import DROP, HANG, Fault
from tests.support.services.remote import Remote
from tests.support.waiting import ANSWERED, FINISHED, IDLE, READY, until

SECRET = "the lighthouse door opens at nine"
PARENT = "00f067aa0ba902b7"
COMPLETE = "select complete_command(id, 'opened ' || $1, 0) from claim_command('alice')"
MEMORY_OF_COMMAND = "select id from agent_memory where command_id = $1"


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """A collector that the daemons of the test are told of."""
    with Collector() as made:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", made.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
        yield made


def traced(trace: str, flags: str = "01") -> str:
    """Metadata of a row that belongs to this trace."""
    return json.dumps({"traceparent": f"00-{trace}-{PARENT}-{flags}"})


def new_trace() -> str:
    return secrets.token_hex(16)


def named(spans: list[Span]) -> list[tuple[str, str]]:
    """Name and topic of each."""
    return [(s.name, s.attributes["memoryd.topic"]) for s in spans]


async def test_a_command_is_traced_until_its_outcome_is_linked(
    daemons: Daemons, connection: asyncpg.Connection, collector: Collector
) -> None:
    daemon = await daemons.start()
    session, trace = uuid.uuid4(), new_trace()
    await remember(connection, SECRET)
    await until(connection, IDLE)
    before = time.time_ns()
    command = await ask(connection, "open the lighthouse door", metadata=traced(trace), session_id=session)
    await until(connection, READY, command)
    await connection.execute(COMPLETE, SECRET)
    await until(connection, IDLE)
    assert await daemon.stop() == 0
    memory = await connection.fetchval(MEMORY_OF_COMMAND, command)
    spans = collector.of(trace)
    assert named(spans) == [
        ("search_memory", "context"),
        ("create_memory", "capture"),
        ("associate", "associate"),
    ]
    assert all(s.parent == PARENT and before <= s.began < s.ended <= time.time_ns() for s in spans)
    assert not any(s.failed for s in spans)
    search, create, link = (s.attributes for s in spans)
    assert search["gen_ai.operation.name"] == "search_memory"
    assert search["gen_ai.memory.store.id"] == "alice"
    assert search["gen_ai.conversation.id"] == str(session)
    assert search["gen_ai.memory.record.count"] == 1
    assert search["memoryd.row.id"] == str(command)
    assert search["memoryd.queue.seconds"] >= 0
    assert 0 < search["memoryd.prepare.seconds"] < (spans[0].ended - spans[0].began) / 1e9
    assert create["gen_ai.memory.record.id"] == str(memory)
    assert create["gen_ai.memory.record.count"] == 1
    assert link["memoryd.row.id"] == str(memory)
    assert "gen_ai.operation.name" not in link
    resource = spans[0].resource
    assert resource["service.name"] == "memoryd"
    assert resource["service.instance.id"] == daemon.events("daemon_started")[0]["daemon"]
    # The memory that names no trace has none, and nobody's words left the machine.
    assert {s.trace for s in collector.spans} == {trace}
    assert b"lighthouse" not in collector.received


@pytest.mark.parametrize("given", [new_trace(), "; rm -rf /"], ids=["trace", "no-trace"])
async def test_a_program_of_the_executor_is_told_the_trace(
    daemons: Daemons, connection: asyncpg.Connection, given: str
) -> None:
    await daemons.start(executor_command="env")
    command = await ask(connection, "say it", metadata=traced(given))
    await until(connection, FINISHED, command)
    output = await connection.fetchval("select output from agent_commands where id = $1", command)
    told = [line for line in output.splitlines() if line.startswith("TRACEPARENT=")]
    assert told == ([] if " " in given else [f"TRACEPARENT=00-{given}-{PARENT}-01"])


async def test_every_kind_of_row_that_has_metadata_is_traced(
    daemons: Daemons, connection: asyncpg.Connection, collector: Collector
) -> None:
    daemon = await daemons.start()
    user = uuid.uuid4()
    session = await insert(connection, "conversation_sessions", {"user_id": user, "agent_id": "alice"})
    traces = {name: new_trace() for name in ("memory", "message", "document", "recall", "context", "erase")}
    memory = await remember(connection, SECRET, metadata=traced(traces["memory"]))
    await say(connection, session, "I live in Bergen.", user_id=user, metadata=traced(traces["message"]))
    text = "# Lighthouse\n\nThe door opens at nine."
    await insert(
        connection,
        "documents",
        {"title": "Lighthouse", "source": "manual", "content": text, "metadata": traced(traces["document"])},
    )
    await until(connection, IDLE)
    await connection.execute("update agent_memory set content = content || ', or ten' where id = $1", memory)
    await until(connection, IDLE)
    for kind in ("recall", "context", "erase"):
        asked: dict[str, object] = {"kind": kind, "traceparent": f"00-{traces[kind]}-{PARENT}-01"}
        if kind == "erase":
            asked["user_id"] = user
        else:
            asked |= {"query": "lighthouse door", "agent_id": "alice"}
        await until(connection, ANSWERED, await insert(connection, "memory_requests", asked))
    await until(connection, IDLE)
    assert await daemon.stop() == 0

    def of(name: str) -> set[tuple[str, str]]:
        return set(named(collector.of(traces[name])))

    assert of("memory") == {
        ("create_memory", "index"),
        ("update_memory", "index"),
        ("associate", "associate"),
    }
    assert of("recall") == of("context") == {("search_memory", "request")}
    assert of("erase") == {("delete_memory", "user_data")}
    assert of("document") == {("upsert_memory", "document"), ("index", "index")}
    # The erasure took message and facts: what came of them before was told before.
    assert of("message") >= {("create_memory", "index")}
    found = collector.of(traces["recall"])[0].attributes["gen_ai.memory.record.count"]
    assert found >= 2


async def test_facts_belong_to_the_trace_of_their_message(
    daemons: Daemons, connection: asyncpg.Connection, collector: Collector
) -> None:
    user, trace = uuid.uuid4(), new_trace()
    with OpenAIServer() as server:
        server.chat = lambda _: reply(add=[add("The user lives in Bergen.", "m1")])
        daemon = await daemons.start(language_model="openai/any", openai_base_url=server.base_url)
        session = await insert(connection, "conversation_sessions", {"user_id": user, "agent_id": "alice"})
        message = await say(connection, session, "I live in Bergen.", user_id=user, metadata=traced(trace))
        await connection.execute("select memoryd.queue_stretches(16, '0 seconds')")
        await until(connection, IDLE)
    assert await daemon.stop() == 0
    spans = collector.of(trace)
    assert set(named(spans)) == {
        ("create_memory", "index"), ("upsert_memory", "facts"), ("index", "index"), ("associate", "associate"),
    }  # fmt: skip
    [facts] = [s for s in spans if s.name == "upsert_memory"]
    assert facts.attributes["gen_ai.memory.record.count"] == 1
    assert facts.attributes["memoryd.row.id"] == str(message)


async def test_what_fails_has_a_span_that_says_so(remote: Remote, collector: Collector) -> None:
    daemon = await remote.daemons.start(url=remote.url, **remote.settings)
    trace = new_trace()
    await remember(remote.connection, f"{POISON} {SECRET}", metadata=traced(trace))
    await daemon.event("job_discarded")
    await until(remote.connection, IDLE)
    assert await daemon.stop() == 0
    [span] = [s for s in collector.of(trace) if s.attributes["memoryd.outcome"] == "discarded"]
    assert span.failed
    assert span.attributes["error.type"] == "RejectionError"
    assert b"lighthouse" not in collector.received


NO_TRACEPARENTS: tuple[object, ...] = (
    "garbage", "", 17, None, {"deep": "one"}, "00-" + "0" * 32 + f"-{PARENT}-01", "0" * 500_000,
    "00-" + "G" * 32 + f"-{PARENT}-01",
)  # fmt: skip


async def test_what_is_no_traceparent_or_not_sampled_is_passed_over(
    daemons: Daemons, connection: asyncpg.Connection, collector: Collector
) -> None:
    daemon = await daemons.start()
    for number, value in enumerate(NO_TRACEPARENTS):
        await remember(connection, f"{SECRET} {number}", metadata=json.dumps({"traceparent": value}))
    await remember(connection, SECRET, metadata=traced(new_trace(), flags="00"))
    trace = new_trace()
    await remember(connection, SECRET + "!", metadata=traced(trace))
    await until(connection, IDLE)
    assert await daemon.stop() == 0
    assert {s.trace for s in collector.spans} == {trace}
    assert daemon.events("work_not_traced") == daemon.events("part_failed") == []


async def test_a_request_with_a_wrong_traceparent_is_refused(connection: asyncpg.Connection) -> None:
    with pytest.raises(asyncpg.PostgresError, match="traceparent is no header of W3C Trace Context"):
        await insert(connection, "memory_requests", {"kind": "dream", "traceparent": "garbage"})


async def test_a_collector_that_hangs_delays_no_work_and_no_end(
    daemons: Daemons, connection: asyncpg.Connection, collector: Collector
) -> None:
    collector.always = HANG
    daemon = await daemons.start(shutdown_seconds=1)
    for number in range(20):
        command = await ask(connection, f"task {number}", metadata=traced(new_trace()))
        await until(connection, READY, command)
    await until(connection, IDLE)
    # The collector lets go of nobody until the test has ended.
    assert await daemon.stop() == 0
    assert collector.spans == []


async def test_lost_spans_are_told_once_and_when_they_arrive_again(
    daemons: Daemons,
    connection: asyncpg.Connection,
    collector: Collector,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "2")
    daemon = await daemons.start()
    traces = []
    for number, fault in enumerate((Fault.status(500), Fault.status(401), DROP)):
        collector.always = fault
        seen = len(daemon.lines)
        await remember(connection, f"{SECRET} {number}", metadata=traced(new_trace()))
        await daemon.event("spans_not_taken", after=seen)
        await until(connection, IDLE)
        collector.heal()
        traces.append(new_trace())
        await remember(connection, f"{SECRET}! {number}", metadata=traced(traces[-1]))
        told = await daemon.event("spans_taken_again", after=seen)
        assert told["lost"] >= 1
        async with asyncio.timeout(60):
            while not collector.of(traces[-1]):  # what arrived first may be of the row before
                await asyncio.sleep(0.02)
        await until(connection, IDLE)
        assert len(daemon.events("spans_not_taken")) == number + 1
    assert await daemon.stop() == 0
    assert all(collector.of(trace) for trace in traces)
    assert "SECRET" not in daemon.text()


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "memoryd speaks http/protobuf"),
        ("OTEL_SDK_DISABLED", "true", None),
        ("OTEL_TRACES_EXPORTER", "none", None),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "", None),
    ],
)
async def test_who_wants_no_spans_gets_none(
    daemons: Daemons,
    connection: asyncpg.Connection,
    collector: Collector,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    value: str,
    said: str | None,
) -> None:
    monkeypatch.setenv(variable, value)
    daemon = await daemons.start()
    await remember(connection, SECRET, metadata=traced(new_trace()))
    await until(connection, IDLE)
    assert await daemon.stop() == 0
    assert collector.requests == []
    told = daemon.events("tracing_left_out")
    assert ([said in told[0]["reason"]] == [True]) if said else (told == [])


async def test_the_collector_may_be_named_in_the_file_of_settings(
    daemons: Daemons,
    connection: asyncpg.Connection,
    collector: Collector,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT")
    (tmp_path / ".env").write_text(f"OTEL_EXPORTER_OTLP_ENDPOINT={collector.url}\n", "utf-8")
    daemon = await daemons.start()
    trace = new_trace()
    await remember(connection, SECRET, metadata=traced(trace))
    await until(connection, IDLE)
    assert await daemon.stop() == 0
    assert collector.of(trace)


def test_nothing_of_it_is_loaded_without_a_collector() -> None:
    loaded = "import sys, daemon.lifecycle; print(any(m.startswith('opentelemetry') for m in sys.modules))"
    asked = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert asked.stdout.strip() == "False"
