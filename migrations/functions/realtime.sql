-- What clients hear of: channel memory_updated, and Supabase's publication.

-- {"memory_type", "operation"}: each distinct combination once a statement (source design 000). Every login
-- can listen, so who has memories is said only where it is asked for (notification_user_ids): then "user_id"
-- stands there too. A statement over many users' memories would fill the cluster's one queue of
-- notifications: beyond 100 combinations there is one message, with both null and "many": true, which means:
-- look for yourself.
create or replace function memoryd.announce_memories(p_changed jsonb, p_operation text) returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    select memoryd.announce('memory_updated', (p.payload || jsonb_build_object('operation', p_operation))::text)
    from (
        select c as payload from jsonb_array_elements(p_changed) c where jsonb_array_length(p_changed) <= 100
        union all
        select '{"user_id": null, "memory_type": null, "many": true}' where jsonb_array_length(p_changed) > 100
    ) p
$$;

create or replace function memoryd.memories_changed() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_nestloop = off
as $$
declare
    changed jsonb;
    whose boolean;
begin
    -- Who has them switched off pays no more than this.
    if (select s.value from memoryd.settings s where s.key = 'public_notifications') is distinct from 'true'::jsonb then
        return null;
    end if;
    whose := (select s.value from memoryd.settings s where s.key = 'notification_user_ids') = 'true'::jsonb;
    if tg_op = 'INSERT' then
        select jsonb_agg(to_jsonb(c)) into changed
        from (select distinct case when whose then n.user_id end as user_id, n.memory_type
              from new_rows n limit 101) c;
    elsif tg_op = 'DELETE' then
        select jsonb_agg(to_jsonb(c)) into changed
        from (select distinct case when whose then o.user_id end as user_id, o.memory_type
              from old_rows o limit 101) c;
    else
        -- What memoryd writes beside a memory is no news of it. A memory that changes hands is news to both.
        with told as materialized (
            select n.user_id, n.memory_type, o.user_id as user_before, o.memory_type as type_before
            from new_rows n
            join old_rows o using (id)
            where (n.user_id, n.memory_type, n.agent_id, n.session_id, n.kind, n.source, n.command_id, n.ttl_hours, n.expires_at,
                   n.metadata, n.content)
                  is distinct from
                  (o.user_id, o.memory_type, o.agent_id, o.session_id, o.kind, o.source, o.command_id, o.ttl_hours, o.expires_at,
                   o.metadata, o.content)
        )
        select jsonb_agg(to_jsonb(c)) into changed
        from (
            select case when whose then t.user_id end as user_id, t.memory_type from told t
            union
            select case when whose then t.user_before end, t.type_before from told t
            limit 101
        ) c;
    end if;
    if changed is not null then
        if not coalesce(whose, false) then
            changed := (select jsonb_agg(c - 'user_id') from jsonb_array_elements(changed) c);
        end if;
        perform memoryd.announce_memories(changed, tg_op);
    end if;
    return null;
end
$$;
