-- Agents that are a user's own: only this user's rows name them, no row of another user or of nobody does. An
-- agent's name may tell whose it was, so it is erased with the user.

-- The tables whose rows name an agent, with the condition by which a row (t) is a user's ($1). First
-- agent_memory, where an index leads to an agent's rows: it answers for most agents, and of these the other
-- tables are not asked.
create or replace function memoryd.tables_naming_agents() returns table (name text, is_users text)
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select u.name, u.erased
    from memoryd.user_tables() u
    join pg_attribute a on a.attrelid = format('public.%I', u.name)::regclass and a.attname = 'agent_id'
    order by u.name <> 'agent_memory', u.name
$$;

-- Those of p_agents that no row names but this user's. p_but: a table that is not looked into. An agent that
-- is open to users is the service's, even where only one user has written to it so far; '_shared' stands for
-- all agents.
create or replace function memoryd.named_only_by(p_user uuid, p_agents text[], p_but text default null)
returns text[]
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    agents text[] := array(
        select a from unnest(p_agents) a
        where a <> '_shared'
          and not exists (select from public.agents g where g.agent_id = a and g.open_to_users));
    each record;
begin
    for each in
        select t.name, t.is_users from memoryd.tables_naming_agents() t where t.name is distinct from p_but
    loop
        exit when agents = '{}';
        execute format(
            'select coalesce(array_agg(a.name), ''{}'') from unnest($2) as a(name)
             where not exists (select from public.%I t
                               where t.agent_id = a.name and not coalesce((%s), false))',
            each.name, each.is_users)
        into agents using p_user, agents;
    end loop;
    return agents;
end
$$;

-- All agents that are a user's own.
create or replace function memoryd.agents_of(p_user uuid) returns text[]
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    agents text[] := '{}';
    named text[];
    each record;
begin
    for each in select t.name, t.is_users from memoryd.tables_naming_agents() t loop
        execute format(
            'select array_agg(distinct t.agent_id) from public.%I t where t.agent_id is not null and (%s)',
            each.name, each.is_users)
        into named using p_user;
        agents := agents || named;
    end loop;
    return memoryd.named_only_by(p_user, array(select distinct a from unnest(agents) a));
end
$$;

-- Erases agents. One that was disabled keeps its row, since it must stay disabled: then its name stays.
create or replace function memoryd.forget_agents(p_agents text[]) returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    delete from public.agents a where a.agent_id = any(p_agents) and a.enabled;
    update public.agents a set identity = null where a.agent_id = any(p_agents);
    -- Its anchors stay one chain, under a random name.
    update public.memory_anchors a
    set agent_id = n.name
    from (select g as agent, 'erased ' || gen_random_uuid() as name from unnest(p_agents) g) n
    where a.agent_id = n.agent;
$$;
