"""Whoever pastes a design's SQL (docs/from/) into a database of memoryd: doctor tells what it broke, and a repair mends it."""

from __future__ import annotations

import asyncio
import gzip
import re
from pathlib import Path
from uuid import UUID

import asyncpg
import pytest

from tests.acceptance.test_cli_repair import objects
from tests.support.access.acting import ANN, acting_as
from tests.support.database.notifications import Notifications
from tests.support.database.release import restore
from tests.support.database.schemas import connected
from tests.support.processes.commands import Commands, Finished
from tests.support.rows import column, remember

PASTED = Path(__file__).parents[1] / "data" / "pasted"
DESIGNS = sorted(file.stem for file in PASTED.glob("*.sql"))
# What a Supabase project has, and an application of its own.
PROJECT = """
create schema auth;
create table auth.users (id uuid primary key);
create function auth.uid() returns uuid language sql stable return memoryd.caller_id();
create function has_role(uuid, text) returns boolean language sql stable return false;
create publication supabase_realtime;
"""
# The designs' own calls. Theirs give no query; each may leave out what has a default.
CALLS = (
    "select * from match_memory(query_embedding => (select vector_of()))",
    "select * from match_memory((select vector_of()), 0.7, 5, null, gen_random_uuid())",
    (
        "select * from match_memory(query_embedding => (select vector_of()), match_threshold => 0.7, match_count => 5,"
        " memory_type => 'task_memory', filter_user_id => gen_random_uuid())"
    ),
    "select * from search_shared_knowledge((select vector_of()))",
    "select * from search_shared_knowledge(query_embedding => (select vector_of()), filter_tier => 'core')",
    "select cleanup_expired_memory()",
    "select expire_low_confidence()",
    "select * from shared_memory",
)
VECTOR = "create function vector_of() returns vector language sql return array_fill(0.1, array[256])::vector"


async def paste(connection: asyncpg.Connection, *designs: str) -> dict[str, str]:
    """As psql does: one statement after the other, whatever becomes of those before. Returns what was refused."""
    refused = {}
    for design in designs:
        for statement in re.split(r"(?<=;)\n\n", (PASTED / f"{design}.sql").read_text()):
            try:
                await connection.execute(statement)
            except asyncpg.PostgresError as error:
                refused[statement.partition("\n")[0]] = str(error)
    return refused


def check(found: Finished, name: str) -> dict[str, str]:
    """One check of the doctor's."""
    (one,) = [each for each in found.json if each["name"] == name]
    return one  # type: ignore[no-any-return]


async def failing(connection: asyncpg.Connection) -> list[str]:
    """The designs' calls that fail."""
    failed = []
    for call in CALLS:
        try:
            await connection.fetch(call)
        except asyncpg.PostgresError as error:
            failed.append(f"{call}: {error}")
    return failed


@pytest.fixture
async def project(connection: asyncpg.Connection) -> asyncpg.Connection:
    """The database, with what a project of Supabase has."""
    await connection.execute(PROJECT + VECTOR)
    return connection


async def test_overloads_are_told_by_their_arguments_and_moved_aside(
    memoryd: Commands, project: asyncpg.Connection, second: asyncpg.Connection
) -> None:
    await paste(project, "user_memory", "team_knowledge")
    assert len(await failing(project)) == 6
    wrong = check(await memoryd("doctor", "--json"), "overloads")
    assert wrong["verdict"] == "problem"
    for one in (
        "match_memory(vector,double precision,integer,text,uuid)",
        "search_shared_knowledge(vector,double precision,integer,text,text,text[],boolean)",
        "cleanup_expired_memory()",
    ):
        assert one in wrong["found"]
    assert "memoryd migrate --repair" in wrong["advice"]
    done = await memoryd("migrate", "--repair")
    assert done.code == 0, done.err
    for line in (
        "moved function match_memory(vector,double precision,integer,text,uuid) into memoryd_adopted",
        "moved function cleanup_expired_memory() into memoryd_adopted",
    ):
        assert line in done.out
    assert await failing(project) == []
    assert set(
        await column(
            project, "select proname::text from pg_proc where pronamespace = 'memoryd_adopted'::regnamespace"
        )
    ) == {"match_memory", "search_shared_knowledge", "cleanup_expired_memory"}
    assert check(await memoryd("doctor", "--json"), "overloads")["verdict"] == "ok"
    # The design's trigger beside memoryd's own is gone: a memory is announced once.
    heard = Notifications(second)
    await heard.listen("memory_updated")
    await remember(project, "Ann takes no sugar.", user_id=UUID(int=7))
    assert len(await heard.until_now(project)) == 1


async def test_who_pastes_twice_has_both_moved_aside(memoryd: Commands, project: asyncpg.Connection) -> None:
    await remember(project, "The safe is behind the clock.", agent_id="_shared")
    await remember(project, "Ann takes no sugar.", user_id=UUID(int=7))
    await project.execute(
        "create or replace function has_role(uuid, text) returns boolean language sql return true"
    )
    for schema in ("memoryd_adopted", "memoryd_adopted_2"):
        await paste(project, "user_memory", "fleet")
        done = await memoryd("migrate", "--repair")
        assert done.code == 0, done.err
        assert f"into {schema}\n" in done.out
    assert await failing(project) == []
    # Nobody sees more by a view or a policy that was repaired.
    async with acting_as(project, ANN):
        assert await column(project, "select content from shared_memory") == []
        assert await column(project, "select content from agent_memory") == []


async def test_all_designs_pasted_are_repaired(memoryd: Commands, project: asyncpg.Connection) -> None:
    refused = await paste(project, *DESIGNS)
    assert sorted(refused) == [
        "create index if not exists memory_chunks_dense on memory_chunks using hnsw (dense_embedding vector_cosine_ops);",
        "create index if not exists sk_embedding_idx",
        "create index on agent_memory using ivfflat (embedding vector_cosine_ops)",
        "create or replace function expire_low_confidence()",
        "create table public.agent_sessions (",
        "select cleanup_expired_memory();",
    ]
    told = await memoryd("doctor", "--json")
    assert "touch_knowledge(knowledge_id uuid) is changed" in objects(told)["found"]
    assert "view public.shared_memory is changed" in objects(told)["found"]
    assert 'policy "Admins can view all memory" on public.agent_memory' in check(told, "pasted")["found"]
    done = await memoryd("migrate", "--repair")
    assert done.code == 0, done.err
    assert "moved view shared_memory into memoryd_adopted" in done.out
    sound = await memoryd("doctor", "--json")
    for name in ("overloads", "pasted", "objects", "schema"):
        assert check(sound, name)["verdict"] == "ok", check(sound, name)
    assert await failing(project) == []
    # Also one that has no other number of arguments: what the design's function did in silence is refused again.
    with pytest.raises(asyncpg.NoDataFoundError):
        await project.execute("select touch_knowledge(gen_random_uuid())")
    assert (await memoryd("migrate")).out == "The schema is up to date.\n"


async def test_of_every_public_function_an_overload_is_told_and_moved(
    memoryd: Commands, project: asyncpg.Connection
) -> None:
    names = await column(
        project,
        "select distinct quote_ident(proname) from pg_proc p where pronamespace = 'public'::regnamespace "
        "and obj_description(p.oid, 'pg_proc') is not null and not exists "
        "(select from pg_depend d where d.objid = p.oid and d.deptype = 'e')",
    )
    assert len(names) > 30
    for name in names:
        await project.execute(
            f"create function public.{name}(integer[], integer[]) returns integer language sql return 1"
        )
    await project.execute("update memoryd.function_files set checksum = 'of before'")
    upgraded = await memoryd("migrate")
    assert upgraded.code == 0, upgraded.err
    wrong = check(await memoryd("doctor", "--json"), "overloads")
    assert [one for one in names if f"{one}(integer[],integer[])" not in wrong["found"]] == []
    assert (await memoryd("migrate", "--repair")).code == 0
    assert check(await memoryd("doctor", "--json"), "overloads")["verdict"] == "ok"
    moved = "select count(*) from pg_proc where pronamespace = 'memoryd_adopted'::regnamespace"
    assert await project.fetchval(moved) == len(names)


async def test_a_replaced_view_is_named_by_an_upgrade_that_it_stops(
    memoryd: Commands, project: asyncpg.Connection
) -> None:
    await paste(project, "fleet")
    await project.execute("update memoryd.function_files set checksum = 'of before'")
    stopped = await memoryd("migrate")
    assert stopped.code == 1
    assert "memoryd migrate --repair" in stopped.err
    assert (await memoryd("migrate", "--repair")).code == 0
    assert objects(await memoryd("doctor", "--json"))["verdict"] == "ok"


async def test_a_function_of_a_name_that_a_version_adds_is_not_replaced(
    memoryd: Commands, connection: asyncpg.Connection
) -> None:
    # As in a database of a version that had no such function.
    await connection.execute(
        """
        drop function public.decision_rates();
        update memoryd.function_files
        set objects = array_remove(objects, 'function public.decision_rates()'), checksum = 'of before';
        update memoryd.settings set value = value - 'function public.decision_rates()' where key = 'made_objects';
        create function public.decision_rates() returns text language sql return 'of the application';
        """
    )
    refused = await memoryd("migrate")
    assert refused.code == 1
    assert "decision_rates()" in refused.err
    assert "memoryd migrate --repair" in refused.err
    assert await connection.fetchval("select public.decision_rates()") == "of the application"
    assert (await memoryd("migrate", "--repair")).code == 0
    assert await connection.fetchval("select memoryd_adopted.decision_rates()") == "of the application"
    assert await connection.fetch("select * from public.decision_rates()") == []


@pytest.mark.parametrize(
    ("designs", "needs_a_repair"), [(("user_memory", "team_knowledge", "documents"), False), (DESIGNS, True)]
)
async def test_a_release_with_pasted_designs_is_upgraded(
    template: str, empty_url: str, tmp_path: Path, designs: tuple[str, ...], needs_a_repair: bool
) -> None:
    """`template`: its roles are there."""
    file = tmp_path / "release.backup"
    file.write_bytes(gzip.decompress((PASTED.parent / "0.1.0.backup.gz").read_bytes()))
    async with connected(empty_url) as connection:
        server = await connection.fetchval("select current_setting('server_version_num')::integer / 10000")
        await asyncio.to_thread(restore, file, empty_url, server)
        await connection.execute(PROJECT + VECTOR)
        await paste(connection, *designs)
        memoryd = Commands(empty_url, tmp_path)
        wrong = check(await memoryd("doctor", "--json"), "overloads")
        assert "match_memory(vector,double precision,integer,text,uuid)" in wrong["found"]
        done = await memoryd("migrate")
        assert (done.code, "memoryd migrate --repair" in done.err) == (int(needs_a_repair), needs_a_repair)
        done = await memoryd("migrate", "--repair")
        assert done.code == 0, done.err
        assert await failing(connection) == []
        sound = await memoryd("doctor", "--json")
        for name in ("overloads", "pasted", "objects", "schema"):
            assert check(sound, name)["verdict"] == "ok", check(sound, name)
