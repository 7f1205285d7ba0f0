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
    select m.id,
           case when d.ref is not null and (u.id is not null or e.embedded is not true) then 'failed'
                when m.is_empty then 'empty'
                when u.id is not null or e.embedded is null then 'waiting'
                when e.embedded then 'indexed'
                else 'words' end,
           case when d.ref is not null and (u.id is not null or e.embedded is not true)
                    then case when caller.privileged then d.error else 'it could not be indexed' end
                when m.is_empty then 'it has no text that it could be found by'
                when u.id is not null or e.embedded is null then 'a daemon has not come to it yet'
                when not e.embedded then 'the embedder has not answered yet' end,
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
    ) e on true;
end
$$;

-- Rows that the caller may not read, and rows that do not exist, are left out.
create or replace function public.index_state(ids uuid[])
returns table (source text, id uuid, state text, reason text, since timestamptz)
language plpgsql stable
set search_path = pg_catalog, public, pg_temp
as $$
#variable_conflict use_column
begin
    return query
    select n.source, s.id, s.state, s.reason, s.since
    from unnest(memoryd.source_names()) as n(source)
    cross join lateral memoryd.states_of(n.source, index_state.ids) s
    order by n.source, s.id;
end
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
