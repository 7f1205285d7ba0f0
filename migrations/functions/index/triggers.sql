-- New words make the old index a lie: what is searched by goes at once, and is written anew.
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
        -- Unless the writer brought the new one along.
        new.embedding := null;
    end if;
    return new;
end
$$;

-- What lacks its index gets a job, whoever wrote it. An end user's rows take turns with what others write meanwhile: those of one
-- statement stand 4 ms apart, each about ten times as long as an index takes, so that thousands of them hold nobody up for long.
create or replace function memoryd.turns_apart() returns interval
language sql stable
set search_path = pg_catalog, pg_temp
as $$ select case when memoryd.caller_is_privileged() then interval '0' else interval '4 milliseconds' end $$;

create or replace function memoryd.rows_to_index() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    apart constant interval := memoryd.turns_apart();
    began constant timestamptz := clock_timestamp();
begin
    if tg_op = 'INSERT' then
        insert into memoryd.jobs (topic, ref, payload, turn)
        select 'index', n.id, jsonb_build_object('source', tg_argv[0]), began + apart * (row_number() over () - 1)
        from new_rows n
        where n.lexemes is null or n.code is null;
    else
        insert into memoryd.jobs (topic, ref, payload, turn)
        select 'index', n.id, jsonb_build_object('source', tg_argv[0]), began + apart * (row_number() over () - 1)
        from new_rows n
        where n.lexemes is null
           or (n.code is null and n.id not in (select o.id from old_rows o where o.code is null));
    end if;
    if found then
        perform memoryd.ring('index');
    end if;
    return null;
end
$$;

-- A message that is gone, or has moved, is no longer around those that it stood among. Who they are is asked once this is
-- committed: one that is being written meanwhile is not seen yet, and may be indexed with this one before. Of a session that
-- goes as a whole nobody is left.
create or replace function memoryd.messages_gone() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
-- A plan that was kept from an empty table would read all messages for each that is gone.
set enable_seqscan = off
as $$
declare
    apart constant interval := memoryd.turns_apart();
    began constant timestamptz := clock_timestamp();
begin
    insert into memoryd.jobs (topic, ref, payload, turn)
    select 'index', s.id, jsonb_build_object('source', 'conversation', 'gone', p.places), began + apart * (row_number() over () - 1)
    from (select o.session_id, range_agg(int4range(o.message_index, o.message_index + 1)) as places
          from old_rows o
          where not exists (select from public.conversation_messages m
                            where m.id = o.id and m.session_id = o.session_id and m.message_index = o.message_index)
          group by o.session_id) g
    join public.conversation_sessions s on s.id = g.session_id
    cross join lateral unnest(g.places) as p(places);
    if found then
        perform memoryd.ring('index');
    end if;
    return null;
end
$$;
