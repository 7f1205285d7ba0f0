"""A source is declared in one place: SQL alone adds a sixth one to a running daemon, which indexes and finds it."""

from __future__ import annotations

from uuid import UUID, uuid4

import asyncpg
import pytest

from providers.local_embedder import LocalEmbedder
from tests.support.access.acting import ANN, BOB, CAT, acting_as
from tests.support.content.finished import all_indexed
from tests.support.content.index import INDEXED, PASSAGES
from tests.support.content.sources import one_of_each
from tests.support.processes.daemons import Daemons
from tests.support.rows import column, insert

FOUND = "select id from recall($1, match_count => 100)"
TICKETS = """
create table public.tickets (
    id uuid primary key default gen_random_uuid(),
    user_id uuid,
    title text not null,
    body text not null,
    is_open boolean not null default true,
    embedding vector(256),
    created_at timestamptz not null default now(),
    scope bigint not null generated always as (memoryd.scope_of(user_id, '_shared')) stored
);
alter table public.tickets enable row level security;
create policy own on public.tickets to memoryd_user using (user_id = memoryd.caller_id());
grant select on public.tickets to memoryd_user;

create function memoryd.searched_text(p_row public.tickets) returns text
language sql stable parallel safe
return concat_ws(E'\\n', (p_row).title, (p_row).body);
create function memoryd.text_hash(p_row public.tickets) returns bigint
language sql stable parallel safe
return hashtextextended(memoryd.searched_text(p_row), 0);

create view memoryd.source_ticket with (security_invoker = true) as
select 'ticket'::text as source, t.id, t.scope, memoryd.searched_text(t) as searched_text,
       memoryd.text_hash(t) as text_hash, t.embedding as given_embedding, t.body as content,
       jsonb_build_object('title', t.title) as metadata, t.user_id as owner_id, null::text as agent_id,
       null::integer as access_level, null::text[] as visibility_tags, null::jsonb as row_metadata,
       t.is_open as is_current, null::timestamptz as expires_at, null::uuid as session_id,
       null::integer as position, null::text as speaker, null::text as role, t.created_at,
       1::double precision as weight, null::text[] as keywords
from public.tickets t;
grant select on memoryd.source_ticket to memoryd_user;
grant execute on function memoryd.searched_text(public.tickets), memoryd.text_hash(public.tickets) to memoryd_user;

create or replace view memoryd.searchable_by_users with (security_invoker = true) as
select * from memoryd.source_memory
union all
select * from memoryd.source_conversation
union all
select * from memoryd.source_document
union all
select * from memoryd.source_insight
union all
select * from memoryd.source_ticket;
create or replace view memoryd.searchable with (security_invoker = true) as
select * from memoryd.searchable_by_users
union all
select * from memoryd.source_knowledge;
create or replace function memoryd.sources() returns text[]
language sql immutable parallel safe
return array['memory', 'conversation', 'document', 'insight', 'ticket', 'knowledge'];

create trigger forget_embedding before update on public.tickets
    for each row when ((new.title, new.body) is distinct from (old.title, old.body))
    execute function memoryd.forget_embedding('embedding');
create trigger rows_inserted after insert on public.tickets
    referencing new table as new_rows for each statement execute function memoryd.rows_inserted('ticket');
create trigger rows_updated after update on public.tickets
    referencing old table as old_rows new table as new_rows
    for each statement execute function memoryd.rows_updated('ticket');
create trigger rows_deleted after delete on public.tickets
    referencing old table as old_rows for each statement execute function memoryd.rows_deleted('ticket');
"""


@pytest.mark.parametrize("running", [True, False])
async def test_a_source_that_sql_alone_adds_is_indexed_and_found(
    connection: asyncpg.Connection, daemons: Daemons, running: bool
) -> None:
    """A daemon that was already running indexes it, with no line of Python about it."""
    if running:
        await daemons.start()
    await connection.execute(TICKETS)
    ids = await one_of_each(connection, "The heron nests.")
    ticket = await insert(
        connection, "tickets", {"title": "Heron", "body": "It nests on the roof.", "user_id": ANN}
    )
    other = await insert(
        connection, "tickets", {"title": "Heron", "body": "Another one, far away.", "user_id": BOB}
    )
    asked = (
        "select id, content, metadata->>'title' from recall($1, sources => '{ticket}', match_count => 100)"
    )

    async def tickets(question: str) -> set[object]:
        return set(await column(connection, asked, question))

    assert await tickets("heron on the roof") == {ticket, other}
    if not running:
        await daemons.start()
    await all_indexed(connection)
    assert await connection.fetchval(INDEXED, ticket)
    assert await tickets("heron on the roof") == {ticket, other}
    assert {ticket, other, *ids.values()} == set(await column(connection, FOUND, "heron"))
    # Also by meaning, and by its user alone.
    [vector] = await LocalEmbedder().embed(["a bird on top of the house"])
    meant = "select id from recall('', query_embedding => $1::text::vector, sources => '{ticket}', match_count => 1)"
    assert await column(connection, meant, str(vector.tolist())) == [ticket]
    for user, own in ((ANN, {ticket}), (BOB, {other}), (CAT, set[UUID]())):
        async with acting_as(connection, user):
            assert await tickets("heron") == own
    # It changes, moves, ends and goes as rows of every source do.
    await connection.execute("update tickets set body = 'The otter swims.' where id = $1", ticket)
    assert ticket not in await tickets("roof")
    assert await tickets("otter") == {ticket}
    await all_indexed(connection)
    assert await tickets("otter") == {ticket}
    await connection.execute("update tickets set user_id = $1 where id = $2", BOB, ticket)
    async with acting_as(connection, BOB):
        assert await tickets("otter") == {ticket}
    await connection.execute("update tickets set is_open = false where id = $1", ticket)
    assert await tickets("otter") == set()
    await connection.execute("delete from tickets where id = $1", other)
    assert await connection.fetchval(PASSAGES, other) == 0
    await all_indexed(connection)
    assert await tickets("heron") == set()


async def test_an_unknown_source_is_refused_with_the_names_of_the_known(
    connection: asyncpg.Connection,
) -> None:
    await connection.execute(TICKETS)
    with pytest.raises(asyncpg.InvalidParameterValueError, match="unknown source letter") as refused:
        await connection.fetch("select * from recall('heron', sources => '{letter}')")
    assert "ticket" in str(refused.value.hint)
    assert await column(connection, "select id from recall($1, sources => '{ticket}')", str(uuid4())) == []
