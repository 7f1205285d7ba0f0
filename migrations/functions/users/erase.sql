-- Erasure: deletes everything that is stored about a user, in one transaction. The order of the steps
-- matters: the comments say why. The order of locks is described in base/locks.sql.

-- Texts of a user that were embedded or will be, each as the daemon embeds it.
create or replace function memoryd.texts_of(p_user uuid) returns setof text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select memoryd.searched_texts_of(p_user)
    union all
    select c.message from public.agent_commands c where c.user_id = p_user
    union all
    select r.query from public.memory_requests r where r.user_id = p_user
$$;

-- The rows of a user that records of others' searches may name. Ids are unique over all tables: so one list
-- does for their three columns.
create or replace function memoryd.rows_named(p_user uuid, p_memories uuid[]) returns uuid[]
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select p_memories
        || array(select k.id from public.shared_knowledge k where k.created_by = p_user::text)
        || array(select i.id from public.dream_insights i
                 where i.user_id = p_user or i.source_memories && p_memories)
$$;

-- The records of others' searches since a time that name one of these rows.
create or replace function memoryd.queries_naming(p_ids uuid[], p_user uuid, p_since timestamptz)
returns uuid[]
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select array(
        select q.id from public.memory_queries q
        where q.query_time > p_since and q.user_id is distinct from p_user
          and exists (select from unnest(q.retrieved_memory_ids || q.knowledge_ids || q.insight_ids) r
                      where r in (select unnest(p_ids))))
$$;

-- Deletes a user's rows, table by table. counts: how many rows of each table were the user's; ids: the ids
-- of all deleted rows. Links and insights of others that were made of the user's memories are deleted, too,
-- but not counted: the user may not learn how many there were.
create or replace function memoryd.erase_rows(p_user uuid, out counts jsonb, out ids uuid[])
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    each record;
    number bigint;
    deleted uuid[];
begin
    counts := '{}';
    ids := '{}';
    for each in
        select u.name, u.erased,
               case when u.name = 'memory_requests' then 'true' else u.exported end as counted,
               case when 'id' = any(memoryd.own_columns(u.name)) then 't.id' else 'null::uuid' end as id
        from memoryd.user_tables() u cross join lateral unnest(u.turns) as o(turn)
        order by o.turn, u.name
    loop
        if each.name = 'memory_requests' then
            -- Waits for daemons that are writing copies of texts (memoryd.block_erasures), and prevents
            -- that another one begins.
            lock table memoryd.erased_texts in exclusive mode;
        end if;
        execute format(
            'with gone as (delete from public.%I t where %s returning %s as counted, %s as id)
             select count(*) filter (where g.counted),
                    coalesce(array_agg(g.id) filter (where g.id is not null), ''{}'') from gone g',
            each.name, each.erased, each.counted, each.id)
        into number, deleted using p_user;
        counts := counts
            || jsonb_build_object(each.name, number + coalesce((counts ->> each.name)::bigint, 0));
        ids := ids || deleted;
    end loop;
    -- The requests that are left ask for an erasure: what else they say is deleted.
    update public.memory_requests r
    set query = null, options = '{}', agent_id = null
    where r.user_id = p_user and r.kind = 'erase';
end
$$;

-- Deletes conversations that have no message left, after the user's messages were deleted. p_own: the
-- conversations of the user; number: how many of these were deleted. p_ownerless: conversations without an
-- owner in which the user wrote; ids: which of these were deleted. The latter are not counted: the user may
-- not learn whether others wrote in them. p_chats: the group chats in which the user was. Conversations in
-- which others wrote stay for them, without owner and title, since the title may have been about the user.
create or replace function memoryd.erase_sessions(
    p_own uuid[], p_ownerless uuid[], p_chats uuid[], out number bigint, out ids uuid[])
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from public.conversation_sessions s
    where s.id = any(p_own)
      and not exists (select from public.conversation_messages m where m.session_id = s.id);
    get diagnostics number = row_count;
    with gone as (
        delete from public.conversation_sessions s
        where s.id = any(p_ownerless) and s.user_id is null
          and not exists (select from public.conversation_messages m where m.session_id = s.id)
        returning s.id
    )
    select coalesce(array_agg(g.id), '{}') into ids from gone g;
    update public.conversation_sessions s set user_id = null, title = null where s.id = any(p_own);
    update public.conversation_sessions s set title = null
    where s.id = any(p_ownerless) and s.user_id is null;
    -- Group chats in which nobody is left: what they are called may say who that was. The row stays, since a
    -- service that knows its id may write there again.
    update public.chat_groups g set group_name = null, group_metadata = '{}'
    where g.id = any(p_chats)
      and not exists (select from public.chat_group_members m where m.chat_id = g.id)
      and not exists (select from public.conversation_messages m where m.chat_id = g.id);
end
$$;

-- Erases those of p_agents that are still the user's own, and deletes their lanes, the user's, and the dead
-- letters of both. An agent that was disabled keeps its row and its name, since it must stay disabled. It
-- comes after the rows are deleted. It checks again which agents are the user's own, because other users may
-- have named one of them meanwhile. Anchors are not checked: they no longer refer to a memory, which would
-- tell their user.
create or replace function memoryd.erase_agents(p_user uuid, p_agents text[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    agents constant text[] := memoryd.named_only_by(p_user, p_agents, 'memory_anchors');
begin
    delete from public.agents a where a.agent_id = any(agents) and a.enabled;
    update public.agents a set identity = null where a.agent_id = any(agents);
    perform memoryd.rename_anchors(agents);
    update public.agents a set named_for = '00000000-0000-0000-0000-000000000000'
    where a.named_for = p_user;
    delete from memoryd.lanes l where memoryd.is_lane_of(l.topic, l.lane, p_user, agents);
    delete from memoryd.dead_letters d where memoryd.is_lane_of(d.topic, d.lane, p_user, agents);
end
$$;

-- Deletes copies of a user's texts: their embeddings, and what contexts and answers of others show of the
-- rows. The hashes of the texts are kept for an hour, so that a daemon that still has one of the texts cannot
-- store its embedding (memoryd.drop_erased). It comes after the rows are deleted, which are logged by then.
create or replace function memoryd.erase_copies(p_hashes bytea[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from memoryd.erased_texts e where e.erased_at < now() - interval '1 hour';
    insert into memoryd.erased_texts (content_hash)
    select h from unnest(p_hashes) h
    on conflict (content_hash) do update set erased_at = excluded.erased_at;
    delete from memoryd.embeddings e where e.content_hash in (select unnest(p_hashes));
    perform memoryd.remove_outdated(null);
end
$$;

-- Removes the ids of the user's rows from what others have written since the erasure began, now that nobody
-- is writing such ids. Who comes later is told that they were erased (memoryd.drop_erased_ids).
create or replace function memoryd.erase_names(p_user uuid, p_ids uuid[]) returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    insert into memoryd.erased_texts (content_hash)
    select distinct sha256(uuid_send(i)) from unnest(p_ids) i
    on conflict (content_hash) do update set erased_at = excluded.erased_at;
    select memoryd.strip_queries(memoryd.queries_naming(p_ids, p_user, now() - interval '1 day'), p_ids);
    select memoryd.strip_related(p_ids);
$$;

-- If the user has switched memory off, it stays off: of their settings only this is kept. Of a deleted
-- account nothing is.
create or replace function memoryd.erase_settings(p_user uuid) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from memoryd.settings s where s.key = 'deleted_account.' || p_user;
    if found then
        delete from public.memory_settings s where s.user_id = p_user;
    else
        update public.memory_settings s
        set memory_ttl_hours = null, task_memory_ttl_hours = null, conversation_retention_minutes = null
        where s.user_id = p_user;
    end if;
end
$$;

-- Locks what is remembered of a user and what was made of it, also of what a person deleted in the replica,
-- in the order that base/locks.sql describes.
create or replace function memoryd.lock_remembered(p_user uuid) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    memories uuid[];
begin
    perform from public.conversation_messages m where m.user_id = p_user order by m.id for update;
    perform from public.agent_memory m where m.user_id = p_user order by m.id for update;
    memories := array(select m.id from public.agent_memory m where m.user_id = p_user);
    perform memoryd.links_locked(memories);
    perform from public.dream_insights i
    where i.user_id = p_user or i.source_memories && (memories || memoryd.buried_memories(p_user))
    order by i.id for update;
end
$$;

-- Erases a user, whoever asks: who may is checked before. p_patience: how long it waits for what is being
-- written about the user. Returns how many rows of each table went, and the replica's files.
create or replace function memoryd.erase_user(p_user uuid, p_patience interval) returns jsonb
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    agents text[];
    own_sessions uuid[];
    ownerless_sessions uuid[];
    memories uuid[];
    named uuid[];
    chats uuid[];
    row_ids uuid[];
    hashes bytea[];
    paths jsonb;
    anchors bigint;
    rows_deleted record;
    sessions_deleted record;
    counts jsonb;
    org_before constant text := coalesce(current_setting('memoryd.org_id', true), '');
begin
    -- All that the user wrote into the team's knowledge, for whichever organisation.
    perform set_config('memoryd.org_id', 'all', true);
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'an erasure must see what is committed while it runs'
            using errcode = 'active_sql_transaction',
                  hint = 'Call it in a transaction of isolation level read committed.';
    end if;
    perform memoryd.lock(memoryd.user_lock(p_user));
    agents := memoryd.agents_of(p_user);
    perform memoryd.take_jobs(p_user, agents, p_patience);
    perform memoryd.lock_remembered(p_user);

    -- What cannot be found any more once the rows are deleted.
    own_sessions := array(select s.id from public.conversation_sessions s where s.user_id = p_user);
    ownerless_sessions := array(
        select distinct m.session_id from public.conversation_messages m
        join public.conversation_sessions s on s.id = m.session_id
        where m.user_id = p_user and s.user_id is null);
    memories := array(select m.id from public.agent_memory m where m.user_id = p_user);
    chats := array(
        select m.chat_id from public.chat_group_members m where m.user_id = p_user
        union
        select m.chat_id from public.conversation_messages m where m.user_id = p_user);
    row_ids := array(select memoryd.row_ids_of(p_user));
    hashes := array(select distinct sha256(convert_to(left(t, 32768), 'UTF8'))
                    from memoryd.texts_of(p_user) t where t is not null);
    -- Those that the daemon deletes are not for the caller to delete.
    select coalesce(jsonb_agg(d.replica_path order by d.replica_path), '[]') into paths
    from public.documents d
    where d.user_id = p_user and d.replica_path is not null
      and not exists (select from memoryd.replica_files f where f.document_id = d.id);

    named := memoryd.rows_named(p_user, memories);
    perform memoryd.strip_queries(memoryd.queries_naming(named, p_user, '-infinity'), named);
    anchors := memoryd.erase_anchors(p_user, memories);
    perform memoryd.erase_tombstones(p_user);
    rows_deleted := memoryd.erase_rows(p_user);
    sessions_deleted := memoryd.erase_sessions(own_sessions, ownerless_sessions, chats);
    perform memoryd.erase_settings(p_user);
    row_ids := array(select distinct r from unnest(row_ids || sessions_deleted.ids || rows_deleted.ids) r);
    perform memoryd.delete_jobs_about(p_user, row_ids);
    perform memoryd.erase_agents(p_user, agents);
    -- Subtracts the words of the deleted rows at once, instead of leaving it to a daemon: so words that no
    -- row contains any more go too. All in one call, which locks the words in order.
    perform memoryd.fold_lexeme_changes(null);
    perform memoryd.erase_copies(hashes);
    perform memoryd.erase_names(p_user, named);
    perform memoryd.erase_sections(p_user, row_ids, memories);

    -- Deletes what the audit trail says of this erasure's own statements, then notes that there was an
    -- erasure, not of which user.
    delete from public.agent_execution_logs l where l.user_id = p_user;
    counts := rows_deleted.counts
        || jsonb_build_object('memory_anchors', anchors, 'conversation_sessions', sessions_deleted.number);
    insert into public.agent_execution_logs (step_name, action_type, output_data)
    values ('erase', 'memory_write', counts);
    perform set_config('memoryd.org_id', org_before, true);
    return counts || jsonb_build_object('replica_paths', paths);
end
$$;

create or replace function public.erase_user_memory(user_id uuid) returns jsonb
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform memoryd.check_own(erase_user_memory.user_id, 'erase');
    return memoryd.erase_user(erase_user_memory.user_id, '30 seconds');
end
$$;
comment on function public.erase_user_memory(uuid) is
    'Deletes all that is kept about a user and says how many rows of each table. Users erase their own. '
    'There is no way back but an export.';

-- Deleting single rows. End users have no right to DELETE, because this right includes LOCK TABLE: with it
-- one user could block all others, and no policy prevents that. Instead they call forget(),
-- erase_user_memory() and reset_session().

-- Deletes those conversations of p_ids that the caller, an end user, owns, and returns how many these were.
-- If other users wrote in a conversation, too, it stays for them as after an erasure.
create or replace function memoryd.forget_own_sessions(p_ids uuid[]) returns bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    own constant uuid[] := array(
        select s.id from public.conversation_sessions s
        where s.id = any(p_ids) and s.user_id = memoryd.caller_id());
begin
    delete from public.conversation_messages m
    where m.session_id = any(own) and m.id in (select memoryd.messages_of(memoryd.caller_id()));
    perform memoryd.erase_sessions(own, '{}', '{}');
    return cardinality(own);
end
$$;

-- An end user deletes only their own rows: rows of others are treated like rows that do not exist, so they
-- are not locked, not waited for and not counted.
create or replace function public.forget(ids uuid[], source text default 'memory') returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    in_table constant text := memoryd.table_to_forget(forget.source);
    deleted bigint;
begin
    if forget.source = 'session' and not memoryd.caller_is_service() then
        return memoryd.forget_own_sessions(forget.ids);
    end if;
    if in_table is null then
        raise exception 'unknown source %', coalesce(quote_literal(left(forget.source, 200)), 'null')
            using errcode = 'invalid_parameter_value',
                  hint = 'Sources: '
                      || (select string_agg(u.forgotten_as, ', ') from memoryd.user_tables() u)
                      || ' (of settings the ids are user_ids).';
    end if;
    execute format('delete from public.%I t where t.%I = any ($1) and ($2 or t.user_id = $3)',
                   in_table, case forget.source when 'settings' then 'user_id' else 'id' end)
        using forget.ids, memoryd.caller_is_service(), memoryd.caller_id();
    get diagnostics deleted = row_count;
    if forget.source = 'memory' then
        perform memoryd.forget_sections(case when memoryd.caller_is_service() then forget.ids
                                             else memoryd.own_sections(forget.ids) end);
    end if;
    return deleted;
end
$$;
do $$
begin
    execute format('comment on function public.forget(uuid[], text) is %L',
        'Deletes rows by their ids and returns how many went: of end users their own, of a service any. '
        'Sources: ' || (select string_agg(u.forgotten_as, ', ') from memoryd.user_tables() u)
        || '. A session goes with its messages, a document with its chunks.');
end
$$;
