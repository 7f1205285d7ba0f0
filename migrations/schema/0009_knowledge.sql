-- What a team of agents knows: one row an entry. Agents alone read and write it.

create table public.shared_knowledge (
    id uuid primary key default gen_random_uuid(),
    org_id uuid,
    tier text not null check (
        tier in ('core', 'working', 'learning')
        or memoryd.refuse('unknown tier ' || quote_literal(tier), 'Tiers: core, working, learning.')),
    category text not null check (
        category ~ '\S'
        or memoryd.refuse('category is blank',
                          'Such as principle, procedure, team, client; project, thread, commitment; '
                          'decision, correction, insight, outcome.')),
    title text not null check (
        title ~ '\S' or memoryd.refuse('title is blank', 'A short title that one would search for.')),
    content text not null check (content ~ '\S' or memoryd.refuse('content is blank', 'Say what is known.')),
    created_by text not null check (
        created_by ~ '\S' or memoryd.refuse('created_by is blank', 'Say which agent wrote it.')),
    created_by_name text,
    source text,
    confidence text not null default 'high' check (
        confidence in ('high', 'medium', 'low')
        or memoryd.refuse('unknown confidence ' || quote_literal(confidence),
                          'Confidences: high, medium, low.')),
    surprise_score double precision check (
        surprise_score between 0 and 1
        or memoryd.refuse('surprise_score is ' || surprise_score, 'From 0 to 1.')),
    tags text[] not null default '{}',
    related_ids uuid[] not null default '{}' check (
        array_position(related_ids, null) is null
        or memoryd.refuse('related_ids holds a null', 'Give ids of shared_knowledge.')),
    decision_context jsonb,
    outcome jsonb,
    status text not null default 'active' check (
        status in ('active', 'resolved', 'archived')
        or memoryd.refuse('unknown status ' || quote_literal(status),
                          'Statuses: active, resolved, archived.')),
    resolved_at timestamptz,
    accessed_count integer not null default 0 check (
        accessed_count >= 0
        or memoryd.refuse('accessed_count is ' || accessed_count, '0 or more; touch_knowledge(id) counts.')),
    last_accessed_at timestamptz,
    expires_at timestamptz,
    created_at timestamptz not null default now() check (memoryd.time_fits('created_at', created_at)),
    updated_at timestamptz not null default now(),
    constraint not_related_to_itself check (
        id = any (related_ids) is not true
        or memoryd.refuse('knowledge ' || id || ' is related to itself',
                          'related_ids are ids of other entries.'))
);
comment on table public.shared_knowledge is
    'What the team knows: share knowledge, not identity. Agents alone read and write it.';
comment on column public.shared_knowledge.tier is
    'core: always kept; working: of a project or thread; learning: decisions, corrections, insights, '
    'outcomes.';
comment on column public.shared_knowledge.source is 'Who or what it was learned from.';
comment on column public.shared_knowledge.surprise_score is '0 (expected) to 1; null for core and working.';
comment on column public.shared_knowledge.related_ids is
    'Entries that belong to it; one that is deleted is removed from here too.';
comment on column public.shared_knowledge.decision_context is
    'Of a decision: reasoning, alternatives, assumptions, kill_criteria.';
comment on column public.shared_knowledge.outcome is 'Of a decision: result, scored_at, success, notes.';
comment on column public.shared_knowledge.accessed_count is 'How often it was used; touch_knowledge counts.';
comment on column public.shared_knowledge.created_by is
    'The agent that wrote it, by agent_id; a uuid as text is allowed too.';
comment on column public.shared_knowledge.expires_at is
    'Of learning entries of low confidence: after 7 days unless given; null: never. Those that are unused '
    'by then are archived.';
create index shared_knowledge_tier on public.shared_knowledge (tier, category);
create index shared_knowledge_tags on public.shared_knowledge using gin (tags);
create index shared_knowledge_status on public.shared_knowledge (status);
create index shared_knowledge_author on public.shared_knowledge (created_by);
create index shared_knowledge_related on public.shared_knowledge using gin (related_ids)
    where related_ids <> '{}';
create index shared_knowledge_expiring on public.shared_knowledge (expires_at)
    where expires_at is not null and status <> 'archived';
