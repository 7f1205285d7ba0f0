create or replace function memoryd.requests_inserted() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    waiting bigint;
    of_users bigint;
    of_data boolean;
begin
    select count(*) filter (where kind <> 'dream'), count(user_id), bool_or(kind in ('export', 'erase'))
    into waiting, of_users, of_data
    from new_rows where status = 'pending';
    -- In turns: a request of a user each second, sixteen of the agents' own. What reads or deletes all about a user takes long: its
    -- own topic, so that no recall waits behind it.
    if of_users > 0 then
        perform memoryd.check_pending(of_users);
        insert into memoryd.jobs (topic, ref, party, turn)
        select t.topic, t.id, t.party, t.begins + make_interval(secs => (t.place - 1) / case when t.party is null then 16 else 1 end)
        from (
            select p.*, max(case p.place when 1 then memoryd.next_turn(p.topic, p.party) end)
                            over (partition by p.topic, p.party) as begins
            from (
                select n.id, n.created_at, k.topic, memoryd.party_of(n.user_id) as party,
                       row_number() over (partition by k.topic, n.user_id order by n.created_at, n.id) as place
                from new_rows n
                cross join lateral (select case when n.kind in ('export', 'erase') then 'user_data' else 'request' end as topic) k
                where n.status = 'pending' and n.kind <> 'dream'
            ) p
        ) t
        order by t.created_at, t.id;
    elsif waiting > 0 then
        insert into memoryd.jobs (topic, ref, turn)
        select 'request', id, clock_timestamp() + make_interval(secs => (row_number() over (order by created_at, id) - 1) / 16)
        from new_rows where status = 'pending' and kind <> 'dream'
        order by created_at, id;
    end if;
    if waiting > 0 then
        perform memoryd.ring('request');
    end if;
    if of_data then
        perform memoryd.ring('user_data');
    end if;
    -- A dream takes minutes, too.
    insert into memoryd.jobs (topic, ref) select 'dream', id from new_rows
    where status = 'pending' and kind = 'dream' order by created_at, id;
    if found then
        perform memoryd.ring('dream');
    end if;
    return null;
end
$$;

create or replace function memoryd.requests_updated() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_nestloop = off
as $$
begin
    perform memoryd.announce('request_done', n.id::text)
    from new_rows n join old_rows o using (id)
    where n.status in ('done', 'failed') and o.status = 'pending';
    return null;
end
$$;

-- What a request is answered with, by the rights of whoever calls this. p_near: see memoryd.question().
create or replace function memoryd.answer(
    p_kind text, p_agent text, p_user uuid, p_query text, p_options jsonb, p_embedding vector, p_near jsonb
) returns jsonb
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    began constant timestamptz := clock_timestamp();
    result jsonb;
begin
    result := case p_kind
        when 'context' then to_jsonb(memoryd.compose_context(p_agent, p_query, p_user, p_user is not null, p_embedding, null))
        when 'recall' then (
            select coalesce(jsonb_agg(jsonb_build_object('source', f.source, 'id', f.id, 'content', f.content, 'score', f.score,
                                                         'similarity', f.similarity, 'metadata', f.metadata,
                                                         'created_at', f.created_at) order by f.ordinality), '[]')
            from memoryd.search(
                p_query, p_agent, p_user, p_embedding,
                coalesce((p_options ->> 'match_count')::integer, 10),
                case when jsonb_typeof(p_options -> 'sources') = 'array'
                     then array(select jsonb_array_elements_text(p_options -> 'sources')) end,
                coalesce(nullif(p_options -> 'filter', 'null'), '{}'), p_near) with ordinality f)
        when 'export' then public.export_user_memory(p_user)
        -- The paths of files are for who deletes files.
        when 'erase' then public.erase_user_memory(p_user) - 'replica_paths'
    end;
    if p_kind = 'recall' then
        perform memoryd.note_read(p_user, p_agent, 'recall', jsonb_array_length(result),
                                  (extract(epoch from clock_timestamp() - began) * 1000)::integer);
    end if;
    return result;
end
$$;

-- The same under a user's identity: with the role and the claims that they would come with themselves. Both end with the call.
create or replace function memoryd.answer_as_user(
    p_kind text, p_agent text, p_user uuid, p_query text, p_options jsonb, p_embedding vector, p_near jsonb
) returns jsonb
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    -- Set and put back by hand: as options of the function they would need rights already where it is made.
    role_before constant text := current_setting('role');
    claims_before constant text := coalesce(current_setting('request.jwt.claims', true), '');
    sub_before constant text := coalesce(current_setting('request.jwt.claim.sub', true), '');
    answer jsonb;
begin
    perform set_config('request.jwt.claims', json_build_object('sub', p_user, 'role', 'memoryd_user')::text, true),
            set_config('request.jwt.claim.sub', '', true), set_config('role', 'memoryd_user', true);
    answer := memoryd.answer(p_kind, p_agent, p_user, p_query, p_options, p_embedding, p_near);
    perform set_config('role', role_before, true), set_config('request.jwt.claims', claims_before, true),
            set_config('request.jwt.claim.sub', sub_before, true);
    return answer;
end
$$;

-- A request whose job was given up is not left waiting: whoever asked hears why.
create or replace function memoryd.request_died() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    update public.memory_requests r
    set status = 'failed', error = 'given up: ' || left(new.error, 500), finished_at = clock_timestamp()
    where r.id = new.ref and r.status = 'pending';
    return null;
end
$$;
