-- An embedding that was paid for is kept to spare a second call. While an erasure ends it is not, rather than waited for.
create or replace function memoryd.drop_erased() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    lock table memoryd.erased_texts in row share mode nowait;
    if exists (select from memoryd.erased_texts e
               where e.content_hash = new.content_hash and e.erased_at > now() - interval '1 hour') then
        return null;
    end if;
    return new;
exception when lock_not_available then
    return null;
end
$$;

-- A dream that read a user's memories before they were erased says nothing of them after.
create or replace function memoryd.drop_dreamt() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform memoryd.lock_shared(memoryd.user_lock(new.user_id));
    if exists (select from public.dream_sessions d where d.id = new.dream_id and d.status = 'running')
       and exists (select from unnest(new.source_memories) as s(id)
                   where not exists (select from public.agent_memory m where m.id = s.id)) then
        return null;
    end if;
    return new;
end
$$;

-- Erasure.

-- Texts of a user that were embedded or are about to be, each as the daemon takes it.
create or replace function memoryd.texts_of(p_user uuid) returns setof text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select m.content from public.agent_memory m where m.user_id = p_user
    union all
    select c.message from public.agent_commands c where c.user_id = p_user
    union all
    select r.query from public.memory_requests r where r.user_id = p_user
    union all
    select i.insight from public.dream_insights i where i.user_id = p_user
    union all
    select m.content from public.conversation_messages m where m.id in (select memoryd.messages_of(p_user))
    union all
    select concat_ws(E'\n', c.context, c.chunk_text) from public.memory_chunks c where c.user_id = p_user
    union all
    select concat_ws(E'\n', k.title, k.content, array_to_string(k.tags, ' '))
    from public.shared_knowledge k where k.created_by = p_user::text
$$;

-- Jobs that are about a user's rows. Not those of places that messages have left: they rid others' windows of what stood there.
create or replace function memoryd.jobs_of(p_user uuid) returns setof bigint
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select j.id from memoryd.jobs j
    where not coalesce(j.payload ? 'gone', false) and j.ref in (
        select c.id from public.agent_commands c where c.user_id = p_user
        union all
        select m.id from public.agent_memory m where m.user_id = p_user
        union all
        select i.id from public.dream_insights i where i.user_id = p_user
        union all
        select r.id from public.memory_requests r
        where r.user_id = p_user and r.kind <> 'erase'
        union all
        select memoryd.messages_of(p_user)
        union all
        select s.id from public.conversation_sessions s where s.user_id = p_user
        union all
        select d.id from public.documents d where d.user_id = p_user
        union all
        select c.id from public.memory_chunks c where c.user_id = p_user
        union all
        select k.id from public.shared_knowledge k where k.created_by = p_user::text
    )
$$;

-- Of these agents those that no row names but this user's own, neither of another user nor of nobody. One that is open to users
-- is the service's, however few have come so far.
create or replace function memoryd.named_only_by(p_user uuid, p_agents text[], p_but text default null) returns text[]
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    agents text[] := array(
        select a from unnest(p_agents) a
        where a <> '_shared' and not exists (select from public.agents g where g.agent_id = a and g.open_to_users));
    each record;
begin
    for each in
        select u.name, coalesce(u.erased, u.exported) as condition
        from memoryd.user_tables() u
        join pg_attribute a on a.attrelid = format('public.%I', u.name)::regclass and a.attname = 'agent_id'
        where u.name is distinct from p_but
        -- First where an index leads to an agent's rows, so that of most agents nothing more is asked.
        order by u.name <> 'agent_memory', u.name
    loop
        exit when agents = '{}';
        execute format('select coalesce(array_agg(a.name), ''{}'') from unnest($2) as a(name)
                        where not exists (select from public.%I t where t.agent_id = a.name and not coalesce((%s), false))',
                       each.name, each.condition)
        into agents using p_user, agents;
    end loop;
    return agents;
end
$$;

-- Agents that are a user's own: named by this user's rows alone.
create or replace function memoryd.agents_of(p_user uuid) returns text[]
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    agents text[] := '{}';
    named text[];
    each record;
begin
    for each in
        select u.name, coalesce(u.erased, u.exported) as condition
        from memoryd.user_tables() u
        join pg_attribute a on a.attrelid = format('public.%I', u.name)::regclass and a.attname = 'agent_id'
    loop
        execute format('select array_agg(distinct t.agent_id) from public.%I t where t.agent_id is not null and (%s)',
                       each.name, each.condition)
        into named using p_user;
        agents := agents || named;
    end loop;
    return memoryd.named_only_by(p_user, array(select distinct a from unnest(agents) a));
end
$$;

-- The lanes in which a user's memories are linked.
create or replace function memoryd.lanes_of(p_user uuid) returns text[]
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select array(select l.lane from memoryd.lanes l where right(l.lane, 17) = memoryd.associate_lane('', p_user))
$$;

-- THE ORDER OF LOCKS, which all that lock more than one row keep:
--   1. a user's own lock (memoryd.user_lock)   5. executions
--   2. lanes                                   6. what is remembered: memories, messages, links; by id
--   3. jobs                                    7. the erasures' gate (table memoryd.erased_texts), then requests
--   4. commands, by id                         8. the statistics' lock, then lexemes in their order
-- Within one statement a CTE locks them in this order (`order by ... for update`) before anything is written. An erasure
-- needs the commands before the jobs, since a command that ends makes a job: it takes both without waiting for either.
--
-- Takes what is about a user from the daemons and the agents: the commands, so that none of them ends any more, then the jobs.
-- What one of them is working on is never written. A job that is being settled is waited for, with nothing held meanwhile;
-- whatever it wrote is then there to be erased.
create or replace function memoryd.take_jobs(p_user uuid, p_lanes text[] default '{}') returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    until constant timestamptz := clock_timestamp() + interval '30 seconds';
begin
    loop
        begin
            perform from public.agent_commands c where c.user_id = p_user for update of c nowait;
            perform from memoryd.lanes l where l.lane = any(p_lanes) for update of l nowait;
            perform from memoryd.jobs j where j.id in (select memoryd.jobs_of(p_user)) for update of j nowait;
            exit;
        exception when lock_not_available then
            if clock_timestamp() > until then
                raise exception 'somebody has been writing about this user for half a minute'
                    using errcode = 'lock_not_available',
                          hint = 'Nothing was erased. Try again in a moment; a transaction that was left open must end first.';
            end if;
        end;
        perform pg_sleep(0.02);
    end loop;
    delete from memoryd.jobs j where j.id in (select memoryd.jobs_of(p_user));
end
$$;

-- An agent's name may say whose it was. One that was disabled stays disabled, and so known by its name.
create or replace function memoryd.forget_agents(p_agents text[]) returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    delete from public.agents a where a.agent_id = any(p_agents) and a.enabled;
    update public.agents a set identity = null where a.agent_id = any(p_agents);
    -- Its anchors stay one chain, under a name that says nothing.
    update public.memory_anchors a
    set agent_id = n.name
    from (select g as agent, 'erased ' || gen_random_uuid() as name from unnest(p_agents) g) n
    where a.agent_id = n.agent;
$$;

create or replace function public.erase_user_memory(user_id uuid) returns jsonb
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    whose constant uuid := erase_user_memory.user_id;
    counts jsonb := '{}';
    number bigint;
    sessions uuid[];
    shared uuid[];
    memories uuid[];
    hashes bytea[];
    refs uuid[];
    paths jsonb;
    each record;
    agents text[];
    lanes text[];
    gone uuid[] := '{}';
    ids uuid[];
begin
    perform memoryd.check_own(whose, 'erase');
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'an erasure must see what is committed while it runs'
            using errcode = 'active_sql_transaction', hint = 'Call it in a transaction of isolation level read committed.';
    end if;
    perform memoryd.lock(memoryd.user_lock(whose));
    agents := memoryd.agents_of(whose);
    lanes := memoryd.lanes_of(whose);
    perform memoryd.take_jobs(whose, agents || lanes);

    sessions := array(select s.id from public.conversation_sessions s where s.user_id = whose);
    shared := array(select distinct m.session_id from public.conversation_messages m
                    join public.conversation_sessions s on s.id = m.session_id
                    where m.user_id = whose and s.user_id is null);
    memories := array(select m.id from public.agent_memory m where m.user_id = whose);
    refs := memories || sessions
        || array(select c.id from public.agent_commands c where c.user_id = whose)
        || array(select r.id from public.memory_requests r
                 where r.user_id = whose and r.kind <> 'erase')
        || array(select i.id from public.dream_insights i where i.user_id = whose)
        || array(select d.id from public.documents d where d.user_id = whose)
        || array(select c.id from public.memory_chunks c where c.user_id = whose)
        || array(select memoryd.messages_of(whose));
    hashes := array(select distinct sha256(convert_to(left(t, 32768), 'UTF8')) from memoryd.texts_of(whose) t where t is not null);
    select coalesce(jsonb_agg(d.replica_path order by d.replica_path), '[]') into paths
    from public.documents d where d.user_id = whose and d.replica_path is not null;

    -- What others retrieved of it.
    update public.memory_queries q
    set (retrieved_memory_ids, relevance_scores) = (
        select coalesce(array_agg(r.id order by r.place) filter (where r.place <= cardinality(q.retrieved_memory_ids)), '{}'),
               coalesce(array_agg(r.score order by r.place) filter (where r.place <= cardinality(q.relevance_scores)), '{}')
        from unnest(q.retrieved_memory_ids, q.relevance_scores) with ordinality as r(id, score, place)
        where r.id is null or r.id <> all (memories))
    where q.user_id is distinct from whose
      and exists (select from unnest(q.retrieved_memory_ids) r where r in (select unnest(memories)));
    -- The chain of hashes stays whole.
    update public.memory_anchors a
    set payload = '{"erased": true}'
    where a.memory_id in (select unnest(memories)) or a.payload ->> 'user_id' = whose::text;
    get diagnostics number = row_count;
    counts := counts || jsonb_build_object('memory_anchors', number);

    for each in
        -- Links and insights of others go too, but how many there were is theirs to know.
        select u.name, coalesce(u.erased, u.exported) as condition,
               case when u.name = 'memory_requests' then 'true' else u.exported end as counted,
               case when 'id' = any(memoryd.own_columns(u.name)) then 't.id' else 'null::uuid' end as id
        -- Commands before what is made of them: whoever is at work on one that came meanwhile is waited for here.
        -- Requests last, with nobody at work on an answer.
        from unnest(array['agent_execution_logs', 'memory_queries', 'agent_commands', 'memory_queries', 'memory_associations',
                          'dream_insights', 'agent_memory', 'conversation_messages', 'memory_chunks', 'documents',
                          'shared_knowledge', 'agent_sessions', 'user_memory_access', 'memory_settings', 'memory_requests'])
             with ordinality as o(name, place)
        join memoryd.user_tables() u using (name)
        order by o.place
    loop
        if each.name = 'memory_requests' then
            lock table memoryd.erased_texts in exclusive mode;
        end if;
        execute format('with gone as (delete from public.%I t where %s returning %s as counted, %s as id)
                        select count(*) filter (where g.counted),
                               coalesce(array_agg(g.id) filter (where g.id is not null), ''{}'') from gone g',
                       each.name, each.condition, each.counted, each.id)
        into number, ids using whose;
        counts := counts || jsonb_build_object(each.name, number + coalesce((counts ->> each.name)::bigint, 0));
        gone := gone || ids;
    end loop;
    update public.memory_requests r
    set query = null, options = '{}', agent_id = null
    where r.user_id = whose and r.kind = 'erase';
    delete from public.conversation_sessions s
    where s.id = any(sessions)
      and not exists (select from public.conversation_messages m where m.session_id = s.id);
    get diagnostics number = row_count;
    counts := counts || jsonb_build_object('conversation_sessions', number);
    -- One of nobody goes with its last words, and is not counted: who else spoke in it is not the user's to
    -- know.
    with gone as (
        delete from public.conversation_sessions s
        where s.id = any(shared) and s.user_id is null
          and not exists (select from public.conversation_messages m where m.session_id = s.id)
        returning s.id
    )
    select refs || array_agg(g.id) into refs from gone g;
    -- Where others speak too, the conversation is theirs now; its title may have been about whom it loses.
    update public.conversation_sessions s set user_id = null, title = null where s.id = any(sessions);
    update public.conversation_sessions s set title = null where s.id = any(shared) and s.user_id is null;
    -- That they want to be remembered no more is all that is kept of what they decided.
    update public.memory_settings s
    set memory_ttl_hours = null, task_memory_ttl_hours = null, conversation_retention_minutes = null
    where s.user_id = whose;

    -- The machinery.
    refs := array(select distinct r from unnest(refs || gone) r);
    delete from memoryd.executions e where e.command_id in (select unnest(refs));
    delete from memoryd.dead_jobs d
    where d.ref = any(refs)
              and not (coalesce(d.payload ? 'gone', false)
                       and exists (select from public.conversation_sessions s where s.id = d.ref))
       or d.payload is not null and exists (
           select from regexp_matches(d.payload::text, '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}', 'g') as m(found)
           where m.found[1]::uuid = any(refs || whose));
    -- Whoever settles one of these is about to delete it, too. In a conversation that others go on with, the places left are to do.
    delete from memoryd.jobs j
    where j.id in (select k.id from memoryd.jobs k
                   where k.ref = any(refs)
                     and not (coalesce(k.payload ? 'gone', false)
                              and exists (select from public.conversation_sessions s where s.id = k.ref))
                   for update skip locked);
    -- Others' rows that name one of these agents may have come meanwhile.
    agents := memoryd.named_only_by(whose, agents, 'memory_anchors');
    perform memoryd.forget_agents(agents);
    delete from memoryd.lanes l where l.lane = any(agents || lanes);
    delete from memoryd.dead_jobs d where d.lane = any(agents || lanes);
    -- Words that no row has any more go as they are counted out.
    select max(c.id) into number from memoryd.lexeme_changes c;
    while exists (select from memoryd.lexeme_changes c where c.id <= number) loop
        perform memoryd.fold_lexeme_changes();
    end loop;

    -- Copies of its texts.
    delete from memoryd.erased_texts e where e.erased_at < now() - interval '1 hour';
    insert into memoryd.erased_texts (content_hash)
    select h from unnest(hashes) h
    on conflict (content_hash) do update set erased_at = excluded.erased_at;
    delete from memoryd.embeddings e where e.content_hash in (select unnest(hashes));
    perform memoryd.scrub_answers(whose);

    -- What this erasure wrote of itself; then that one took place.
    delete from public.agent_execution_logs l where l.user_id = whose;
    insert into public.agent_execution_logs (step_name, action_type, output_data) values ('erase', 'memory_write', counts);
    return counts || jsonb_build_object('replica_paths', paths);
end
$$;
comment on function public.erase_user_memory is 'Deletes all that is kept about a user and says how many rows of each table. Users erase their own. There is no way back but an export.';
