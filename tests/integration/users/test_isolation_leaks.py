"""What could be learnt of others' rows beside reading them: as another role, by the planner's eye, by how one is refused."""

from __future__ import annotations

import asyncio
import json
from uuid import uuid4

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.access.caller import Place
from tests.support.access.isolation import SOURCES
from tests.support.database.logins import login
from tests.support.database.schemas import connected
from tests.support.rows import column

# --- Roles.


async def test_a_users_login_cannot_become_another_role(place: Place, shared_url: str) -> None:
    async with login(place.connection, shared_url) as (name, direct):
        owner = await place.connection.fetchval("select current_user")
        assert await direct.fetchval("select session_user") == name
        for role in ("memoryd_service", "memoryd_admin", owner, "pg_read_all_data"):
            for statement in (
                f"set role {role}",
                f"set session authorization {role}",
                f"select set_config('role', '{role}', false)",
                f"grant {role} to {name}",
            ):
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    await direct.execute(statement)
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await direct.execute(f"alter role {name} bypassrls")
        assert await direct.fetchval("select count(*) from agent_memory") == 0
        assert not await direct.fetchval("select memoryd.caller_is_privileged()")
        async with acting_as(direct, ANN):
            seen = set(map(str, await column(direct, "select id from agent_memory")))
        assert seen == place.world.readable(ANN, "agent_memory")


# --- What leaks beside the rows.


async def test_a_cheap_function_in_a_filter_sees_only_the_callers_rows(place: Place) -> None:
    """The planner asks cheap conditions first, but none before the policy."""
    for relation, text in (
        ("agent_memory", "content"), ("shared_memory", "content"), ("conversation_messages", "content"),
        ("conversation_history", "message_text"), ("memory_chunks", "chunk_text"), ("agent_commands", "message"),
        ("dream_insights", "insight"), ("documents", "content"),
    ):  # fmt: skip
        source = place.world.tables[SOURCES.get(relation, relation)]
        name = {"message_text": "content"}.get(text, text)
        async with place.acting(ANN):
            await place.connection.execute(
                "create temp table peeked (words text); "
                "create function pg_temp.peek(words text) returns boolean language plpgsql cost 0.0000001 as "
                "$$ begin insert into pg_temp.peeked values (words); return true; end $$; "
                "create operator pg_temp.<<<< (function = pg_temp.peek, rightarg = text)"
            )
            for condition in (f"pg_temp.peek({text})", f"operator(pg_temp.<<<<) {text}"):
                await place.connection.execute(f"select count(*) from public.{relation} where {condition}")
            peeked = set(await column(place.connection, "select words from pg_temp.peeked"))
        assert peeked == {source[key][name] for key in place.world.readable(ANN, relation)}


async def test_the_planners_statistics_are_closed(place: Place) -> None:
    await place.connection.execute("analyze")
    for role in ("memoryd_user", "stranger"):
        async with place.acting(ANN, role):
            for view in ("pg_stats", "pg_stats_ext", "pg_stats_ext_exprs"):
                shown = f"select count(*) from {view} where schemaname in ('public', 'memoryd')"
                assert await place.connection.fetchval(shown) == 0
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await place.connection.fetch("select starelid from pg_statistic")


async def refusal(place: Place, statement: str) -> dict[str, str]:
    """What a caller is told, without the place in our source."""
    with pytest.raises(asyncpg.PostgresError) as raised:
        await place.connection.execute(statement)
    said: dict[str, str] = raised.value.as_dict()
    return {k: v for k, v in said.items() if not k.startswith("server_source")}


async def test_another_users_parent_row_is_refused_like_a_missing_one(place: Place) -> None:
    """By the same words, so that no caller learns by trying which ids there are."""
    message = "session_id, role, content) values ('{id}', 'user', 'x')"
    for table, parent, rest in (
        ("conversation_messages", "conversation_sessions", message),
        ("conversation_messages", "conversation_sessions", f"{message} on conflict do nothing"),
        ("memory_chunks", "documents", "document_id, chunk_index, chunk_text) values ('{id}', 99, 'x')"),
        (
            "memory_chunks",
            "documents",
            "document_id, chunk_index, chunk_text) values ('{id}', 0, 'x') on conflict do nothing",
        ),
    ):
        theirs = [k for k, r in place.world.tables[parent].items() if r["user_id"] != str(ANN)]
        told = []
        for key in (*theirs, uuid4()):
            async with place.acting(ANN):
                said = await refusal(place, f"insert into {table} ({rest.format(id=key)}")
            told.append({part: words.replace(str(key), "<id>") for part, words in said.items()})
        assert all(said == told[-1] for said in told), told


async def test_a_taken_id_is_refused_like_a_free_one(place: Place) -> None:
    """Ids are not a user's to choose."""
    for table, values in (
        ("agent_memory", "agent_id, content, user_id) values ('{id}', 'a', 'x', '{ann}')"),
        ("agent_commands", "agent_id, message, user_id) values ('{id}', 'a', 'x', '{ann}')"),
        ("documents", "title, user_id) values ('{id}', 'x', '{ann}')"),
    ):
        told = []
        for key in (*place.world.tables[table], uuid4()):
            async with place.acting(ANN):
                told.append(
                    await refusal(place, f"insert into {table} (id, {values.format(id=key, ann=ANN)}")
                )
        assert told[0]["sqlstate"] == "42501"
        assert all(said == told[0] for said in told), told


@pytest.mark.parametrize("off", [True, False])
async def test_whether_another_user_switched_memory_off_cannot_be_found_out(place: Place, off: bool) -> None:
    talk = next(k for k, r in place.world.tables["conversation_sessions"].items() if r["user_id"] == str(BOB))
    for statement in (
        f"insert into agent_memory (agent_id, content, user_id) values ('a', 'x', '{BOB}')",
        f"insert into documents (title, user_id) values ('x', '{BOB}')",
        f"insert into memory_queries (agent_id, user_id) values ('a', '{BOB}')",
        f"insert into conversation_messages (session_id, role, content) values ('{talk}', 'user', 'x')",
        f"insert into conversation_messages (session_id, role, content, user_id) values ('{uuid4()}', 'user', 'x', '{BOB}')",
    ):
        async with place.acting(None, "none"):
            await place.connection.execute(
                "update memory_settings set memory_enabled = $1 where user_id = $2", not off, BOB
            )
            await place.connection.execute(place.becoming(ANN))
            assert (await refusal(place, statement))["sqlstate"] == "42501"


async def test_no_sequence_is_readable(place: Place) -> None:
    """How far a sequence has come tells how much others do."""
    open_ones = await column(
        place.connection,
        "select c.relname from pg_class c cross join unnest($1::text[]) r "
        "where c.relkind = 'S' and c.relnamespace in ('public'::regnamespace, 'memoryd'::regnamespace) "
        "and has_sequence_privilege(r, c.oid, 'select, usage, update')",
        ["memoryd_user", "memoryd_admin", place.stranger],
    )
    assert open_ones == []


async def test_notifications_hold_no_user_id_and_no_content(shared_url: str) -> None:
    heard: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    def hear(_connection: object, _pid: int, channel: str, payload: object) -> None:
        heard.put_nowait((channel, str(payload)))

    async with connected(shared_url) as listener, connected(shared_url) as owner:
        for channel in ("memory_updated", "request_finished", "command_ready"):
            await listener.add_listener(
                channel, lambda _c, _p, name, payload: heard.put_nowait((name, payload))
            )
        key = await owner.fetchval(
            "insert into agent_memory (agent_id, user_id, content, metadata) "
            "values ('alice', $1, 'markbob', '{\"a\": \"markbob\"}') returning id",
            BOB,
        )
        request = await owner.fetchval(
            "insert into memory_requests (kind, user_id, query) values ('recall', $1, 'markbob') returning id",
            BOB,
        )
        await owner.execute(
            "update memory_requests set status = 'done', result = '[\"markbob\"]' where id = $1", request
        )
        said = [await heard.get(), await heard.get()]
        assert [name for name, _ in said] == ["memory_updated", "request_finished"]
        assert json.loads(said[0][1]) == {"memory_type": None, "operation": "INSERT"}
        assert json.loads(said[1][1]) == {"id": str(request)}
        await owner.execute("delete from agent_memory where id = $1", key)
        await owner.execute("delete from memory_requests where id = $1", request)
