-- Reads memoryd.settings.

create or replace function memoryd.setting_integer(p_key text) returns integer
language sql stable
set search_path = pg_catalog, pg_temp
as $$ select (value #>> '{}')::integer from memoryd.settings where key = p_key $$;

-- Whose memories are those that an application writes without naming an agent.
create or replace function memoryd.app_agent_id() returns text
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select coalesce((select s.value #>> '{}' from memoryd.settings s where s.key = 'app_agent_id'), 'app')
$$;
