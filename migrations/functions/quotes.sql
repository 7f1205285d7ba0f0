-- Texts that are stored and show rows: contexts of commands, and answers to requests. memoryd.quotes keeps
-- beside each of them the ids of all rows that it shows, also of messages beside those that were found. When
-- one of these rows is deleted, reworded or replaced, the text loses what it shows of it, whoever it was made
-- for: a line of a context, an element of an answer. An erasure does this at once; otherwise a daemon does.

-- A text as a uuid; null if it is not a uuid.
create or replace function memoryd.uuid_or_null(p_text text) returns uuid
language sql immutable parallel safe
return case when p_text ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then p_text::uuid end;

-- By what a line of a context, or an element of an answer, is found again in its text.
create or replace function memoryd.quote_hash(p_line text) returns bigint
language sql immutable parallel safe
return hashtextextended(p_line, 0);

-- The ids of the rows that an answer to a recall shows, each with the element that shows it. p_pieces:
-- whether its messages stand in pieces of their conversation. Only then it is memoryd that says in the
-- metadata which messages these are: else metadata are as their writer made them.
create or replace function memoryd.rows_shown(p_result jsonb, p_pieces boolean)
returns table (id uuid, hash bigint)
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select i.id, memoryd.quote_hash(e.element::text)
    from jsonb_array_elements(case when jsonb_typeof(p_result) = 'array' then p_result else '[]' end)
         as e(element)
    cross join lateral (
        select memoryd.uuid_or_null(e.element ->> 'id') as id
        union
        select memoryd.uuid_or_null(m.id)
        from jsonb_array_elements_text(
            case when p_pieces and e.element ->> 'source' = 'conversation'
                      and jsonb_typeof(e.element #> '{metadata,message_ids}') = 'array'
                 then e.element #> '{metadata,message_ids}' else '[]' end) as m(id)) i
    where i.id is not null
$$;

-- Those of these rows that exist.
create or replace function memoryd.existing_rows(p_ids uuid[]) returns table (id uuid)
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select s.id from memoryd.searchable_by_users s where s.id = any(p_ids)
    union all
    select k.id from public.shared_knowledge k where k.id = any(p_ids)
$$;

-- Notes that no stored text is to show any more what these rows said until now. It does not look for the
-- texts: that takes longer the more often others were shown the row, and who deletes it may not learn this.
create or replace function memoryd.note_outdated(p_ids uuid[]) returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$ insert into memoryd.outdated_rows (row_ids) select p_ids where cardinality(p_ids) > 0 $$;

-- Keeps which rows a new answer to a recall shows. Those that were deleted meanwhile are noted.
create or replace function memoryd.answers_written() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    answered uuid[];
    shown uuid[];
begin
    if tg_op = 'INSERT' then
        select array_agg(n.id) into answered
        from new_rows n
        where n.kind = 'recall' and n.result is not null;
    else
        select array_agg(n.id) into answered
        from new_rows n
        where n.kind = 'recall' and n.result is not null
          and n.id not in (select o.id from old_rows o where o.result is not null);
    end if;
    if answered is null then
        return null;
    end if;
    with shows as materialized (
        select n.id as request_id, w.id, w.hash
        from new_rows n
        cross join lateral memoryd.rows_shown(n.result, coalesce(n.options ->> 'around', '0') <> '0') w
        where n.id = any(answered)
    ), kept as (
        insert into memoryd.quotes (request_id, row_ids, hashes)
        select s.request_id, array_agg(s.id), array_agg(s.hash) from shows s group by s.request_id
        on conflict (request_id) do update set row_ids = excluded.row_ids, hashes = excluded.hashes
    )
    select array_agg(distinct s.id) into shown from shows s;
    perform memoryd.note_outdated(array(
        select s from unnest(shown) s where s not in (select e.id from memoryd.existing_rows(shown) e)));
    return null;
end
$$;

-- A block of context without these lines, and without headings that nothing follows; empty where no line is
-- left that shows anything.
create or replace function memoryd.without_lines(p_block text, p_hashes bigint[]) returns text
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    with left_lines as (
        select l.line, l.place, l.line ~ '^[-★] ' as shows
        from string_to_table(p_block, E'\n') with ordinality as l(line, place)
        where memoryd.quote_hash(l.line) <> all (p_hashes)
    ), followed as (
        select l.*, coalesce(lead(l.shows) over (order by l.place), false) as before_one from left_lines l
    )
    select case when bool_or(f.shows)
                then string_agg(f.line, E'\n' order by f.place)
                         filter (where f.shows or f.before_one or f.line !~ ':$')
                else '' end
    from followed f
$$;

-- An answer without these elements; of a context without these lines.
create or replace function memoryd.without_quotes(p_result jsonb, p_hashes bigint[]) returns jsonb
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select case jsonb_typeof(p_result)
        when 'string' then to_jsonb(memoryd.without_lines(p_result #>> '{}', p_hashes))
        when 'array' then (
            select coalesce(jsonb_agg(e.element order by e.place), '[]')
            from jsonb_array_elements(p_result) with ordinality as e(element, place)
            where memoryd.quote_hash(e.element::text) <> all (p_hashes))
        else p_result end
$$;

-- Which stored texts show these rows as they were before these times, and the hashes of the lines that do. A
-- text that was made after its row was replaced or reworded shows what is true now.
create or replace function memoryd.outdated_quotes(p_ids uuid[], p_times timestamptz[])
returns table (id bigint, command_id uuid, request_id uuid, row_ids uuid[], lost bigint[])
language sql stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
    with noted as materialized (
        select n.id, max(n.at) as at from unnest(p_ids, p_times) as n(id, at) group by n.id
    ), existing as materialized (
        select e.id from memoryd.existing_rows(array(select n.id from noted n)) e
    ), found as materialized (
        select q.id, array_agg(n.id) as row_ids
        from (select o.*, o.id in (select e.id from existing e) as exists from noted o) n
        cross join lateral (
            select k.id, k.made_at from memoryd.quotes k where k.row_ids @> array[n.id] offset 0) q
        where not n.exists or q.made_at < n.at
        group by q.id
    )
    select q.id, q.command_id, q.request_id, f.row_ids,
           array(select p.hash from unnest(q.row_ids, q.hashes) as p(id, hash) where p.id = any(f.row_ids))
    from found f join memoryd.quotes q on q.id = f.id
$$;

-- Removes from the stored texts what they show of rows that are noted. p_count: how many notes it takes, the
-- oldest first (null: all). A text that somebody has locked is not waited for, but noted again. Each note is
-- taken twice: the second time, 20 seconds later, for texts that were being written at the first.
create or replace function memoryd.remove_outdated(p_count integer, out notes bigint, out texts bigint)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
-- The planner does not know how few texts these are, and would read whole tables.
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    ids uuid[];
    times timestamptz[];
    locked uuid[];
begin
    with taken as materialized (
        select o.* from memoryd.outdated_rows o
        where o.look_at <= clock_timestamp() order by o.id limit p_count for update skip locked
    ), kept as (
        update memoryd.outdated_rows o set looked = true, look_at = clock_timestamp() + interval '20 seconds'
        from taken t where o.id = t.id and not t.looked
    ), ended as (
        delete from memoryd.outdated_rows o using taken t where o.id = t.id and t.looked
    )
    select (select count(*) from taken), array_agg(u.id), array_agg(t.outdated_at) into notes, ids, times
    from taken t cross join lateral unnest(t.row_ids) as u(id);
    with outdated as materialized (
        select * from memoryd.outdated_quotes(ids, times)
    ), commands as materialized (
        select c.id from public.agent_commands c where c.id in (select o.command_id from outdated o)
        order by c.id for no key update skip locked
    ), requests as materialized (
        select r.id from public.memory_requests r where r.id in (select o.request_id from outdated o)
        order by r.id for no key update skip locked
    ), free as materialized (
        select o.* from outdated o
        where o.command_id in (select c.id from commands c) or o.request_id in (select r.id from requests r)
    ), recut as (
        update public.agent_commands c set context = memoryd.without_lines(c.context, f.lost)
        from free f where c.id = f.command_id
    ), answered as (
        update public.memory_requests r set result = memoryd.without_quotes(r.result, f.lost)
        from free f where r.id = f.request_id
    ), shrunk as (
        update memoryd.quotes q
        set (row_ids, hashes) = (select array_agg(p.id), array_agg(p.hash)
                                 from unnest(q.row_ids, q.hashes) as p(id, hash) where p.hash <> all (f.lost))
        from free f where q.id = f.id and not q.hashes <@ f.lost
    ), emptied as (
        delete from memoryd.quotes q using free f where q.id = f.id and q.hashes <@ f.lost
    )
    select (select count(*) from free),
           (select array_agg(distinct r) from outdated o cross join lateral unnest(o.row_ids) r
            where o.id not in (select f.id from free f))
    into texts, locked;
    insert into memoryd.outdated_rows (row_ids, outdated_at)
    select locked, (select max(t) from unnest(times) t) where locked is not null;
end
$$;
