-- Answers that other users were given: the result of a request to recall contains texts of rows, so an
-- erasure must remove them from there, too.

-- A text as a uuid; null if it is not a uuid.
create or replace function memoryd.uuid_or_null(p_text text) returns uuid
language sql immutable parallel safe
return case when p_text ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then p_text::uuid end;

-- The ids of the rows that an answer shows, each with its place in the answer.
create or replace function memoryd.rows_shown(p_result jsonb) returns table (id uuid, place bigint)
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select r.id, r.place
    from (
        select memoryd.uuid_or_null(e.element ->> 'id') as id, e.place
        from jsonb_array_elements(case when jsonb_typeof(p_result) = 'array' then p_result else '[]' end)
             with ordinality as e(element, place)
    ) r
    where r.id is not null
$$;

-- Those of these rows that exist, with the user that they belong to. An entry of shared knowledge belongs
-- to its author.
create or replace function memoryd.owners_of(p_ids uuid[]) returns table (id uuid, user_id uuid)
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select s.id, s.owner_id from memoryd.searchable_by_users s where s.id = any(p_ids)
    union all
    select k.id, memoryd.uuid_or_null(k.created_by) from public.shared_knowledge k where k.id = any(p_ids)
$$;

-- Notes in memoryd.answered_from which users' rows a new answer shows to another user. Tenant 0 stands for
-- rows that do not exist any more.
create or replace function memoryd.answers_written() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    answered uuid[];
begin
    if tg_op = 'INSERT' then
        select array_agg(n.id) into answered
        from new_rows n
        where n.kind = 'recall' and n.result is not null;
    else
        select array_agg(n.id) into answered
        from new_rows n
        where n.kind = 'recall' and n.result is not null
          and (n.id, n.result) not in (select o.id, o.result from old_rows o where o.result is not null);
    end if;
    if answered is not null then
        with shown as materialized (
            select n.id as request_id, n.user_id, w.id
            from new_rows n
            cross join lateral memoryd.rows_shown(n.result) w
            where n.id = any(answered)
        )
        insert into memoryd.answered_from (tenant, request_id)
        select distinct case when o.id is null then 0 else memoryd.tenant_of(o.user_id) end, s.request_id
        from shown s
        left join memoryd.owners_of(array(select distinct w.id from shown w)) o on o.id = s.id
        where o.id is null or (o.user_id is not null and o.user_id is distinct from s.user_id)
        on conflict do nothing;
    end if;
    return null;
end
$$;

-- Removes rows that do not exist any more from the answers in which other users were shown rows of this
-- user. Called after the user's rows were deleted.
create or replace function memoryd.scrub_answers(p_user uuid) returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    with stale as (
        delete from memoryd.answered_from a where a.tenant in (0, memoryd.tenant_of(p_user))
        returning a.request_id
    ), shown as materialized (
        select s.request_id, w.id, w.place
        from (select distinct t.request_id from stale t) s
        join public.memory_requests r on r.id = s.request_id
        cross join lateral memoryd.rows_shown(r.result) w
    ), gone as (
        select s.request_id as id, array_agg(s.place) as places
        from shown s
        where s.id not in (select o.id from memoryd.owners_of(array(select distinct w.id from shown w)) o)
        group by s.request_id
    )
    update public.memory_requests r
    set result = (select coalesce(jsonb_agg(e.element order by e.place), '[]')
                  from jsonb_array_elements(r.result) with ordinality as e(element, place)
                  where e.place <> all (g.places))
    from gone g
    where r.id = g.id
$$;
