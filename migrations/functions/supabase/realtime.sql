-- What clients hear of: channel memory_updated, and Supabase's Broadcast.

-- Sends a message of {"memory_type", "operation"} for each distinct combination in p_changed. Every login
-- can listen, so the user whose memories changed is named only where that is switched on (setting
-- notification_user_ids): then the message has "user_id", too. A statement over the memories of many users
-- would fill the cluster's one queue of notifications: for more than 100 combinations there is one message,
-- with user_id and memory_type null and "many": true. It means that many memories changed: clients read
-- again what they show.
create or replace function memoryd.told_of(p_changed jsonb, p_operation text) returns setof jsonb
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select p.payload || jsonb_build_object('operation', p_operation)
    from (
        select c as payload from jsonb_array_elements(p_changed) c
        where jsonb_array_length(p_changed) <= 100
        union all
        select '{"user_id": null, "memory_type": null, "many": true}'
        where jsonb_array_length(p_changed) > 100
    ) p
$$;

-- How memories are broadcast: private, or public. Null where they are not: switched off, or no
-- realtime.send() of Supabase's own. It is called with the owner's rights, so a function of anybody else's is
-- not trusted.
create or replace function memoryd.broadcast_mode() returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    mode constant text :=
        coalesce((select s.value #>> '{}' from memoryd.settings s where s.key = 'broadcast'), 'private');
begin
    if mode in ('private', 'public') and exists (
        select from pg_namespace n
        join pg_proc p on p.pronamespace = n.oid and p.proname = 'send'
        join pg_roles o on o.oid = p.proowner
        where n.nspname = 'realtime'
          and p.proargtypes = '3802 25 25 16'::oidvector -- jsonb, text, text, boolean
          and (o.rolsuper or o.rolname in ('supabase_admin', 'supabase_realtime_admin', current_user))) then
        return mode;
    end if;
    return null;
end
$$;

-- Sends p_changed to everybody's topic, and p_own to the topic of each user, which is that user's alone. Of
-- more than 100 users none is told by name. An error is nobody's who writes a memory.
create or replace function memoryd.broadcast_memories(
    p_changed jsonb, p_own jsonb, p_operation text, p_mode text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set client_min_messages = error
as $$
declare
    topic_before constant text := coalesce(current_setting('realtime.topic', true), '');
begin
    perform realtime.send(t.payload, 'memory_updated', 'agent-memory', p_mode = 'private')
    from memoryd.told_of(p_changed, p_operation) as t(payload);
    perform realtime.send(o || jsonb_build_object('operation', p_operation), 'memory_updated',
                          'agent-memory:' || (o ->> 'user_id'), true)
    from jsonb_array_elements(p_own) o
    where jsonb_array_length(p_own) <= 100;
    -- realtime.send() leaves its topic set.
    perform set_config('realtime.topic', topic_before, true);
exception when others then
    raise log 'memoryd: memory_updated was not broadcast (%)', sqlstate;
end
$$;

-- Tells clients of the distinct pairs of user and type that changed (p_types: the types alone).
create or replace function memoryd.tell_of_memories(
    p_pairs jsonb, p_types jsonb, p_operation text, p_mode text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    named constant boolean :=
        (select s.value from memoryd.settings s where s.key = 'notification_user_ids') = 'true'::jsonb;
    changed constant jsonb := case when named then p_pairs else p_types end;
begin
    perform memoryd.announce('memory_updated', t.payload::text)
    from memoryd.told_of(changed, p_operation) as t(payload);
    if p_mode is not null then
        perform memoryd.broadcast_memories(
            changed, (select jsonb_agg(p) from jsonb_array_elements(p_pairs) p where p ->> 'user_id' <> ''),
            p_operation, p_mode);
    end if;
end
$$;

-- After each statement on agent_memory: tells clients which types of memory changed, and whose where that
-- is switched on.
create or replace function memoryd.memories_changed() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_nestloop = off
as $$
declare
    mode constant text := memoryd.broadcast_mode();
    pairs jsonb;
    types jsonb;
begin
    if tg_op = 'INSERT' then
        select jsonb_agg(to_jsonb(c)) into pairs
        from (select distinct n.user_id, n.memory_type from new_rows n limit 101) c;
        select jsonb_agg(to_jsonb(c)) into types from (select distinct n.memory_type from new_rows n) c;
    elsif tg_op = 'DELETE' then
        select jsonb_agg(to_jsonb(c)) into pairs
        from (select distinct o.user_id, o.memory_type from old_rows o limit 101) c;
        select jsonb_agg(to_jsonb(c)) into types from (select distinct o.memory_type from old_rows o) c;
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
        ), both_users as materialized (
            select d.user_id, d.memory_type from differing d
            union
            select d.user_before, d.type_before from differing d
        )
        select (select jsonb_agg(to_jsonb(c)) from (select b.* from both_users b limit 101) c),
               (select jsonb_agg(to_jsonb(c)) from (select distinct b.memory_type from both_users b) c)
        into pairs, types;
    end if;
    if pairs is not null then
        perform memoryd.tell_of_memories(pairs, types, tg_op, mode);
    end if;
    return null;
end
$$;
