-- Row-level security: on, and forced for the owner too, for every table of schema public. The policies are in
-- functions/tables/access.sql.

-- Functions that run as the owner look for functions in these schemas too. An end user who may create objects
-- there could make the owner run theirs.
do $$
declare
    place text;
begin
    foreach place in array array['public', ':vector_schema'] loop
        if has_schema_privilege('memoryd_user', place::regnamespace, 'create') then
            raise exception using
                errcode = 'invalid_schema_definition',
                message = format(
                    'end users may create objects in schema %s, and so put theirs before memoryd''s. '
                    'Run first: revoke create on schema %s from public', place, place);
        end if;
    end loop;
end
$$;

alter table public.agents enable row level security;
alter table public.agents force row level security;
alter table public.agent_commands enable row level security;
alter table public.agent_commands force row level security;
alter table public.agent_memory enable row level security;
alter table public.agent_memory force row level security;
alter table public.memory_associations enable row level security;
alter table public.memory_associations force row level security;
alter table public.memory_queries enable row level security;
alter table public.memory_queries force row level security;
alter table public.dream_sessions enable row level security;
alter table public.dream_sessions force row level security;
alter table public.dream_insights enable row level security;
alter table public.dream_insights force row level security;
alter table public.memory_requests enable row level security;
alter table public.memory_requests force row level security;
alter table public.chat_groups enable row level security;
alter table public.chat_groups force row level security;
alter table public.conversation_sessions enable row level security;
alter table public.conversation_sessions force row level security;
alter table public.conversation_messages enable row level security;
alter table public.conversation_messages force row level security;
alter table public.documents enable row level security;
alter table public.documents force row level security;
alter table public.memory_chunks enable row level security;
alter table public.memory_chunks force row level security;
alter table public.user_memory_access enable row level security;
alter table public.user_memory_access force row level security;
alter table public.shared_knowledge enable row level security;
alter table public.shared_knowledge force row level security;
alter table public.agent_sessions enable row level security;
alter table public.agent_sessions force row level security;
alter table public.agent_execution_logs enable row level security;
alter table public.agent_execution_logs force row level security;
alter table public.memory_anchors enable row level security;
alter table public.memory_anchors force row level security;
alter table public.memory_settings enable row level security;
alter table public.memory_settings force row level security;

-- The tables of schema memoryd stay closed. Usage is granted because policies and public functions call
-- functions there.
revoke all on schema memoryd from public;
grant usage on schema memoryd to memoryd_service, memoryd_user, memoryd_admin;
