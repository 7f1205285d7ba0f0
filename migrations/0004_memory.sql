-- Memories, their associations, the log of what was retrieved, and what dreams wrote.

-- First 20 distinct words of three letters and more, stop words out, in order (source design 004). It stands in the
-- database so that a memory has its keywords the moment it is inserted, whoever inserts it, with or without a daemon.
-- Separators are named one by one and everything above ASCII counts as a letter: the result is the same under
-- every locale. The daemon's own phrasing ("Task ... completed") is no keyword.
create function public.extract_keywords(body text) returns text[]
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select coalesce(array_agg(k.word order by k.place), '{}')
    from (
        select w.word, min(w.place) as place
        from string_to_table(
            regexp_replace(lower(left(body, 4000)), '[\x01-\x2f\x3a-\x60\x7b-\xbf\u2000-\u206f\u3000-\u303f]+', ' ', 'g'),
            ' '
        ) with ordinality as w(word, place)
        where length(w.word) between 3 and 60
          and w.word ~ '[^0-9]'
          and w.word <> all ('{
              about,after,again,all,also,and,any,are,because,been,before,being,between,both,but,can,could,did,does,doing,
              done,down,during,each,few,for,from,further,get,got,had,has,have,having,her,here,hers,him,his,how,into,its,itself,
              just,let,may,might,more,most,must,nor,not,now,off,once,only,other,our,ours,out,over,own,per,same,shall,she,should,
              some,such,than,that,the,their,theirs,them,then,there,these,they,this,those,through,too,under,until,upon,use,used,
              using,very,via,was,were,what,when,where,which,while,who,whom,why,will,with,would,you,your,yours,
              task,completed,failed,exit}'::text[])
        group by w.word
        order by 2
        limit 20
    ) k
$$;
comment on function public.extract_keywords is 'The first 20 distinct keywords of a text: lower case, 3 letters and more, no stop words.';

create table public.agent_memory (
    id uuid primary key default gen_random_uuid(),
    agent_id text not null check (
        (agent_id ~ '\S' and length(agent_id) <= 200)
        or memoryd.refuse('agent_id is blank or too long', 'An agent_id has 1 to 200 characters; _shared is for every agent.'))
        check (memoryd.is_plain(agent_id) or memoryd.refuse_unseen(agent_id)),
    user_id uuid,
    session_id uuid,
    kind text not null default 'note' check (
        kind in ('observation', 'outcome', 'fact', 'error', 'goal', 'note')
        or memoryd.refuse('unknown kind ' || quote_literal(kind), 'Kinds: observation, outcome, fact, error, goal, note.')),
    memory_type text check (
        memory_type in ('brand_memory', 'user_preferences', 'competitive_memory', 'task_memory', 'performance_memory')
        or memoryd.refuse('unknown memory_type ' || quote_literal(memory_type),
                          'Types: brand_memory, user_preferences, competitive_memory, task_memory, performance_memory; or null.')),
    content text not null check (
        content ~ '\S' or memoryd.refuse('content is blank', 'Say what is to be remembered.')),
    embedding vector(:dimensions),
    keywords text[] generated always as (public.extract_keywords(content)) stored,
    metadata jsonb not null default '{}',
    source text,
    command_id uuid,
    -- The default stands for "as this kind is kept by default"; null is permanent. The trigger below resolves it.
    ttl_hours integer default -2147483648 check (
        ttl_hours > 0
        or memoryd.refuse('ttl_hours is ' || ttl_hours, 'Hours from 1 on; null for a memory that is never forgotten.')),
    expires_at timestamptz,
    -- Every daemon reads these times: one that its language cannot hold would stop all of the agent's associations.
    created_at timestamptz not null default now() check (
        created_at between '1900-01-01 00:00+00' and '9999-12-30 00:00+00'
        or memoryd.refuse('created_at is ' || created_at, 'Times from 1900 to 9999.')),
    updated_at timestamptz not null default now() check (
        updated_at between '1900-01-01 00:00+00' and '9999-12-30 00:00+00'
        or memoryd.refuse('updated_at is ' || updated_at, 'Times from 1900 to 9999.'))
);
comment on table public.agent_memory is 'What agents remember. agent_id ''_shared'' is readable by every agent.';
comment on column public.agent_memory.ttl_hours is 'Hours until it is forgotten, counted from when it is stored; null = permanent. Default by kind: outcome, error, observation 72; task_memory 2160; else permanent.';
comment on column public.agent_memory.command_id is 'The command whose outcome this is; a command is remembered once.';
comment on column public.agent_memory.embedding is 'Written by memoryd; null until indexed. Give your own only if it comes from the same model.';

-- An agent's newest, nobody's and a user's apart: `user_id is null` within one index does not keep its order.
create index agent_memory_recent on public.agent_memory (agent_id, created_at desc, id desc) where user_id is null;
create index agent_memory_agent on public.agent_memory (agent_id, user_id, created_at desc, id desc);
-- By time alone, as an expression: a query for one agent's newest must never be answered by walking everybody's backwards,
-- which the planner prefers where it takes that agent's to be plentiful, and which reads the whole table where there are none.
create index agent_memory_created on public.agent_memory ((created_at at time zone 'utc'), id);
create index agent_memory_user on public.agent_memory (user_id, memory_type) where user_id is not null;
create index agent_memory_expiring on public.agent_memory (expires_at) where expires_at is not null;
create unique index agent_memory_command on public.agent_memory (command_id) where command_id is not null;

create view public.shared_memory with (security_invoker = true) as
    select * from public.agent_memory where agent_id = '_shared' order by created_at desc;
comment on view public.shared_memory is 'Memories visible to all agents (agent_id ''_shared'').';

create table public.memory_associations (
    id uuid primary key default gen_random_uuid(),
    memory_id uuid not null references public.agent_memory (id) on delete cascade,
    related_memory_id uuid not null references public.agent_memory (id) on delete cascade,
    association_type text not null check (
        association_type in ('causal', 'similar', 'sequential', 'related')
        or memoryd.refuse('unknown association_type ' || quote_literal(association_type),
                          'Types: causal, similar, sequential, related.')),
    strength double precision not null check (
        strength between 0 and 1 or memoryd.refuse('strength is ' || strength, 'A strength is from 0 to 1.')),
    automatic boolean not null default false,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    unique (memory_id, related_memory_id),
    constraint no_self_link check (
        memory_id <> related_memory_id
        or memoryd.refuse('memory ' || memory_id || ' is linked to itself', 'An association joins two different memories.'))
);
comment on table public.memory_associations is 'Links from a memory to earlier ones; strength 0 to 1.';
comment on column public.memory_associations.automatic is 'Made by memoryd from both memories'' words, at most five a memory; made anew when those change. Others go when those change.';
create index memory_associations_related on public.memory_associations (related_memory_id);
create index memory_associations_weak on public.memory_associations (strength) where strength < 0.15;

create table public.memory_queries (
    id uuid primary key default gen_random_uuid(),
    agent_id text check (memoryd.is_plain(agent_id) or memoryd.refuse_unseen(agent_id)),
    user_id uuid,
    command_id uuid,
    task_keywords text[] not null default '{}',
    retrieved_memory_ids uuid[] not null default '{}',
    relevance_scores double precision[] not null default '{}',
    query_time timestamptz not null default now(),
    useful boolean,
    reinforced boolean not null default false
);
comment on table public.memory_queries is 'Every retrieval: what was asked for and what came back. Judge it with mark_useful(id, true).';
create index memory_queries_time on public.memory_queries (query_time);
create index memory_queries_command on public.memory_queries (command_id) where command_id is not null;

create table public.dream_sessions (
    id uuid primary key default gen_random_uuid(),
    trigger text not null check (trigger in ('idle', 'manual')),
    status text not null default 'running' check (status in ('running', 'completed', 'interrupted')),
    started_at timestamptz not null default now(),
    finished_at timestamptz,
    memories_scanned integer not null default 0,
    clusters_found integer not null default 0,
    insights_generated integer not null default 0,
    associations_pruned integer not null default 0,
    lease_until timestamptz not null default now()
);
comment on table public.dream_sessions is 'Every dream, with what it saw and wrote.';
-- At most one dream at once, across daemons and poolers, as a fact of the data; a dead dreamer's lease runs out.
create unique index dream_sessions_one on public.dream_sessions ((true)) where status = 'running';
create index dream_sessions_finished on public.dream_sessions (finished_at desc) where status = 'completed';

create table public.dream_insights (
    id uuid primary key default gen_random_uuid(),
    agent_id text check (memoryd.is_plain(agent_id) or memoryd.refuse_unseen(agent_id)),
    user_id uuid,
    insight text not null check (insight ~ '\S'),
    source_memories uuid[] not null,
    category text not null check (category in ('pattern', 'recommendation', 'summary', 'correction')),
    confidence double precision not null check (confidence between 0 and 1),
    embedding vector(:dimensions),
    keywords text[] generated always as (public.extract_keywords(insight)) stored,
    generated_at timestamptz not null default now(),
    dream_id uuid references public.dream_sessions (id) on delete set null
);
comment on table public.dream_insights is 'What dreams concluded. agent_id is null where the memories came from several agents.';
comment on column public.dream_insights.user_id is 'The one user whose memories it rests on; null for the agents'' own. Users are never mixed.';
create index dream_insights_scope on public.dream_insights (agent_id, confidence desc);
create index dream_insights_generated on public.dream_insights (generated_at);

-- TTL: by kind unless told, from the moment of storing; expires_at follows ttl_hours unless given itself. Where the user has
-- set hours of their own, those stand for the default, and nothing of theirs is kept for longer. The same look at their settings
-- tells whether they want to be remembered at all: if not, nothing is stored.
create function memoryd.stamp_expiry() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    remembered boolean;
    most integer;
begin
    if new.user_id is not null then
        select s.memory_enabled,
               case when new.memory_type = 'task_memory' then s.task_memory_ttl_hours else s.memory_ttl_hours end
        into remembered, most
        from public.memory_settings s where s.user_id = new.user_id;
        if tg_op = 'INSERT' and not remembered and memoryd.may_write_for(new.user_id) and not memoryd.importing() then
            return null;
        end if;
    end if;
    if new.ttl_hours = -2147483648 then
        new.ttl_hours := coalesce(most, memoryd.setting_integer(
            'ttl_hours.' || case when new.memory_type = 'task_memory' then 'task_memory' else new.kind end));
    end if;
    if most is not null then
        new.ttl_hours := least(new.ttl_hours, most);
    end if;
    -- On insert old is null. Of hours that are not allowed no end is reckoned: the check has its say.
    if new.ttl_hours is distinct from old.ttl_hours and new.expires_at is not distinct from old.expires_at then
        new.expires_at := case when new.ttl_hours > 0 then now() + make_interval(hours => new.ttl_hours) end;
    end if;
    if most is not null then
        new.expires_at := least(new.expires_at, case when tg_op = 'INSERT' then now() else new.updated_at end
                                                + make_interval(hours => most));
    end if;
    return new;
end
$$;
create trigger stamp_expiry_insert before insert on public.agent_memory
    for each row when (new.ttl_hours is not null or new.user_id is not null)
    execute function memoryd.stamp_expiry();
create trigger stamp_expiry_update before update on public.agent_memory
    for each row when (new.ttl_hours is distinct from old.ttl_hours
                       or (new.user_id is not null and (new.expires_at, new.user_id, new.memory_type)
                                                       is distinct from (old.expires_at, old.user_id, old.memory_type)))
    execute function memoryd.stamp_expiry();

-- When it was changed, not when memoryd last wrote beside it.
create function memoryd.stamp_memory() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    -- Who links memories holds their keys (handlers/associate.py): a link of the old words is there before this goes on, and is
    -- taken away by memories_updated().
    perform from public.agent_memory m where m.id = old.id for update;
    new.updated_at := clock_timestamp();
    return new;
end
$$;
create trigger stamp_memory before update on public.agent_memory
    for each row when (new.content is distinct from old.content)
    execute function memoryd.stamp_memory();

-- Links are written in order within each agent and user: one whose transaction holds a memory of theirs keeps nobody else's links
-- waiting. A hash, so that no lane tells of whom it was once they are erased.
create function memoryd.associate_lane(p_agent text, p_user uuid) returns text
language sql immutable parallel safe
return p_agent || coalesce(' ' || left(encode(sha256(uuid_send(p_user)), 'hex'), 16), '');

create function memoryd.memories_inserted() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    -- A user's memory makes no agent: whoever names one that is not there yet may have invented it.
    if memoryd.caller_serves() then
        perform memoryd.register_agents(array_agg(distinct agent_id)) from new_rows having count(*) > 0;
    end if;

    insert into memoryd.jobs (topic, lane, ref)
    select 'associate', memoryd.associate_lane(agent_id, user_id), id
    from new_rows
    where embedding is not null
    order by created_at, id;
    if found then
        perform memoryd.ring('associate');
    end if;
    return null;
end
$$;
create trigger memories_inserted after insert on public.agent_memory
    referencing new table as new_rows
    for each statement execute function memoryd.memories_inserted();

-- Links of these memories are made anew, once those that are linked to them, or might be, have changed.
create function memoryd.associate_again(p_memories uuid[]) returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    with queued as (
        insert into memoryd.jobs (topic, lane, ref)
        select 'associate', memoryd.associate_lane(m.agent_id, m.user_id), m.id
        from public.agent_memory m
        where m.id = any(p_memories) and m.embedding is not null
          -- One that waits for its turn already sees all that there is then.
          and not exists (select from memoryd.jobs j
                          where j.topic = 'associate' and j.lane = memoryd.associate_lane(m.agent_id, m.user_id)
                            and j.ref = m.id and j.attempt = 0
                          offset 0)
        order by m.created_at, m.id
        returning 1
    )
    select memoryd.ring('associate') where exists (select from queued)
$$;

create function memoryd.memories_updated() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    changed uuid[];
    linked uuid[];
begin
    -- Looked up by a hash. As a join, of which the plan is kept from a statement of one row, it would compare each row with each.
    select array_agg(n.id) into changed
    from new_rows n
    where (n.id, n.content) not in (select o.id, o.content from old_rows o);
    if changed is null then
        return null;
    end if;
    -- What the old words were linked to, the new ones need not be, nor what was linked to them: both are associated anew. A link
    -- that is being made of the old words waits for this, or this for it (see handlers/associate.py).
    with unlinked as (
        -- One look-up in an index each.
        delete from public.memory_associations a
        where a.id = any(array(
            select l.id
            from unnest(changed) as c(id)
            cross join lateral (
                (select f.id from public.memory_associations f where f.memory_id = c.id offset 0)
                union all
                (select t.id from public.memory_associations t where t.related_memory_id = c.id offset 0)
            ) l))
        returning a.memory_id
    )
    select array_agg(u.memory_id) into linked
    from (select distinct d.memory_id from unlinked d where d.memory_id <> all (changed) limit 100) u;
    if linked is not null then
        perform memoryd.associate_again(linked);
    end if;

    insert into memoryd.jobs (topic, lane, ref)
    select 'associate', memoryd.associate_lane(n.agent_id, n.user_id), n.id
    from new_rows n
    where n.id = any(changed) and n.embedding is not null
    order by n.created_at, n.id;
    if found then
        perform memoryd.ring('associate');
    end if;
    return null;
end
$$;
create trigger memories_updated after update on public.agent_memory
    referencing old table as old_rows new table as new_rows
    for each statement execute function memoryd.memories_updated();

create function public.mark_useful(query_id uuid, useful boolean) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    retrieved uuid[];
    was_reinforced boolean;
begin
    select q.retrieved_memory_ids, q.reinforced into retrieved, was_reinforced
    from public.memory_queries q where q.id = mark_useful.query_id for update;
    if not found then
        raise exception 'no query %', mark_useful.query_id
            using errcode = 'no_data_found', hint = 'Give the id of a row of memory_queries.';
    end if;
    update public.memory_queries q
    set useful = mark_useful.useful, reinforced = was_reinforced or coalesce(mark_useful.useful, false)
    where q.id = mark_useful.query_id;
    -- Said twice, or taken back and said again, reinforced once.
    if mark_useful.useful and not was_reinforced then
        update public.memory_associations a
        set strength = least(1, a.strength + 0.1), updated_at = now()
        where a.memory_id = any(retrieved) and a.related_memory_id = any(retrieved);
    end if;
end
$$;
comment on function public.mark_useful is 'Judges a retrieval. Useful: the associations among what was retrieved gain 0.1, once.';

create function public.cleanup_expired_memory(max_rows integer default null) returns bigint
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    with expired as (
        select m.id from public.agent_memory m
        where m.expires_at <= now()
        order by m.expires_at
        limit max_rows
        for update skip locked
    ), gone as (
        delete from public.agent_memory m using expired e where m.id = e.id returning 1
    )
    select count(*) from gone
$$;
comment on function public.cleanup_expired_memory is 'Deletes memories past their expires_at and returns how many; links go with them.';
