-- Row-level security: on, and forced for the owner too, for every table of schema public. The policies are in
-- functions/tables/access.sql.

-- Functions that run as the owner look for functions in these schemas too. An end user who may create objects
-- there could make the owner run theirs.
do $$
declare
    each text;
begin
    foreach each in array array['public', ':vector_schema'] loop
        if has_schema_privilege('memoryd_user', each::regnamespace, 'create') then
            raise exception using
                errcode = 'invalid_schema_definition',
                message = format(
                    'end users may create objects in schema %s, and so put theirs before memoryd''s. '
                    'Run first: revoke create on schema %s from public', each, each);
        end if;
    end loop;
end
$$;

-- On, and forced for the owner too.
do $$
declare
    secured text;
begin
    foreach secured in array array[
        'agents', 'agent_commands', 'agent_memory', 'memory_associations', 'memory_queries',
        'dream_sessions', 'dream_insights', 'memory_requests', 'chat_groups',
        'conversation_sessions', 'conversation_messages', 'documents', 'memory_chunks',
        'user_memory_access', 'shared_knowledge', 'agent_sessions', 'agent_execution_logs',
        'memory_anchors', 'memory_settings', 'chat_group_members'
    ] loop
        execute format('alter table public.%I enable row level security', secured);
        execute format('alter table public.%I force row level security', secured);
    end loop;
end
$$;

-- The tables of schema memoryd stay closed. Usage is granted because policies and public functions call
-- functions there.
revoke all on schema memoryd from public;

grant usage on schema memoryd to memoryd_service, memoryd_user, memoryd_admin;

-- Supabase sends its clients changes of the tables in this publication, to each client what the policies let
-- them see.
do $$
declare
    watched text;
begin
    if not exists (
        select from pg_publication p where p.pubname = 'supabase_realtime' and not p.puballtables) then
        return;
    end if;
    foreach watched in array array[
        'agent_sessions', 'agent_execution_logs', 'agent_memory', 'conversation_messages', 'agent_commands'
    ] loop
        if not exists (
            select from pg_publication_tables t
            where t.pubname = 'supabase_realtime' and t.schemaname = 'public' and t.tablename = watched) then
            execute format('alter publication supabase_realtime add table public.%I', watched);
        end if;
    end loop;
exception when insufficient_privilege then
    raise notice 'No right to alter publication supabase_realtime: %. '
        'Its owner may run: alter publication supabase_realtime '
        'add table agent_sessions, agent_execution_logs, agent_memory, conversation_messages, agent_commands',
        sqlerrm;
end
$$;
