-- What users decide about their own memory (memory_settings).

-- Whether a user has switched memory off.
create or replace function memoryd.memory_is_off(p_user uuid) returns boolean
language sql stable
return exists (select from public.memory_settings s where s.user_id = p_user and not s.memory_enabled);

-- Where a user has set fewer hours, memories that are stored already expire earlier, too. With more hours
-- their expiry does not change.
create or replace function memoryd.settings_changed() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    update public.agent_memory m
    set ttl_hours = least(m.ttl_hours, o.hours),
        expires_at = coalesce(m.text_changed_at, m.updated_at) + make_interval(hours => o.hours)
    from (values (true, new.task_memory_ttl_hours), (false, new.memory_ttl_hours)) as o(task_memory, hours)
    where m.user_id = new.user_id
      and (m.memory_type is not distinct from 'task_memory') = o.task_memory
      and coalesce(m.expires_at, 'infinity')
          > coalesce(m.text_changed_at, m.updated_at) + make_interval(hours => o.hours);
    return null;
end
$$;

-- Nothing new is stored of a user who has switched memory off: the row is dropped without an error, so that
-- agents continue to work. For agent_memory, stamp_expiry does the same, since it reads the user's settings
-- in any case.
create or replace function memoryd.drop_when_off() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    owner uuid := new.user_id;
begin
    if tg_table_name = 'conversation_messages' then
        -- What an agent says in a user's conversation is about that user, too.
        owner := coalesce(owner, (select s.user_id from public.conversation_sessions s
                                  where s.id = new.session_id));
    elsif tg_table_name = 'memory_chunks' then
        -- The document itself may have been dropped: then it names no user, and the caller counts as the
        -- owner.
        owner := coalesce(owner, memoryd.caller_id());
    end if;
    if exists (select from public.memory_settings s where s.user_id = owner and not s.memory_enabled)
       and memoryd.may_write_for(owner) and not memoryd.importing() then
        return null;
    end if;
    return new;
end
$$;
