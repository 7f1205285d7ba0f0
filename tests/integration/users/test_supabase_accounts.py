"""Who deletes an account deletes its memory, in the same transaction; what is in the way is done by the daemon."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.support.access.refusals import refused
from tests.support.access.users import decide, found, whole_user
from tests.support.database.schemas import connected
from tests.support.database.supabase import WAITING, Project
from tests.support.rows import column, remember

ADD = "insert into auth.users (id) select unnest($1::uuid[])"
DELETE = "delete from auth.users where id = any($1::uuid[])"
QUEUED = "select user_id from memory_requests where kind = 'erase' order by 1"


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
    try:
        async with project.user(ann) as client:
            await client.execute(
                "insert into memory_requests (kind, user_id, query) select 'recall', $1, 'x' from generate_series(1, 100)",
                ann,
            )
            await client.execute("select delete_account()")
    finally:
        async with connected(project.url(user="postgres")) as admin:
            await admin.execute("drop function public.delete_account()")  # other files use the project, too
    assert await found(owner, str(ann)) == {}


async def test_what_is_in_the_way_is_left_to_the_daemon(
    owner: asyncpg.Connection, auth: asyncpg.Connection, project: Project
) -> None:
    """An open transaction, one that sees too little, many accounts at once: none keeps an account from deletion."""
    locked, repeatable, huge, *many = await added(auth, 203)
    known = sorted([locked, repeatable, huge, *many[:21]])
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
    # What is asked with a token that is still valid counts as ever.
    async with project.user(huge) as client:
        many_more = (
            "insert into memory_requests (kind, user_id) select 'erase', $1 from generate_series(1, 1001)"
        )
        assert (await refused(client, many_more, huge))[0] == "53400"
    await owner.execute("delete from agent_memory where user_id = $1", huge)
    for user in known:
        await owner.fetchval("select erase_user_memory($1)", user)
    assert await column(owner, WAITING) == []


async def test_where_an_erasure_reads_much_it_is_left_to_the_daemon(
    owner: asyncpg.Connection, auth: asyncpg.Connection, project: Project
) -> None:
    [ann] = await added(auth)
    await remember(owner, "the lamp", user_id=ann)
    async with connected(project.url(user="postgres")) as admin:
        rows = "update pg_class set reltuples = $1 where oid = 'public.memory_queries'::regclass"
        await admin.execute(rows, 2_000_000)
        try:
            await auth.execute(DELETE, [ann])
        finally:
            await admin.execute(rows, -1)
    assert await column(owner, QUEUED) == await column(owner, WAITING) == [ann]
    await owner.fetchval("select erase_user_memory($1)", ann)
    assert await column(owner, WAITING) == []


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
        await owner.execute("insert into memoryd.settings values ('erase_with_account', 'false') "
                            "on conflict (key) do update set value = excluded.value")  # fmt: skip
        await auth.execute(DELETE, [ann])
    finally:
        await owner.execute("delete from memoryd.settings where key = 'erase_with_account'")
    assert await owner.fetchval("select content from agent_memory where id = $1", memory) == "the lamp"


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
