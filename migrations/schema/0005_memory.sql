-- What agents remember (agent_memory), links between memories (memory_associations), the log of what was
-- retrieved (memory_queries), and dreams with what they concluded (dream_sessions, dream_insights).

-- The first 20 distinct words of three letters and more, in order, without stop words. A function in SQL, so
-- that a memory has its keywords as soon as it is inserted, whoever inserts it and whether or not a daemon
-- runs. Separators are listed one by one and every other character above ASCII counts as a letter: the result
-- is the same under every locale. The words of the daemon's own sentences ("Task ... completed") are no
-- keywords.
create function public.extract_keywords(body text) returns text[]
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select coalesce(array_agg(k.word order by k.place), '{}')
    from (
        select w.word, min(w.place) as place
        from string_to_table(
            regexp_replace(
                lower(left(body, 4000)),
                '[\x01-\x2f\x3a-\x60\x7b-\xbf\u2000-\u206f\u3000-\u303f]+', ' ', 'g'),
            ' '
        ) with ordinality as w(word, place)
        where length(w.word) between 3 and 60
          and w.word ~ '[^0-9]'
          and w.word <> all ('{
              about,after,again,all,also,and,any,are,because,been,before,being,between,both,but,can,could,did,
              does,doing,done,down,during,each,few,for,from,further,get,got,had,has,have,having,her,here,hers,
              him,his,how,into,its,itself,just,let,may,might,more,most,must,nor,not,now,off,once,only,other,
              our,ours,out,over,own,per,same,shall,she,should,some,such,than,that,the,their,theirs,them,then,
              there,these,they,this,those,through,too,under,until,upon,use,used,using,very,via,was,were,what,
              when,where,which,while,who,whom,why,will,with,would,you,your,yours,
              task,completed,failed,exit}'::text[])
        group by w.word
        order by 2
        limit 20
    ) k
$$;
comment on function public.extract_keywords is
    'The first 20 distinct keywords of a text: lower case, 3 letters and more, no stop words.';

create table public.agent_memory (
    id uuid primary key default gen_random_uuid(),
    agent_id text not null check (
        memoryd.agent_id_fits(agent_id, 'An agent_id has 1 to 200 characters; _shared is for every agent.')),
    user_id uuid,
    session_id uuid,
    kind text not null default 'note' check (
        kind in ('observation', 'outcome', 'fact', 'error', 'goal', 'note')
        or memoryd.refuse('unknown kind ' || quote_literal(kind),
                          'Kinds: observation, outcome, fact, error, goal, note.')),
    memory_type text check (
        memory_type in ('brand_memory', 'user_preferences', 'competitive_memory', 'task_memory',
                        'performance_memory')
        or memoryd.refuse('unknown memory_type ' || quote_literal(memory_type),
                          'Types: brand_memory, user_preferences, competitive_memory, task_memory, '
                          'performance_memory; or null.')),
    content text not null check (
        content ~ '\S' or memoryd.refuse('content is blank', 'Say what is to be remembered.')),
    embedding vector(:dimensions),
    keywords text[] generated always as (public.extract_keywords(content)) stored,
    metadata jsonb not null default '{}',
    source text,
    command_id uuid,
    -- Null is permanent. The default is a marker: trigger stamp_expiry replaces it by the default of the
    -- memory's kind.
    ttl_hours integer default -2147483648 check (
        ttl_hours > 0
        or memoryd.refuse('ttl_hours is ' || ttl_hours,
                          'Hours from 1 on; null for a memory that is never forgotten.')),
    expires_at timestamptz,
    created_at timestamptz not null default now() check (memoryd.time_fits('created_at', created_at)),
    updated_at timestamptz not null default now() check (memoryd.time_fits('updated_at', updated_at))
);
comment on table public.agent_memory is
    'What agents remember. agent_id ''_shared'' is readable by every agent.';
comment on column public.agent_memory.ttl_hours is
    'Hours until it is forgotten, counted from when it is stored; null = permanent. Default by kind: '
    'outcome, error, observation 72; task_memory 2160; else permanent.';
comment on column public.agent_memory.command_id is
    'The command whose outcome this is; a command is remembered once.';
comment on column public.agent_memory.embedding is
    'Written by memoryd; null until indexed. Give your own only if it comes from the same model.';

-- The newest memories of an agent. Those without a user have an index of their own: within an index that
-- begins with user_id, `user_id is null` does not keep the order.
create index agent_memory_recent on public.agent_memory (agent_id, created_at desc, id desc)
    where user_id is null;
create index agent_memory_agent on public.agent_memory (agent_id, user_id, created_at desc, id desc);

-- By time alone. It is an expression so that no query for the newest memories of one agent uses this index:
-- the planner would do so where it expects that agent to have many, and would read the whole table where
-- there are none.
create index agent_memory_created on public.agent_memory ((created_at at time zone 'utc'), id);
create index agent_memory_user on public.agent_memory (user_id, memory_type) where user_id is not null;
create index agent_memory_expiring on public.agent_memory (expires_at) where expires_at is not null;
create unique index agent_memory_command on public.agent_memory (command_id) where command_id is not null;

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
        or memoryd.refuse('memory ' || memory_id || ' is linked to itself',
                          'An association joins two different memories.'))
);
comment on table public.memory_associations is 'Links from a memory to earlier ones; strength 0 to 1.';
comment on column public.memory_associations.automatic is
    'Made by memoryd from both memories'' words, at most five a memory; made again when those change. '
    'Others are deleted when those change.';
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
comment on table public.memory_queries is
    'Every retrieval: what was asked for and what came back. Judge it with mark_useful(id, true).';
create index memory_queries_time on public.memory_queries (query_time);
create index memory_queries_command on public.memory_queries (command_id) where command_id is not null;
create index memory_queries_user on public.memory_queries (user_id) where user_id is not null;

create table public.dream_sessions (
    id uuid primary key default gen_random_uuid(),
    started_by text not null check (started_by in ('idle', 'manual')),
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

-- At most one dream runs at a time, whichever daemon runs it. The lease of a daemon that died expires.
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
comment on table public.dream_insights is
    'What dreams concluded. agent_id is null where the memories came from several agents.';
comment on column public.dream_insights.user_id is
    'The one user whose memories it was drawn from; null for the agents'' own. Users are never mixed.';
create index dream_insights_scope on public.dream_insights (agent_id, confidence desc);
create index dream_insights_generated on public.dream_insights (generated_at);
create index dream_insights_user on public.dream_insights (user_id) where user_id is not null;
