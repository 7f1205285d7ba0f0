-- Which rows are a user's, beside memoryd.user_tables(), for exports and erasures; what users decide about
-- their own memory (memory_settings); and which rows are dropped.

-- Ids of a user's rows that jobs, dead letters and executions may refer to. Without the requests to erase,
-- which must still be answered.
create or replace function memoryd.row_ids_of(p_user uuid) returns setof uuid
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select c.id from public.agent_commands c where c.user_id = p_user
    union all
    select r.id from public.memory_requests r where r.user_id = p_user and r.kind <> 'erase'
    union all
    select s.id from public.conversation_sessions s where s.user_id = p_user
    union all
    select d.id from public.documents d where d.user_id = p_user
    union all
    select memoryd.searched_ids_of(p_user)
$$;

-- The columns of a table without those that memoryd computes from the others.
create or replace function memoryd.own_columns(p_table text) returns text[]
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select array_agg(a.attname::text order by a.attnum)
    from pg_attribute a
    join pg_type t on t.oid = a.atttypid
    where a.attrelid = ('public.' || quote_ident(p_table))::regclass
      and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
      and t.typname not in ('vector', 'halfvec', 'sparsevec', 'tsvector')
      and (p_table, a.attname) not in (('agent_commands', 'context'), ('memory_chunks', 'sparse_embedding'))
$$;

-- Whether a user has switched memory off.
create or replace function memoryd.memory_is_off(p_user uuid) returns boolean
language sql stable
return exists (select from public.memory_settings s where s.user_id = p_user and not s.memory_enabled);

-- Where a user has set fewer hours, memories that are stored already expire earlier, too. With more hours
-- their expiry does not change.
create or replace function memoryd.settings_changed() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    update public.agent_memory m
    set ttl_hours = least(m.ttl_hours, o.hours),
        expires_at = coalesce(m.text_changed_at, m.updated_at) + make_interval(hours => o.hours)
    from (values (true, new.task_memory_ttl_hours), (false, new.memory_ttl_hours)) as o(task_memory, hours)
    where m.user_id = new.user_id
      and (m.memory_type is not distinct from 'task_memory') = o.task_memory
      and coalesce(m.expires_at, 'infinity')
          > coalesce(m.text_changed_at, m.updated_at) + make_interval(hours => o.hours);
    return null;
end
$$;

-- Nothing new is stored of a user who has switched memory off: the row is dropped without an error, so that
-- agents continue to work. For agent_memory, stamp_expiry does the same, since it reads the user's settings
-- in any case.
create or replace function memoryd.drop_when_off() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    owner uuid := new.user_id;
begin
    if tg_table_name = 'conversation_messages' then
        -- What an agent says in a user's conversation is about that user, too.
        owner := coalesce(owner, (select s.user_id from public.conversation_sessions s
                                  where s.id = new.session_id));
    elsif tg_table_name = 'memory_chunks' then
        -- The document itself may have been dropped: then it names no user, and the caller counts as the
        -- owner.
        owner := coalesce(owner, memoryd.caller_id());
    end if;
    if exists (select from public.memory_settings s where s.user_id = owner and not s.memory_enabled)
       and memoryd.may_write_for(owner) and not memoryd.importing() then
        return null;
    end if;
    return new;
end
$$;

-- Triggers that drop what a daemon still writes about a user who was erased meanwhile, so that nothing of the
-- user is stored again.

-- Drops the embedding of a text that was erased within the last hour. Embeddings are stored only to save a
-- second call of the embedder: so while an erasure has the lock, the row is dropped, instead of waiting for
-- the erasure.
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

-- Drops an insight of a running dream that was made of memories which do not exist any more. The user's
-- lock makes it wait for an erasure that is under way.
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

-- Removes ids from these records of searches.
create or replace function memoryd.strip_queries(p_queries uuid[], p_ids uuid[]) returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    update public.memory_queries q
    set (retrieved_memory_ids, relevance_scores) = (
            select coalesce(array_agg(r.id order by r.nth)
                                filter (where r.nth <= cardinality(q.retrieved_memory_ids)), '{}'),
                   coalesce(array_agg(r.score order by r.nth)
                                filter (where r.nth <= cardinality(q.relevance_scores)), '{}')
            from unnest(q.retrieved_memory_ids, q.relevance_scores) with ordinality as r(id, score, nth)
            where r.id is null or r.id <> all (p_ids)),
        knowledge_ids = array(select k.id from unnest(q.knowledge_ids) with ordinality as k(id, nth)
                              where k.id <> all (p_ids) order by k.nth),
        insight_ids = array(select i.id from unnest(q.insight_ids) with ordinality as i(id, nth)
                            where i.id <> all (p_ids) order by i.nth)
    where q.id = any(p_queries)
$$;

-- Removes ids from what entries of knowledge name.
create or replace function memoryd.strip_related(p_ids uuid[]) returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    update public.shared_knowledge k
    set related_ids = array(select r from unnest(k.related_ids) with ordinality as u(r, nth)
                            where r <> all (p_ids) order by nth)
    where k.related_ids <> '{}' and k.related_ids && p_ids
$$;

-- Those of these ids whose row was erased within the last hour; asked at the commit of who has written them.
-- An erasure that is ending is not waited for: then all rows of other users count as erased. So they do for
-- an older snapshot, which does not show what was erased.
create or replace function memoryd.erased_ids(p_ids uuid[], p_user uuid) returns uuid[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    is_told boolean := current_setting('transaction_isolation') = 'read committed';
    gone uuid[];
begin
    begin
        lock table memoryd.erased_texts in row share mode nowait;
    exception when lock_not_available then
        is_told := false;
    end;
    if is_told then
        gone := array(select i from unnest(p_ids) i
                      join memoryd.erased_texts e on e.content_hash = sha256(uuid_send(i)));
        -- An import may have put them back.
        return case when gone = '{}' then gone else array(
            select g from unnest(gone) g where g not in (select e.id from memoryd.existing_rows(gone) e)) end;
    end if;
    return array(
        select m.id from public.agent_memory m
        where m.id = any(p_ids) and m.user_id is not null and m.user_id is distinct from p_user
        union all
        select d.id from public.dream_insights d
        where d.id = any(p_ids) and d.user_id is not null and d.user_id is distinct from p_user
        union all
        select k.id from public.shared_knowledge k
        where k.id = any(p_ids) and pg_input_is_valid(k.created_by, 'uuid'));
end
$$;

-- Whoever writes ids of others' rows looks at the commit whether these were erased. An erasure has looked for
-- such ids before, and looks again once it has waited for who holds the lock.
create or replace function memoryd.drop_erased_ids() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    gone uuid[];
begin
    if tg_table_name = 'memory_queries' then
        gone := memoryd.erased_ids(
            new.retrieved_memory_ids || new.knowledge_ids || new.insight_ids, new.user_id);
        if gone <> '{}' then
            perform memoryd.strip_queries(array[new.id], gone);
        end if;
    else
        gone := memoryd.erased_ids(new.related_ids, null);
        if gone <> '{}' then
            perform memoryd.strip_related(gone);
        end if;
    end if;
    return null;
end
$$;
