"""memoryd doctor: what is wrong, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg
import pytest

from daemon.plugins import Check
from daemon.settings import Settings
from plugins.health import checks
from plugins.health.access_checks import Facts
from plugins.health.checks import check_size
from plugins.health.status import Size
from tests.support.database.logins import GONE
from tests.support.database.servers import Server
from tests.support.database.templates import BARE, copied
from tests.support.processes.commands import Commands, Finished
from tests.support.processes.daemons import DaemonProcess


def verdicts(finished: Finished) -> dict[str, str]:
    """Name of each check -> its verdict."""
    return {check["name"]: check["verdict"] for check in finished.json}


def check(finished: Finished, name: str) -> dict[str, Any]:
    """One check of the answer."""
    (found,) = [one for one in finished.json if one["name"] == name]
    assert isinstance(found, dict)
    return found


async def test_a_healthy_fleet_has_no_problems(memoryd: Commands, daemon: DaemonProcess) -> None:
    found = await memoryd("doctor", "--json")
    assert found.code == 0
    # A test server may do without fsync, and the doctor says so.
    wrong = {name: verdict for name, verdict in verdicts(found).items() if verdict != "ok"}
    assert set(wrong) <= {"durability"}
    assert {"postgres", "pgvector", "roles", "schema", "dimensions", "embedder", "wake_up"} <= set(
        verdicts(found)
    )
    assert {
        "connections",
        "clock",
        "daemons",
        "queue",
        "row security",
        "schemas",
        "logins",
        "embeddings",
    } <= set(verdicts(found))
    shown = await memoryd("doctor")
    assert shown.code == 0
    assert "PROBLEM" not in shown.out
    assert daemon.process.returncode is None


async def test_no_daemon_is_a_problem(memoryd: Commands) -> None:
    found = await memoryd("doctor", "--json")
    assert found.code == 1
    assert check(found, "daemons")["verdict"] == "problem"
    assert "memoryd run" in check(found, "daemons")["advice"]


async def test_an_embedder_of_other_dimensions_is_a_problem(memoryd: Commands) -> None:
    found = await memoryd("doctor", "--json", embedding_dimensions=128)
    assert found.code == 1
    assert check(found, "dimensions")["verdict"] == "problem"
    assert "256" in check(found, "dimensions")["found"]
    assert "128" in check(found, "dimensions")["found"]
    shown = await memoryd("doctor", embedding_dimensions=128)
    assert shown.code == 1
    assert "PROBLEM  dimensions" in shown.out
    assert "2 problems" in shown.out  # no daemon is the other


async def test_an_embedder_that_does_not_answer_is_a_problem(memoryd: Commands) -> None:
    found = await memoryd(
        "doctor",
        "--json",
        embedder="openai/text-embedding-3-small",
        embedding_dimensions=256,
        openai_base_url="http://127.0.0.1:1/v1",
        openai_api_key="none",
        provider_timeout_seconds=2,
    )
    assert found.code == 1
    assert verdicts(found)["dimensions"] == "problem"  # of another model: they do not compare
    assert verdicts(found)["embedder"] == "problem"


async def test_a_wrong_provider_is_named_with_its_setting(memoryd: Commands) -> None:
    found = await memoryd("doctor", "--json", embedder="magic/8ball", language_model="magic")
    assert found.code == 1
    assert "MEMORYD_EMBEDDER" in check(found, "embedder")["found"]
    assert "MEMORYD_LANGUAGE_MODEL" in check(found, "language model")["found"]


async def test_a_database_without_the_schema_is_a_problem(
    server: Server, empty_url: str, tmp_path: Path
) -> None:
    """For the superuser: migrate makes pgvector itself."""
    found = await Commands(empty_url, tmp_path)("doctor", "--json")
    assert found.code == 1
    assert check(found, "schema")["advice"] == "Run: memoryd migrate"
    assert verdicts(found)["embedder"] == "ok"  # looked at all the same
    async with copied(server, BARE) as bare:
        by_admin = server.admin_url_of(urlsplit(bare).path[1:])
        found = await Commands(by_admin, tmp_path)("doctor", "--json")
        assert (
            check(found, "pgvector")["advice"] == check(found, "schema")["advice"] == "Run: memoryd migrate"
        )


@asynccontextmanager
async def stranger_of(url: str, tmp_path: Path) -> AsyncIterator[tuple[str, Commands]]:
    """A login without rights of its own, and commands as it. Roles belong to the server, which other tests use too."""
    role = f"doctor_stranger_{uuid4().hex[:8]}"
    parts = urlsplit(url)
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(f"create role {role} login password 'x'")
        await connection.execute(f'grant connect on database "{parts.path[1:]}" to {role}')
        host = parts.netloc.rpartition("@")[2]
        yield role, Commands(urlunsplit(parts._replace(netloc=f"{role}:x@{host}")), tmp_path)
    finally:
        await connection.execute(GONE.format(role))
        await connection.close()


async def test_what_was_dropped_comes_back_from_a_backup_not_by_migrate(
    memoryd: Commands, connection: asyncpg.Connection
) -> None:
    await connection.execute("drop table memoryd.lanes")
    found = await memoryd("doctor", "--json")
    wrong = check(found, "schema")
    assert (found.code, wrong["verdict"]) == (1, "problem")
    assert "memoryd.lanes" in wrong["found"]
    assert "backup" in wrong["advice"]
    assert verdicts(found)["embedder"] == "ok"  # looked at all the same
    assert (await memoryd("migrate")).out == "The schema is up to date.\n"
    assert "backup" in (await memoryd("status")).err


async def test_an_unreachable_database_is_a_problem(tmp_path: Path) -> None:
    found = await Commands("postgresql://nobody@127.0.0.1:1/none", tmp_path)("doctor", "--json")
    assert found.code == 1
    assert verdicts(found) == {"database": "problem"}


async def test_row_security_that_was_turned_off_is_a_problem(
    memoryd: Commands, connection: asyncpg.Connection
) -> None:
    await connection.execute("alter table agent_memory no force row level security")
    await connection.execute("alter table dream_insights disable row level security")
    found = await memoryd("doctor", "--json")
    assert found.code == 1
    wrong = check(found, "row security")
    assert wrong["verdict"] == "problem"
    assert wrong["found"] == "Not forced on: agent_memory, dream_insights."
    await connection.execute(wrong["advice"].removeprefix("Run: "))
    assert verdicts(await memoryd("doctor", "--json"))["row security"] == "ok"


async def test_a_schema_where_end_users_may_create_is_a_problem(
    memoryd: Commands, connection: asyncpg.Connection
) -> None:
    assert verdicts(await memoryd("doctor", "--json"))["schemas"] == "ok"
    await connection.execute("grant create on schema public to public")
    found = await memoryd("doctor", "--json")
    wrong = check(found, "schemas")
    assert (found.code, wrong["verdict"], wrong["advice"]) == (
        1,
        "problem",
        "Run: revoke create on schema public from public",
    )
    await connection.execute(wrong["advice"].removeprefix("Run: "))
    assert verdicts(await memoryd("doctor", "--json"))["schemas"] == "ok"


async def test_dead_letters_are_a_problem_and_unindexed_memories_a_warning(
    memoryd: Commands, connection: asyncpg.Connection
) -> None:
    await connection.execute("insert into agent_memory (agent_id, content) values ('alice', 'likes tea')")
    assert verdicts(await memoryd("doctor", "--json"))["embeddings"] == "ok"  # its job waits
    await connection.execute(
        "with gone as (delete from memoryd.jobs returning *)"
        " insert into memoryd.dead_letters (id, topic, ref, attempts, error, created_at)"
        " select id, topic, ref, 5, 'refused', created_at from gone"
    )
    found = await memoryd("doctor", "--json")
    assert found.code == 1
    assert check(found, "embeddings")["verdict"] == "warning"
    assert "memoryd dead requeue --topic index" in check(found, "embeddings")["advice"]
    assert check(found, "queue")["verdict"] == "problem"


async def test_work_that_no_daemon_claims_is_a_problem(
    memoryd: Commands, connection: asyncpg.Connection
) -> None:
    await connection.execute(
        "insert into memoryd.jobs (topic, created_at, visible_at)"
        " values ('context', now() - interval '5 min', now() - interval '5 min')"
    )
    assert verdicts(await memoryd("doctor", "--json"))["queue"] == "problem"


async def test_what_comes_to_a_stop_slowly_is_a_warning(
    memoryd: Commands, connection: asyncpg.Connection
) -> None:
    """Commands without an executor, dreams that never end, a disk that fills."""
    names = "commands", "dreams", "size"
    assert [verdicts(await memoryd("doctor", "--json"))[name] for name in names] == ["ok"] * 3
    await connection.execute(
        "update memoryd.migrations set applied_at = now() - interval '50 hours';"
        "insert into agent_memory (agent_id, content) select 'alice', 'likes tea ' || n from generate_series(1, 3) n;"
        "insert into agent_commands (agent_id, message, status, created_at)"
        " values ('alice', 'deploy', 'pending', now() - interval '3 hours');"
        "update agent_commands set status = 'ready';"
        "delete from memoryd.jobs;"
        "insert into memoryd.settings (key, value) select 'sizes', jsonb_build_object("
        # Half a megabyte more than what is looked for: Postgres removes pg_internal.init now and then, and makes it again.
        " to_char(current_date - 2, 'YYYY-MM-DD'), jsonb_build_object("
        "'bytes', pg_database_size(current_database()) - 10500000, 'measured_at', now() - interval '2 days'))"
    )
    found = await memoryd("doctor", "--json")
    assert [check(found, name)["verdict"] for name in names] == ["warning", "warning", "ok"]
    assert "claim_command" in check(found, "commands")["advice"]
    assert re.search(r"grew by 5\.\d MB a day", check(found, "size")["found"])


def test_a_disk_that_is_soon_full_is_a_warning() -> None:
    size = Size(bytes=10**9, bytes_a_day=10.0**8, largest={})
    assert check_size(size, 10**11).verdict == "ok"
    assert "full in 10 days" in check_size(size, 10**9).found
    assert check_size(Size(10**9, -5.0, {}), 10).verdict == "ok"


async def test_lanes_that_nobody_can_lease_are_a_problem(
    memoryd: Commands, connection: asyncpg.Connection
) -> None:
    """By a lease from a clock that was wrong, or by a first job that no claim takes; a fresh lane and a leased one are fine."""
    await connection.execute("alter table memoryd.jobs drop constraint jobs_snoozes_check")
    await connection.execute(
        "insert into memoryd.jobs (topic, lane, attempt, snoozes) values ('context', 'a', 1, 2), ('context', 'b', 0, 0),"
        " ('context', 'c', 0, 0), ('context', 'd', 0, 0)"
    )
    await connection.execute(
        "insert into memoryd.lanes (topic, lane, leased_until)"
        " values ('context', 'b', now() + interval '2 days'), ('context', 'c', now() + interval '30 s')"
    )
    queue = check(await memoryd("doctor", "--json"), "queue")
    assert queue["verdict"] == "problem"
    assert "can lease: 2." in queue["found"]


async def test_an_idle_transaction_is_reported_with_its_process(
    memoryd: Commands, connection: asyncpg.Connection
) -> None:
    async with connection.transaction():
        pid = await connection.fetchval("select pg_backend_pid()")
        assert f"pid {pid}," in check(await memoryd("doctor", "--json"), "transactions")["found"]


async def test_a_role_that_is_not_the_owner_is_a_problem(database_url: str, tmp_path: Path) -> None:
    async with stranger_of(database_url, tmp_path) as (role, stranger):
        found = await stranger("doctor", "--json")
        assert found.code == 1
        assert {name for name, verdict in verdicts(found).items() if verdict == "problem"} == {
            "roles",
            "owner",
        }
        assert f"grant memoryd_service to {role}" in check(found, "roles")["advice"]
        # It sees no files that were applied.
        assert check(found, "schema")["verdict"] == "warning"


POOLERS = [
    # what is heard, settings, verdict, words of the finding or the advice
    (True, {}, "ok", "no transaction pooler"),
    (True, {"pooler": "transaction"}, "ok", "Unset MEMORYD_POOLER"),
    (False, {}, "warning", "MEMORYD_POOLER=transaction"),
    (False, {"pooler": "transaction"}, "ok", "as MEMORYD_POOLER says"),
    (False, {"pooler": "direct"}, "problem", "MEMORYD_POOLER says direct"),
]


@pytest.mark.parametrize(("heard", "settings", "verdict", "words"), POOLERS)
def test_a_transaction_pooler_is_reported_with_the_setting(
    heard: bool, settings: dict[str, Any], verdict: str, words: str
) -> None:
    found = checks.check_wake_up(Settings.model_construct(**settings), heard=heard)
    assert found.verdict == verdict
    assert words in f"{found.found} {found.advice}"


SERVERS = [
    (
        checks.check_postgres,
        {"version_num": 160000, "version": "16.0", "encoding": "UTF8", "folds": True, "wrong": {}},
        "ok",
    ),
    (checks.check_postgres, {"version_num": 150018, "version": "15.18"}, "problem"),
    (
        checks.check_vector,
        {"vector": {"version": "0.10.1", "schema": "public"}, "vector_available": None},
        "ok",
    ),
    (
        checks.check_vector,
        {"vector": {"version": "0.7.4", "schema": "public"}, "vector_available": None},
        "problem",
    ),
    (checks.check_vector, {"vector": None, "vector_available": "0.8.5", "vector_mine": True}, "problem"),
    (checks.check_vector, {"vector": None, "vector_available": None}, "problem"),
    (checks.check_notifications, {"notifications": 0.09}, "ok"),
    (checks.check_notifications, {"notifications": 0.1}, "warning"),
    (checks.check_transactions, {"idle": None}, "ok"),
    (checks.check_transactions, {"idle": {"pid": 7, "user": "app", "seconds": 59.9}}, "ok"),
    (checks.check_transactions, {"idle": {"pid": 7, "user": "app", "seconds": 60.0}}, "warning"),
    (checks.check_durability, {"fsync": True, "synchronous_commit": "local"}, "ok"),
    (checks.check_durability, {"fsync": True, "synchronous_commit": "off"}, "warning"),
    (checks.check_durability, {"fsync": False, "synchronous_commit": "on"}, "warning"),
    (checks.check_log, {"log_min_messages": "warning", "log_min_error_statement": "error"}, "ok"),
    (checks.check_log, {"log_min_messages": "debug1", "log_min_error_statement": "error"}, "ok"),
    (checks.check_log, {"log_min_messages": "error", "log_min_error_statement": "error"}, "warning"),
    (checks.check_log, {"log_min_messages": "log", "log_min_error_statement": "panic"}, "ok"),
    (checks.check_log, {"log_min_messages": "fatal", "log_min_error_statement": "panic"}, "warning"),
]


@pytest.mark.parametrize(("look", "server", "verdict"), SERVERS)
def test_every_check_of_a_server_gives_advice_unless_it_is_ok(
    look: Callable[[Facts], Check], server: dict[str, Any], verdict: str
) -> None:
    found = look(server)
    assert found.verdict == verdict
    assert (found.advice is None) == (verdict == "ok")


def test_too_few_connections_and_wrong_clocks_are_warnings() -> None:
    assert checks.check_connections({"maximum": 97, "used": "85"}, 10).verdict == "ok"
    assert checks.check_connections({"maximum": 97, "used": "86"}, 10).verdict == "warning"
    assert [checks.check_clock(seconds).verdict for seconds in (-3.0, -1.0, 0.0, 1.0, 3.0)] == [
        "warning",
        "ok",
        "ok",
        "ok",
        "warning",
    ]
