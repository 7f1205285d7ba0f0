-- Import: puts rows of an export back. Only the owner of memoryd may call these functions, and decides
-- which file to trust. No imported row becomes part of another user's data, also if the file says so.

-- Checks one table of a file, with rows of the user p_from, and returns the columns that the rows have;
-- null if there are no rows.
create or replace function memoryd.columns_to_import(p_from uuid, p_table text, p_rows jsonb) returns text[]
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    own constant text[] := memoryd.own_columns(p_table)
        || case when p_table = 'memory_anchors' then '{leaf}'::text[] else '{}' end;
    -- A message of an assistant in a user's conversation may have no user.
    may_have_no_user constant boolean := p_table = 'conversation_messages';
    given text[];
    unknown text;
begin
    if jsonb_typeof(p_rows) is distinct from 'array'
       or exists (select from jsonb_array_elements(p_rows) r where jsonb_typeof(r) <> 'object') then
        raise exception 'table % of the file is no array of rows', p_table
            using errcode = 'invalid_parameter_value';
    end if;
    select array_agg(distinct k order by k) into given
    from jsonb_array_elements(p_rows) r, jsonb_object_keys(r) k;
    if given is null then
        return null;
    end if;
    select k into unknown from unnest(given) k where k <> all (own) limit 1;
    if unknown is not null then
        raise exception 'table % of the file has a column %, which this memoryd does not import',
                        p_table, quote_literal(unknown)
            using errcode = 'invalid_parameter_value',
                  hint = 'It was made by another version of memoryd, or by hand.';
    end if;
    if 'user_id' = any(own) and exists (
        select from jsonb_array_elements(p_rows) r
        where case when r ->> 'user_id' is null then not may_have_no_user
                   else lower(r ->> 'user_id') <> p_from::text end
    ) or p_table = 'shared_knowledge' and exists (
        select from jsonb_array_elements(p_rows) r where r ->> 'created_by' is distinct from p_from::text
    ) then
        raise exception 'table % of the file has rows of another user than the file', p_table
            using errcode = 'invalid_parameter_value', hint = 'An export holds the rows of one user.';
    end if;
    return given;
end
$$;

-- An erasure leaves anchors in their table, without what they said: so they are not inserted, but filled
-- again, with the salt that the export has. An anchor whose row and salt do not make its leaf stays erased:
-- what is put back is what was anchored, and every later change of it is seen.
create or replace function memoryd.import_anchors(p_from uuid, p_to uuid, p_rows jsonb) returns uuid[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
as $$
declare
    restored uuid[];
    agents text[];
begin
    with given as materialized (
        select r.*, was.agent_id as erased_agent, l.chained, m.id as memory,
               said.salt, said.memory as anchored
        from jsonb_to_recordset(p_rows) as e(id uuid, leaf jsonb)
        join jsonb_populate_recordset(null::public.memory_anchors, p_rows) r using (id)
        join public.memory_anchors was on was.id = r.id and was.payload = '{"erased": true}'
        join memoryd.trail_leaves l on l.anchor_id = r.id and l.salt is null
        cross join lateral (
            select case when e.leaf ->> 'salt' ~ '^[0-9a-f]{64}$'
                        then decode(e.leaf ->> 'salt', 'hex') end,
                   case when pg_input_is_valid(e.leaf ->> 'memory_id', 'uuid')
                        then (e.leaf ->> 'memory_id')::uuid end) as said(salt, memory)
        left join public.agent_memory m on m.id = said.memory
        where l.leaf = decode(memoryd.hmac(said.salt, memoryd.anchor_text(
                  r::public.memory_anchors, said.memory, l.chained)), 'hex')
          -- Another user gets what belongs to the memories that are theirs now.
          and case when m.id is null then p_from = p_to else m.user_id is not distinct from p_to end
    ), owned as (
        update memoryd.trail_leaves l set salt = g.salt, user_id = p_to, memory_id = g.anchored
        from given g where l.anchor_id = g.id
    ), filled as (
        update public.memory_anchors a
        set payload = g.payload, memory_id = g.memory, agent_id = g.agent_id, category = g.category,
            cid = g.cid, content_hash = g.content_hash, created_at = g.created_at, chain_tx = g.chain_tx,
            previous_hash = case when g.chained then g.previous_hash else a.previous_hash end
        from given g where a.id = g.id
    )
    select coalesce(array_agg(g.id), '{}'), array_agg(g.agent_id) || array_agg(g.erased_agent)
    into restored, agents
    from given g;
    if restored <> '{}' then
        perform memoryd.link_anchors(agents);
    end if;
    return restored;
end
$$;

-- Whether a user may name a session: it is theirs, or of a group chat that they are a member of, as
-- memoryd.may_name_session() has it for the caller. Without a user: whether it is an agent's own.
create or replace function memoryd.is_session_for(p_session public.conversation_sessions, p_user uuid)
returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select coalesce(p_session.user_id = p_user,
                    p_user is null and p_session.user_id is null and p_session.chat_id is null)
        or exists (select from public.chat_group_members m
                   where m.chat_id = p_session.chat_id and m.user_id = p_user)
$$;

-- The expression for the value of a column, from a row t of the file. A dream or a command that does not
-- exist becomes null, and so does a command or a memory of another user, a session that the user may not
-- name, a group chat that they are no member of, and an outcome that another user told.
create or replace function memoryd.import_value(p_table text, p_column text) returns text
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select case
        when p_column = 'user_id' then 'case when t.user_id is not null then $2 end'
        when p_table = 'shared_knowledge' and p_column = 'created_by' then '$2::text'
        -- These tables import only the rows whose group or session the user may name (user_tables.sql).
        when (p_table, p_column) in (
            ('chat_group_members', 'chat_id'), ('agent_execution_logs', 'session_id'),
            ('conversation_messages', 'session_id')) then format('t.%I', p_column)
        -- In a file of an earlier memoryd.
        when p_table = 'memory_requests' and p_column = 'result' then 'null'
        -- Such a row stands beside what says the same: nothing that is imported is left out.
        when p_column = 'said_key' then 'null::uuid'
        -- A key that was written again since is kept by what was written.
        when p_column = 'key' then
            'case when not exists (select from public.agent_memory m
                                   where m.scope = memoryd.scope_of($2, t.agent_id)
                                     and m.agent_id = t.agent_id and m.key = t.key)
                  then t.key end'
        when p_column = 'chat_id' then
            '(select m.chat_id from public.chat_group_members m
              where m.chat_id = t.chat_id and m.user_id = $2)'
        when p_column = 'session_id' then
            '(select s.id from public.conversation_sessions s
              where s.id = t.session_id and memoryd.is_session_for(s, $2))'
        when p_column = 'dream_id' then '(select d.id from public.dream_sessions d where d.id = t.dream_id)'
        when p_column = 'command_id' then
            '(select c.id from public.agent_commands c where c.id = t.command_id and c.user_id = $2)'
        -- Of a decision. It is told again by the entry that told it.
        when p_column = 'outcome' then
            'case when not memoryd.names_others(array[memoryd.uuid_or_null(t.outcome ->> ''scored_by'')], $2)
                  then t.outcome end'
        when p_column = 'superseded_by' then
            'case when not exists (select from public.agent_memory m
                                   where m.id = t.superseded_by and m.user_id is distinct from $2)
                  then t.superseded_by end'
        else format('t.%I', p_column) end
$$;

-- Inserts those rows of a table that do not exist yet, oldest first, and returns their ids.
create or replace function memoryd.import_new_rows(p_to uuid, p_table text, p_columns text[], p_rows jsonb)
returns uuid[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
as $$
declare
    columns text;
    column_values text;
    oldest_first text;
    added uuid[];
begin
    select string_agg(quote_ident(k), ', '), string_agg(memoryd.import_value(p_table, k), ', ')
    into columns, column_values
    from unnest(p_columns) k;
    select string_agg(format('t.%I', k), ', ') into oldest_first
    from unnest(array['created_at', 'query_time', 'generated_at', 'id']) k
    where k = any(p_columns);
    execute format(
        'with added as (
             insert into public.%1$I as existing (%2$s)
             select %3$s from jsonb_populate_recordset(null::public.%1$I, $1) t where %4$s order by %5$s
             on conflict do nothing
             returning %6$s as id
         )
         select coalesce(array_agg(a.id), ''{}'') from added a',
        p_table, columns, column_values,
        (select u.imported from memoryd.user_tables() u where u.name = p_table), coalesce(oldest_first, '1'),
        case when 'id' = any(memoryd.own_columns(p_table)) then 'existing.id' else 'existing.user_id' end)
    into added using p_rows, p_to;
    return added;
end
$$;

-- Facts that an import has put back: which messages say so is in their metadata.
create or replace function memoryd.register_facts(p_memories uuid[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    insert into memoryd.fact_sources (message_id, memory_id, said_at)
    select s.id, m.id, s.created_at
    from public.agent_memory m
    cross join lateral jsonb_array_elements_text(
        case when jsonb_typeof(m.metadata -> 'message_ids') = 'array' then m.metadata -> 'message_ids'
             else '[]' end) as i(message_id)
    -- By the primary key: a user may have many messages.
    join public.conversation_messages s
        on s.id = case when pg_input_is_valid(i.message_id, 'uuid') then i.message_id::uuid end
        and s.user_id = m.user_id
    where m.id = any(p_memories) and m.metadata ->> 'from' = 'conversation'
    on conflict do nothing;
end
$$;

-- Puts the rows of one table of p_from's export back as rows of p_to, and returns how many these were. Rows
-- that exist already are not changed.
create or replace function memoryd.import_rows(p_from uuid, p_to uuid, p_table text, p_rows jsonb)
returns integer
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
as $$
declare
    given text[];
    added uuid[];
begin
    if not exists (select from memoryd.user_tables() u where u.name = p_table) then
        raise exception 'the file has a table %, which this memoryd does not know', quote_literal(p_table)
            using errcode = 'invalid_parameter_value', hint = 'It was made by a newer memoryd, or by hand.';
    end if;
    given := memoryd.columns_to_import(p_from, p_table, p_rows);
    if given is null then
        return 0;
    end if;
    -- Triggers read it: see memoryd.importing(). It is set and reset here, since an option of the function
    -- would need the right to set parameters.
    perform set_config('memoryd.importing', 'on', true);
    if p_table = 'memory_anchors' then
        added := memoryd.import_anchors(p_from, p_to, p_rows);
    else
        added := memoryd.import_new_rows(p_to, p_table, given, p_rows);
    end if;
    if p_table = 'agent_commands' then
        -- The outcomes of these commands were captured once: they come back with the memories, or were
        -- deleted since.
        delete from memoryd.jobs j where j.topic = 'capture' and j.ref = any(added);
    end if;
    if p_table = 'agent_memory' then
        perform memoryd.register_facts(added);
    end if;
    perform set_config('memoryd.importing', '', true);
    return cardinality(added);
end
$$;
