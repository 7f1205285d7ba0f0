-- Which rows are indexed, and when, and from which on no stored text may show what they said: the triggers of
-- the searchable tables. Their arguments are the source, and the columns that contexts and answers show.

-- A changed text has another embedding: one that was given for the old text goes, unless the writer gives
-- the new one too. The argument names the column.
create or replace function memoryd.forget_embedding() returns trigger
language plpgsql
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
begin
    if tg_argv[0] = 'dense_embedding' then
        if new.dense_embedding is not distinct from old.dense_embedding then
            new.dense_embedding := null;
        end if;
    elsif new.embedding is not distinct from old.embedding then
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
return case when memoryd.caller_is_privileged() then interval '0' else interval '4 milliseconds' end;

-- Notes that rows wait to be indexed, and queues a job for each. p_given: those that came with an embedding;
-- p_changed: those that had entries before; p_groups: of messages the scopes of their groups.
create or replace function memoryd.index_rows(
    p_source text, p_ids uuid[], p_scopes bigint[], p_given uuid[], p_changed uuid[] default '{}',
    p_groups bigint[] default '{}')
returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    apart constant interval := memoryd.fair_spacing();
    began constant timestamptz := clock_timestamp();
begin
    insert into memoryd.unindexed as u (scope, source, id, changed, given)
    select distinct h.scope, p_source, r.id, r.id = any(p_changed),
           coalesce(r.id = any(p_given), false)
    from unnest(p_ids, p_scopes, p_groups) as r(id, scope, group_scope)
    cross join lateral (values (r.scope), (r.group_scope)) as h(scope)
    where h.scope is not null
    on conflict (scope, id, source) do update
    set changed = u.changed or excluded.changed, given = excluded.given;
    insert into memoryd.jobs (topic, ref, payload, fair_at)
    select 'index', r.id, jsonb_build_object('source', p_source), began + apart * (r.nth - 1)
    from unnest(p_ids) with ordinality as r(id, nth);
    perform memoryd.wake('index');
end
$$;

-- Has new rows indexed. A daemon that writes their entries in the same transaction sets memoryd.indexing.
create or replace function memoryd.rows_inserted() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if memoryd.daemon_says('memoryd.indexing') then
        return null;
    end if;
    -- It reads no view: an upgrade locks the views before the tables.
    if tg_argv[0] = 'document' then
        perform memoryd.index_rows(
            tg_argv[0], array_agg(n.id), array_agg(n.scope),
            array_agg(n.id) filter (where n.dense_embedding is not null))
        from new_rows n having count(*) > 0;
    elsif tg_argv[0] = 'conversation' then
        perform memoryd.index_rows(
            tg_argv[0], array_agg(n.id),
            array_agg(memoryd.message_scope(n.scope, n.user_id, n.chat_id, n.access_level)),
            array_agg(n.id) filter (where n.embedding is not null), '{}',
            array_agg(memoryd.group_scope(n.chat_id, n.role)))
        -- A turn without a text has nothing to be found by.
        from new_rows n where not memoryd.is_blank(n.content) having count(*) > 0;
    else
        perform memoryd.index_rows(
            tg_argv[0], array_agg(n.id), array_agg(n.scope),
            array_agg(n.id) filter (where n.embedding is not null))
        from new_rows n having count(*) > 0;
    end if;
    return null;
end
$$;

-- Changed rows: those with a new text are indexed again, and no longer found by the old text. The entries of
-- the others are brought up to date.
create or replace function memoryd.rows_updated() returns trigger
language plpgsql security definer
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    ids uuid[];
    scopes bigint[];
    reworded uuid[];
    indexed uuid[];
begin
    if tg_argv[0] = 'conversation' then
        select array_agg(o.id),
               array_agg(memoryd.message_scope(o.scope, o.user_id, o.chat_id, o.access_level))
        into ids, scopes from (select * from old_rows order by id) o;
    else
        select array_agg(o.id), array_agg(o.scope)
        into ids, scopes from (select * from old_rows order by id) o;
    end if;
    if ids is null then
        return null;
    end if;
    -- Rows without an entry of their text: they have another text now, or wait for their first index.
    select array_agg(s.id), array_agg(s.id) filter (where s.has_entry or s.changed) into reworded, indexed
    from (select r.id, coalesce(e.text_hash, 0) as text_hash, e.id is not null as has_entry,
                 exists (select from memoryd.unindexed u
                         where u.scope = r.scope and u.id = r.id and u.source = tg_argv[0] and u.changed)
                     as changed,
                 (select t.text_hash from memoryd.searchable t
                  where t.source = tg_argv[0] and t.id = r.id) as hash
          from unnest(ids, scopes) as r(id, scope)
          left join memoryd.entries e
              on e.scope = r.scope and e.id = r.id and e.source = tg_argv[0] and e.passage = 0) s
    where s.hash is not null and (not s.has_entry or s.hash <> s.text_hash);
    perform memoryd.refresh_entries(tg_argv[0], ids, scopes);
    if tg_argv[0] = 'conversation' then
        perform memoryd.delete_entries(
            tg_argv[0], array_agg(o.id), array_agg(memoryd.group_scope(o.chat_id, o.role)))
        from old_rows o where o.chat_id is not null having count(*) > 0;
        perform memoryd.refresh_copies(
            array_agg(n.id),
            array_agg(memoryd.message_scope(n.scope, n.user_id, n.chat_id, n.access_level)))
        from new_rows n
        join old_rows o on o.id = n.id
        where coalesce(n.chat_id, o.chat_id) is not null and n.id <> all (coalesce(reworded, '{}'))
        having count(*) > 0;
    end if;
    -- Not those that are reworded for the index: that also has rows which it does not know yet.
    execute format(
        'select memoryd.mark_outdated(array_agg(n.id))
         from new_rows n
         where (n.id, hashtextextended(row(%1$s)::text, 0)) not in (
             select o.id, hashtextextended(row(%1$s)::text, 0) from old_rows o)
         having count(*) > 0', tg_argv[1]);
    if reworded is not null then
        perform memoryd.delete_entries(tg_argv[0], array_agg(r.id), array_agg(r.scope))
        from unnest(ids, scopes) as r(id, scope) where r.id = any(reworded);
        perform memoryd.delete_entries(tg_argv[0], n.ids, n.scopes),
                memoryd.index_rows(tg_argv[0], n.ids, n.scopes, n.given, coalesce(indexed, '{}'),
                                   memoryd.groups_of(tg_argv[0], n.ids))
        from (select array_agg(t.id) as ids, array_agg(t.scope) as scopes,
                     array_agg(t.id) filter (where t.given_embedding is not null) as given
              from memoryd.searchable t
              where t.source = tg_argv[0] and t.id = any(reworded)) n;
    end if;
    return null;
end
$$;

-- Deleted rows.
create or replace function memoryd.rows_deleted() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform memoryd.mark_outdated(array_agg(o.id)) from old_rows o having count(*) > 0;
    if tg_argv[0] = 'conversation' then
        perform memoryd.delete_entries(
            tg_argv[0], array_agg(o.id) || array_agg(o.id),
            array_agg(memoryd.message_scope(o.scope, o.user_id, o.chat_id, o.access_level))
                || array_agg(memoryd.group_scope(o.chat_id, o.role)))
        from old_rows o having count(*) > 0;
    else
        perform memoryd.delete_entries(tg_argv[0], array_agg(o.id), array_agg(o.scope))
        from old_rows o having count(*) > 0;
    end if;
    return null;
end
$$;

-- What has become of a row that was written: whether recall finds it, and why not.

-- The states of rows of one source: of an end user only their own rows.
--   indexed  Found by its words and by meaning.
--   words    Found by its words; its embedding waits for the embedder.
--   waiting  Found by the words of its first 8,192 characters; a daemon is about to index it.
--   empty    A turn without a text: there is nothing to find it by.
--   failed   Its job was given up. The reason is for the agents and for support: it may say how they work.
create or replace function memoryd.states_of(p_source text, p_ids uuid[])
returns table (id uuid, state text, reason text, since timestamptz)
language plpgsql stable security definer
set search_path = pg_catalog, public, pg_temp
-- The view below calls it once for each row: a plan for each call takes longer than the call, and a scan of a
-- table for each call would read the square of its rows.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    caller constant memoryd.caller := memoryd.current_caller();
begin
    if caller.privileged and not caller.is_service then
        perform memoryd.audit_admin_read(n.table_name, o.owner_id)
        from memoryd.sources() n
        cross join (select distinct s.owner_id from memoryd.searchable s
                    where s.source = p_source and s.id = any(p_ids)) o
        where n.name = p_source;
        perform memoryd.audit_admin_knowledge(k.created_by) from public.shared_knowledge k
        where p_source = 'knowledge' and k.id = any(p_ids);
    end if;
    return query
    with mine as materialized (
        select s.id, s.scope, s.created_at,
               p_source = 'conversation' and memoryd.is_blank(s.searched_text) as is_empty
        from memoryd.searchable s
        where s.source = p_source and s.id = any(p_ids)
          and (caller.privileged or s.owner_id = caller.user_id)
    )
    select m.id, s.state,
           case s.state
               when 'failed' then case when caller.privileged then d.error else 'it could not be indexed' end
               when 'empty' then 'it has no text that it could be found by'
               when 'waiting' then 'a daemon has not come to it yet'
               when 'words' then 'the embedder has not answered yet' end,
           coalesce(d.died_at, u.since, m.created_at)
    from mine m
    left join lateral (
        select l.ref, l.error, l.died_at from memoryd.dead_letters l
        where l.topic = 'index' and l.ref = m.id
        order by l.died_at desc limit 1
    ) d on true
    left join memoryd.unindexed u on u.scope = m.scope and u.id = m.id and u.source = p_source
    left join lateral (
        select bool_and(t.code is not null) as embedded from memoryd.entries t
        where t.scope = m.scope and t.id = m.id and t.source = p_source
    ) e on true
    cross join lateral (
        select case when d.ref is not null and (u.id is not null or e.embedded is not true) then 'failed'
                    when m.is_empty then 'empty'
                    when u.id is not null or e.embedded is null then 'waiting'
                    when e.embedded then 'indexed'
                    else 'words' end as state) s;
end
$$;

-- Rows that the caller may not read, and rows that do not exist, are left out.
create or replace function public.index_state(ids uuid[])
returns table (source text, id uuid, state text, reason text, since timestamptz)
language sql stable
set search_path = pg_catalog, public, pg_temp
as $$
    select n.source, s.id, s.state, s.reason, s.since
    from unnest(memoryd.source_names()) as n(source)
    cross join lateral memoryd.states_of(n.source, index_state.ids) s
    order by n.source, s.id
$$;
comment on function public.index_state(uuid[]) is
    'Whether recall finds these rows: indexed, words (its embedding waits), waiting, empty, or failed, and '
    'why. Of end users their own.';

create or replace view memoryd.index_states with (security_invoker = true) as
select r.source, r.id, i.state, i.reason, i.since
from memoryd.searchable_by_users r
cross join lateral memoryd.states_of(r.source, array[r.id]) i;
comment on view memoryd.index_states is
    'Whether recall finds the rows that the reader may read: see index_state(). Knowledge is not among them.';
