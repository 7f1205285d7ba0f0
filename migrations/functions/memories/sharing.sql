-- Which shared rows a user may read, and which rows a search may find. Shared rows are those with an
-- access_level. The policies that ask this are in tables/access.sql.

-- A question may say where it is asked (a project, channel, group chat): by the option project, or for all
-- of a transaction by its setting memoryd.project. It only narrows what is found, so anybody may say any.

-- The project of the transaction; null where there is none. Inlined.
create or replace function memoryd.current_project() returns text
language sql stable parallel safe
return nullif(current_setting('memoryd.project', true), '');

-- Whether a search in this project (null: in none) may find a row with this metadata: one that names no
-- project, or this one. Inlined.
create or replace function memoryd.in_project(p_metadata jsonb, p_project text) returns boolean
language sql immutable parallel safe
return p_project is null or p_metadata ->> 'project' is null or p_metadata ->> 'project' = p_project;

-- Whether what was drawn from these memories, and quotes them, may be found in this project: all of them are
-- there, and none names another one.
create or replace function memoryd.drawn_in_project(p_memories uuid[], p_project text) returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return p_project is null
        or not exists (
            select from unnest(p_memories) as s(id)
            left join public.agent_memory m on m.id = s.id
            where m.id is null or not memoryd.in_project(m.metadata, p_project));
end
$$;

-- A user's row of user_memory_access; null where there is none, or it allows nothing shared. The name of
-- their role is a tag that they are allowed: a row with the tag client is for clients, one with employee for
-- employees. In a project (null: in none) it allows that one alone, if it allows it at all, also to an admin
-- (who may read all levels and tags). With the caller's rights: an end user sees their own.
create or replace function memoryd.access_of(p_user uuid, p_project text)
returns public.user_memory_access
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    access public.user_memory_access;
begin
    select * into access from public.user_memory_access a
    where a.user_id = p_user and a.visibility_scope <> 'own';
    access.allowed_tags := access.allowed_tags || access.user_role;
    if p_project is not null and access.user_id is not null then
        if access.user_role = 'admin' then
            access.user_role := 'employee';
            access.access_level := 2147483647;
            access.visibility_scope := 'all';
            access.allowed_contexts := array[p_project];
        elsif access.allowed_contexts is null or p_project = any(access.allowed_contexts) then
            access.allowed_contexts := array[p_project];
        else
            access.allowed_contexts := '{}';
        end if;
    end if;
    return access;
end
$$;

-- The caller's own row of user_memory_access, in the project of the transaction.
create or replace function memoryd.caller_access() returns public.user_memory_access
language sql stable
set search_path = pg_catalog, pg_temp
as $$ select memoryd.access_of(memoryd.caller_id(), memoryd.current_project()) $$;

-- Whether this row of user_memory_access allows to read a row with this level, these tags and this
-- metadata.
create or replace function memoryd.grants_access(
    p_access public.user_memory_access, p_level integer, p_tags text[], p_metadata jsonb
) returns boolean
language sql immutable parallel safe
return p_level is not null and (p_access).user_id is not null and ((p_access).user_role = 'admin' or (
        p_level <= (p_access).access_level
        and ((p_access).visibility_scope = 'all' or p_tags = '{}' or p_tags && (p_access).allowed_tags)
        and ((p_access).allowed_contexts is null or not p_metadata ? 'project'
             or p_metadata ->> 'project' = any((p_access).allowed_contexts))));

-- Whether a search may find a row: a privileged caller any; an end user the rows of their own scope, and of
-- what is shared (scope 0) their own and what they are granted; in a project (see in_project()) none of
-- another one. The one rule of all searches that run as the owner; it has a parsed body and is inlined.
create or replace function memoryd.may_find(
    p_request memoryd.search_request, p_scope bigint, p_owner uuid, p_level integer, p_tags text[],
    p_metadata jsonb
) returns boolean
language sql immutable parallel safe
return (((p_request).reader).privileged or p_scope <> 0 or p_owner = ((p_request).reader).user_id)
       and memoryd.in_project(p_metadata, ((p_request).conditions).project)
    or memoryd.grants_access((p_request).access, p_level, p_tags, p_metadata);
