"""Tables of a hostile role, read by a superuser: nothing that the role has made runs with the superuser's rights.

These tests connect as a superuser, since that is who has more rights than the role: what is tried is that they are not lent.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from tests.support.database.schemas import connected
from tests.support.database.servers import Server
from tests.support.database.templates import BARE, copied
from tests.support.processes.commands import Commands

# What a role makes where its table is read; `mark()` says as whom it ran.
MARKED = """
create table public.marks (ran_as text, what text);
grant insert, select on public.marks to public;
create function public.mark(what text) returns void language plpgsql as $$
begin insert into public.marks values (current_user, what); end $$
"""
MARK = "perform public.mark('{what}');"
FUNCTION = (
    """
create function public.{name} returns {returns} language plpgsql {kind} as $$
begin """
    + MARK
    + """ return {value}; end $$;
"""
)
COLUMNS = """
    id uuid primary key default gen_random_uuid(), session_id uuid, role varchar, content varchar, user_id uuid
"""
TYPED = ", mood {schema}.mood, said {schema}.said, created_at timestamptz default now()"


def made(what: str, name: str, returns: str, value: str, kind: str = "volatile") -> str:
    """A function that leaves a mark."""
    return FUNCTION.format(what=what, name=name, returns=returns, value=value, kind=kind)


LURES = "".join(
    [
        made("lower", "lower(varchar)", "text", "pg_catalog.lower($1::text)"),
        made("jsonb_build_object", "jsonb_build_object(text, varchar)", "jsonb", "'{}'::jsonb"),
        made("count", "row_number(varchar)", "bigint", "1"),
        made("to_jsonb", "to_jsonb(public.conversation_messages)", "jsonb", "'{}'::jsonb"),
        made("quote_ident", "quote_ident(name)", "text", "pg_catalog.quote_ident($1::text)"),
        made("format", "format(text, name, name)", "text", "pg_catalog.concat($2, '.', $3)"),
        made("=", "lure_equal(varchar, varchar)", "boolean", "$1::text operator(pg_catalog.=) $2::text"),
        "create operator public.= (leftarg = varchar, rightarg = varchar, function = public.lure_equal);",
        made("!~", "lure_unlike(varchar, text)", "boolean", "true"),
        "create operator public.!~ (leftarg = varchar, rightarg = text, function = public.lure_unlike);",
        made("-", "lure_minus(jsonb, text)", "jsonb", "$1"),
        "create operator public.- (leftarg = jsonb, rightarg = text, function = public.lure_minus);",
    ]
)
# What hangs on the table itself: a name of one's own does not help against it.
ON_TABLE = "".join(
    [
        made("cast to text", "mood_text({schema}.mood)", "text", "'m'"),
        "create cast ({schema}.mood as text) with function public.mood_text({schema}.mood);",
        made("cast to json", "said_json({schema}.said)", "json", "'1'::json"),
        "create cast ({schema}.said as json) with function public.said_json({schema}.said);",
        made("policy", "allows(text)", "boolean", "true"),
        "alter table {table} enable row level security;",
        "create policy lure on {table} using (public.allows(role));",
        made("index", "chosen(text)", "boolean", "true", "immutable"),
        "create index on {table} (created_at) where public.chosen('x');",
        made("check", "fits(text)", "boolean", "true", "immutable"),
        "alter table {table} add check (public.fits('x'));",
        "create statistics public.lures on (public.chosen(role)), role from {table};",
        "create function public.stamped() returns trigger language plpgsql as $$ begin "
        + MARK.format(what="trigger")
        + " return new; end $$;"
        "create trigger lure before insert or update or delete on {table} for each row execute function public.stamped();",
    ]
)


@dataclass(frozen=True, slots=True)
class Prey:
    """A database of a superuser, with the tables of a role."""

    url: str
    admin: asyncpg.Connection
    theirs: asyncpg.Connection
    role: str

    async def marks(self) -> list[tuple[str, str]]:
        """What ran as somebody else than the role."""
        rows = await self.admin.fetch(
            "select distinct ran_as, what from public.marks where ran_as <> $1", self.role
        )
        return [(row["ran_as"], row["what"]) for row in rows]


@pytest.fixture
async def prey(server: Server) -> AsyncIterator[Prey]:
    role = f"hostile_{uuid.uuid4().hex[:8]}"
    async with copied(server, BARE) as owners:
        url = server.admin_url_of(urlsplit(owners).path[1:])
        async with connected(url) as admin:
            await admin.execute(
                f"create extension vector; create role {role} login; grant create on schema public to {role};"
            )
            parts = urlsplit(url)
            await admin.execute(f'grant connect, create on database "{parts.path[1:]}" to {role}')
            try:
                mine = urlunsplit(parts._replace(netloc=f"{role}@{parts.netloc.rpartition('@')[2]}"))
                async with connected(mine) as theirs:
                    await theirs.execute(MARKED)
                    yield Prey(url, admin, theirs, role)
            finally:
                await admin.execute(f"drop owned by {role} cascade; drop role {role}")


async def hostile(prey: Prey, table: str, columns: str, row: str) -> None:
    """A table of the role with all that it can make, and one row."""
    types = (
        "create type public.mood as enum ('glad', 'sad'); create type public.said as (loud boolean);"
        f"create table {table} ({(columns + TYPED).format(schema='public')}); {row};"
    )
    await prey.theirs.execute(types)
    await prey.theirs.execute(ON_TABLE.replace("{schema}", "public").replace("{table}", table))
    await prey.theirs.execute("truncate public.marks")


async def test_adopt_takes_rows_in_and_calls_nothing_of_their_owner(
    prey: Prey, tmp_path_factory: pytest.TempPathFactory
) -> None:
    row = (
        "insert into public.conversation_messages (session_id, role, content, mood, said)"
        " values (gen_random_uuid(), 'User', 'hello there', 'glad', row(true))"
    )
    await hostile(prey, "public.conversation_messages", COLUMNS, row)
    await prey.theirs.execute(LURES)
    await prey.theirs.execute(
        "alter table public.conversation_messages force row level security; truncate public.marks"
    )
    before = await prey.admin.fetch(
        "select oid, pronamespace, proname from pg_proc where pronamespace = 'public'::regnamespace order by oid"
    )
    memoryd = Commands(prey.url, tmp_path_factory.mktemp("adopt"))
    planned = await memoryd("adopt", "--dry-run")
    assert (planned.code, await prey.marks()) == (0, []), planned.err
    done = await memoryd("adopt")
    assert (done.code, await prey.marks()) == (0, []), done.err
    assert "conversation_messages: 1 of 1 row taken in" in done.out
    assert "kept in the metadata: mood, said" in done.out
    [message] = await prey.admin.fetch("select role, content, metadata from public.conversation_messages")
    assert (message["role"], message["content"]) == ("user", "hello there")
    assert json.loads(message["metadata"]) == {"mood": "glad", "said": "(t)"}
    # What is the role's stands where it stood.
    kept = await prey.admin.fetch(
        "select oid, pronamespace, proname from pg_proc where oid = any($1) order by oid",
        [row["oid"] for row in before],
    )
    assert kept == before
    assert await prey.admin.fetchval(
        "select not exists (select from pg_namespace where nspname like 'memoryd\\_aside%')"
    )
    assert await prey.admin.fetchval(
        "select relforcerowsecurity from pg_class where oid = 'memoryd_adopted.conversation_messages'::regclass"
    )


async def test_migrate_and_doctor_call_nothing_of_others(
    prey: Prey, tmp_path_factory: pytest.TempPathFactory
) -> None:
    await prey.theirs.execute("create table public.conversation_messages (id integer)")
    await prey.theirs.execute(LURES)
    memoryd = Commands(prey.url, tmp_path_factory.mktemp("migrate"))
    for arguments in (("doctor", "--json"), ("migrate", "--dry-run"), ("migrate",)):
        await memoryd(*arguments)
        assert await prey.marks() == [], arguments
    await prey.theirs.execute(
        "drop table public.conversation_messages cascade; create table public.conversation_messages_of_ours (id integer)"
    )
    assert (await memoryd("migrate")).code == 0
    found = await memoryd("doctor", "--json")
    [schemas] = [one for one in found.json if one["name"] == "schemas"]
    assert (schemas["verdict"], await prey.marks()) == ("problem", [])
    assert "public.!~(character varying,text)" in schemas["found"]


LEDGER = """
create table memoryd.migrations (
    version integer primary key, name text not null, checksum text not null, applied_at timestamptz not null default now());
"""
PLANTED = {
    "view": "create view memoryd.migrations as select 1 as version, public.lured() as name, 'x' as checksum;",
    "trigger": LEDGER
    + "create function memoryd.watch() returns trigger language plpgsql as $$ begin "
    + MARK.format(what="trigger")
    + " return new; end $$; create trigger watch before insert on memoryd.migrations"
    " for each row execute function memoryd.watch();",
    "check": LEDGER + "alter table memoryd.migrations add check (public.lured() = 'x');",
    "nothing": "",
}


@pytest.mark.parametrize("planted", PLANTED)
async def test_nothing_runs_that_stood_in_memoryds_schema_before_memoryd(
    planted: str, prey: Prey, tmp_path_factory: pytest.TempPathFactory
) -> None:
    await prey.theirs.execute(
        made("planted", "lured()", "text", "'x'") + "create schema memoryd;" + PLANTED[planted]
    )
    memoryd = Commands(prey.url, tmp_path_factory.mktemp("planted"))
    for arguments in (("doctor", "--json"), ("adopt",), ("migrate", "--repair")):
        done = await memoryd(*arguments)
        assert (done.code, await prey.marks()) == (1, []), arguments
        if arguments[0] != "doctor":
            assert f"belongs to the role {prey.role}" in done.err, arguments


# Each fits better than what is Postgres' own, or stands before it.
IN_THE_PATH = LURES + "".join(
    made(f"={type_}", f"same(a {type_}, b {type_})", "boolean", f"$1::{wider} operator(pg_catalog.=) $2::{wider}")
    + f"create operator public.= (leftarg = {type_}, rightarg = {type_}, function = public.same);"
    for type_, wider in (("name", "text"), ("oid", "int8"), ("text", "varchar"), ("int4", "int8"))
) + "".join(
    made(name, f"{name}({takes})", returns, f"pg_catalog.{name}({given})")
    for name, takes, given, returns in (
        ("to_regclass", "text", "$1", "regclass"),
        ("current_setting", "text", "$1", "text"),
        ("pg_is_in_recovery", "", "", "boolean"),
        ("now", "", "", "timestamptz"),
    )
)  # fmt: skip


@pytest.mark.parametrize("way", ["path of the database", "schema of the superuser's name", "extension"])
async def test_nothing_is_called_that_a_role_has_put_into_the_path(
    way: str, prey: Prey, tmp_path_factory: pytest.TempPathFactory
) -> None:
    await prey.theirs.execute(
        f"create table public.conversation_messages ({COLUMNS}, created_at timestamptz default now());"
        "insert into public.conversation_messages (session_id, role, content) values (gen_random_uuid(), 'User', 'hello')"
    )
    database, me = await prey.admin.fetchrow("select current_database(), current_user") or ("", "")
    schema = me if way.startswith("schema") else "evil"
    if way == "extension":
        # As its owner may, who is the role where the extension is trusted.
        await prey.theirs.execute(LURES)
        added = await prey.theirs.fetch(
            "select 'function ' || oid::regprocedure as what from pg_proc"
            " where proowner = current_user::regrole and proname <> 'mark'"
            " union all select 'operator ' || oid::regoperator from pg_operator where oprowner = current_user::regrole"
        )
        for row in added:
            await prey.admin.execute(f"alter extension vector add {row['what']}")
    else:
        await prey.theirs.execute(f"create schema {schema}; grant usage on schema {schema} to public")
        await prey.theirs.execute(
            IN_THE_PATH.replace("public.", f"{schema}.").replace(f"{schema}.mark", "public.mark")
            .replace(f"{schema}.conversation", "public.conversation")
        )  # fmt: skip
    if way.startswith("path"):
        await prey.admin.execute(f'alter database "{database}" owner to {prey.role}')
        await prey.theirs.execute(
            f'alter database "{database}" set search_path = {schema}, pg_catalog, public'
        )
    await prey.theirs.execute("truncate public.marks")
    memoryd = Commands(prey.url, tmp_path_factory.mktemp("path"))
    for arguments in (("doctor", "--json"), ("adopt", "--dry-run"), ("adopt",), ("migrate", "--repair")):
        done = await memoryd(*arguments)
        assert await prey.marks() == [], arguments
        assert done.code == 0 or arguments[0] == "doctor", done.err
    await prey.admin.execute("drop extension vector cascade")
    await prey.admin.execute(f'alter database "{database}" owner to current_user')
