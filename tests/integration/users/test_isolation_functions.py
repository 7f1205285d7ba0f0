"""What comes back from functions depends on rows that the caller may read, and on no others: every function that end users
or support may execute, found in the catalog, is asked twice, with all rows there and with only the caller's.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from uuid import UUID

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB, CAT, DAN
from tests.support.access.caller import Place, open_place
from tests.support.access.calls import CALLS, EXECUTABLE, PURE, WORDS
from tests.support.access.isolation import MARKS, READS, key_of
from tests.support.database.lookalikes import ENTER, MAKE, TRAPPED
from tests.support.database.tokens import put_tokens_in
from tests.support.rows import column, embedding

CODE = re.compile(r"(?<=CONTEXT )[0-9a-f]{12}\b|(?<=code )[0-9a-f]{12}\b")
REFUSED = ("22004", "42501", "P0002", "PT401")
"""Null arguments, missing rights, a query that is nobody's or another's, and no user."""
PARTS = 4
"""In how many tests the calls are shared out."""
VECTOR = f"{embedding(0.8, 0.6)!r}::vector"

# What only one of BOB's rows says, and a word of ANN's that is near to it. The index is one that a big table would have.
NEAR = """
insert into agent_memory (agent_id, user_id, content) values
    ('alice', '{bob}', 'pregnancy of markbob'), ('alice', '{ann}', 'the baby of markann');
select memoryd.write_entries('memory', array_agg(m.id), array_agg(null::bigint), array_agg(m.id), array_agg(m.content),
                             array_agg('{near}'::vector))
from agent_memory m join memoryd.unindexed u using (id);
select memoryd.learn_words('{{pregnancy,baby,secret,recipe}}');
insert into memoryd.lexeme_neighbours (lexeme, neighbour, similarity)
select a.lexeme, b.lexeme, 0.8 from memoryd.lexicon a, memoryd.lexicon b
where a.word in ('pregnancy', 'baby') and b.word in ('pregnancy', 'baby') and a.word <> b.word;
select memoryd.fold_lexeme_changes();
"""


@pytest.fixture(scope="module")
async def place(shared_url: str) -> AsyncIterator[Place]:
    """The world, and a caller in it."""
    async with open_place(shared_url, also=NEAR.format(ann=ANN, bob=BOB, near=embedding(0.6, 0.8))) as made:
        await put_tokens_in(made.connection)
        yield made


def written(call: str, place: Place, user: UUID | None) -> str:
    """The call with what it is about."""
    call = call.replace("<words>", WORDS).replace("<vector>", VECTOR)
    call = call.replace("<me>", str(user or CAT)).replace("<other>", str(ANN if user == BOB else BOB))
    for table, rows in place.world.tables.items():
        ids = ",".join(sorted(rows))
        call = call.replace(f"<{table}>", f"'{{{ids}}}'::uuid[]")
    return call


async def answer(place: Place, statement: str, *, keep: bool = False) -> str:
    """What comes back, as text; an error's words where it is refused. Nothing of it stays, unless it is to be kept."""
    await place.connection.execute("savepoint before")
    try:
        said = "\n".join(map(str, await column(place.connection, f"select r::text from ({statement}) r")))
        # Of a context nothing but its code is another each time.
        return CODE.sub("code", said)
    except asyncpg.PostgresError as error:
        if error.sqlstate not in REFUSED:
            raise
        keep = False
        return f"{error.sqlstate} {error}"
    finally:
        if not keep:
            await place.connection.execute("rollback to before")


@pytest.mark.parametrize("role", ["memoryd_user", "memoryd_admin"])
async def test_every_function_has_a_call(place: Place, role: str) -> None:
    executable = set(await column(place.connection, EXECUTABLE, role))
    assert executable - PURE <= CALLS.keys()
    if role == "memoryd_user":
        both = executable | set(await column(place.connection, EXECUTABLE, "memoryd_admin"))
        assert both == PURE | CALLS.keys()


async def test_functions_listed_as_pure_read_no_table(place: Place) -> None:
    impure = await column(
        place.connection,
        "select p.proname from pg_proc p join pg_namespace n on n.oid = p.pronamespace "
        "where n.nspname || '.' || p.proname = any($1) "
        "and (p.prosecdef or p.prosrc ~* '\\m(public|memoryd)\\.[a-z0-9_]+(?![a-z0-9_(])')",
        sorted(PURE),
    )
    assert impure == []


async def test_a_role_without_grants_calls_nothing(place: Place) -> None:
    assert await column(place.connection, EXECUTABLE, place.stranger) == []


@pytest.mark.parametrize("user", [ANN, BOB, CAT, DAN, None])
@pytest.mark.parametrize("part", range(PARTS))
async def test_a_function_returns_only_the_callers_own_rows(
    place: Place, part: int, user: UUID | None
) -> None:
    """A part of the functions: the rows of others are deleted once for all of its calls."""
    names = sorted(CALLS)[part::PARTS]
    calls = [written(call, place, user) for name in names for call in CALLS[name]]
    hidden = [mark for owner, mark in MARKS.items() if owner != user and mark not in await shown(place, user)]
    async with place.acting(user):
        with_all = [await answer(place, call) for call in calls]
        await place.back()
        await forget_all_but(place, user)
        await place.connection.execute(place.becoming(user))
        with_own = [await answer(place, call) for call in calls]
    for call, one, other in zip(calls, with_all, with_own, strict=True):
        assert one == other, (user, call)
        assert not [mark for mark in hidden if mark in one], (user, call)


GRANTED = """
select format('%I.%I', n.nspname, c.relname) from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname in ('public', 'memoryd') and c.relkind in ('r', 'v', 'm')
  and has_any_column_privilege('memoryd_admin', c.oid, 'select')
  and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'e')
order by 1
"""
ON_RECORD = "select count(*) from agent_execution_logs where action_type = 'admin_read'"


async def test_support_reads_nothing_of_users_without_a_record(place: Place) -> None:
    """What answers support otherwise once the users' rows are gone has put on the trail that it was read."""
    connection = place.connection
    relations = list(await column(connection, GRANTED))
    executable = set(await column(connection, EXECUTABLE, "memoryd_admin"))
    asked = [f"select r::text from {relation} r order by 1" for relation in relations]
    asked += [written(call, place, ANN) for name in sorted(CALLS.keys() & executable) for call in CALLS[name]]
    assert len(relations) > 25
    async with place.acting(None, "none"):
        await connection.execute(f"update shared_knowledge set created_by = '{ANN}'")
        before, noted = await asked_by_support(place, asked)
        await connection.execute("delete from shared_knowledge")
        for table, rows in place.world.tables.items():
            if any("user_id" in row for row in rows.values()):
                await connection.execute(f"delete from public.{table} where user_id is not null")
        after, _ = await asked_by_support(place, asked)
    read = [one for one, some, none in zip(asked, before, after, strict=True) if some != none]
    assert len(read) > 50
    assert [one for one in read if one not in noted] == []


# What goes with BOB's rows and does not name him: found by the run, command, memories or conversation that it is of.
UNNAMED = """
insert into agent_execution_logs (session_id, agent_id, step_name, action_type)
select id, 'alice', 'a step of the service', 'reasoning' from agent_sessions where user_id = '{bob}';
insert into memory_queries (agent_id, command_id) select 'alice', id from agent_commands where user_id = '{bob}';
insert into memory_associations (memory_id, related_memory_id, association_type, strength)
select a.id, m.id, 'related', 0.5 from agent_memory a, agent_memory m where a.user_id is null and m.user_id = '{bob}'
on conflict do nothing;
insert into dream_insights (insight, source_memories, category, confidence)
select 'drawn', array[a.id, m.id], 'summary', 0.9
from agent_memory a, agent_memory m where a.user_id is null and m.user_id = '{bob}';
with begun as (insert into conversation_sessions (agent_id) values ('alice') returning id)
insert into conversation_messages (session_id, role, content) select id, 'assistant', 'said' from begun;
update conversation_sessions set user_id = '{bob}'
where id in (select session_id from conversation_messages where content = 'said');
"""


async def test_each_row_that_goes_with_a_user_is_on_record_when_support_reads_it_alone(place: Place) -> None:
    connection = place.connection
    alone: list[tuple[str, str]] = []
    noted: list[tuple[str, str]] = []
    async with place.acting(None, "none"):
        await connection.execute(UNNAMED.format(bob=BOB))
        step = "t.session_id in (select s.id from agent_sessions s where s.user_id = $1)"
        for table, erased in await connection.fetch("select name, erased from memoryd.user_tables()"):
            whose = f"{erased} or {step}" if table == "agent_execution_logs" else erased
            key, whose = key_of(table), whose.replace("$1", f"'{BOB}'::uuid")
            by_support = f"{ON_RECORD} and user_id = '{BOB}' and step_name = 'select {table}'"
            for row in await column(connection, f"select t.{key}::text from {table} t where {whose}"):
                alone.append((table, str(row)))
                await connection.execute(f"savepoint one; {place.becoming(None, 'memoryd_admin')}")
                read = await column(connection, f"select t::text from {table} t where {key} = $1::uuid", row)
                assert len(read) == 1
                await connection.execute("set local role none")
                if await connection.fetchval(by_support):
                    noted.append((table, str(row)))
                await connection.execute("rollback to one")
    assert len(alone) > 40
    assert [one for one in alone if one not in noted] == []


async def asked_by_support(place: Place, statements: list[str]) -> tuple[list[str], set[str]]:
    """What each statement answers support, and those that put a read on record."""
    said, noted = [], set()
    recorded = await place.connection.fetchval(ON_RECORD)
    for statement in statements:
        await place.connection.execute(f"savepoint asking; {place.becoming(None, 'memoryd_admin')}")
        said.append(await answer(place, statement, keep=True))
        await place.connection.execute("set local role none")
        if await place.connection.fetchval(ON_RECORD) > recorded:
            noted.add(statement)
        await place.connection.execute("rollback to asking")
    return said, noted


async def shown(place: Place, user: UUID | None) -> str:
    """All that a user is granted."""
    tables = place.world.tables
    return str([tables[t][key] for t in tables for key in place.world.readable(user, t)])


async def forget_all_but(place: Place, user: UUID | None) -> None:
    """Deletes what the user may not read, but for the sessions and documents of what they may."""
    kept = {table: place.world.readable(user, table) for table in place.world.tables}
    for child, parent, key in (
        ("conversation_messages", "conversation_sessions", "session_id"),
        ("memory_chunks", "documents", "document_id"),
        ("conversation_messages", "chat_groups", "chat_id"),
    ):
        kept[parent] |= {str(place.world.tables[child][row][key]) for row in kept[child]}
    # The trail last: the others write into it.
    for table in sorted(kept, key=lambda name: name == "agent_execution_logs"):
        await place.connection.execute(
            f"delete from public.{table} where {key_of(table)}::text <> all ($1)", sorted(kept[table])
        )
    while await place.connection.fetchval("select memoryd.fold_lexeme_changes()"):
        pass


@pytest.mark.parametrize("role", ["memoryd_user", "memoryd_admin", "nobody"])
@pytest.mark.parametrize("name", CALLS)
async def test_a_function_changes_only_the_callers_own_rows(place: Place, name: str, role: str) -> None:
    user, acts_as = (None, "memoryd_user") if role == "nobody" else (ANN, role)
    for call in CALLS[name]:
        async with place.acting(user, acts_as):
            try:
                await place.connection.execute(written(call, place, user))
            except asyncpg.PostgresError:
                continue
            changes = await place.changes(user, acts_as, erasing="erase" in call)
            assert [row for row, right in changes.items() if not right] == [], call


# --- Whatever the caller's search_path.

OWN_WRITES = (
    "insert into public.agent_memory (agent_id, user_id, content, kind) values ('alice', '<me>', 'a note', 'outcome')",
    "insert into public.agent_commands (agent_id, user_id, message) values ('alice', '<me>', 'a task')",
    "insert into public.memory_requests (kind, user_id, query) values ('recall', '<me>', 'a question')",
    "insert into public.memory_queries (agent_id, user_id) values ('alice', '<me>')",
    "insert into public.documents (title, user_id) values ('a title', '<me>')",
    "insert into public.agent_sessions (user_id, status) values ('<me>', 'completed')",
    "insert into public.conversation_sessions (user_id) values ('<me>')",
    "insert into public.conversation_messages (session_id, role, content) values ('{session}', 'user', 'a word')",
    "update public.agent_memory set content = 'other words'",
    "update public.conversation_messages set content = 'other words'",
    "update public.memory_settings set memory_ttl_hours = 5",
    "update public.agent_sessions set status = 'error'",
    "select public.forget(array(select id from public.conversation_sessions), 'session')",
    "select public.forget(array(select id from public.documents), 'document')",
    "select public.forget(array(select id from public.agent_memory))",
)


async def test_no_function_calls_a_callers_look_alike(place: Place) -> None:
    """The calls are parsed before, so that what a look-alike could catch is what our functions say."""
    connection = place.connection
    calls = [written(call, place, ANN) for calls in CALLS.values() for call in calls]
    async with place.acting(None, "none"):
        await connection.execute(MAKE)
        await connection.execute(place.becoming(ANN))
        for number, call in enumerate(calls):
            await connection.execute(
                f"create function pg_temp.call_{number}() returns setof text begin atomic select r::text from ({call}) r; end"
            )
        asked = [f"select r from pg_temp.call_{number}() r" for number in range(len(calls))]
        before = [await answer(place, one) for one in asked]
        await connection.execute(ENTER)
        after = [await answer(place, one) for one in asked]
    for call, one, other in zip(calls, before, after, strict=True):
        assert one == other, call
        assert TRAPPED not in other, call
    assert sum(bool(one) for one in before) > len(before) / 2


async def test_no_policy_and_no_trigger_calls_a_callers_look_alike(place: Place) -> None:
    connection = place.connection
    session = min(place.world.readable(ANN, "conversation_sessions"))
    async with place.acting(None, "none"):
        await connection.execute(MAKE)
        await connection.execute(place.becoming(ANN))
        await connection.execute(ENTER)
        for relation in READS:
            assert await place.seen(relation) == place.world.readable(ANN, relation)
        for statement in OWN_WRITES:
            await connection.execute("savepoint one")
            await connection.execute(statement.replace("<me>", str(ANN)).replace("{session}", session))
            changes = await place.changes(ANN, "memoryd_user")
            assert changes, statement
            assert [row for row, right in changes.items() if not right] == [], statement
            await connection.execute("rollback to one")
