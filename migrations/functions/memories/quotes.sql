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

-- Those of these rows that exist.
create or replace function memoryd.existing_rows(p_ids uuid[]) returns table (id uuid)
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select s.id from memoryd.searchable s where s.id = any(p_ids)
$$;

-- Marks that no stored text is to show any more what these rows said until now. It does not look for the
-- texts: that takes longer the more often others were shown the row, and who deletes it may not learn this.
create or replace function memoryd.mark_outdated(p_ids uuid[]) returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$ insert into memoryd.outdated_rows (row_ids) select p_ids where cardinality(p_ids) > 0 $$;

-- Keeps which rows a new answer to a recall shows, each with the hash of the element that shows it. Those
-- that were deleted meanwhile are marked. Only where the messages of an answer stand in pieces of their
-- conversation (around) it is memoryd that says in the metadata which messages these are: else metadata are
-- as their writer made them.
create or replace function memoryd.answers_written() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    shown uuid[];
begin
    with shows as materialized (
        select i.id, memoryd.quote_hash(e.element::text) as hash
        from jsonb_array_elements(
            case when jsonb_typeof(new.result) = 'array' then new.result else '[]' end) as e(element)
        cross join lateral (
            select memoryd.uuid_or_null(e.element ->> 'id') as id
            union
            select memoryd.uuid_or_null(m.id)
            from jsonb_array_elements_text(
                case when coalesce(new.options ->> 'around', '0') <> '0'
                          and e.element ->> 'source' = 'conversation'
                          and jsonb_typeof(e.element #> '{metadata,message_ids}') = 'array'
                     then e.element #> '{metadata,message_ids}' else '[]' end) as m(id)) i
        where i.id is not null
    ), kept as (
        insert into memoryd.quotes (request_id, row_ids, hashes)
        select new.id, array_agg(s.id), array_agg(s.hash) from shows s having count(*) > 0
        on conflict (request_id) do update set row_ids = excluded.row_ids, hashes = excluded.hashes
    )
    select array_agg(distinct s.id) into shown from shows s;
    perform memoryd.mark_outdated(array(
        select s from unnest(shown) s where s not in (select e.id from memoryd.existing_rows(shown) e)));
    return null;
end
$$;

-- A block of context without these lines, and without headings that nothing follows; empty where no line is
-- left that shows anything. Of lines that say the same, each for a row of its own, as many go as are given.
create or replace function memoryd.without_lines(p_block text, p_hashes bigint[]) returns text
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    with left_lines as (
        select l.line, l.nth, l.line ~ '^[-★] ' as shows
        from (select b.line, b.nth, memoryd.quote_hash(b.line) as hash,
                     row_number() over (partition by b.line order by b.nth) as number
              from string_to_table(p_block, E'\n') with ordinality as b(line, nth)) l
        where l.number > (select count(*) from unnest(p_hashes) h where h = l.hash)
    ), followed as (
        select l.*, coalesce(lead(l.shows) over (order by l.nth), false) as before_one from left_lines l
    )
    select case when bool_or(f.shows)
                then string_agg(f.line, E'\n' order by f.nth)
                         filter (where f.shows or f.before_one or f.line !~ ':$')
                else '' end
    from followed f
$$;

-- Which stored texts show these rows as they were before these times and transactions, and the hashes of the
-- lines that do. A text that was made after its row was replaced or reworded shows what is true now. Times
-- alone do not tell: what a transaction has changed is seen once it has ended. Transactions alone do not,
-- either: after a restore on another server they are numbered from the beginning.
create or replace function memoryd.outdated_quotes(
    p_marks bigint[], p_ids uuid[], p_times timestamptz[], p_transactions xid8[])
returns table (id bigint, command_id uuid, request_id uuid, marks bigint[], row_ids uuid[], lost bigint[])
language sql stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
    with marked as materialized (
        select * from unnest(p_marks, p_ids, p_times, p_transactions) as n(mark, id, at, transaction)
    ), existing as materialized (
        select e.id from memoryd.existing_rows(array(select distinct n.id from marked n)) e
    ), found as materialized (
        select q.id, array_agg(n.mark) as marks, array_agg(n.id) as row_ids
        from (select o.*, o.id in (select e.id from existing e) as exists from marked o) n
        cross join lateral (
            select k.id, k.made_at, k.read_in from memoryd.quotes k
            where k.row_ids @> array[n.id] offset 0) q
        where not n.exists or q.made_at < n.at or not pg_visible_in_snapshot(n.transaction, q.read_in)
        group by q.id
    )
    select q.id, q.command_id, q.request_id, f.marks, f.row_ids,
           array(select p.hash from unnest(q.row_ids, q.hashes) as p(id, hash) where p.id = any(f.row_ids))
    from found f join memoryd.quotes q on q.id = f.id
$$;

-- Removes from the stored texts what they show of rows that are marked. p_count: how many marks it takes, the
-- oldest first (null: all). A text that somebody has locked is not waited for: its mark is taken again soon.
-- Each mark is taken once more, 20 seconds later, and when the transactions have ended that may have been
-- writing a text at the first look. (After a day also without: a restored mark waits for another server's.)
create or replace function memoryd.remove_outdated(p_count integer, out marks bigint, out texts bigint)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
-- The planner does not know how few texts these are, and would read whole tables.
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    taken bigint[];
    marked bigint[];
    ids uuid[];
    times timestamptz[];
    transactions xid8[];
    locked bigint[];
begin
    with mine as materialized (
        select o.* from memoryd.outdated_rows o
        where o.look_at <= clock_timestamp()
          and (o.wait_for is null or o.wait_for <= pg_snapshot_xmin(pg_current_snapshot())
               or o.outdated_at < now() - interval '1 day')
        order by o.id limit p_count for update skip locked
    )
    select (select array_agg(m.id) from mine m), array_agg(m.id), array_agg(u.id), array_agg(m.outdated_at),
           array_agg(m.outdated_by)
    into taken, marked, ids, times, transactions
    from mine m cross join lateral unnest(m.row_ids) as u(id);
    marks := coalesce(cardinality(taken), 0);
    with outdated as materialized (
        select * from memoryd.outdated_quotes(marked, ids, times, transactions)
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
        update public.memory_requests r set result = case jsonb_typeof(r.result)
            when 'string' then to_jsonb(memoryd.without_lines(r.result #>> '{}', f.lost))
            when 'array' then (
                select coalesce(jsonb_agg(e.element order by e.nth), '[]')
                from jsonb_array_elements(r.result) with ordinality as e(element, nth)
                where memoryd.quote_hash(e.element::text) <> all (f.lost))
            else r.result end
        from free f where r.id = f.request_id
    ), shrunk as (
        update memoryd.quotes q
        set (row_ids, hashes) = (
                select array_agg(p.id), array_agg(p.hash)
                from unnest(q.row_ids, q.hashes) as p(id, hash) where p.id <> all (f.row_ids))
        from free f where q.id = f.id and not q.row_ids <@ f.row_ids
    ), emptied as (
        delete from memoryd.quotes q using free f where q.id = f.id and q.row_ids <@ f.row_ids
    )
    select (select count(*) from free),
           (select array_agg(distinct n) from outdated o cross join lateral unnest(o.marks) n
            where o.id not in (select f.id from free f))
    into texts, locked;
    delete from memoryd.outdated_rows o
    where o.id = any(taken) and o.wait_for is not null and o.id <> all (coalesce(locked, '{}'));
    update memoryd.outdated_rows o
    set look_at = clock_timestamp() + case when r.is_locked then interval '1 second'
                                           else interval '20 seconds' end,
        wait_for = case when not r.is_locked then pg_snapshot_xmax(pg_current_snapshot()) end
    from (select t as id, t = any(coalesce(locked, '{}')) as is_locked from unnest(taken) t) r
    where o.id = r.id;
end
$$;
