"""What a Supabase project has beside memoryd is joined where it may be; a stranger's is left alone."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from daemon.db.errors import MigrationError
from daemon.db.migrator import migrate
from tests.support.database.schemas import EMBEDDER, apply, connected
from tests.support.database.supabase import ACCOUNTS, BROADCAST, PUBLICATION, WAITING, Project
from tests.support.processes.commands import Commands
from tests.support.rows import DIMENSIONS, column, remember

PUBLISHED = "select tablename::text from pg_publication_tables where pubname = 'supabase_realtime' order by 1"
REMEMBER = (
    "insert into public.agent_memory (agent_id, user_id, content) values ('a', $1, 'a lamp') returning id"
)
IS_SUPPORT = "select pg_has_role($1, 'memoryd_admin', 'usage')"


async def test_without_the_rights_to_it_the_statements_are_left(project: Project, tmp_path: Path) -> None:
    """An administrator runs them; then nothing is left, and all works."""
    closed = [one for one in BROADCAST if "owner to supabase_realtime_admin" not in one]
    accounts = (*ACCOUNTS, "revoke all on auth.users from project_owner")
    await project.make("guarded", "create publication supabase_realtime", *accounts, *closed)
    left = (await apply(project.url("guarded"))).left
    assert [part for part, _ in left] == ["accounts", *["realtime"] * 6, "broadcast"]
    told = await Commands(project.url("guarded"), tmp_path)("doctor", "--json")
    assert told.json, told.err
    [check] = [one for one in told.json if one["name"] == "supabase"]
    assert check["verdict"] == "warning"
    assert all(statement in check["advice"] for _, statement in left)
    async with connected(project.url("guarded", "postgres")) as admin:
        for _, statement in left:
            await admin.execute(statement)
        assert (await apply(project.url("guarded"))).left == ()
        assert len(await column(admin, PUBLISHED)) == 6
        user = uuid4()
        await admin.execute("insert into auth.users (id) values ($1)", user)
        await admin.execute("insert into public.memory_settings (user_id) values ($1)", user)
        await remember(admin, "a lamp", user_id=user)
        await admin.execute("delete from auth.users where id = $1", user)
        assert await admin.fetchval("select count(*) from public.memory_settings") == 0


async def test_what_a_stranger_made_is_not_joined(project: Project) -> None:
    """Whoever may create a schema in the database could name it so, to erase anybody or to become memoryd's owner."""
    stranger = ["create role stranger_of_trap login", "grant create on database trap to stranger_of_trap"]
    await project.make("trap", "drop schema auth cascade", *stranger)
    async with connected(project.url("trap", "stranger_of_trap")) as trap:
        await trap.execute(
            "create schema auth; grant usage on schema auth to public; create table auth.users (id uuid primary key); "
            "grant all on auth.users to public; "
            "create schema realtime; grant usage on schema realtime to public; "
            "create function realtime.send(payload jsonb, event text, topic text, private boolean) returns void "
            "language plpgsql as $$ begin execute 'create role trapped'; end $$"
        )
        assert (await apply(project.url("trap"))).left == ()
        async with connected(project.url("trap", "postgres")) as admin:
            user = uuid4()
            memory = await admin.fetchval(REMEMBER, user)
            await trap.execute("insert into auth.users values ($1)", user)
            await trap.execute("delete from auth.users")
            assert (
                await admin.fetchval("select user_id from public.agent_memory where id = $1", memory) == user
            )
            assert await column(admin, WAITING) == []
            assert not await admin.fetchval("select exists (select from pg_roles where rolname = 'trapped')")


async def test_a_table_that_was_taken_out_stays_out_and_a_new_one_joins(project: Project) -> None:
    """Accounts whose ids are no uuid are no users of memoryd's: nothing is said of them."""
    numbers = ["create table auth.users (id bigint primary key)", "grant all on auth.users to project_owner"]
    await project.make("older", *PUBLICATION, *numbers)
    assert (await apply(project.url("older"))).left == ()
    async with connected(project.url("older")) as owner:
        await owner.execute("insert into auth.users values (1)")
        assert await owner.execute("delete from auth.users") == "DELETE 1"
        everything = await column(owner, PUBLISHED)
        assert "memory_requests" in everything
        # As a version made it that knew five tables, of which somebody took one out.
        await owner.execute("delete from memoryd.settings where key = 'published'")
        await owner.execute(
            "alter publication supabase_realtime drop table memory_requests, agent_execution_logs"
        )
        assert (await apply(project.url("older"))).left == ()
        without = [name for name in everything if name != "agent_execution_logs"]
        assert await column(owner, PUBLISHED) == without
        await owner.execute("alter publication supabase_realtime drop table memory_requests")
        assert (await apply(project.url("older"))).left == ()
        assert await column(owner, PUBLISHED) == [name for name in without if name != "memory_requests"]


async def test_roles_of_support_are_granted_what_support_has(project: Project, tmp_path: Path) -> None:
    """At migrate, also to one that a gateway becomes; one that is not there is left."""
    async with connected(project.url(user="postgres")) as admin:
        await admin.execute('create role "Support desk" nologin noinherit')
        await admin.execute('grant "Support desk" to authenticator')
        done = await Commands(project.url(), tmp_path)(
            "migrate", admin_roles="Support desk, nobody_of_desk, pg_monitor"
        )
        assert done.code == 0, done.err
        assert "left to a role with more rights (support): grant memoryd_admin to nobody_of_desk" in done.out
        memory = await admin.fetchval(REMEMBER, uuid4())
        async with admin.transaction():
            await admin.execute('set local role "Support desk"')
            assert await admin.fetchval("select count(*) from public.agent_memory where id = $1", memory) == 1
        logged = "select count(*) from public.agent_execution_logs where action_type = 'admin_read'"
        assert await admin.fetchval(logged) >= 1
        await admin.execute("delete from memoryd.settings where key = 'admin_roles'")
        await admin.execute('revoke memoryd_admin from "Support desk", pg_monitor')


@pytest.fixture
async def of_users(project: Project) -> None:
    """Roles whose rights end users have, or that may become end users."""
    async with connected(project.url(user="postgres")) as admin:
        await admin.execute(
            "create role above_users nologin; grant above_users to memoryd_user; "
            "create role may_become nologin noinherit; grant memoryd_user to may_become"
        )


async def test_a_role_of_end_users_is_none_of_support(project: Project, of_users: None) -> None:
    names = ("authenticated", "anon", "authenticator", "memoryd_user", "above_users", "may_become", "public")
    async with connected(project.url()) as owner, connected(project.url(user="postgres")) as admin:
        before = await admin.fetchval("select count(*) from pg_auth_members")
        for name in names:
            with pytest.raises(MigrationError, match=f"names {name}, a role of end users"):
                await migrate(
                    owner, dimensions=DIMENSIONS, embedder=EMBEDDER, admin_roles=["pg_monitor", name]
                )
        # Nor is it by a setting that somebody wrote past the check.
        await owner.execute(
            "insert into memoryd.settings values ('admin_roles', to_jsonb($1::text[]))", [*names]
        )
        try:
            assert await owner.fetch("select * from memoryd.join_supabase()") == []
        finally:
            await owner.execute("delete from memoryd.settings where key = 'admin_roles'")
        assert await admin.fetchval("select count(*) from pg_auth_members") == before
        assert [await admin.fetchval(IS_SUPPORT, name) for name in names[:-1]] == [False] * 6
