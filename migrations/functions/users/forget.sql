-- Deleting single rows. End users have no right to DELETE, because this right includes LOCK TABLE: with it
-- one user could block all others, and no policy prevents that. Instead they call forget(),
-- erase_user_memory() and reset_session().

-- Deletes those conversations of p_ids that the caller, an end user, owns. If other users wrote in a
-- conversation, too, it stays for them, without owner and title, as after an erasure. Returns how many
-- conversations of p_ids the caller owned.
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
    delete from public.conversation_sessions s
    where s.id = any(own)
      and not exists (select from public.conversation_messages m where m.session_id = s.id);
    update public.conversation_sessions s set user_id = null, title = null where s.id = any(own);
    return cardinality(own);
end
$$;

-- Those of p_ids that the replica has in a file of the caller, an end user, or keeps as what was deleted
-- there.
create or replace function memoryd.own_sections(p_ids uuid[]) returns uuid[]
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select array_agg(o.row_id)
    from (select s.row_id, s.source, c.user_id
          from memoryd.replica_sections s join memoryd.replica_collections c on c.id = s.collection_id
          union
          select c.row_id, c.source, c.user_id from memoryd.replica_section_conflicts c
          union
          select b.row_id, b.source, b.user_id from memoryd.replica_buried b) o
    where o.row_id = any(p_ids) and o.source = 'memory' and o.user_id = memoryd.caller_id()
$$;

-- Has the sections of memories that are forgotten deleted from the replica, whatever people wrote into them,
-- and deletes what could bring them back: of end users their own.
create or replace function memoryd.forget_sections(p_ids uuid[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    update memoryd.replica_sections s set erased = true
    where s.source = 'memory' and s.row_id = any(p_ids)
      and not exists (select from public.agent_memory m where m.id = s.row_id);
    -- Without its text it stays until its section is gone: a section of an unknown conflict is a new entry.
    update memoryd.replica_section_conflicts c set ended = true, title = '', body = '', base_hash = null
    where c.source = 'memory' and c.row_id = any(p_ids)
      and not exists (select from public.agent_memory m where m.id = c.row_id);
    delete from memoryd.replica_buried b
    where b.source = 'memory' and b.row_id = any(p_ids)
      and (memoryd.caller_is_service() or b.user_id = memoryd.caller_id());
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
