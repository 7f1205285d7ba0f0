-- What a Supabase project has beside its tables, and memoryd joins where it may: the table of accounts
-- (auth.users), the publication supabase_realtime, Broadcast's messages, and the roles of its support. Asked
-- at each start, since an application may add them, and give the right to them, later. Where the owner lacks
-- a right, the statement is left for somebody who has it.

-- The tables that clients watch. Each is added once to the publication: one that was taken out stays out.
create or replace function memoryd.watched_tables() returns text[]
language sql immutable
set search_path = pg_catalog, pg_temp
return array['agent_sessions', 'agent_execution_logs', 'agent_memory', 'conversation_messages',
             'agent_commands', 'memory_requests'];

-- Those of them that are not in the publication yet, and were never put there. Before there was a record of
-- it, the first five were put there at once: if one of them is there, the others were taken out.
create or replace function memoryd.unpublished_tables() returns setof text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    with published as (
        select t.tablename::text as name from pg_publication_tables t
        where t.pubname = 'supabase_realtime' and t.schemaname = 'public'
    ), wanted as (
        select coalesce(
            (select array(select jsonb_array_elements_text(s.value))
             from memoryd.settings s where s.key = 'published'),
            case when exists (select from published p where p.name = any((memoryd.watched_tables())[:5]))
                 then (memoryd.watched_tables())[:5] end,
            '{}') as names
    )
    select w.name
    from unnest(memoryd.watched_tables()) with ordinality as w(name, nth), wanted n
    where exists (select from pg_publication p where p.pubname = 'supabase_realtime' and not p.puballtables)
      and w.name <> all (n.names)
      and w.name not in (select p.name from published p)
    order by w.nth
$$;

-- Those of p_names that cannot be roles of support: roles of end users, those that may become one, and those
-- whose rights end users have. Each end user would read every row.
create or replace function memoryd.roles_of_users(p_names text[]) returns setof text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    with users as (
        -- Not a gateway's own login, which may become support as well as an end user, and has no rights of
        -- theirs; nor memoryd's owner and the service, who have made roles of support.
        select u.oid from pg_roles u
        where not u.rolsuper and not pg_has_role(u.oid, 'memoryd_service', 'member')
          and (u.rolname in ('anon', 'authenticated') or pg_has_role(u.oid, 'memoryd_user', 'usage'))
    )
    select a.name
    from unnest(p_names) as a(name)
    left join pg_roles r on r.rolname = a.name
    where a.name = 'public'
       or not r.rolsuper
          and (r.rolname = 'anon' or pg_has_role(r.oid, 'memoryd_user', 'member')
               or exists (select from users u where pg_has_role(u.oid, r.oid, 'member')))
$$;

-- What is there of Supabase and not joined yet: what each part is for, and the statement that joins it.
-- auth.users of a stranger is not joined: whoever may create a schema could name one so, and would erase
-- anybody by deleting a row from it.
create or replace function memoryd.parts_to_join() returns table (part text, statement text)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
    select 'accounts', 'create trigger memoryd_account_deleted after delete on auth.users '
                       'referencing old table as gone '
                       'for each statement execute function memoryd.account_deleted()'
    from pg_class c
    join pg_namespace n on n.oid = c.relnamespace and n.nspname = 'auth'
    join pg_attribute a on a.attrelid = c.oid and a.attname = 'id' and a.atttypid = 'uuid'::regtype
    join pg_roles o on o.oid = c.relowner
    where c.relname = 'users' and c.relkind = 'r'
      and (o.rolsuper or o.rolname in ('supabase_admin', 'supabase_auth_admin', current_user))
      and not exists (select from memoryd.settings s where s.key = 'erase_with_account' and s.value = 'false')
      and not exists (select from pg_trigger t
                      where t.tgrelid = c.oid and t.tgfoid = 'memoryd.account_deleted()'::regprocedure);
    -- A role of end users is none of support, whatever the setting says.
    return query
    select 'support', format('grant memoryd_admin to %I with inherit true', a.name)
    from memoryd.settings s
    cross join lateral jsonb_array_elements_text(s.value) as a(name)
    where s.key = 'admin_roles'
      and not exists (select from pg_roles r
                      where r.rolname = a.name and pg_has_role(r.oid, 'memoryd_admin', 'usage'))
      and not exists (select from memoryd.roles_of_users(array[a.name]));
    return query
    select 'realtime', format('alter publication supabase_realtime add table public.%I', u.name)
    from memoryd.unpublished_tables() as u(name);
    return query
    select 'broadcast', 'create policy memoryd_topics on realtime.messages for select to authenticated '
                        'using (extension = ''broadcast'' and topic = realtime.topic() and topic '
                        'in (''agent-memory'', ''agent-memory:'' || (select auth.uid())::text))'
    from pg_class c
    join pg_namespace n on n.oid = c.relnamespace and n.nspname = 'realtime'
    where c.relname = 'messages' and c.relkind in ('r', 'p') and memoryd.broadcast_mode() is not null
      and exists (select from pg_roles r where r.rolname = 'authenticated')
      and 2 = (select count(*) from pg_proc p join pg_namespace f on f.oid = p.pronamespace
               where p.pronargs = 0 and (f.nspname, p.proname) in (('realtime', 'topic'), ('auth', 'uid')))
      and not exists (select from pg_policy p where p.polrelid = c.oid and p.polname = 'memoryd_topics');
end
$$;

-- Joins what it may, and returns what is left. It waits for nobody longer than two seconds.
create or replace function memoryd.join_supabase() returns table (part text, statement text)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
as $$
declare
    each record;
begin
    for each in select p.part, p.statement from memoryd.parts_to_join() p loop
        begin
            execute each.statement;
        exception when others then
            null; -- somebody else may have joined it at this moment: what is left is asked below
        end;
    end loop;
    insert into memoryd.settings as s (key, value)
    select 'published', to_jsonb(array_agg(w.name order by w.nth))
    from unnest(memoryd.watched_tables()) with ordinality as w(name, nth)
    where exists (select from pg_publication p where p.pubname = 'supabase_realtime')
      and w.name not in (select u.name from memoryd.unpublished_tables() as u(name))
    having count(*) > 0
    on conflict (key) do update set value = excluded.value, updated_at = now()
    where s.value <> excluded.value;
    return query select p.part, p.statement from memoryd.parts_to_join() p;
end
$$;
