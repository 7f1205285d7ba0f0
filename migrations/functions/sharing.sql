-- Which shared rows a user may read: the two functions that the policies ask. Shared rows are those with an
-- access_level.

-- The caller's row of user_memory_access; null where there is none, or it allows nothing shared.
create or replace function memoryd.caller_access() returns public.user_memory_access
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select a from public.user_memory_access a
    where a.user_id = memoryd.caller_id() and a.visibility_scope <> 'own'
$$;

-- Whether this row of user_memory_access allows to read a row with this level, these tags and this metadata.
create or replace function memoryd.grants_access(
    p_access public.user_memory_access, p_level integer, p_tags text[], p_metadata jsonb
) returns boolean
language sql immutable parallel safe
return p_level is not null and (p_access).user_id is not null and ((p_access).user_role = 'admin' or (
        p_level <= (p_access).access_level
        and ((p_access).visibility_scope = 'all' or p_tags = '{}' or p_tags && (p_access).allowed_tags)
        and ((p_access).allowed_contexts is null or not p_metadata ? 'context'
             or p_metadata ->> 'context' = any((p_access).allowed_contexts))));
