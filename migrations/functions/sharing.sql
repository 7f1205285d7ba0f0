-- Which shared rows a user may read, and which rows a search may find. Shared rows are those with an
-- access_level. The policies that ask this are in tables/access.sql.

-- The caller's row of user_memory_access; null where there is none, or it allows nothing shared.
create or replace function memoryd.caller_access() returns public.user_memory_access
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select a from public.user_memory_access a
    where a.user_id = memoryd.caller_id() and a.visibility_scope <> 'own'
$$;

-- Whether this row of user_memory_access allows to read a row with this level, these tags and this
-- metadata.
create or replace function memoryd.grants_access(
    p_access public.user_memory_access, p_level integer, p_tags text[], p_metadata jsonb
) returns boolean
language sql immutable parallel safe
return p_level is not null and (p_access).user_id is not null and ((p_access).user_role = 'admin' or (
        p_level <= (p_access).access_level
        and ((p_access).visibility_scope = 'all' or p_tags = '{}' or p_tags && (p_access).allowed_tags)
        and ((p_access).allowed_contexts is null or not p_metadata ? 'context'
             or p_metadata ->> 'context' = any((p_access).allowed_contexts))));

-- Whether a search may find a row: a privileged caller any; an end user the rows of their own scope, and of
-- what is shared (scope 0) their own and what they are granted. The one rule of all searches that run as
-- the owner; it has a parsed body and is inlined.
create or replace function memoryd.may_find(
    p_caller memoryd.caller, p_access public.user_memory_access, p_scope bigint, p_owner uuid,
    p_level integer, p_tags text[], p_metadata jsonb
) returns boolean
language sql immutable parallel safe
return (p_caller).privileged or p_scope <> 0 or p_owner = (p_caller).user_id
    or memoryd.grants_access(p_access, p_level, p_tags, p_metadata);
