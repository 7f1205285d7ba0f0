-- Views. To apply this file locks the tables, so it is applied only when it has changed.

create or replace view public.shared_memory with (security_invoker = true) as
select id, agent_id, user_id, session_id, kind, memory_type, content, embedding, keywords, metadata, source,
       command_id, ttl_hours, expires_at, created_at, updated_at
from public.agent_memory
where agent_id = '_shared'
order by created_at desc;
comment on view public.shared_memory is 'Memories visible to all agents (agent_id ''_shared'').';

create or replace view public.conversation_history with (security_invoker = true) as
select id, user_id, session_id, chat_id, agent_id, message_index,
       coalesce(speaker, case role when 'assistant' then 'agent' else role end) as speaker, role,
       content as message_text, created_at as "timestamp", access_level, visibility_tags, metadata, embedding,
       content, created_at
from public.conversation_messages;
comment on view public.conversation_history is
    'The messages, one row a turn, with the speaker (user, agent or a name); '
    'rows inserted here become messages.';

-- The entries that the replica shows, each with the columns of the collection that it is in. They are those
-- that recall finds, but for what is in passing: outcomes of commands, and observations, outcomes and errors
-- that expire; and but for texts of more than 1 MB. Nothing of users who have switched memory off.
create or replace view memoryd.replica_entries with (security_invoker = true) as
select e.*, sha256(convert_to(
           jsonb_build_array(e.label, e.title, e.body, e.author, e.status)::text, 'UTF8')) as version
from (
    select 'memory'::text as source, m.id, m.user_id,
           case when m.user_id is null then m.agent_id end as agent_id, null::uuid as org_id,
           null::text as tier, m.kind as label, ''::text as title, m.content as body, m.agent_id as author,
           null::text as status, m.created_at
    from public.agent_memory m
    where m.command_id is null and m.superseded_by is null
      and (m.expires_at is null or (m.kind in ('fact', 'goal', 'note') and m.expires_at > now()))
    union all
    select 'insight', i.id, i.user_id, case when i.user_id is null then coalesce(i.agent_id, '_shared') end,
           null, null, i.category, '', i.insight, i.agent_id, null, i.generated_at
    from public.dream_insights i
    union all
    select 'knowledge', k.id, null, null, k.org_id, k.tier, k.category, k.title, k.content,
           coalesce(k.created_by_name, k.created_by), nullif(k.status, 'active'), k.created_at
    from public.shared_knowledge k
    where k.status <> 'archived'
) e
where octet_length(e.body) <= 1000000
  and not exists (select from public.memory_settings s
                  where s.user_id = e.user_id and not s.memory_enabled);
comment on view memoryd.replica_entries is 'What is remembered, as the replica shows it.';
