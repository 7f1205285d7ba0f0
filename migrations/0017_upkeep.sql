-- Conversations are forgotten in time; and the doors of what came after 0014_access.sql are closed.

-- Deletes messages past their time, and sessions as old that have none left, at most p_max_rows of each (null: all).
-- A user's own minutes (memory_settings) go before p_default_minutes; null keeps for ever.
create function memoryd.expire_conversations(
    p_default_minutes integer, p_max_rows integer default null, out messages bigint, out sessions bigint)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
-- From the oldest on, with a look at each one's user and session: without these it may read everything and sort.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    past uuid[];
begin
    select array_agg(e.id) into past
    from (
        (select m.id
         from public.memory_settings s
         cross join lateral (
             select m.id from public.conversation_messages m
             where m.user_id = s.user_id and m.created_at < now() - make_interval(mins => s.conversation_retention_minutes)
             order by m.created_at
             limit p_max_rows
         ) m
         where s.conversation_retention_minutes is not null
         limit p_max_rows)
        union all
        (select m.id from public.conversation_messages m
         where m.created_at < now() - make_interval(mins => p_default_minutes)
           and not exists (select from public.memory_settings s
                           where s.user_id = m.user_id and s.conversation_retention_minutes is not null)
         order by m.created_at
         limit p_max_rows)
        limit p_max_rows
    ) e;
    delete from public.conversation_messages m
    where m.id in (select l.id from public.conversation_messages l where l.id = any(past) for update skip locked);
    get diagnostics messages = row_count;

    select array_agg(e.id) into past
    from (
        (select c.id
         from public.memory_settings s
         cross join lateral (
             select c.id from public.conversation_sessions c
             where c.user_id = s.user_id and c.created_at < now() - make_interval(mins => s.conversation_retention_minutes)
               and not exists (select from public.conversation_messages m where m.session_id = c.id)
             order by c.created_at
             limit p_max_rows
         ) c
         where s.conversation_retention_minutes is not null
         limit p_max_rows)
        union all
        (select c.id from public.conversation_sessions c
         where c.created_at < now() - make_interval(mins => p_default_minutes)
           and not exists (select from public.memory_settings s
                           where s.user_id = c.user_id and s.conversation_retention_minutes is not null)
           and not exists (select from public.conversation_messages m where m.session_id = c.id)
         order by c.created_at
         limit p_max_rows)
        limit p_max_rows
    ) e;
    -- Locked first, then looked into once more: a message written meanwhile keeps its session.
    with locked as (
        select c.id from public.conversation_sessions c where c.id = any(past) for update skip locked
    )
    select array_agg(l.id) into past from locked l;
    delete from public.conversation_sessions c
    where c.id = any(past) and not exists (select from public.conversation_messages m where m.session_id = c.id);
    get diagnostics sessions = row_count;
end
$$;

do $$
declare
    strangers text := 'public';
begin
    select strangers || coalesce(string_agg(format(', %I', rolname), ''), '') into strangers
    from pg_roles where rolname in ('anon', 'authenticated');
    -- Where default privileges give clients everything, they have been given the machinery's tables too.
    execute format('revoke all on all tables in schema memoryd from %s', strangers);
    execute format('revoke all on all sequences in schema memoryd from %s', strangers);
    execute format('revoke all on all functions in schema memoryd from %s', strangers);
    execute format('revoke all on function public.match_memory, public.search_shared_knowledge from %s', strangers);
end
$$;
grant execute on function memoryd.check_match, public.match_memory to memoryd_service, memoryd_user;
grant execute on function public.search_shared_knowledge to memoryd_service;
