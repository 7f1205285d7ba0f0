-- For `memoryd audit` (plugins/audit): what of memoryd's own tables an audit asks. To an end user they tell
-- of their own rows alone, and look at nothing else: of the two halves Postgres runs only the one of the
-- caller.

-- The memories that a retrieval ever brought, with when the last one did that a dream has counted.
create or replace function memoryd.retrieved_memories()
returns table (memory_id uuid, used_at timestamptz)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select u.memory_id, u.used_at from memoryd.memory_uses u where memoryd.caller_is_service()
    union all
    select u.memory_id, u.used_at
    from public.agent_memory m
    join memoryd.memory_uses u on u.memory_id = m.id
    where not memoryd.caller_is_service() and m.user_id = memoryd.caller_id()
$$;

-- Which facts were read in these messages. The messages may be gone.
create or replace function memoryd.facts_said_in(p_messages uuid[])
returns table (message_id uuid, memory_id uuid)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select s.message_id, s.memory_id
    from memoryd.fact_sources s
    where memoryd.caller_is_service() and s.message_id = any(p_messages)
    union all
    select s.message_id, s.memory_id
    from memoryd.fact_sources s
    join public.agent_memory m on m.id = s.memory_id
    where not memoryd.caller_is_service()
      and m.user_id = memoryd.caller_id() and s.message_id = any(p_messages)
$$;

-- Which contexts of commands show these rows. To an end user those of their own commands that show their own
-- rows: whether a row of others was shown in one would tell that it exists.
create or replace function memoryd.commands_shown(p_ids uuid[])
returns table (row_id uuid, command_id uuid)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select r.id, q.command_id
    from unnest(p_ids) as r(id)
    cross join lateral (
        select k.command_id from memoryd.quotes k where k.row_ids @> array[r.id] offset 0) q
    where memoryd.caller_is_service() and q.command_id is not null
    union all
    select r.id, q.command_id
    from public.agent_commands c
    join memoryd.quotes q on q.command_id = c.id
    cross join lateral unnest(q.row_ids) as r(id)
    where not memoryd.caller_is_service() and c.user_id = memoryd.caller_id() and r.id = any(p_ids)
      and exists (select from memoryd.searchable s where s.id = r.id and s.owner_id = memoryd.caller_id())
$$;
