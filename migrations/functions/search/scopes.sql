-- What a caller may search: which sources, and of them which scopes.

-- The sources that a question goes to (p_sources null: all), of those that the caller may search.
create or replace function memoryd.sources_asked(p_caller memoryd.caller, p_sources text[]) returns text[]
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return case
        when p_caller.privileged then coalesce(p_sources, memoryd.source_names())
        when p_sources is null then memoryd.source_names_for_users()
        else array(select s from unnest(p_sources) s where s = any(memoryd.source_names_for_users())) end;
end
$$;

-- Whether the user may find anything in scope 0 (what is shared): something that is granted to them, or
-- that they share with others. For all other users the scope is closed, so that not even the time that a
-- search takes tells them what others share.
create or replace function memoryd.has_shared(p_user uuid) returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return exists (select from public.user_memory_access a
                   where a.user_id = p_user and a.visibility_scope <> 'own')
        or memoryd.shares(p_user);
end
$$;

-- Whether a project may show what is said in a group chat: where it is a group chat itself (its id), that one
-- alone. What others say in one group does not come up in another. Inlined.
create or replace function memoryd.shows_group(p_project text, p_chat uuid) returns boolean
language sql immutable parallel safe
return p_project is null or p_project !~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
    or p_chat::text = lower(p_project);

-- The scopes of the group chats that a user is a member of, as far as this project may show them.
create or replace function memoryd.group_scopes(p_user uuid, p_project text) returns bigint[]
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return array(
        select memoryd.group_scope(m.chat_id, 'user')
        from public.chat_group_members m
        where m.user_id = p_user and memoryd.shows_group(p_project, m.chat_id));
end
$$;

-- A message in a group has two entries, and a search finds one of them: the group's, if the group's scope is
-- among these scopes; in a search of all scopes (null) the message's own. Knowledge has its own
-- scope as its group's: a search of all scopes finds that of the caller's organisation. Inlined.
create or replace function memoryd.is_found_here(p_scope bigint, p_group_scope bigint, p_scopes bigint[])
returns boolean
language sql stable parallel safe
return p_group_scope is null
    or case when p_scopes is null
            then p_scope <> p_group_scope or p_scope = memoryd.org_scope(memoryd.caller_org())
            else p_scope = p_group_scope or p_group_scope <> all (p_scopes) end;

-- The scopes of p_scopes that the caller may search: for an end user their own, those of their groups, and 0,
-- which is shared. They may read every row of these scopes, but in scope 0 only rows that they are granted. A
-- privileged caller may search all scopes; p_scopes null means all. A search by support is put on record
-- before anything is looked up.
create or replace function memoryd.open_scopes(
    p_caller memoryd.caller, p_scopes bigint[], p_project text default null) returns bigint[]
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    mine constant bigint := memoryd.scope_of((p_caller).user_id, null);
begin
    if (p_caller).privileged then
        if not (p_caller).is_service then
            perform memoryd.log_admin_read('lexeme_statistics', null);
        end if;
        return p_scopes;
    end if;
    if (p_caller).user_id is null then
        return '{}';
    end if;
    return case when p_scopes is null or mine = any(p_scopes)
                then array[mine] else '{}' end
        || case when p_scopes is null then memoryd.group_scopes((p_caller).user_id, p_project)
                when p_scopes <@ array[mine, 0] then '{}'
                else array(select g from unnest(memoryd.group_scopes((p_caller).user_id, p_project)) g
                           where g = any(p_scopes)) end
        || case when (p_scopes is null or 0 = any(p_scopes)) and memoryd.has_shared((p_caller).user_id)
                then array[0::bigint] else '{}' end;
end
$$;

-- The scopes that a question goes to (null: all), and which of them are of groups. A question about a user
-- that names the source knowledge goes to what the caller's organisation knows too, which counts as a
-- group's.
create or replace function memoryd.scopes_asked(
    p_caller memoryd.caller, p_agent text, p_user uuid, p_sources text[] default null,
    p_project text default null, out scopes bigint[], out groups bigint[])
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    groups := case
        when (p_caller).privileged or coalesce(p_user = (p_caller).user_id, true)
            then memoryd.group_scopes(coalesce(p_user, case when not (p_caller).privileged
                                                            then (p_caller).user_id end), p_project)
        else '{}' end
        || case when (p_caller).privileged and p_user is not null and 'knowledge' = any(p_sources)
                then array[memoryd.org_scope(memoryd.caller_org())] else '{}' end;
    scopes := case
        -- An end user's own, those of their groups, and what is shared with them.
        when not (p_caller).privileged
            then array[memoryd.scope_of(coalesce(p_user, (p_caller).user_id), null)] || groups || 0::bigint
        when p_user is not null
            then array[memoryd.scope_of(p_user, null)] || groups
        when p_agent is not null
            then array[memoryd.scope_of(null, p_agent), memoryd.scope_of(null, '_shared'), 0,
                       memoryd.org_scope(memoryd.caller_org())] end;
end
$$;

