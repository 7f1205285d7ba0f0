"""A database as Supabase makes it: roles that do not inherit, everything granted to clients by default, pgvector in a schema of
its own, and an owner that is no superuser.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID

import asyncpg

from plugins.embedded.server import EmbeddedPostgres
from tests.support.access.acting import becoming
from tests.support.database.schemas import apply, connected

CLIENTS = "anon, authenticated, service_role"
ROLES = [
    "create role anon nologin noinherit",
    "create role authenticated nologin noinherit",
    "create role service_role nologin noinherit bypassrls",
    "create role authenticator login noinherit",
    "create role supabase_auth_admin login noinherit createrole",
    "create role supabase_realtime_admin nologin noinherit",
    f"grant {CLIENTS} to authenticator",
    "create role project_owner login createrole createdb bypassrls",
    f"grant {CLIENTS} to project_owner with admin option",
    "grant supabase_realtime_admin to project_owner",
]
DATABASE = [
    "create schema extensions authorization project_owner",
    "create extension vector with schema extensions",
    f"grant usage on schema extensions to project_owner, {CLIENTS}",
    f"grant usage on schema public to {CLIENTS}",
    "grant all on schema public to project_owner",
    "create schema auth authorization supabase_auth_admin",
    f"grant usage on schema auth to project_owner, {CLIENTS}",
    (
        "create function auth.uid() returns uuid language sql stable "
        "as $$ select (current_setting('request.jwt.claims', true)::jsonb ->> 'sub')::uuid $$"
    ),
    *(
        f"alter default privileges for role project_owner {where} grant all on {kind} to {CLIENTS}"
        for kind in ("tables", "functions", "sequences")
        for where in ("in schema public", "")
    ),
]

PUBLICATION = [
    "create publication supabase_realtime",
    "alter publication supabase_realtime owner to project_owner",
]
WAITING = """
select split_part(key, '.', 2)::uuid from memoryd.settings
where key like 'deleted\\_account.%'
order by 1
"""
"""Whose account is deleted, and whose memory is not erased yet."""
ACCOUNTS = [
    "create table auth.users (id uuid primary key, email text)",
    "alter table auth.users owner to supabase_auth_admin",
    "grant all on auth.users to project_owner",
]
"""Its accounts: as there, the owner of the project may put a trigger on them."""
BROADCAST = [
    "create schema realtime",
    f"grant usage on schema realtime to project_owner, {CLIENTS}",
    (
        "create table realtime.messages (topic text not null, extension text not null, payload jsonb, event text, "
        "private boolean default false, updated_at timestamp not null default now(), "
        "inserted_at timestamp not null default now(), id uuid not null default gen_random_uuid(), "
        "primary key (id, inserted_at)) partition by range (inserted_at)"
    ),
    "create table realtime.messages_all partition of realtime.messages default",
    "alter table realtime.messages owner to supabase_realtime_admin",
    "alter table realtime.messages enable row level security",
    "grant all on realtime.messages to project_owner",
    f"grant select, insert, update on realtime.messages to {CLIENTS}",
    (
        "create function realtime.topic() returns text language sql stable "
        "as $$ select nullif(current_setting('realtime.topic', true), '')::text $$"
    ),
    # Written anew after the signature and the behaviour of Supabase's own.
    """
    create function realtime.send(payload jsonb, event text, topic text, private boolean default true) returns void
    language plpgsql as $$
    declare
        number uuid := gen_random_uuid();
    begin
        begin
            execute format('set local realtime.topic to %L', topic);
            insert into realtime.messages (id, payload, event, topic, private, extension)
            values (number, case when payload ? 'id' then payload else payload || jsonb_build_object('id', number) end,
                    event, topic, private, 'broadcast');
        exception when others then
            raise warning 'ErrorSendingBroadcastMessage: %', sqlerrm;
        end;
    end
    $$
    """,
]
"""Broadcast: whoever listens to a topic gets the messages of realtime.messages."""


class Project:
    """A server with databases as Supabase makes them."""

    def __init__(self, admin_url: str) -> None:
        self._admin_url = admin_url

    def url(self, database: str = "app", user: str = "project_owner") -> str:
        """The address of a database, for one of its users."""
        return urlunsplit(urlsplit(self._admin_url)._replace(netloc=f"{user}@", path=f"/{database}"))

    async def make(self, database: str, *statements: str) -> None:
        """A database, and what these statements add to it; not migrated."""
        async with connected(self.url("memoryd", "postgres")) as admin:
            await admin.execute(f"create database {database} owner project_owner")
        async with connected(self.url(database, "postgres")) as admin:
            for statement in (*DATABASE, *statements):
                await admin.execute(statement)

    @asynccontextmanager
    async def client(
        self, role: str, claims: dict[str, Any] | None = None
    ) -> AsyncIterator[asyncpg.Connection]:
        """A request as PostgREST makes it: as authenticator, which becomes the role; committed at the end."""
        async with connected(self.url(user="authenticator")) as connection, connection.transaction():
            text = json.dumps((claims or {}) | {"role": role})
            await connection.execute(becoming(None, role=role, claims=text))
            await connection.execute("set local search_path = public, extensions")
            yield connection

    def user(self, who: UUID) -> AbstractAsyncContextManager[asyncpg.Connection]:
        """A request of an end user."""
        return self.client("authenticated", {"sub": str(who)})


@contextmanager
def a_project() -> Iterator[Project]:
    """A project that memoryd has been added to by its owner, with accounts, a publication and Broadcast."""
    # pytest's own folders are too long for a socket, and it closes them to other users with each new session.
    with tempfile.TemporaryDirectory(prefix="pg-") as folder:
        options = {"fsync": "off", "shared_buffers": "32MB", "wal_level": "logical"}
        postgres = EmbeddedPostgres(Path(folder) / "data", options=options)
        postgres.start()
        made = Project(postgres.socket_url)

        async def build() -> None:
            async with connected(postgres.socket_url) as admin:
                for statement in ROLES:
                    await admin.execute(statement)
            await made.make("app", *PUBLICATION, *ACCOUNTS, *BROADCAST)
            upgrade = await apply(made.url())
            assert upgrade.left == ()

        try:
            asyncio.run(build())
            yield made
        finally:
            postgres.stop()


_ARGUMENTS = """
select coalesce(p.proargnames[:p.pronargs], '{}') as names, p.pronargs - p.pronargdefaults as needed, p.proretset as rows,
       p.prorettype = 'void'::regtype as nothing,
       array(select format_type(t, null) from unnest(p.proargtypes) t) as types
from pg_proc p
where p.pronamespace = 'public'::regnamespace and p.proname = $1
"""


async def rpc(client: asyncpg.Connection, name: str, body: dict[str, Any]) -> Any:
    """What a POST to /rpc/NAME gives: PostgREST chooses a function by the names in the body, and passes these alone.

    A value of JSON for a function that returns one; a list of rows, as JSON, for one that returns rows.
    """
    fitting = [
        row
        for row in await client.fetch(_ARGUMENTS, name)
        if set(body) <= set(row["names"]) and set(row["names"][: row["needed"]]) <= set(body)
    ]
    # It refuses with 404 where none fits, and with 300 where more than one does.
    assert len(fitting) == 1, (name, sorted(body), len(fitting))
    types = dict(zip(fitting[0]["names"], fitting[0]["types"], strict=False))
    record = ", ".join(f'"{one}" {types[one]}' for one in body) or '"_" text'
    given = ", ".join(f'"{one}" := b."{one}"' for one in body)
    fitted = fitting[0]
    if fitted["rows"]:
        shown, alias = "coalesce(json_agg(a), '[]')", "a"
    else:
        shown, alias = "null" if fitted["nothing"] else "to_json((array_agg(a.scalar))[1])", "a(scalar)"
    said = await client.fetchval(
        f'select {shown} from json_to_record($1::json) as b({record}), lateral public."{name}"({given}) as {alias}',
        json.dumps(body),
    )
    return None if said is None else json.loads(said)
