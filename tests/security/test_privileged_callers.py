"""One rule says who is privileged, and it goes by roles: a right to a table, granted by mistake, opens nothing else."""

from __future__ import annotations

import json
from typing import Any

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB, CAT, acting_as
from tests.support.access.isolation import index_world
from tests.support.access.users import decide
from tests.support.rows import column, insert, remember

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
    (
        "select source, id::text from memoryd.find("
        "memoryd.recall_request('recall', 'walrus', null, null, null, 100, '{memory,knowledge,insight}', '{}', '{}'))"
    ),
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
    shown = "select count(*) from memoryd.show_rows($1, array[$2::uuid])"
    async with acting_as(connection, ANN):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with connection.transaction():
                await connection.fetchval(shown, ["knowledge"], memory)
        assert await connection.fetchval(shown, ["memory"], memory) == 0
    async with acting_as(connection, BOB):
        assert await connection.fetchval(shown, ["memory"], memory) == 1


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


# Settings. Any login can give any value to any of them.

SETTINGS = """
select distinct coalesce(m[1], m[2]) from (
    select p.prosrc from pg_proc p where p.pronamespace in ('public'::regnamespace, 'memoryd'::regnamespace)
    union all select pg_get_triggerdef(t.oid) from pg_trigger t
    union all select pg_get_viewdef(c.oid) from pg_class c where c.relkind in ('v', 'm')
    union all select concat(p.qual, p.with_check) from pg_policies p
) as code(text)
cross join lateral regexp_matches(code.text,
    '''(memoryd\\.[a-z_]+)''(?:::text)?, true|daemon_says\\(''(memoryd\\.[a-z_]+)''', 'g') m
order by 1
"""
NARROWING = {"memoryd.project", "memoryd.org_id", "memoryd.last_recall"}
"""Say what is asked for, and give no right."""

WRITES = {
    "refuses wrong metadata": "insert into agent_memory (agent_id, user_id, content, memory_type, metadata) "
    "values ('desk', $1, 'x', 'task_memory', '{\"outcome\": 5}')",
    "drops what a user has switched off": "with a as (insert into agent_memory (agent_id, user_id, content) "
    "values ('desk', '00000000-0000-0000-0000-00000000000c', 'x') returning 1) select count(*), $1::uuid from a",
    "refuses a key in knowledge": "insert into shared_knowledge (tier, category, title, content, created_by) "
    "values ('learning', 'insight', 'key', 'sk-proj-' || repeat('a1B2', 12), $1::text)",
    "refuses a wrong outcome": "insert into shared_knowledge (tier, category, title, content, created_by, outcome) "
    "values ('learning', 'outcome', 'x', 'x', $1::text, '{\"success\": 5}')",
    "refuses a loop of replacements": "update agent_memory set superseded_by = id where user_id = $1",
    "stamps a run": "insert into agent_sessions (agent_id, user_id, status) values ('desk', $1, 'completed') "
    "returning completed_at is not null, progress_percentage",
    "writes the audit trail": "insert into agent_memory (agent_id, user_id, content) values ('desk', $1, 'noted') "
    "returning content",
    "seals the anchors of what is deleted": "delete from agent_memory where user_id = $1 and content = 'anchored' "
    "returning content",
    "forgets the facts of a message": "delete from conversation_messages where user_id = $1 returning content",
}  # fmt: skip
EFFECTS = """
select (select array_agg(l.what order by l.what) from (
            select concat_ws(' ', action_type, step_name) as what from agent_execution_logs) l),
       (select count(*) from memoryd.jobs), (select array_agg(content order by content) from agent_memory),
       (select count(*) from memory_anchors where payload ? 'erased')
"""


@pytest.mark.parametrize("role", ["memoryd_user", "memoryd_service"])
async def test_no_setting_of_a_login_passes_a_rule(connection: asyncpg.Connection, role: str) -> None:
    names = {str(name) for name in await column(connection, SETTINGS)}
    assert names >= {"memoryd.importing", "memoryd.expiring", "memoryd.indexing", "memoryd.metadata_kept"}
    await connection.execute(
        "insert into memoryd.settings (key, value) values ('metadata_schemas', '\"refuse\"') "
        "on conflict (key) do update set value = excluded.value"
    )
    await decide(connection, CAT, memory_enabled=False)
    anchored = await remember(connection, "anchored", user_id=ANN)
    await connection.execute("select memoryd.anchor($1, 'decision')", anchored)
    fact = await remember(connection, "learned", user_id=ANN, kind="fact")
    talk = await insert(connection, "conversation_sessions", {"user_id": ANN, "agent_id": "desk"})
    spoken = {"session_id": talk, "user_id": ANN, "role": "user", "content": "I learned"}
    message = await insert(connection, "conversation_messages", spoken)
    learned = "insert into memoryd.fact_sources (memory_id, message_id, said_at) values ($1, $2, now())"
    await connection.execute(learned, fact, message)

    async def attempt(values: list[str]) -> list[object]:
        transaction = connection.transaction()
        await transaction.start()
        done: list[object] = []
        async with acting_as(connection, ANN, role=role):
            for name in sorted(names - NARROWING):
                for value in values:
                    await connection.execute("select set_config($1, $2, true)", name, value)
            for write in WRITES.values():
                try:
                    async with connection.transaction():
                        done.append([tuple(row) for row in await connection.fetch(write, ANN)])
                except asyncpg.PostgresError as error:
                    done.append((error.sqlstate, str(error)))
        done.append(tuple(await connection.fetchrow(EFFECTS) or ()))
        await transaction.rollback()
        return done

    plain = await attempt([])
    assert await attempt(["on"]) == plain
    assert await attempt(["true"]) == plain
