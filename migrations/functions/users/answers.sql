-- The rows that an answer shows, by id.
create or replace function memoryd.rows_shown(p_result jsonb) returns table (id uuid, place bigint)
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select r.id, r.place
    from (
        select case when f.found ->> 'id' ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
                    then (f.found ->> 'id')::uuid end as id,
               f.place
        from jsonb_array_elements(case when jsonb_typeof(p_result) = 'array' then p_result else '[]' end)
             with ordinality as f(found, place)
    ) r
    where r.id is not null
$$;

-- Of these rows those that are there, with whose they are.
create or replace function memoryd.owners_of(p_ids uuid[]) returns table (id uuid, user_id uuid)
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select m.id, m.user_id from public.agent_memory m where m.id = any(p_ids)
    union all
    select m.id, m.user_id from public.conversation_messages m where m.id = any(p_ids)
    union all
    select c.id, c.user_id from public.memory_chunks c where c.id = any(p_ids)
    union all
    select i.id, i.user_id from public.dream_insights i where i.id = any(p_ids)
    union all
    select k.id, case when k.created_by ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then k.created_by::uuid end
    from public.shared_knowledge k where k.id = any(p_ids)
$$;

create or replace function memoryd.answers_written() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    answered uuid[];
begin
    if tg_op = 'INSERT' then
        select array_agg(n.id) into answered from new_rows n where n.kind = 'recall' and n.result is not null;
    else
        select array_agg(n.id) into answered
        from new_rows n
        where n.kind = 'recall' and n.result is not null
          and (n.id, n.result) not in (select o.id, o.result from old_rows o where o.result is not null);
    end if;
    if answered is not null then
        insert into memoryd.answered_from (party, request_id)
        select distinct case when o.id is null then 0 else memoryd.party_of(o.user_id) end, n.id
        from new_rows n
        cross join lateral memoryd.rows_shown(n.result) f
        left join memoryd.owners_of(array(
            select distinct g.id from new_rows r cross join lateral memoryd.rows_shown(r.result) g where r.id = any(answered)
        )) o on o.id = f.id
        where n.id = any(answered)
          and (o.id is null or (o.user_id is not null and o.user_id is distinct from n.user_id))
        on conflict do nothing;
    end if;
    return null;
end
$$;

-- Takes what is there no longer out of what others were answered with rows of this user.
create or replace function memoryd.scrub_answers(p_user uuid) returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    with stale as (
        delete from memoryd.answered_from a where a.party in (0, memoryd.party_of(p_user))
        returning a.request_id
    ), shown as materialized (
        select s.request_id, f.id, f.place
        from (select distinct t.request_id from stale t) s
        join public.memory_requests r on r.id = s.request_id
        cross join lateral memoryd.rows_shown(r.result) f
    ), hits as (
        select s.request_id as id, array_agg(s.place) as places
        from shown s
        where s.id not in (select o.id from memoryd.owners_of(array(select distinct w.id from shown w)) o)
        group by s.request_id
    )
    update public.memory_requests r
    set result = (select coalesce(jsonb_agg(x.found order by x.place), '[]')
                  from jsonb_array_elements(r.result) with ordinality as x(found, place)
                  where x.place <> all (h.places))
    from hits h
    where r.id = h.id
$$;
