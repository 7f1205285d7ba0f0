-- Import: rows of one table of an export, put back under p_to; what exists is left as it is. Not granted to anybody: whoever owns
-- memoryd decides whose file to trust. Nothing is joined to another user's rows, whatever the file says.
create or replace function memoryd.import_rows(p_from uuid, p_to uuid, p_table text, p_rows jsonb) returns integer
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
as $$
declare
    own text[];
    -- What an assistant says in a user's conversation may have no user.
    ownerless constant boolean := p_table = 'conversation_messages';
    given text[];
    strange text;
    added uuid[];
    guard text := 'true';
begin
    if not exists (select from memoryd.user_tables() u where u.name = p_table) then
        raise exception 'the file has a table %, which this memoryd does not know', quote_literal(p_table)
            using errcode = 'invalid_parameter_value', hint = 'It was made by a newer memoryd, or by hand.';
    end if;
    if jsonb_typeof(p_rows) is distinct from 'array'
       or exists (select from jsonb_array_elements(p_rows) r where jsonb_typeof(r) <> 'object') then
        raise exception 'table % of the file is no array of rows', p_table using errcode = 'invalid_parameter_value';
    end if;
    own := memoryd.own_columns(p_table);
    -- Until the function's end. As an option of the function it would need the right to set parameters.
    perform set_config('memoryd.importing', 'on', true);
    select array_agg(distinct k order by k) into given from jsonb_array_elements(p_rows) r, jsonb_object_keys(r) k;
    if given is null then
        perform set_config('memoryd.importing', '', true);
        return 0;
    end if;
    select k into strange from unnest(given) k where k <> all (own) limit 1;
    if strange is not null then
        raise exception 'table % of the file has a column %, which this memoryd does not import', p_table, quote_literal(strange)
            using errcode = 'invalid_parameter_value', hint = 'It was made by another version of memoryd, or by hand.';
    end if;
    if 'user_id' = any(own) and exists (
        select from jsonb_array_elements(p_rows) r
        where case when r ->> 'user_id' is null then not ownerless else lower(r ->> 'user_id') <> p_from::text end
    ) or p_table = 'shared_knowledge' and exists (
        select from jsonb_array_elements(p_rows) r where r ->> 'created_by' is distinct from p_from::text
    ) then
        raise exception 'table % of the file has rows of another user than the file', p_table
            using errcode = 'invalid_parameter_value', hint = 'An export holds the rows of one user.';
    end if;

    -- An anchor stays where it is when a memory is erased; its payload comes back to the hash that was left of it.
    if p_table = 'memory_anchors' then
        with restored as (
            update public.memory_anchors a
            set payload = r.payload, memory_id = r.memory_id, agent_id = r.agent_id
            from jsonb_populate_recordset(null::public.memory_anchors, p_rows) r
            join public.agent_memory m on m.id = r.memory_id and m.user_id = p_to
            where a.id = r.id and a.payload = '{"erased": true}' and a.content_hash = r.content_hash
            returning a.id
        )
        select array_agg(r.id) into added from restored r;
        perform set_config('memoryd.importing', '', true);
        return coalesce(cardinality(added), 0);
    end if;

    guard := case p_table
        when 'conversation_messages' then
            -- Those that this transaction has put back have its number.
            'not exists (select from public.conversation_sessions s where s.id = t.session_id and s.user_id is distinct from $2
                         and not (s.user_id is null and s.xmin = pg_current_xact_id()::xid))'
        when 'memory_associations' then
            'exists (select from public.agent_memory m where m.id = t.memory_id and m.user_id = $2)
             and exists (select from public.agent_memory m where m.id = t.related_memory_id and m.user_id = $2)'
        when 'memory_chunks' then
            'exists (select from public.documents d where d.id = t.document_id and d.user_id = $2)'
        when 'agent_execution_logs' then
            't.session_id is null
             or exists (select from public.agent_sessions s where s.id = t.session_id and s.user_id = $2)'
        when 'memory_requests' then 't.status <> ''pending'''
        else 'true' end;
    execute format(
        'with added as (
             insert into public.%1$I as existing (%2$s)
             select %3$s from jsonb_populate_recordset(null::public.%1$I, $1) t where %4$s order by %5$s
             on conflict do nothing
             returning %6$s as id
         )
         select coalesce(array_agg(a.id), ''{}'') from added a',
        p_table,
        (select string_agg(quote_ident(k), ', ') from unnest(given) k),
        (select string_agg(case
             when k = 'user_id' then 'case when t.user_id is not null then $2 end'
             when p_table = 'shared_knowledge' and k = 'created_by' then '$2::text'
             when k = 'chat_id' then '(select c.id from public.chat_groups c where c.id = t.chat_id)'
             when k = 'dream_id' then '(select d.id from public.dream_sessions d where d.id = t.dream_id)'
             when k = 'command_id' then 'case when not exists (select from public.agent_commands c where c.id = t.command_id
                                                               and c.user_id is distinct from $2) then t.command_id end'
             else format('t.%I', k) end, ', ') from unnest(given) k),
        guard,
        coalesce((select string_agg(format('t.%I', k), ', ')
                  from unnest(array['created_at', 'query_time', 'generated_at', 'id']) k where k = any(given)), '1'),
        case when 'id' = any(own) then 'existing.id' else 'existing.user_id' end)
    into added using p_rows, p_to;
    if p_table = 'agent_commands' then
        -- Their outcomes were remembered once, and come back, or were forgotten since.
        delete from memoryd.jobs j where j.topic = 'capture' and j.ref = any(added);
    end if;
    perform set_config('memoryd.importing', '', true);
    return cardinality(added);
end
$$;
