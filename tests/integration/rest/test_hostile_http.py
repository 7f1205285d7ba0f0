"""What a hostile client sends over HTTP is refused as the client's error, changes nothing, and the rest goes on working."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.support.access.acting import ANN
from tests.support.database.schemas import connected
from tests.support.database.supabase import Project
from tests.support.postgrest.functions import SAMPLES, world
from tests.support.postgrest.requests import Rest
from tests.support.postgrest.server import PostgrestServer
from tests.support.postgrest.tokens import token
from tests.support.processes.daemons import DaemonProcess
from tests.support.rows import remember
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="package")

DEEP = b'{"options": ' + b"[" * 100_000 + b"]" * 100_000 + b', "query": "ferry"}'
IDS = ("user", "session", "message", "memory", "query", "command", "running", "knowledge", "decision")
BLOCKED = """
select pid from pg_stat_activity
where datname = current_database() and usename = 'authenticator' and cardinality(pg_blocking_pids(pid)) > 0
"""
AT_REST = """
select not exists (select from pg_stat_activity
                   where datname = current_database() and usename = 'authenticator'
                     and state <> 'idle' and pid <> pg_backend_pid())
"""


def is_uuid(value: Any) -> bool:
    """Whether an argument is an id."""
    try:
        return bool(UUID(value))
    except (TypeError, ValueError, AttributeError):
        return False


@pytest.mark.parametrize(
    ("value", "codes"),
    [
        ("a\0b", {"22P05"}),
        ("a\ud800b", {"22P02"}),
    ],
)
async def test_text_that_postgres_cannot_store_is_the_callers_fault_in_every_function(
    project: Project, rest: Rest, daemon: DaemonProcess, value: str, codes: set[str]
) -> None:
    async with project.client("service_role") as service:
        ids = await world(service)
    tried = 0
    for name, sample in SAMPLES.items():
        arguments = sample.arguments(ids)
        for argument, given in arguments.items():
            if isinstance(given, str) and not is_uuid(given) and argument != "as_of":
                answer = await rest.rpc("service_role", name, arguments | {argument: value})
                assert answer.status == 400, (name, argument, answer)
                assert answer.code in codes, (name, argument, answer)
                tried += 1
    assert tried > 15


async def test_a_wrong_or_unknown_argument_is_named(rest: Rest, daemon: DaemonProcess) -> None:
    for name, sample in SAMPLES.items():
        arguments = sample.arguments(dict.fromkeys(IDS, "x"))
        unknown = await rest.rpc("service_role", name, arguments | {"no_such_argument": 1})
        assert (unknown.status, unknown.code) == (404, "PGRST202"), name
        # Who decided something is a text.
        if name != "decisions" and any(given in ("x", ["x"]) for given in arguments.values()):
            wrong = await rest.rpc("service_role", name, arguments)
            assert (wrong.status, wrong.code) == (400, "22P02"), (name, wrong)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b'{"query": "ferry"', 400, "PGRST102"),
        (b'{"query": "\xff"}', 400, "PGRST102"),
        (b'{"query": NaN}', 400, "PGRST102"),
        (b'"ferry"', 400, "PGRST102"),
        (b"{}", 404, "PGRST202"),
        (b'{"query": "ferry", "match_count": 1e9}', 400, "22P02"),
        (b'{"query": "ferry", "match_count": -1}', 400, "22023"),
        (b'{"query": "ferry", "query_embedding": [1, "x"]}', 400, "22P02"),
        (b'{"query": "ferry", "query_embedding": [1, 2]}', 400, "22023"),
        (b'{"query": "ferry", "user_id": "x"}', 400, "22P02"),
    ],
)
async def test_a_body_that_makes_no_sense_is_refused(
    rest: Rest, daemon: DaemonProcess, body: bytes, status: int, code: str
) -> None:
    answer = await rest.ask(ANN, "POST", "rpc/recall", content=body)
    assert (answer.status, answer.code) == (status, code), answer


async def test_json_nested_without_end_is_refused(rest: Rest, daemon: DaemonProcess) -> None:
    answer = await rest.ask(ANN, "POST", "rpc/recall", content=DEEP)
    assert (answer.status, answer.code) == (500, "54001"), answer
    assert (await rest.rpc(ANN, "recall", {"query": "ferry"})).status == 200


async def test_five_megabytes_are_stored_and_more_than_the_limit_is_refused_without_repeating_it(
    rest: Rest, daemon: DaemonProcess
) -> None:
    user = uuid4()
    given: dict[str, Any] = {"content": "lighthouse " * 500_000, "memory_type": "task_memory"}
    stored = await rest.rpc(user, "agent-memory-write", given)
    assert stored.status == 200
    assert len(stored.body["memory"]["content"]) == 5_500_000
    # Before the daemon cuts and embeds it all.
    assert (await rest.rpc(user, "forget", {"ids": [stored.body["memory"]["id"]]})).body == 1
    more = await rest.rpc(user, "agent-memory-write", given | {"content": "lighthouse " * 1_000_000})
    assert (more.status, more.code) == (400, "23514")
    assert "lighthouse" not in str(more.body)
    # As a question only its beginning counts.
    assert (await rest.rpc(user, "recall", {"query": given["content"]})).status == 200


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (token("service_role", secret="another secret, and it is not theirs"), "PGRST301"),
        (token("authenticated", ANN, lives=-3600), "PGRST303"),
        (token("authenticated", ANN, nbf=2**40), "PGRST303"),
        (token("authenticated", ANN).rpartition(".")[0] + ".", "PGRST301"),
        ("eyJhbGciOiJub25lIn0.eyJyb2xlIjoic2VydmljZV9yb2xlIn0.", "PGRST301"),
        ("x", "PGRST301"),
        (token("no_such_role"), "22023"),
    ],
)
async def test_a_token_that_is_not_valid_gives_nothing(
    postgrest: PostgrestServer, rest: Rest, sent: str, code: str
) -> None:
    headers = {"Authorization": f"Bearer {sent}"}
    answer = await rest.ask("anon", "POST", "rpc/recall", json={"query": "x"}, headers=headers)
    assert (answer.status, answer.code) == (401, code), answer


async def test_a_token_for_a_role_that_the_gateway_may_not_take_is_refused(
    rest: Rest, daemon: DaemonProcess
) -> None:
    headers = {"Authorization": f"Bearer {token('project_owner')}"}
    answer = await rest.ask("anon", "POST", "rpc/recall", json={"query": "x"}, headers=headers)
    assert (answer.status, answer.code) == (403, "42501"), answer


async def waiting_call(
    owner: asyncpg.Connection, rest: Rest, user: UUID, memory: UUID
) -> tuple[asyncio.Task[Any], int]:
    """A request that waits for a row that `owner` has locked, and the process that does it."""
    await owner.execute("select from agent_memory where id = $1 for update", memory)
    call = asyncio.create_task(rest.rpc(user, "forget", {"ids": [str(memory)]}))
    return call, await until(owner, BLOCKED)


async def test_a_request_whose_database_process_is_killed_has_changed_nothing(
    project: Project, rest: Rest, daemon: DaemonProcess
) -> None:
    user = uuid4()
    async with connected(project.url()) as owner, connected(project.url(user="postgres")) as admin:
        await owner.execute("set search_path = public, extensions")
        memory = await remember(owner, "the lamp is out", user_id=user)
        async with owner.transaction():
            call, process = await waiting_call(owner, rest, user, memory)
            await admin.execute("select pg_terminate_backend($1)", process)
            answer = await call
            assert answer.status == 503
            assert answer.code in ("57P01", "PGRST001")
        # The next request gets another process.
        assert (await rest.rpc(user, "forget", {"ids": [str(memory)]})).body == 1


async def test_a_client_that_goes_away_leaves_no_transaction_open(
    project: Project, postgrest: PostgrestServer, daemon: DaemonProcess
) -> None:
    user = uuid4()
    async with connected(project.url()) as owner, connected(project.url(user="postgres")) as admin:
        await owner.execute("set search_path = public, extensions")
        memory = await remember(owner, "the lamp is lit", user_id=user)
        async with Rest(postgrest) as gone, owner.transaction():
            call, _ = await waiting_call(owner, gone, user, memory)
            call.cancel()
        await until(admin, AT_REST)
        assert await owner.fetchval("select count(*) from agent_memory where id = $1", memory) == 0
