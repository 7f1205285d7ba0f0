-- Agents that are a user's own: only this user's rows name them. No row of another user names them, and no
-- row without a user. The name of such an agent may identify its user, so it is erased with the user. One
-- that is registered is a user's own only if a service first named it for this user (agents.named_for): users
-- write names into rows of theirs as they like.

-- The tables with a column agent_id, each with the condition by which a row (t) is a user's ($1).
-- agent_memory comes first, since it has an index by agent: it decides for most agents, and for these the
-- other tables are not read.
create or replace function memoryd.tables_naming_agents() returns table (name text, is_users text)
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select u.name, u.erased
    from memoryd.user_tables() u
    join pg_attribute a on a.attrelid = format('public.%I', u.name)::regclass and a.attname = 'agent_id'
    order by u.name <> 'agent_memory', u.name
$$;

-- Those of p_agents that are this user's own. p_but: a table that is not read. Agents that are open to users
-- belong to the service, even if only one user has written to them so far. '_shared' stands for all agents.
create or replace function memoryd.named_only_by(p_user uuid, p_agents text[], p_but text default null)
returns text[]
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    agents text[] := array(
        select a from unnest(p_agents) a
        where a <> '_shared'
          and not exists (
              select from public.agents g
              where g.agent_id = a and (g.open_to_users or g.named_for is distinct from p_user)));
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

-- Erases agents. An agent that was disabled keeps its row and its name, since it must stay disabled.
create or replace function memoryd.forget_agents(p_agents text[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    renamed uuid[];
begin
    delete from public.agents a where a.agent_id = any(p_agents) and a.enabled;
    update public.agents a set identity = null where a.agent_id = any(p_agents);
    -- The anchors of an agent stay one chain, with a random name. In order, as others lock them.
    perform from public.memory_anchors a where a.agent_id = any(p_agents) order by a.id for no key update;
    with names as materialized (
        select g as agent, 'erased ' || gen_random_uuid() as name from unnest(p_agents) g
    ), counted as (
        update memoryd.trail_agents t set agent_id = n.name from names n where t.agent_id = n.agent
    ), chained as (
        update public.memory_anchors a set agent_id = n.name from names n where a.agent_id = n.agent
        returning a.id
    )
    select array_agg(c.id order by c.id) into renamed from chained c;
    -- What they say has the name, too. Emptied is what was renamed: one that others committed meanwhile is
    -- either both or neither.
    perform memoryd.seal_anchors(renamed);
end
$$;
