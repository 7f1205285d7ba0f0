"""Which user a caller is: by the claims that a gateway sets, or, for a login of their own, by memoryd.logins."""

from __future__ import annotations

import json
from pathlib import Path

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB
from tests.support.database.logins import login
from tests.support.processes.commands import Commands, Finished
from tests.support.processes.daemons import DaemonProcess
from tests.support.rows import column, insert, remember
from tests.support.waiting import until

MAP = "insert into memoryd.logins (login, user_id) values ($1, $2)"


async def pretend(connection: asyncpg.Connection, user: object) -> None:
    """Claims to be a user, by both settings and for the whole session, as any login can."""
    await connection.execute(
        "select set_config('request.jwt.claims', $1, false)", json.dumps({"sub": str(user)})
    )
    await connection.execute("select set_config('request.jwt.claim.sub', $1, false)", str(user))


async def test_a_mapped_login_is_its_user_whatever_its_claims_say(
    connection: asyncpg.Connection, database_url: str
) -> None:
    mine = await remember(connection, "mine", user_id=ANN)
    await remember(connection, "not mine", user_id=BOB)
    async with login(connection, database_url) as (name, direct):
        await connection.execute(MAP, name, ANN)
        for said in (BOB, "nobody", ""):
            await pretend(direct, said)
            assert await column(direct, "select id from agent_memory") == [mine]
            assert await column(direct, "select content from recall('mine')") == ["mine"]
            await direct.execute("set role memoryd_user")
            assert await direct.fetchval("select memoryd.caller_id()") == ANN
            await direct.execute("reset role")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await remember(direct, "another's", user_id=BOB)
        session = await direct.fetchval("insert into conversation_sessions (title) values ('x') returning id")
        said = "insert into conversation_messages (session_id, role, content) values ($1, 'user', 'x') returning id"
        message = await direct.fetchval(said, session)
        assert (
            await connection.fetchval("select user_id from conversation_messages where id = $1", message)
            == ANN
        )
        assert (
            await direct.fetchval("select user_id from conversation_sessions where id = $1", session) == ANN
        )
        # Without its row in the map it is again the user that it claims to be: the doctor warns of that.
        await connection.execute("delete from memoryd.logins")
        await pretend(direct, BOB)
        assert await column(direct, "select content from agent_memory") == ["not mine"]


async def test_the_map_of_logins_is_closed_to_all_roles(
    connection: asyncpg.Connection, database_url: str
) -> None:
    for role in ("memoryd_user", "memoryd_admin", "memoryd_service"):
        async with login(connection, database_url, role=role) as (name, direct):
            for statement in (
                "select * from memoryd.logins",
                f"insert into memoryd.logins values ('{name}', gen_random_uuid())",
                "update memoryd.logins set user_id = gen_random_uuid()",
                "delete from memoryd.logins",
            ):
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    await direct.execute(statement)


async def test_a_privileged_login_cannot_be_mapped_to_a_user(
    connection: asyncpg.Connection, database_url: str
) -> None:
    with pytest.raises(asyncpg.PostgresError, match="there is no role nobody_at_all") as raised:
        await connection.execute(MAP, "nobody_at_all", ANN)
    assert raised.value.hint
    async with login(connection, database_url, role="memoryd_service") as (name, _):
        with pytest.raises(asyncpg.PostgresError, match="works as memoryd_service") as raised:
            await connection.execute(MAP, name, ANN)
        assert "a login of their own" in str(raised.value.hint)


async def test_the_daemon_answers_each_user_as_that_user_beside_mapped_logins(
    connection: asyncpg.Connection, database_url: str, daemon: DaemonProcess
) -> None:
    assert daemon.process.returncode is None
    async with login(connection, database_url) as (name, direct):
        await connection.execute(MAP, name, ANN)
        await remember(connection, "the lamp of one", user_id=ANN)
        await remember(connection, "the lamp of the other", user_id=BOB)
        request = await insert(direct, "memory_requests", {"kind": "recall", "user_id": ANN, "query": "lamp"})
        others = await insert(
            connection, "memory_requests", {"kind": "recall", "user_id": BOB, "query": "lamp"}
        )
        for each, content in ((request, "the lamp of one"), (others, "the lamp of the other")):
            result = await until(
                connection, "select result::text from memory_requests where id = $1 and status = 'done'", each
            )
            assert [row["content"] for row in json.loads(result)] == [content]


def logins(found: Finished) -> dict[str, str]:
    """What the doctor says of logins."""
    (said,) = [one for one in found.json if one["name"] == "logins"]
    return dict(said)


async def test_the_doctor_reports_logins_that_choose_their_user(
    connection: asyncpg.Connection, database_url: str, tmp_path: Path
) -> None:
    doctor = Commands(database_url, tmp_path)
    async with (
        login(connection, database_url) as (name, _),
        # As PostgREST's authenticator, an agent, and support: none of them is an end user by itself.
        login(connection, database_url, inherit=False),
        login(connection, database_url, role="memoryd_service, memoryd_user"),
        login(connection, database_url, role="memoryd_admin"),
    ):
        found = await doctor("doctor", "--json")
        said = logins(found)
        assert (found.code, said["verdict"]) == (1, "problem")
        assert said["found"] == f"These logins are whichever user they say they are: {name}."
        assert "revoke memoryd_user" in said["advice"]
        assert "insert into memoryd.logins" in said["advice"]
        await connection.execute(MAP, name, ANN)
        found = await doctor("doctor", "--json")
        assert logins(found)["verdict"] == "ok"
        assert [one["name"] for one in found.json if one["verdict"] == "problem"] == ["daemons"]  # none runs
