"""Whose rows each caller sees and changes: every table and view, every verb, every role, against a model in Python.

Tables, views and columns come from the catalog: a new table without a rule in tests/support/access/isolation.py fails here.
"""

from __future__ import annotations

import io
import itertools
import json
import re
from uuid import UUID

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB, CAT, DAN, becoming
from tests.support.access.caller import Place, foreign_marks
from tests.support.access.isolation import (
    MARKS,
    READS,
    RELATIONS,
    SOURCES,
    grants,
    key_of,
)
from tests.support.access.verbs import DDL, writes
from tests.support.database.schemas import connected
from tests.support.rows import column

USERS: tuple[UUID | None, ...] = (ANN, BOB, CAT, DAN, None)
HIDDEN = {("agent_commands", "context")}
"""What the agents know is in a command's context: no user's."""
ACTORS = (("memoryd_user", ANN), ("memoryd_user", None), ("memoryd_admin", ANN), ("stranger", ANN))

COLUMNS = """
select a.attname::text, has_column_privilege($1, a.attrelid, a.attnum, 'select') as "select",
       has_column_privilege($1, a.attrelid, a.attnum, 'insert') as "insert",
       has_column_privilege($1, a.attrelid, a.attnum, 'update') as "update"
from pg_attribute a
where a.attrelid = ('public.' || $2)::regclass and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
order by a.attnum
"""


async def columns_of(place: Place, role: str, relation: str) -> tuple[list[str], dict[str, set[str]]]:
    """The columns of a relation, and those that a role may select, insert, update."""
    rows = await place.connection.fetch(COLUMNS, place.role(role), relation)
    return [r["attname"] for r in rows], {
        verb: {r["attname"] for r in rows if r[verb]} for verb in ("select", "insert", "update")
    }


# --- Reading.


async def test_every_table_and_view_has_a_rule(place: Place) -> None:
    assert set(await column(place.connection, RELATIONS)) == set(READS)
    for relation in READS:
        rows = place.world.tables[SOURCES.get(relation, relation)]
        assert rows, f"the world has no {relation}"


@pytest.mark.parametrize("relation", READS)
async def test_a_user_sees_exactly_the_rows_that_are_granted(place: Place, relation: str) -> None:
    for user in USERS:
        async with place.acting(user):
            assert await place.seen(relation) == place.world.readable(user, relation), user


@pytest.mark.parametrize("relation", READS)
async def test_no_column_of_another_users_row_is_visible(place: Place, relation: str) -> None:
    columns, allowed = await columns_of(place, "memoryd_user", relation)
    assert {(relation, c) for c in columns if c not in allowed["select"]} <= HIDDEN or not allowed["select"]
    if not allowed["select"]:
        return
    listed = ", ".join(f"{c}::text" for c in columns if c in allowed["select"])
    source = place.world.tables[SOURCES.get(relation, relation)]
    for user in USERS:
        granted = str([source[key] for key in place.world.readable(user, relation)])
        hidden = [mark for mark in MARKS.values() if mark not in granted]
        async with place.acting(user):
            rows = await place.connection.fetch(f"select {listed} from public.{relation}")
            copied = io.BytesIO()
            await place.connection.copy_from_query(f"select {listed} from public.{relation}", output=copied)
        assert not [mark for mark in hidden if mark in str(rows) + copied.getvalue().decode()], user
        assert len(copied.getvalue().splitlines()) == len(rows)


async def test_support_sees_every_row_and_each_read_is_audited(place: Place) -> None:
    for relation in READS:
        async with place.acting(ANN, "memoryd_admin"):
            assert await place.seen(relation) == place.world.readable_by_support(relation)
            await place.back()
            noted = await column(
                place.connection,
                "select user_id from agent_execution_logs where action_type = 'admin_read' and input_data ->> 'table' = $1",
                SOURCES.get(relation, relation),
            )
        owners = {r.get("user_id") for r in place.world.tables[SOURCES.get(relation, relation)].values()}
        if relation == "shared_memory":
            owners = {str(BOB)}
        assert {str(n) for n in noted} >= owners - {None}, relation


@pytest.mark.parametrize("relation", READS)
async def test_with_row_security_off_reading_is_refused(place: Place, relation: str) -> None:
    for role in ("memoryd_user", "memoryd_admin", "stranger"):
        async with place.acting(ANN, role):
            await place.connection.execute("set local row_security = off")
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await place.seen(relation)


NAMES = {"ann": str(ANN), "bob": str(BOB), "BOB": str(BOB).upper(), "cat": str(CAT)}
CLAIMS: tuple[tuple[str | None, str | None, UUID | None], ...] = (
    (None, None, None),
    ("", None, None),
    ("null", None, None),
    ("{}", None, None),
    ("[]", None, None),
    ("no json", None, None),
    ('"{ann}"', None, None),
    ('["{ann}"]', None, None),
    ('[{"sub": "{ann}"}]', None, None),
    ('{"sub": "{ann}"', None, None),
    ('{"sub": null}', None, None),
    ('{"sub": ""}', None, None),
    ('{"sub": 10}', None, None),
    ('{"sub": "admin"}', None, None),
    ('{"sub": ["{ann}"]}', None, None),
    ('{"sub": {"sub": "{ann}"}}', None, None),
    ('{"SUB": "{ann}", "Sub": "{ann}"}', None, None),
    ('{"user_id": "{ann}", "claims": {"sub": "{ann}"}}', None, None),
    ('{"role": "service_role"}', None, None),
    ('{"role": "memoryd_service", "is_admin": true}', None, None),
    ('{"sub": "{ann}\' or true --"}', None, None),
    ('{"sub": "%"}', None, None),
    ('{"sub": "{bob}", "role": "service_role"}', None, BOB),
    ('{"sub": "{BOB}"}', None, BOB),
    ('{"sub": "{ann}", "sub": "{bob}"}', None, BOB),
    ('{"sub": "{ann}"}', "", ANN),
    # The older setting is the one that counts, and claims without a user id are of no user.
    ('{"sub": "{ann}"}', "{bob}", BOB),
    ('{"sub": "{ann}"}', "{cat}", CAT),
    ('{"sub": "{ann}"}', "admin", None),
    ("no json", "{ann}", ANN),
    ("[" * 100_000, None, None),
    ('{"sub": "' + "a" * 1_000_000 + '"}', None, None),
)
"""Claims, request.jwt.claim.sub, and who that is."""


@pytest.mark.parametrize("number", range(len(CLAIMS)))
async def test_valid_claims_name_one_user_and_other_claims_nobody(place: Place, number: int) -> None:
    claims, sub, user = CLAIMS[number]
    async with place.acting(None):
        # By hand: which settings a user is read from, and what may stand in them, is what this tests.
        for name, value in (("claims", claims), ("claim.sub", sub)):
            if value is not None:
                text = re.sub("{(ann|bob|BOB|cat)}", lambda found: NAMES[found[1]], value)
                await place.connection.execute(f"select set_config('request.jwt.{name}', $1, true)", text)
        for relation in READS:
            if READS[relation].__name__ != "_never":
                assert await place.seen(relation) == place.world.readable(user, relation), relation


# --- What user_memory_access grants: the whole product.

LEVELS = (None, 0, 1, 2)
TAGS: tuple[list[str], ...] = ([], ["red"], ["blue"], ["red", "green"])
METADATA: tuple[object, ...] = (
    {},
    {"project": "work"},
    {"project": "home"},
    {"project": None},
    {"project": 7},
    ["project"],
    "project",
    7,
)
GRANTS = tuple(
    {
        "user_role": role,
        "access_level": level,
        "visibility_scope": scope,
        "allowed_tags": tags,
        "allowed_contexts": contexts,
    }
    for role, level, scope, tags, contexts in itertools.product(
        ("client", "employee", "admin"),
        (0, 1),
        ("own", "tags", "all"),
        ([], ["red"], ["red", "blue"]),
        (None, [], ["work"], ["7", "home"]),
    )
)


@pytest.mark.parametrize("table", ["conversation_messages", "memory_chunks"])
async def test_shared_rows_are_visible_to_users_with_a_grant(place: Place, table: str) -> None:
    connection = place.connection
    async with place.acting(None, "none"):
        rows = await shared_rows(connection, table)
        await connection.execute("delete from user_memory_access")
        await connection.execute(
            "insert into user_memory_access "
            "select (jsonb_populate_record(null::user_memory_access, e.item || jsonb_build_object("
            "    'id', gen_random_uuid(), 'created_at', now(), 'updated_at', now(), "
            "    'user_id', lpad(to_hex(e.n), 32, '0')))).* "
            "from jsonb_array_elements($1) with ordinality as e(item, n)",
            json.dumps(GRANTS),
        )
        found = 0
        for number, grant in enumerate(GRANTS, 1):
            await connection.execute(becoming(UUID(int=number)))
            seen = set(
                await column(connection, f"select id from {table} where user_id = $1", UUID(int=2**100))
            )
            assert seen == {key for key, row in rows.items() if grants(grant, row)}, grant
            found += len(seen)
        assert found > len(GRANTS)


async def shared_rows(connection: asyncpg.Connection, table: str) -> dict[UUID, dict[str, object]]:
    """One row of another user for each level, tags and metadata."""
    owner = UUID(int=2**100)
    name, parent, text = {
        "conversation_messages": (
            "session_id",
            "conversation_sessions (user_id)",
            "role, content, message_index",
        ),
        "memory_chunks": ("document_id", "documents (user_id, title)", "chunk_text, context, chunk_index"),
    }[table]
    values = "$1, 'x'" if "title" in parent else "$1"
    made = await connection.fetchval(f"insert into {parent} values ({values}) returning id", owner)
    rows: dict[UUID, dict[str, object]] = {}
    for n, (level, tags, metadata) in enumerate(itertools.product(LEVELS, TAGS, METADATA)):
        key = await connection.fetchval(
            f"insert into {table} ({name}, user_id, access_level, visibility_tags, metadata, {text}) "
            "values ($1, $2, $3, $4, $5, 'user', 'a zebra crossing', $6) returning id",
            made,
            owner,
            level,
            tags,
            json.dumps(metadata),
            n,
        )
        rows[key] = {"access_level": level, "visibility_tags": tags, "metadata": metadata}
    return rows


# --- Writing.


@pytest.mark.parametrize("relation", READS)
@pytest.mark.parametrize(("role", "user"), ACTORS)
async def test_no_statement_writes_rows_of_other_users(
    place: Place, relation: str, role: str, user: UUID | None
) -> None:
    columns, allowed = await columns_of(place, role, relation)
    source, name, key = SOURCES.get(relation, relation), f"public.{relation}", key_of(relation)
    # One row of each owner's.
    rows = {r.get("user_id"): {c: r.get(c) for c in columns} for r in place.world.tables[source].values()}
    statements = [
        s
        for row in rows.values()
        for s in writes(name, columns=columns, allowed=allowed, key=key, row=row, users=USERS)
    ]
    statements = [*dict.fromkeys(statements), *(s.format(name=name) for s in DDL)]
    changed = 0
    refusals = await place.tried(user, role, statements)
    for statement, refusal in zip(statements, refusals, strict=True):
        said = refusal or ""
        if refusal is None:
            async with place.acting(user, role):
                said = str(await place.connection.fetch(statement))
                changes = await place.changes(user, role)
                assert [row for row, right in changes.items() if not right] == [], statement
                changed += len(changes)
        if role != "memoryd_admin":
            assert not [mark for mark in foreign_marks(user) if mark in said], statement
    # What is one's own can be written, where anything can.
    writable = role == "memoryd_user" and bool(allowed["insert"] or allowed["update"])
    assert bool(changed) == (writable and user is not None), changed


@pytest.mark.parametrize("relation", READS)
async def test_users_lock_only_their_own_rows(place: Place, relation: str, shared_url: str) -> None:
    source, key = SOURCES.get(relation, relation), key_of(relation)
    async with connected(shared_url) as owner:
        for strength, (role, user) in itertools.product(
            ("update", "no key update", "share", "key share"), (("memoryd_user", ANN), ("memoryd_admin", ANN))
        ):
            async with place.acting(user, role):
                try:
                    await place.connection.fetch(f"select {key} from public.{relation} for {strength}")
                except asyncpg.PostgresError:
                    continue
                free = await column(owner, f"select {key}::text from public.{source} for update skip locked")
            there = place.world.tables[source].keys() - set(free)
            assert role == "memoryd_user", strength
            assert all(place.world.is_mine(user, source, k) for k in there), strength


REFUSED_COPY = (
    asyncpg.InsufficientPrivilegeError,
    asyncpg.FeatureNotSupportedError,
    asyncpg.WrongObjectTypeError,
)
"""No right to the table; Postgres copies into no table with row-level security; nor into a view."""


@pytest.mark.parametrize("relation", READS)
async def test_copy_from_is_refused(place: Place, relation: str) -> None:
    """COPY would pass the policies by, so Postgres has none of it where there are any."""
    source = place.world.tables[SOURCES.get(relation, relation)]
    for role in ("memoryd_user", "memoryd_admin", "stranger"):
        columns, allowed = await columns_of(place, role, relation)
        some = [c for c in columns if c in allowed["insert"]] or [key_of(relation)]
        row = next(iter(source.values()))
        async with place.acting(ANN, role):
            with pytest.raises(REFUSED_COPY):
                await place.connection.copy_to_table(
                    relation, schema_name="public", columns=some, format="csv",
                    source=io.BytesIO(",".join(f'"{row.get(c)}"' for c in some).encode()),
                )  # fmt: skip
