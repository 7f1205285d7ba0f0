-- What clients hear of: channel memory_updated, and Supabase's publication.

-- Sends a message of {"memory_type", "operation"} for each distinct combination in p_changed. Every login
-- can listen, so the user whose memories changed is named only where that is switched on (setting
-- notification_user_ids): then the message has "user_id", too. A statement over the memories of many users
-- would fill the cluster's one queue of notifications: for more than 100 combinations there is one message,
-- with user_id and memory_type null and "many": true. It means that many memories changed: clients read
-- again what they show.
create or replace function memoryd.announce_memories(p_changed jsonb, p_operation text) returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    select memoryd.announce('memory_updated',
                            (p.payload || jsonb_build_object('operation', p_operation))::text)
    from (
        select c as payload from jsonb_array_elements(p_changed) c
        where jsonb_array_length(p_changed) <= 100
        union all
        select '{"user_id": null, "memory_type": null, "many": true}'
        where jsonb_array_length(p_changed) > 100
    ) p
$$;

-- After each statement on agent_memory: tells clients which types of memory changed, and whose where that
-- is switched on.
create or replace function memoryd.memories_changed() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_nestloop = off
as $$
declare
    changed jsonb;
    name_users boolean;
begin
    -- First, so that a database where notifications are off does nothing more.
    if (select s.value from memoryd.settings s where s.key = 'public_notifications')
       is distinct from 'true'::jsonb then
        return null;
    end if;
    name_users := (select s.value from memoryd.settings s where s.key = 'notification_user_ids')
                  = 'true'::jsonb;
    if tg_op = 'INSERT' then
        select jsonb_agg(to_jsonb(c)) into changed
        from (select distinct case when name_users then n.user_id end as user_id, n.memory_type
              from new_rows n limit 101) c;
    elsif tg_op = 'DELETE' then
        select jsonb_agg(to_jsonb(c)) into changed
        from (select distinct case when name_users then o.user_id end as user_id, o.memory_type
              from old_rows o limit 101) c;
    else
        -- What memoryd itself writes into the row (embedding, index) is no change of the memory. A memory
        -- that is given to another user is a change for both users.
        with differing as materialized (
            select n.user_id, n.memory_type, o.user_id as user_before, o.memory_type as type_before
            from new_rows n
            join old_rows o using (id)
            where (n.user_id, n.memory_type, n.agent_id, n.session_id, n.kind, n.source, n.command_id,
                   n.ttl_hours, n.expires_at, n.metadata, n.content)
                  is distinct from
                  (o.user_id, o.memory_type, o.agent_id, o.session_id, o.kind, o.source, o.command_id,
                   o.ttl_hours, o.expires_at, o.metadata, o.content)
        )
        select jsonb_agg(to_jsonb(c)) into changed
        from (
            select case when name_users then d.user_id end as user_id, d.memory_type from differing d
            union
            select case when name_users then d.user_before end, d.type_before from differing d
            limit 101
        ) c;
    end if;
    if changed is not null then
        if not coalesce(name_users, false) then
            changed := (select jsonb_agg(c - 'user_id') from jsonb_array_elements(changed) c);
        end if;
        perform memoryd.announce_memories(changed, tg_op);
    end if;
    return null;
end
$$;
