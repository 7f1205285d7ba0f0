"""Who deletes an account deletes its memory, in the same transaction; what is in the way is done by the daemon."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.support.commands import Commands
from tests.support.daemons import Daemons
from tests.support.refusals import refused
from tests.support.rows import ask, column, remember
from tests.support.schemas import apply, connected
from tests.support.supabase import ACCOUNTS, Project
from tests.support.users import decide, found, whole_user
from tests.support.waiting import IDLE, until

ADD = "insert into auth.users (id) select unnest($1::uuid[])"
DELETE = "delete from auth.users where id = any($1::uuid[])"
QUEUED = "select user_id from memory_requests where kind = 'erase' order by 1"
WAITING = "select user_id from memoryd.deleted_accounts order by 1"


@pytest.fixture
async def owner(project: Project) -> AsyncIterator[asyncpg.Connection]:
    """The owner of the project; nothing is left of earlier tests."""
    async with connected(project.url()) as opened:
        await opened.execute("set search_path = public, extensions")
        await opened.execute("delete from memory_requests")
        yield opened


@pytest.fixture
async def auth(project: Project) -> AsyncIterator[asyncpg.Connection]:
    """The service of the accounts, which has no right to anything of memoryd's."""
    async with connected(project.url(user="supabase_auth_admin")) as opened:
        assert not await opened.fetchval(
            "select has_table_privilege('public.agent_memory', 'select, delete')"
        )
        yield opened


async def added(auth: asyncpg.Connection, number: int = 1) -> list[UUID]:
    """Accounts."""
    users = [uuid4() for _ in range(number)]
    await auth.execute(ADD, users)
    return users


async def test_the_memory_of_a_deleted_account_is_gone_with_it(
    owner: asyncpg.Connection, auth: asyncpg.Connection
) -> None:
    """Every row of every table, also the settings; nobody else's."""
    ann, bob, nobody = await added(auth, 3)
    await whole_user(owner, ann, "quokkazephyr")
    await decide(owner, ann, memory_enabled=False)
    kept = await remember(owner, "bob stays", user_id=bob)
    undone = auth.transaction()
    await undone.start()
    await auth.execute(DELETE, [ann, nobody])
    await undone.rollback()
    assert await found(owner, "quokkazephyr")
    await auth.execute(DELETE, [ann, nobody])
    assert await found(owner, "quokkazephyr") == {}
    assert await found(owner, str(ann)) == {}
    assert await column(owner, QUEUED) == []
    assert await owner.fetchval("select user_id from agent_memory where id = $1", kept) == bob
    assert await owner.fetchval(
        "select count(*) from agent_execution_logs where step_name = 'erase' and user_id is null"
    )


async def test_an_application_may_let_users_delete_their_account(
    owner: asyncpg.Connection, auth: asyncpg.Connection, project: Project
) -> None:
    [ann] = await added(auth)
    await remember(owner, "the lamp", user_id=ann)
    async with connected(project.url(user="postgres")) as admin:
        await admin.execute(
            "create or replace function public.delete_account() returns void language sql security definer "
            "as 'delete from auth.users where id = auth.uid()'"
        )
    async with project.user(ann) as client:
        await client.execute(
            "insert into memory_requests (kind, user_id, query) select 'recall', $1, 'x' from generate_series(1, 100)",
            ann,
        )
        await client.execute("select delete_account()")
    assert await found(owner, str(ann)) == {}


async def test_what_is_in_the_way_is_left_to_the_daemon(
    owner: asyncpg.Connection, auth: asyncpg.Connection, project: Project, tmp_path: Path
) -> None:
    """An open transaction, one that sees too little, a thousand accounts at once: none keeps an account from deletion."""
    locked, repeatable, huge, *many = await added(auth, 1003)
    known = sorted([locked, repeatable, huge, *many[:30]])
    for user in known:
        await remember(owner, f"quokkazephyr of {user}", user_id=user)
    await owner.execute(
        "insert into agent_memory (agent_id, user_id, content) "
        "select 'a', $1, 'quokkazephyr ' || n from generate_series(1, 2001) n",
        huge,
    )
    await owner.execute("update agents set open_to_users = true where agent_id = 'a'")
    async with project.user(locked) as client:
        command = await client.fetchval(
            "insert into agent_commands (agent_id, user_id, message) values ('a', $1, 'quokkazephyr') returning id",
            locked,
        )
    async with connected(project.url()) as other, other.transaction():
        await other.execute("select from agent_commands where id = $1 for update", command)
        await auth.execute(DELETE, [locked])
        await auth.execute(DELETE, many)
        await auth.execute(DELETE, [huge])
        async with auth.transaction(isolation="repeatable_read"):
            await auth.execute(DELETE, [repeatable])
    assert await column(owner, QUEUED) == await column(owner, WAITING) == known
    daemons = Daemons(project.url(), tmp_path)
    try:
        await daemons.start(poll_seconds=0.2)
        await until(owner, "select count(*) = 0 from memoryd.deleted_accounts")
        # What the daemon is just writing about somebody is not written after they are gone.
        [busy] = await added(auth)
        await remember(owner, "quokkazephyr", user_id=busy)
        await owner.execute(
            "insert into conversation_messages (session_id, user_id, role, content) "
            "select gen_random_uuid(), $1, 'user', 'I like quokkazephyr ' || n from generate_series(1, 20) n",
            busy,
        )
        await ask(owner, "quokkazephyr", user_id=busy)
        await auth.execute(DELETE, [busy])
        await until(owner, "select count(*) = 0 from memoryd.deleted_accounts")
        await until(owner, IDLE)
    finally:
        await daemons.kill_all()
    assert await found(owner, "quokkazephyr") == {}
    assert await owner.fetch("select topic, error from memoryd.dead_letters") == []


async def test_two_who_delete_the_same_accounts_do_not_stop_each_other(
    owner: asyncpg.Connection, auth: asyncpg.Connection, project: Project
) -> None:
    users = await added(auth, 12)
    for user in users:
        await remember(owner, f"the lamp of {user}", user_id=user)

    async def one_by_one(order: list[UUID]) -> None:
        async with connected(project.url(user="supabase_auth_admin")) as mine:
            for user in order:
                await mine.execute(DELETE, [user])

    await asyncio.gather(one_by_one(users), one_by_one(users[::-1]))
    assert set(await column(owner, "select user_id from agent_memory where user_id = any($1)", users)) <= set(
        await column(owner, QUEUED)
    )


async def test_it_can_be_switched_off(owner: asyncpg.Connection, auth: asyncpg.Connection) -> None:
    [ann] = await added(auth)
    memory = await remember(owner, "the lamp", user_id=ann)
    try:
        await owner.execute("insert into memoryd.settings values ('erase_accounts', 'false') "
                            "on conflict (key) do update set value = excluded.value")  # fmt: skip
        await auth.execute(DELETE, [ann])
    finally:
        await owner.execute("delete from memoryd.settings where key = 'erase_accounts'")
    assert await owner.fetchval("select content from agent_memory where id = $1", memory) == "the lamp"


async def test_without_the_right_to_it_the_statement_is_left(project: Project, tmp_path: Path) -> None:
    """An administrator runs it; then nothing is left, and a second migration changes nothing."""
    await project.make("guarded", *ACCOUNTS, "revoke all on auth.users from project_owner")
    [(part, statement)] = (await apply(project.url("guarded"))).left
    assert part == "accounts"
    told = await Commands(project.url("guarded"), tmp_path)("doctor", "--json")
    assert told.json, told.err
    [check] = [one for one in told.json if one["name"] == "supabase"]
    assert (check["verdict"], statement in check["advice"]) == ("warning", True)
    async with connected(project.url("guarded", "postgres")) as admin:
        await admin.execute(statement)
        assert (await apply(project.url("guarded"))).left == ()
        user = uuid4()
        await admin.execute(ADD, [user])
        await admin.execute("insert into public.memory_settings (user_id) values ($1)", user)
        await admin.execute(DELETE, [user])
        assert await admin.fetchval("select count(*) from public.memory_settings") == 0


async def test_an_account_of_another_kind_is_not_watched(project: Project) -> None:
    """A table of that name whose ids are no uuid is another's."""
    await project.make(
        "numbers",
        "create table auth.users (id bigint primary key)",
        "grant all on auth.users to project_owner",
    )
    assert (await apply(project.url("numbers"))).left == ()
    async with connected(project.url("numbers", "postgres")) as admin:
        await admin.execute("insert into auth.users values (1)")
        assert await admin.execute("delete from auth.users") == "DELETE 1"


async def test_every_table_of_users_is_asked_whether_it_knows_somebody(
    owner: asyncpg.Connection,
) -> None:
    """One row anywhere is enough for an erasure."""
    source = await owner.fetchval("select prosrc from pg_proc where proname = 'known_users'")
    tables = await column(owner, "select name from memoryd.user_tables()")
    assert {t for t in tables if f"public.{t} " not in source} == {"memory_associations", "memory_anchors"}


async def test_no_client_calls_what_the_trigger_calls(project: Project) -> None:
    for role in ("anon", "authenticated"):
        async with project.client(role, {"sub": str(uuid4())}) as client:
            for call in (
                "memoryd.erase_user(gen_random_uuid(), '1 second')",
                "memoryd.erased_at_once(gen_random_uuid())",
                "memoryd.known_users('{}')",
                "memoryd.join_supabase()",
                "memoryd.parts_to_join()",
            ):
                assert (await refused(client, f"select {call}"))[0] == "42501", (role, call)


async def test_roles_of_support_are_granted_what_support_has(project: Project, tmp_path: Path) -> None:
    """At migrate; one that is not there is left, and a role of end users is refused."""
    await project.make("desk", "create role support_of_desk nologin noinherit")
    memoryd = Commands(project.url("desk"), tmp_path)
    done = await memoryd("migrate", admin_roles="support_of_desk, nobody_of_desk")
    assert done.code == 0, done.err
    assert "left to a role with more rights (support): grant memoryd_admin to nobody_of_desk" in done.out
    async with connected(project.url("desk", "postgres")) as admin:
        await remember_plain(admin)
        assert await admin.fetchval("select pg_has_role('support_of_desk', 'memoryd_admin', 'usage')")
        async with admin.transaction():
            await admin.execute("set local role support_of_desk")
            assert await admin.fetchval("select count(*) from public.agent_memory") == 1
        logged = "select count(*) from public.agent_execution_logs where action_type = 'admin_read'"
        assert await admin.fetchval(logged) == 1
    for role in ("authenticated", "anon"):
        refused_ = await memoryd("migrate", admin_roles=role)
        assert refused_.code != 0
        assert f"names {role}, a role of end users" in refused_.err
    async with connected(project.url("desk", "postgres")) as admin:
        assert not await admin.fetchval("select pg_has_role('authenticated', 'memoryd_admin', 'usage')")


async def remember_plain(admin: asyncpg.Connection) -> None:
    """A memory of somebody."""
    await admin.execute(
        "insert into public.agent_memory (agent_id, user_id, content) values ('a', gen_random_uuid(), 'x')"
    )
