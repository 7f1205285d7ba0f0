-- What a dream knows of its own insights and of the use of memories: what an insight was drawn from and by
-- whom, until when it was compared with what happened later, when it was resolved, and that it must be drawn
-- again; how often memories are used; since when a link rests; and what the language model was asked.

alter table public.dream_sessions
    drop constraint dream_sessions_started_by_check,
    add constraint dream_sessions_started_by_check check (started_by in ('idle', 'overdue', 'manual')),
    add column insights_judged integer not null default 0,
    add column insights_redrawn integer not null default 0,
    add column links_faded integer not null default 0,
    add column queries_until timestamptz;
comment on column public.dream_sessions.insights_judged is
    'Insights of earlier dreams whose confidence changed by what happened since.';
comment on column public.dream_sessions.insights_redrawn is
    'Insights that were drawn again, or deleted, because memories that they were drawn from changed or went.';
comment on column public.dream_sessions.links_faded is
    'Links that lost strength because no retrieval brought both of their memories.';
comment on column public.dream_sessions.started_by is
    'idle: nothing was asked for some hours; overdue: the fleet was never idle for so long; '
    'manual: it was requested.';
comment on column public.dream_sessions.queries_until is
    'Until when the retrievals in memory_queries were counted as use of memories and links.';

alter table public.dream_insights
    add column topic text[] not null default '{}',
    add column written_by text,
    add column sources_hash bytea,
    add column evidence_until timestamptz,
    add column judged_until timestamptz,
    add column resolved_at timestamptz,
    add column stale boolean not null default false;
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
create index dream_insights_sources on public.dream_insights using gin (source_memories);
create index dream_insights_stale on public.dream_insights (generated_at) where stale;

alter table public.memory_chunks add column situation text;
comment on column public.memory_chunks.situation is
    'The last line of context, where a language model wrote it; empty: it had nothing to say; '
    'null: it was not asked.';

alter table public.memory_associations add column rested_at timestamptz not null default now();
comment on column public.memory_associations.rested_at is
    'When a retrieval last brought both of its memories, or when it last faded.';

create table memoryd.memory_uses (
    memory_id uuid primary key references public.agent_memory (id) on delete cascade,
    uses real not null,
    used_at timestamptz not null
);
comment on table memoryd.memory_uses is
    'How often a memory was retrieved, by its places in the retrievals; counts half as much after 30 days. '
    'Memories without a row were never retrieved.';

create table memoryd.model_calls (
    hour timestamptz primary key,
    calls integer not null,
    tokens bigint not null default 0
);
comment on table memoryd.model_calls is 'What the language model was asked in an hour, by all daemons.';
