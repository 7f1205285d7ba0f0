-- What agents remember (agent_memory), links between memories (memory_associations), the log of what was
-- retrieved (memory_queries), and dreams with what they concluded (dream_sessions, dream_insights).

-- The first 20 distinct words of three letters and more, in order, without stop words. A function in SQL, so
-- that a memory has its keywords as soon as it is inserted, whoever inserts it and whether or not a daemon
-- runs. Separators are listed one by one and every other character above ASCII counts as a letter: the result
-- is the same under every locale. The words of the daemon's own sentences ("Task ... completed") are no
-- keywords.
create function public.extract_keywords(body text) returns text[]
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    keywords text[] := '{}';
    word text;
begin
    -- A loop, which takes less time than a query for each row.
    foreach word in array string_to_array(
        regexp_replace(
            lower(left(coalesce(body, ''), 4000)),
            '[\x01-\x2f\x3a-\x60\x7b-\xbf\u2000-\u206f\u3000-\u303f]+', ' ', 'g'),
        ' ')
    loop
        if length(word) between 3 and 60 and rtrim(word, '0123456789') <> '' and word <> all (keywords)
           and word <> all ('{
            about,after,again,all,also,and,any,are,because,been,before,being,between,both,but,can,could,did,
            does,doing,done,down,during,each,few,for,from,further,get,got,had,has,have,having,her,here,hers,
            him,his,how,into,its,itself,just,let,may,might,more,most,must,nor,not,now,off,once,only,other,
            our,ours,out,over,own,per,same,shall,she,should,some,such,than,that,the,their,theirs,them,then,
            there,these,they,this,those,through,too,under,until,upon,use,used,using,very,via,was,were,what,
            when,where,which,while,who,whom,why,will,with,would,you,your,yours,
            task,completed,failed,exit}'::text[]) then
            keywords := keywords || word;
            exit when cardinality(keywords) = 20;
        end if;
    end loop;
    return keywords;
end
$$;
comment on function public.extract_keywords is
    'The first 20 distinct keywords of a text: lower case, 3 letters and more, no stop words.';

-- A scope is a body of text that is searched as one: a user's rows, an agent's own, or (0) what is shared.
create function memoryd.scope_of(p_user uuid, p_agent text) returns bigint
language sql immutable parallel safe
return case when p_user is not null then hashtextextended('user ' || p_user::text, 0)
            when p_agent is not null then hashtextextended('agent ' || p_agent, 0)
            else 0 end;

-- A text without what does not make it another: capital letters, white space, and marks between its words.
-- A question mark and a minus do.
create function memoryd.said_key(p_kind text, p_project text, p_text text) returns uuid
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select md5(concat_ws(E'\n', p_kind, p_project, btrim(regexp_replace(
        lower(p_text), '[\s.,;:!…"“”„‘’«»()]+', ' ', 'g'))))::uuid
$$;

-- A writer may give an embedding, with any number of dimensions: a trigger (memoryd.check_embedding) compares
-- it with the model that recall uses.
-- toast_tuple_target: rows stay inline up to a page. To fetch an embedding from the TOAST table costs ten
-- times as much.
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
    embedding vector,
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
    updated_at timestamptz not null default now() check (memoryd.time_fits('updated_at', updated_at)),
    scope bigint not null generated always as (memoryd.scope_of(user_id, agent_id)) stored,
    last_modified_human timestamptz,
    valid_from timestamptz,
    valid_to timestamptz,
    superseded_by uuid,
    text_changed_at timestamptz,
    said_key uuid check (said_key = memoryd.said_key(kind, metadata ->> 'project', content)),
    constraint agent_memory_content_size check (memoryd.text_fits('content', content, 10000000)),
    constraint agent_memory_source_size check (memoryd.text_fits('source', source, 10000)),
    constraint agent_memory_metadata_size check (memoryd.json_fits('metadata', metadata)),
    constraint agent_memory_valid_from_check check (memoryd.time_fits('valid_from', valid_from)),
    constraint agent_memory_valid_to_check check (memoryd.time_fits('valid_to', valid_to)
           and (valid_to >= valid_from or valid_to is null or valid_from is null
                or memoryd.refuse('valid_to is before valid_from',
                                  'A memory ends when it begins, or later.')))
) with (toast_tuple_target = 8160);
comment on table public.agent_memory is
    'What agents remember. agent_id ''_shared'' is readable by every agent.';
comment on column public.agent_memory.embedding is
    'Given by the writer, or null: then memoryd embeds the content, in memoryd.entries.';
comment on column public.agent_memory.command_id is
    'The command whose outcome this is; a command is remembered once.';
comment on column public.agent_memory.ttl_hours is
    'Hours until it is forgotten, counted from when it is stored; null = permanent. Default by kind: '
    'outcome, error, observation 72; task_memory 2160; else permanent.';
comment on column public.agent_memory.scope is
    'The body of text it is searched in: its user''s, else its agent''s, else 0, which is shared.';
comment on column public.agent_memory.last_modified_human is 'When a human last changed it in the replica.';
comment on column public.agent_memory.valid_from is 'Since when it is true; null: since created_at.';
comment on column public.agent_memory.valid_to is
    'Until when it was true; null: it still is. Set with superseded_by, unless the writer gives a time.';
comment on column public.agent_memory.superseded_by is
    'The memory that has replaced it. Such a memory is in no recall and no context; it stays, also when the '
    'one that replaced it is deleted.';
comment on column public.agent_memory.text_changed_at is
    'When the text was changed last; null: at updated_at.';
comment on column public.agent_memory.said_key is
    'What remember() was given, as a hash: by it the same text is not stored again. Null: the row was '
    'written in another way, or was changed.';

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
-- By this remember() finds, also while others write, what says the same.
create unique index agent_memory_said on public.agent_memory (scope, agent_id, said_key)
    where said_key is not null;
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
    rested_at timestamptz not null default now(),
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
comment on column public.memory_associations.rested_at is
    'When a retrieval last brought both of its memories, or when it last faded.';
create index memory_associations_related on public.memory_associations (related_memory_id);
create index memory_associations_weak on public.memory_associations (strength) where strength < 0.15;

-- A dream looks for links that nothing has used for a week: few of them, in a big table.
create index memory_associations_resting on public.memory_associations (rested_at) where automatic;

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
    reinforced boolean not null default false,
    patterns text[] not null default '{}',
    reason text,
    knowledge_ids uuid[] not null default '{}',
    knowledge_counted boolean not null default false,
    insight_ids uuid[] not null default '{}',
    constraint memory_queries_agent_id_size check (memoryd.text_fits('agent_id', agent_id, 200)),
    constraint memory_queries_task_keywords_size check (memoryd.list_fits('task_keywords', task_keywords)),
    constraint memory_queries_retrieved_memory_ids_size
        check (memoryd.list_fits('retrieved_memory_ids', retrieved_memory_ids)),
    constraint memory_queries_relevance_scores_size
        check (memoryd.list_fits('relevance_scores', relevance_scores)),
    constraint memory_queries_patterns_size check (memoryd.list_fits('patterns', patterns)),
    constraint memory_queries_reason_size check (memoryd.text_fits('reason', reason, 200)),
    constraint memory_queries_knowledge_ids_size check (memoryd.list_fits('knowledge_ids', knowledge_ids)),
    constraint memory_queries_insight_ids_size check (memoryd.list_fits('insight_ids', insight_ids))
);
comment on table public.memory_queries is
    'Every retrieval: what was asked for and what came back. Judge it with mark_useful(id, true).';
comment on column public.memory_queries.patterns is
    'Of a context: which patterns the message showed (classify_message), or task.';
comment on column public.memory_queries.reason is 'Of a context: why nothing was searched; null: it was.';
comment on column public.memory_queries.knowledge_ids is
    'Of a context or a recall: the entries of shared_knowledge in it.';
comment on column public.memory_queries.knowledge_counted is
    'Whether the uses in knowledge_ids and insight_ids are in accessed_count already.';
comment on column public.memory_queries.insight_ids is 'Of a context or a recall: the insights in it.';
create index memory_queries_time on public.memory_queries (query_time);
create index memory_queries_command on public.memory_queries (command_id) where command_id is not null;
create index memory_queries_user on public.memory_queries (user_id) where user_id is not null;
create index memory_queries_uncounted on public.memory_queries (query_time)
    where (knowledge_ids <> '{}' or insight_ids <> '{}') and not knowledge_counted;

create table memoryd.memory_uses (
    memory_id uuid primary key references public.agent_memory (id) on delete cascade,
    uses real not null,
    used_at timestamptz not null
);
comment on table memoryd.memory_uses is
    'How often a memory was retrieved, by its places in the retrievals; counts half as much after 30 days. '
    'Memories without a row were never retrieved.';
comment on column memoryd.memory_uses.uses is
    'Sum over retrievals of 1 / rank, three times as much where it was judged useful, as of used_at.';
comment on column memoryd.memory_uses.used_at is 'When it was last retrieved.';

create table public.dream_sessions (
    id uuid primary key default gen_random_uuid(),
    started_by text not null check (started_by in ('idle', 'overdue', 'manual')),
    status text not null default 'running' check (status in ('running', 'completed', 'interrupted')),
    started_at timestamptz not null default now(),
    finished_at timestamptz,
    memories_scanned integer not null default 0,
    clusters_found integer not null default 0,
    insights_generated integer not null default 0,
    associations_pruned integer not null default 0,
    lease_until timestamptz not null default now(),
    insights_judged integer not null default 0,
    insights_redrawn integer not null default 0,
    links_faded integer not null default 0,
    queries_until timestamptz
);
comment on table public.dream_sessions is 'Every dream, with what it saw and wrote.';
comment on column public.dream_sessions.started_by is
    'idle: nothing was asked for some hours; overdue: the fleet was never idle for so long; '
    'manual: it was requested.';
comment on column public.dream_sessions.insights_judged is
    'Insights of earlier dreams whose confidence changed by what happened since.';
comment on column public.dream_sessions.insights_redrawn is
    'Insights that were drawn again, or deleted, because memories that they were drawn from changed or went.';
comment on column public.dream_sessions.links_faded is
    'Links that lost strength because no retrieval brought both of their memories.';
comment on column public.dream_sessions.queries_until is
    'Until when the retrievals in memory_queries were counted as use of memories and links.';

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
    embedding vector,
    keywords text[] generated always as (public.extract_keywords(insight)) stored,
    generated_at timestamptz not null default now(),
    dream_id uuid references public.dream_sessions (id) on delete set null,
    scope bigint not null generated always as (
        memoryd.scope_of(user_id, coalesce(agent_id, '_shared'))) stored,
    last_modified_human timestamptz,
    topic text[] not null default '{}',
    written_by text,
    sources_hash bytea,
    evidence_until timestamptz,
    judged_until timestamptz,
    resolved_at timestamptz,
    stale boolean not null default false,
    accessed_count integer not null default 0,
    last_accessed_at timestamptz
) with (toast_tuple_target = 8160);
comment on table public.dream_insights is
    'What dreams concluded. agent_id is null where the memories came from several agents.';
comment on column public.dream_insights.user_id is
    'The one user whose memories it was drawn from; null for the agents'' own. Users are never mixed.';
comment on column public.dream_insights.embedding is
    'Given by the writer, or null: then memoryd embeds the insight, in memoryd.entries.';
comment on column public.dream_insights.scope is 'The body of text that it is searched in.';
comment on column public.dream_insights.last_modified_human is
    'When a human last changed it in the replica. Dreams leave the text of such an insight as it is.';
comment on column public.dream_insights.topic is
    'The keywords that its memories share: later memories with these speak for or against it.';
comment on column public.dream_insights.written_by is
    'The language model that wrote the text; null: a rule.';
comment on column public.dream_insights.sources_hash is
    'A hash of the memories that it was drawn from: the same memories are not put to a language model twice.';
comment on column public.dream_insights.evidence_until is 'When the newest of its memories was created.';
comment on column public.dream_insights.judged_until is
    'Memories that were created until then have been held against it.';
comment on column public.dream_insights.resolved_at is
    'Of an insight about failures: when the same succeeded, and has not failed since; else null.';
comment on column public.dream_insights.stale is
    'One of its memories was deleted or changed: nobody finds it until a dream has drawn it again.';
comment on column public.dream_insights.accessed_count is
    'How many contexts and recalls of its user (of none, where it has none) brought it; counted in batches.';
comment on column public.dream_insights.last_accessed_at is 'When one last did.';
create index dream_insights_scope on public.dream_insights (agent_id, confidence desc);
create index dream_insights_generated on public.dream_insights (generated_at);
create index dream_insights_user on public.dream_insights (user_id) where user_id is not null;
create index dream_insights_sources on public.dream_insights using gin (source_memories);
create index dream_insights_stale on public.dream_insights (generated_at) where stale;
