-- Which shared rows a user may read, and which rows a search may find. Shared rows are those with an
-- access_level. The policies that ask this are in tables/access.sql.

-- The current context (project, channel, group chat) is the transaction's setting memoryd.context; where it
-- is not set, or empty, there is none. It only narrows what is found, so anybody may set it.

-- The name of the current context; null where there is none. This function and the next are inlined.
create or replace function memoryd.current_context() returns text
language sql stable parallel safe
return nullif(current_setting('memoryd.context', true), '');

-- Whether a search may find a row with this metadata: one that names no context, or the current one.
create or replace function memoryd.in_context(p_metadata jsonb) returns boolean
language sql stable parallel safe
return memoryd.current_context() is null or p_metadata ->> 'context' is null
    or p_metadata ->> 'context' = memoryd.current_context();

-- Whether what was drawn from these memories, and quotes them, may be found: all of them are there, and none
-- names another context.
create or replace function memoryd.drawn_in_context(p_memories uuid[]) returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return memoryd.current_context() is null
        or not exists (
            select from unnest(p_memories) as s(id)
            left join public.agent_memory m on m.id = s.id
            where m.id is null or not memoryd.in_context(m.metadata));
end
$$;

-- Makes a context the current one (null: leaves it), and returns the one of before, for
-- `set_config('memoryd.context', before, true)`.
create or replace function memoryd.enter_context(p_context text) returns text
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    before constant text := coalesce(memoryd.current_context(), '');
begin
    if p_context !~ '\S' then
        raise exception 'context is blank'
            using errcode = 'invalid_parameter_value',
                  hint = 'Name the current context as the metadata of rows do, or leave it out.';
    end if;
    if p_context is not null then
        perform set_config('memoryd.context', p_context, true);
    end if;
    return before;
end
$$;

-- A user's row of user_memory_access; null where there is none, or it allows nothing shared. The name of
-- their role is a tag that they are allowed: a row with the tag client is for clients, one with employee for
-- employees. In a context it allows that one alone, if it allows it at all, also to an admin (who may read
-- all levels and tags). With the caller's rights: an end user sees their own.
create or replace function memoryd.access_of(p_user uuid) returns public.user_memory_access
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    here constant text := memoryd.current_context();
    access public.user_memory_access;
begin
    select * into access from public.user_memory_access a
    where a.user_id = p_user and a.visibility_scope <> 'own';
    access.allowed_tags := access.allowed_tags || access.user_role;
    if here is not null and access.user_id is not null then
        if access.user_role = 'admin' then
            access.user_role := 'employee';
            access.access_level := 2147483647;
            access.visibility_scope := 'all';
            access.allowed_contexts := array[here];
        elsif access.allowed_contexts is null or here = any(access.allowed_contexts) then
            access.allowed_contexts := array[here];
        else
            access.allowed_contexts := '{}';
        end if;
    end if;
    return access;
end
$$;

-- The caller's own.
create or replace function memoryd.caller_access() returns public.user_memory_access
language sql stable
set search_path = pg_catalog, pg_temp
as $$ select memoryd.access_of(memoryd.caller_id()) $$;

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
-- what is shared (scope 0) their own and what they are granted; in a context (see in_context()) none of
-- another one. The one rule of all searches that run as the owner; it has a parsed body and is inlined.
create or replace function memoryd.may_find(
    p_caller memoryd.caller, p_access public.user_memory_access, p_scope bigint, p_owner uuid,
    p_level integer, p_tags text[], p_metadata jsonb
) returns boolean
language sql stable parallel safe
return ((p_caller).privileged or p_scope <> 0 or p_owner = (p_caller).user_id)
       and memoryd.in_context(p_metadata)
    or memoryd.grants_access(p_access, p_level, p_tags, p_metadata);
