-- Single rows.

-- End users delete by this, and by what stands around it, not by DELETE: who may DELETE may LOCK TABLE too,
-- against everybody, and no policy stops that. Rows of others are left as rows that are not there are: not
-- locked, not waited for, not counted.
create or replace function public.forget(ids uuid[], source text default 'memory') returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    place constant text := case forget.source
        when 'memory' then 'agent_memory'
        when 'message' then 'conversation_messages'
        when 'session' then 'conversation_sessions'
        when 'document' then 'documents'
        when 'chunk' then 'memory_chunks'
        when 'settings' then 'memory_settings' end;
    gone bigint;
    mine uuid[];
begin
    if forget.source = 'session' and not memoryd.caller_is_service() then
        -- Others who speak in it go on, as after an erasure.
        mine := array(select s.id from public.conversation_sessions s where s.id = any(ids) and s.user_id = memoryd.caller_id());
        delete from public.conversation_messages m
        where m.session_id = any(mine) and m.id in (select memoryd.messages_of(memoryd.caller_id()));
        delete from public.conversation_sessions s
        where s.id = any(mine) and not exists (select from public.conversation_messages m where m.session_id = s.id);
        update public.conversation_sessions s set user_id = null, title = null where s.id = any(mine);
        return cardinality(mine);
    end if;
    if place is null then
        raise exception 'unknown source %', coalesce(quote_literal(left(forget.source, 200)), 'null')
            using errcode = 'invalid_parameter_value',
                  hint = 'Sources: memory, message, session, document, chunk, '
                         'settings (whose ids are user_ids).';
    end if;
    execute format('delete from public.%I t where t.%I = any ($1) and ($2 or t.user_id = $3)',
                   place, case forget.source when 'settings' then 'user_id' else 'id' end)
        using forget.ids, memoryd.caller_is_service(), memoryd.caller_id();
    get diagnostics gone = row_count;
    return gone;
end
$$;
comment on function public.forget is
    'Deletes rows by their ids and returns how many went: of end users their own, of a service any. '
    'Sources: memory, message, session (with its messages), document (with its chunks), chunk, settings.';
