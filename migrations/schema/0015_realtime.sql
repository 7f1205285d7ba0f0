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
