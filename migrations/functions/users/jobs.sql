-- Agents that are a user's own: only this user's rows name them. No row of another user names them, and no
-- row without a user. The name of such an agent may identify its user, so it is erased with the user. One
-- that is registered is a user's own only if a service first named it for this user (agents.named_for): users
-- write any name into their own rows.

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

-- What the queue contains about a user: jobs, lanes, dead letters, executions of commands. An erasure locks
-- and deletes the jobs before it deletes anything else, so that no daemon writes the result of one
-- afterwards.

-- Jobs that are about a user's rows. A job with "gone" in its payload is not one of them: it indexes the
-- other messages of a conversation again, after messages between them were deleted.
create or replace function memoryd.jobs_of(p_user uuid) returns setof bigint
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select j.id from memoryd.jobs j
    where not coalesce(j.payload ? 'gone', false) and j.ref in (select memoryd.row_ids_of(p_user))
$$;

-- Whether a lane is of a user: their links and facts, and what agents do that are their own (p_agents). The
-- lanes of other topics are never one user's, whatever their names are.
create or replace function memoryd.is_lane_of(p_topic text, p_lane text, p_user uuid, p_agents text[])
returns boolean
language sql immutable parallel safe
return case p_topic
    when 'capture' then p_lane = any(p_agents)
    when 'facts' then p_lane = memoryd.associate_lane('facts', p_user)
    when 'associate' then starts_with(p_lane, memoryd.associate_lane('', p_user))
        or starts_with(p_lane, memoryd.associate_lane('', null)) and substr(p_lane, 3) = any(p_agents)
    else false end;

-- Takes what is about a user from the daemons and the agents: first the commands, so that none of them can
-- end, then the lanes and the jobs, which it deletes. What a daemon was working on is then never written,
-- because its job is gone. A job that is being completed is waited for without any of these locks; what it
-- wrote is committed then, and erased with the rest.
create or replace function memoryd.take_jobs(
    p_user uuid, p_agents text[] default '{}', p_patience interval default '30 seconds') returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    until constant timestamptz := clock_timestamp() + p_patience;
begin
    loop
        -- An exception in this block releases the locks that it has taken.
        begin
            perform from public.agent_commands c where c.user_id = p_user for update of c nowait;
            perform from memoryd.lanes l where memoryd.is_lane_of(l.topic, l.lane, p_user, p_agents)
            for update of l nowait;
            perform from memoryd.jobs j where j.id in (select memoryd.jobs_of(p_user)) for update of j nowait;
            exit;
        exception when lock_not_available then
            if clock_timestamp() > until then
                raise exception 'somebody has been writing about this user for % seconds',
                                extract(epoch from p_patience)::integer
                    using errcode = 'lock_not_available',
                          hint = 'Nothing was erased. Try again in a moment; '
                                 'a transaction that was left open must end first.';
            end if;
        end;
        perform pg_sleep(0.02);
    end loop;
    delete from memoryd.jobs j where j.id in (select memoryd.jobs_of(p_user));
end
$$;

-- Whether a job or dead letter with this payload and ref only indexes again the messages of a conversation
-- that goes on without the user (see jobs_of).
create or replace function memoryd.is_about_others(p_payload jsonb, p_ref uuid) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select coalesce(p_payload ? 'gone', false)
       and exists (select from public.conversation_sessions s where s.id = p_ref)
$$;

-- Deletes executions, dead letters and jobs that are about these rows. An erasure has deleted the rows
-- before, all but the conversations that go on without the user; jobs and dead letters that are only about
-- such a conversation stay. Dead letters whose payload mentions one of the rows, or the user, are deleted,
-- too. It comes after the rows are deleted, because deleting messages makes new jobs.
create or replace function memoryd.delete_jobs_about(p_user uuid, p_rows uuid[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from memoryd.executions e where e.command_id in (select unnest(p_rows));
    delete from memoryd.dead_letters d
    where d.ref = any(p_rows) and not memoryd.is_about_others(d.payload, d.ref)
       or d.payload is not null and exists (
           select
           from regexp_matches(d.payload::text, '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}', 'g') as m(id)
           where m.id[1]::uuid = any(p_rows || p_user));
    -- A job that a daemon has locked is skipped: the daemon is completing it, and deletes it itself.
    delete from memoryd.jobs j
    where j.id in (select k.id from memoryd.jobs k
                   where k.ref = any(p_rows) and not memoryd.is_about_others(k.payload, k.ref)
                   for update skip locked);
end
$$;
