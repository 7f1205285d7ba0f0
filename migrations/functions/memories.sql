-- TTL: by kind unless told, from the moment of storing; expires_at follows ttl_hours unless given itself. Where the user has
-- set hours of their own, those stand for the default, and nothing of theirs is kept for longer. The same look at their settings
-- tells whether they want to be remembered at all: if not, nothing is stored.
create or replace function memoryd.stamp_expiry() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    remembered boolean;
    most integer;
begin
    if new.user_id is not null then
        select s.memory_enabled,
               case when new.memory_type = 'task_memory' then s.task_memory_ttl_hours else s.memory_ttl_hours end
        into remembered, most
        from public.memory_settings s where s.user_id = new.user_id;
        if tg_op = 'INSERT' and not remembered and memoryd.may_write_for(new.user_id) and not memoryd.importing() then
            return null;
        end if;
    end if;
    if new.ttl_hours = -2147483648 then
        new.ttl_hours := coalesce(most, memoryd.setting_integer(
            'ttl_hours.' || case when new.memory_type = 'task_memory' then 'task_memory' else new.kind end));
    end if;
    if most is not null then
        new.ttl_hours := least(new.ttl_hours, most);
    end if;
    -- On insert old is null. Of hours that are not allowed no end is reckoned: the check has its say.
    if new.ttl_hours is distinct from old.ttl_hours and new.expires_at is not distinct from old.expires_at then
        new.expires_at := case when new.ttl_hours > 0 then now() + make_interval(hours => new.ttl_hours) end;
    end if;
    if most is not null then
        new.expires_at := least(new.expires_at, case when tg_op = 'INSERT' then now() else new.updated_at end
                                                + make_interval(hours => most));
    end if;
    return new;
end
$$;

-- When it was changed, not when memoryd last wrote beside it.
create or replace function memoryd.stamp_memory() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    -- Who links memories holds their keys (handlers/associate.py): a link of the old words is there before this goes on, and is
    -- taken away by memories_updated().
    perform from public.agent_memory m where m.id = old.id for update;
    new.updated_at := clock_timestamp();
    return new;
end
$$;

create or replace function memoryd.memories_inserted() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    -- A user's memory makes no agent: whoever names one that is not there yet may have invented it.
    if memoryd.caller_is_privileged() then
        perform memoryd.register_agents(array_agg(distinct agent_id)) from new_rows having count(*) > 0;
    end if;

    insert into memoryd.jobs (topic, lane, ref)
    select 'associate', memoryd.associate_lane(agent_id, user_id), id
    from new_rows
    where embedding is not null
    order by created_at, id;
    if found then
        perform memoryd.ring('associate');
    end if;
    return null;
end
$$;

create or replace function public.cleanup_expired_memory(max_rows integer default null) returns bigint
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    with expired as (
        select m.id from public.agent_memory m
        where m.expires_at <= now()
        order by m.expires_at
        limit max_rows
        for update skip locked
    ), gone as (
        delete from public.agent_memory m using expired e where m.id = e.id returning 1
    )
    select count(*) from gone
$$;
comment on function public.cleanup_expired_memory is 'Deletes memories past their expires_at and returns how many; links go with them.';
