-- Reads memoryd.settings.

create or replace function memoryd.setting_integer(p_key text) returns integer
language sql stable
set search_path = pg_catalog, pg_temp
as $$ select (value #>> '{}')::integer from memoryd.settings where key = p_key $$;
