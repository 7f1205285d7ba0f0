"""One rule says who is privileged, and it goes by roles: a right to a table, granted by mistake, opens nothing else."""

from __future__ import annotations

import json
from typing import Any

import asyncpg
import pytest

from tests.support.acting import ANN, BOB, acting_as
from tests.support.isolation import index_world
from tests.support.rows import insert, remember

STRAY = (
    "grant select on public.agents to memoryd_user",
    "grant select, insert, update, delete on public.shared_knowledge to memoryd_user",
    "grant select on all tables in schema public to memoryd_user",
    "grant select on all tables in schema memoryd to memoryd_user",
)
ASKED = (
    "select source, id::text, content from recall('walrus')",
    "select source, id::text, content from recall('walrus', 'alice')",
    "select source, id::text, content from recall('walrus', 'alice', $1)",
    "select source, id::text, content from explain_recall('walrus', null, $1)",
    "select regexp_replace(build_context('alice', 'feed the walrus'), '[0-9a-f]{12}', '', 'g')",
    "select f.source, f.id::text from memoryd.find('walrus', null, null, null, 100, '{memory,knowledge,insight}', '{}') f",
    "select memoryd.caller_is_privileged(), memoryd.current_caller()::text",
)


async def answers(connection: asyncpg.Connection) -> list[Any]:
    """What Ann is answered, and a caller without an id, in the order of the questions."""
    found = []
    for user in (ANN, None):
        async with acting_as(connection, user):
            for sql in ASKED:
                rows = await connection.fetch(sql, *([BOB] if "$1" in sql else []))
                found.append([tuple(row) for row in rows])
    return found


@pytest.mark.parametrize("grant", STRAY)
async def test_a_stray_grant_to_end_users_opens_no_other_search(
    connection: asyncpg.Connection, grant: str
) -> None:
    await remember(connection, "Ann's own walrus", user_id=ANN)
    await remember(connection, "Bob's own walrus", user_id=BOB)
    await remember(connection, "the agents' walrus")
    await connection.execute("insert into agents (agent_id, identity) values ('carol', 'You keep walruses.')")
    knowledge: dict[str, object] = {
        "tier": "core",
        "category": "team",
        "title": "Walrus",
        "content": "walruses eat clams",
    }
    await insert(connection, "shared_knowledge", knowledge | {"created_by": "alice"})
    await index_world(connection)
    before = await answers(connection)
    assert "Ann's own walrus" in str(before)
    assert "Bob's" not in str(before)
    await connection.execute(grant)
    assert await answers(connection) == before


async def test_a_caller_cannot_claim_rights_by_handing_over_another_caller(
    connection: asyncpg.Connection,
) -> None:
    """What is passed on between functions can be forged; what the functions read, they read with the caller's own rights."""
    memory = await remember(connection, "Bob's own walrus", user_id=BOB)
    await index_world(connection)
    forged = "row($1, true, true)::memoryd.caller"
    shown = f"select count(*) from memoryd.show_rows({forged}, '{{memory}}', array[$2::uuid])"
    async with acting_as(connection, ANN):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with connection.transaction():
                await connection.fetchval(shown, BOB, memory)
    as_bob = shown.replace("true, true", "false, false")
    async with acting_as(connection, ANN):
        assert await connection.fetchval(as_bob, BOB, memory) == 0
    async with acting_as(connection, BOB):
        assert await connection.fetchval(as_bob, BOB, memory) == 1


async def test_each_kind_of_caller_is_what_its_role_says(connection: asyncpg.Connection) -> None:
    asked = "select to_json(memoryd.current_caller())::text"
    expected = {
        ("memoryd_user", ANN): {"user_id": str(ANN), "privileged": False, "is_service": False},
        ("memoryd_user", None): {"user_id": None, "privileged": False, "is_service": False},
        ("memoryd_service", None): {"user_id": None, "privileged": True, "is_service": True},
        ("memoryd_service", BOB): {"user_id": str(BOB), "privileged": True, "is_service": True},
        ("memoryd_admin", ANN): {"user_id": str(ANN), "privileged": True, "is_service": False},
    }
    for (role, user), caller in expected.items():
        async with acting_as(connection, user, role=role):
            assert json.loads(await connection.fetchval(asked)) == caller
