-- What the replica shows. To apply this file locks the tables, so it is applied only when it has changed.

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
