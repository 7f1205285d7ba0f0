"""Who may create in schema public makes functions of memoryd's names: what runs with the owner's rights calls none of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from tests.support.access.acting import ANN, acting_as
from tests.support.processes.commands import Commands
from tests.support.processes.daemons import DaemonProcess
from tests.support.rows import ask, column, insert, remember
from tests.support.waiting import IDLE, until

MALLORY = "mallory_of_overloads"
CAUGHT = "select by_role || ': ' || name from caught order by 1"
# Of each public function one for each number of arguments that a call may give, with the very types: where a call leaves out
# what has a default, such a one fits better. And those that take whatever has no type yet.
TRAPS = """
do $$
declare
    each record;
begin
    for each in
        select p.proname, (select string_agg(format('%I %s', a.name, a.type::regtype), ', ' order by a.nth)
                           from unnest(p.proargnames, p.proargtypes::oid[]) with ordinality as a(name, type, nth)
                           where a.nth <= n) as arguments
        from pg_proc p cross join lateral generate_series(0, p.pronargs - 1) as n
        where p.pronamespace = 'public'::regnamespace and obj_description(p.oid, 'pg_proc') is not null
          and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')
        union
        -- As the call of agent-memory-read names them.
        values ('match_memory',
                'query text, match_threshold float8, match_count integer, memory_type text, filter_user_id uuid')
        union
        select p.proname, repeat(t.type || ', ', p.pronargs - 1) || t.type
        from pg_proc p cross join unnest('{text,varchar,anyelement}'::text[]) as t(type)
        where p.pronamespace = 'public'::regnamespace and obj_description(p.oid, 'pg_proc') is not null and p.pronargs > 0
          and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')
    loop
        begin
            execute format('create function public.%I(%s) returns text language plpgsql as $f$ begin '
                           'insert into public.caught (by_role, name) values (current_user, %L); return null; end $f$',
                           each.proname, each.arguments, format('%s(%s)', each.proname, each.arguments));
        exception when duplicate_function then
            null; -- memoryd's own
        end;
    end loop;
end
$$;
"""


@pytest.fixture
async def trapped(connection: asyncpg.Connection) -> AsyncIterator[asyncpg.Connection]:
    """The database, with the traps of a role that owns nothing else."""
    await connection.execute(
        f"create role {MALLORY}; grant {MALLORY} to current_user; grant create on schema public to {MALLORY}; "
        "create table public.caught (by_role text, name text); grant insert on public.caught to public"
    )
    try:
        await connection.execute(f"set role {MALLORY}; {TRAPS} reset role")
        owned = "select count(*) from pg_proc where proowner = $1::regrole"
        assert await connection.fetchval(owned, MALLORY) > 100
        yield connection
    finally:
        await connection.execute(f"reset role; drop owned by {MALLORY}; drop role {MALLORY}")


async def test_no_function_of_ours_calls_anothers(trapped: asyncpg.Connection, daemon: DaemonProcess) -> None:
    """Each with all of its arguments, so that it is memoryd's which is called; what it calls is what is tried."""
    command = await ask(trapped, "deploy the staging server")
    await remember(trapped, "The staging server is in Oslo.", agent_id="alice")
    await remember(trapped, "Ann takes no sugar.", user_id=ANN)
    await until(trapped, "select status = 'ready' from agent_commands where id = $1", command)
    requests: list[dict[str, object]] = [
        {"kind": "recall", "query": "sugar", "agent_id": "alice", "user_id": ANN},
        {"kind": "context", "query": "sugar", "agent_id": "alice", "user_id": ANN},
        {"kind": "export", "user_id": ANN},
        {"kind": "dream"},
        {"kind": "erase", "user_id": ANN},
    ]
    for request in requests:
        await insert(trapped, "memory_requests", request)
        await until(trapped, "select bool_and(status in ('done', 'failed')) from memory_requests")
    assert await column(trapped, "select error from memory_requests where status = 'failed'") == []
    async with acting_as(trapped, ANN):
        read = "select public.\"agent-memory-read\"('sugar'::text, null::text, 0.5::float8, 5)"
        assert await trapped.fetchval(read) is not None
        await trapped.execute(
            "select public.build_context('alice'::text, 'sugar'::text, null::uuid, '{}'::jsonb)"
        )
        await trapped.execute(
            "select * from public.recall('sugar'::text, null::text, null::uuid, null::vector, 10, null::text[], '{}'::jsonb, "
            "'{}'::jsonb)"
        )
    await until(trapped, IDLE)
    assert await column(trapped, CAUGHT) == []


async def test_what_the_daemon_sweeps_by_calls_only_ours(
    trapped: asyncpg.Connection, database_url: str, tmp_path: Path
) -> None:
    memoryd = Commands(database_url, tmp_path)
    await trapped.execute(
        "insert into agent_memory (agent_id, kind, content, expires_at, created_at) "
        "values ('alice', 'note', 'gone', now() - interval '1 hour', now() - interval '2 hours')"
    )
    done = await memoryd("run", "--once")
    assert done.code == 0, done.err
    assert (await memoryd("erase", str(ANN), "--yes")).code == 0
    assert await column(trapped, CAUGHT) == []
