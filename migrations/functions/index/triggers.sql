-- Which rows are indexed again, and when: the triggers of the five searchable tables.

-- A changed text makes the row's index wrong: it is deleted at once and written anew. The argument of the
-- trigger names the column of the embedding.
create or replace function memoryd.forget_index() returns trigger
language plpgsql
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
begin
    new.lexemes := null;
    new.sparse_embedding := null;
    if tg_argv[0] = 'dense_embedding' then
        new.dense_embedding := null;
    elsif new.embedding is not distinct from old.embedding then
        -- Unless the writer gives the new one too.
        new.embedding := null;
    end if;
    return new;
end
$$;

-- How far apart the turns of a statement's rows are. An end user's rows take turns with what others write
-- meanwhile: 4 ms, about ten times as long as it takes to index a row, so that thousands of them do not
-- delay other users' rows for long. The rows of privileged callers have no distance.
create or replace function memoryd.fair_spacing() returns interval
language sql stable
set search_path = pg_catalog, pg_temp
as $$ select case when memoryd.caller_is_privileged() then interval '0' else interval '4 milliseconds' end $$;

-- Queues a job for each row of a statement that has no index, of end users and of privileged callers.
create or replace function memoryd.rows_to_index() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    apart constant interval := memoryd.fair_spacing();
    began constant timestamptz := clock_timestamp();
    unindexed uuid[];
begin
    if tg_op = 'INSERT' then
        select array_agg(n.id) into unindexed
        from new_rows n
        where n.lexemes is null or n.code is null;
    else
        select array_agg(n.id) into unindexed
        from new_rows n
        where n.lexemes is null
           or (n.code is null and n.id not in (select o.id from old_rows o where o.code is null));
    end if;
    if unindexed is not null then
        insert into memoryd.jobs (topic, ref, payload, fair_at)
        select 'index', u.id, jsonb_build_object('source', tg_argv[0]), began + apart * (u.place - 1)
        from unnest(unindexed) with ordinality as u(id, place);
        perform memoryd.wake('index');
    end if;
    return null;
end
$$;

-- Queues a job for each place in a session that messages have left (they were deleted, or moved). Messages
-- are indexed with their neighbours, so the neighbours of that place must be indexed again. The job finds
-- out which these are, after the commit: messages that are being written meanwhile cannot be seen yet, and
-- may be indexed with the one that leaves. Where the session is deleted too, no neighbour is left.
create or replace function memoryd.messages_gone() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
-- A plan that was kept from an empty table would read all messages for each deleted one.
set enable_seqscan = off
as $$
declare
    apart constant interval := memoryd.fair_spacing();
    began constant timestamptz := clock_timestamp();
begin
    insert into memoryd.jobs (topic, ref, payload, fair_at)
    select 'index', s.id, jsonb_build_object('source', 'conversation', 'gone', p.places),
           began + apart * (row_number() over () - 1)
    from (select o.session_id, range_agg(int4range(o.message_index, o.message_index + 1)) as places
          from old_rows o
          where not exists (select from public.conversation_messages m
                            where m.id = o.id and m.session_id = o.session_id
                              and m.message_index = o.message_index)
          group by o.session_id) g
    join public.conversation_sessions s on s.id = g.session_id
    cross join lateral unnest(g.places) as p(places);
    if found then
        perform memoryd.wake('index');
    end if;
    return null;
end
$$;
