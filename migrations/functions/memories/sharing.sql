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
-- another one. A message in a group has two entries, and a search finds one of them: the group's, if the
-- group's scope is among the scopes of the request; in a search of all scopes (null) the message's own.
-- Knowledge has its own scope as its group's: a search of all scopes finds that of the caller's organisation.
-- The one rule of all searches that run as the owner; it has a parsed body and is inlined.
create or replace function memoryd.may_find(
    p_request memoryd.search_request, p_scope bigint, p_group_scope bigint, p_owner uuid, p_level integer,
    p_tags text[], p_metadata jsonb
) returns boolean
language sql immutable parallel safe
return (p_group_scope is null
        or case when (p_request).scopes is null
                then p_scope <> p_group_scope or p_scope = any((p_request).groups)
                else p_scope = p_group_scope or p_group_scope <> all ((p_request).scopes) end)
   and ((((p_request).reader).privileged or p_scope <> 0 or p_owner = ((p_request).reader).user_id)
        and memoryd.in_project(p_metadata, ((p_request).conditions).project)
        or memoryd.grants_access((p_request).access, p_level, p_tags, p_metadata));

-- Who may read a row is said by its columns, and by the project that its metadata name. Fields of other
-- designs, such as access_level or context, keep nobody out. So a row is not shared with more readers than
-- its metadata say.

-- The first field of metadata that allows fewer readers than the columns and the project do; null: none.
-- certain: the field can mean nothing else. Others, such as a department, may be what the row is about.
create or replace function memoryd.ignored_limit(
    p_metadata jsonb, p_project jsonb, p_level integer, p_tags text[], out field text, out certain boolean)
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    select regexp_replace(f.key, '[^[:alnum:]_-]', '', 'g'), n.name ~ k.surely
    into field, certain
    from jsonb_each(case jsonb_typeof(p_metadata) when 'object' then p_metadata else '{}' end) f
    cross join lateral (
        select lower(regexp_replace(f.key, '[^[:alnum:]]', '', 'g')) as name,
               case jsonb_typeof(f.value) when 'array' then f.value
                                          else jsonb_build_array(f.value) end as list) n
    cross join (values (
        '^((required|allowed|permitted|restricted|visible)(to|for|levels?|tags?|contexts?|scopes?|roles?'
        '|users?|groups?|teams?|departments?)|visibility(level|tags?|scope|roles?)?|acl|contexts?'
        '|access(level|tags?|control|roles?|scope)?|userroles?|confidential|confidentiality(level)?'
        '|clearance(level)?|securitylevel|permissions?)$',
        '^(roles?|departments?|audience|classification|sensitivity)$')) as k(surely, perhaps)
    cross join lateral (select array(select jsonb_array_elements_text(n.list)) as given offset 0) v
    where (n.name ~ k.surely or n.name ~ k.perhaps)
      and f.value not in ('null', '""', '[]', '{}', 'false')
      and v.given <> '{all}' and v.given <> '{public}'
      -- In the metadata of a message: who spoke.
      and not (n.name = 'role' and v.given <@ '{user,assistant,system,tool,agent,developer}')
      and not coalesce(case
          when n.name ~ 'level$' and jsonb_typeof(f.value) = 'number' then f.value <= to_jsonb(p_level)
          when n.name ~ 'contexts?$' then v.given = array[p_project #>> '{}']
          else p_tags <> '{}' and p_tags <@ v.given end, false)
    order by n.name ~ k.surely desc, f.key
    limit 1;
end
$$;

-- Before a row is shared: refuses metadata, of the row or of its document, with a field that would limit who
-- may read it and has no effect. Warns once a transaction where the field may mean something else, and where
-- the row was shared with such metadata before there was this check. What an import or an adoption brings
-- stays private. A shared chunk is of the project of its document, unless it names one.
create or replace function memoryd.check_sharing() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    of_document jsonb;
    ignored record;
    hint text;
begin
    if tg_table_name = 'memory_chunks' then
        -- The metadata of a document that has a level were checked with it.
        select d.metadata into of_document from public.documents d
        where d.id = new.document_id and d.access_level is null;
        if of_document ? 'project' and not new.metadata ? 'project' then
            new.metadata := new.metadata || jsonb_build_object('project', of_document -> 'project');
        end if;
    elsif new.access_level is null and not exists (
              select from public.memory_chunks c
              where c.document_id = new.id and c.access_level is not null) then
        return new;
    end if;
    if coalesce(of_document, '{}') in ('{}', jsonb_build_object('project', of_document -> 'project'))
       and new.metadata in ('{}', jsonb_build_object('project', new.metadata -> 'project')) then
        return new;
    end if;
    select i.* into ignored
    from unnest(array[new.metadata, of_document]) with ordinality as m(metadata, nth)
    cross join lateral memoryd.ignored_limit(
        m.metadata, new.metadata -> 'project', new.access_level, new.visibility_tags) i
    where i.field is not null
    order by i.certain desc, m.nth
    limit 1;
    if ignored.field is null then
        return new;
    end if;
    hint := case when ignored.field ~* 'contexts?$'
            then 'Write "project" in its place, and name the project in allowed_contexts of its readers'
            else 'Say it by the columns access_level and visibility_tags; the name of a role is a tag' end
        || '. If the field is about something else, give it another name (docs/documents.md).';
    if memoryd.importing() then
        new.access_level := null;
    elsif ignored.certain
          and not (tg_op = 'UPDATE' and (old.access_level is null) = (new.access_level is null)
                   and coalesce((memoryd.ignored_limit(
                           old.metadata, old.metadata -> 'project', old.access_level,
                           old.visibility_tags)).certain, false)) then
        perform memoryd.refuse(
            'metadata.' || ignored.field || ' keeps nobody from reading a shared row', hint);
    elsif current_setting('memoryd.sharing_warned', true) is distinct from 'on' then
        perform set_config('memoryd.sharing_warned', 'on', true);
        raise warning 'metadata.% keeps nobody from reading a shared row', ignored.field using hint = hint;
    end if;
    return new;
end
$$;

-- Rows that were shared, before there was this check, with a field that was meant to limit who may read them.
-- Most chunks have no metadata but the project, so they cost a look.
create or replace function memoryd.shared_past_limits()
returns table (table_name text, id uuid, field text)
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select r.table_name, r.id, i.field
    from (
        select 'documents' as table_name, d.id, d.metadata, d.metadata -> 'project' as project,
               d.access_level, d.visibility_tags
        from public.documents d where d.access_level is not null
        union all
        select 'memory_chunks', c.id, c.metadata, c.metadata -> 'project', c.access_level, c.visibility_tags
        from public.memory_chunks c where c.access_level is not null
        union all
        select 'memory_chunks', c.id, d.metadata, c.metadata -> 'project', c.access_level, c.visibility_tags
        from public.memory_chunks c
        join public.documents d on d.id = c.document_id and d.access_level is null
        where c.access_level is not null
        union all
        select 'conversation_messages', m.id, m.metadata, m.metadata -> 'project', m.access_level,
               m.visibility_tags
        from public.conversation_messages m where m.access_level is not null) r
    cross join lateral memoryd.ignored_limit(r.metadata, r.project, r.access_level, r.visibility_tags) i
    where r.metadata not in ('{}', jsonb_build_object('project', r.metadata -> 'project')) and i.certain
$$;

-- The scopes that a question goes to (null: all), and which of them are of groups. A question to all, or one
-- about a user that names the source knowledge, goes to what the caller's organisation knows too, which
-- counts as a group's. A project that is a group chat itself (its id) shows that one alone: what others say
-- in one group does not come up in another.
create or replace function memoryd.scopes_asked(
    p_caller memoryd.caller, p_agent text, p_user uuid, p_sources text[] default null,
    p_project text default null, out scopes bigint[], out groups bigint[])
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    in_group constant text := case when length(p_project) = 36 then lower(
        substring(p_project, '(?i)^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$')) end;
begin
    groups := array(
            select memoryd.group_scope(m.chat_id, 'user') from public.chat_group_members m
            where m.user_id = case when (p_caller).privileged then p_user
                                   when coalesce(p_user = (p_caller).user_id, true)
                                       then (p_caller).user_id end
              and m.chat_id::text = coalesce(in_group, m.chat_id::text))
        || case when (p_caller).privileged
                     and case when p_user is null then p_agent is null else 'knowledge' = any(p_sources) end
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

