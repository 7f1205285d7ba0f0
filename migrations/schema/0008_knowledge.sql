-- What a team of agents knows: one row an entry. Agents alone read and write it.

-- The scope in which the knowledge of an organisation (null: of all who name none) is searched.
create function memoryd.org_scope(p_org uuid) returns bigint
language sql immutable parallel safe
return hashtextextended('knowledge of ' || coalesce(p_org::text, 'no organisation'), 0);

-- The names that an entry of knowledge gives: of clients, people and what is worked on. Its tags, and its
-- title up to a colon, a dash or a bracket, if these are at most three words; in lower case.
create function memoryd.names_of(p_tier text, p_category text, p_title text, p_tags text[]) returns text[]
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select coalesce(array_agg(distinct n.name), '{}')
    from (
        select lower(btrim(regexp_replace(left(t, 60), '[\s_-]+', ' ', 'g'))) as name from unnest(p_tags) t
        union all
        select w.words
        from (select lower(regexp_replace(btrim(regexp_replace(left(p_title, 100), '\s*([:(–—]| - ).*$', '')),
                                          '\s+', ' ', 'g')) as whole) h
        cross join lateral (values
            (h.whole),
            (regexp_replace(h.whole, '^the | (project|client|team|account)$', '', 'g'))) as w(words)
        where cardinality(string_to_array(h.whole, ' ')) <= 3
    ) n
    where ((p_tier = 'core' and p_category ~ '^(client|team)') or p_tier = 'working')
      and length(n.name) between 2 and 60
$$;

-- What an entry of knowledge may name: the runs of up to three words that its title writes with capital
-- letters, in lower case. Which of them are names is for memoryd.title_names() to say.
-- The cost is what a title takes: no plan may compute it for all rows.
create function memoryd.capital_runs(p_title text) returns text[]
language plpgsql immutable parallel safe cost 5000
set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select coalesce(array_agg(distinct lower(r.run)), '{}')
        from regexp_matches(regexp_replace(left(p_title, 300), '\s+', ' ', 'g'),
                            '\m[[:upper:]][[:alnum:]-]+(?: [[:upper:]][[:alnum:]-]+)*', 'g') m(m)
        cross join lateral (
            select t.word, t.word || ' ' || lead(t.word) over w as two,
                   t.word || ' ' || lead(t.word) over w || ' ' || lead(t.word, 2) over w as three
            from string_to_table(m.m[1], ' ') with ordinality as t(word, nth)
            window w as (order by t.nth)) w
        cross join lateral unnest(array[w.word, w.two, w.three]) as r(run)
        where r.run is not null);
end
$$;

create table public.shared_knowledge (
    id uuid primary key default gen_random_uuid(),
    org_id uuid default memoryd.caller_org(),
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
    embedding vector,
    last_modified_human timestamptz,
    said_again integer not null default 0,
    scope bigint not null generated always as (memoryd.org_scope(org_id)) stored,
    constraint not_related_to_itself check (
        id = any (related_ids) is not true
        or memoryd.refuse('knowledge ' || id || ' is related to itself',
                          'related_ids are ids of other entries.')),
    constraint shared_knowledge_content_size check (memoryd.text_fits('content', content, 10000000)),
    constraint shared_knowledge_category_size check (memoryd.text_fits('category', category, 10000)),
    constraint shared_knowledge_title_size check (memoryd.text_fits('title', title, 10000)),
    constraint shared_knowledge_created_by_size check (memoryd.text_fits('created_by', created_by, 10000)),
    constraint shared_knowledge_created_by_name_size
        check (memoryd.text_fits('created_by_name', created_by_name, 10000)),
    constraint shared_knowledge_source_size check (memoryd.text_fits('source', source, 10000)),
    constraint shared_knowledge_decision_context_size
        check (memoryd.json_fits('decision_context', decision_context)),
    constraint shared_knowledge_outcome_size check (memoryd.json_fits('outcome', outcome)),
    constraint shared_knowledge_tags_size check (memoryd.list_fits('tags', tags)),
    constraint shared_knowledge_related_ids_size check (memoryd.list_fits('related_ids', related_ids))
) with (toast_tuple_target = 8160);
comment on table public.shared_knowledge is
    'What the team knows: share knowledge, not identity. Agents alone read and write it.';
comment on column public.shared_knowledge.org_id is
    'The organisation that it belongs to; null: the one of all who name none.';
comment on column public.shared_knowledge.tier is
    'core: always kept; working: of a project or thread; learning: decisions, corrections, insights, '
    'outcomes.';
comment on column public.shared_knowledge.created_by is
    'The agent that wrote it, by agent_id; a uuid as text is allowed too.';
comment on column public.shared_knowledge.source is 'Who or what it was learned from.';
comment on column public.shared_knowledge.surprise_score is
    '0 (known already) to 1 (new): how little of it was known when it was written. Computed unless given.';
comment on column public.shared_knowledge.related_ids is
    'Entries that belong to it; of a correction those that it corrects, of an outcome its decision. One that '
    'is deleted is removed from here too.';
comment on column public.shared_knowledge.decision_context is
    'Of a decision: reasoning, alternatives, assumptions, kill_criteria, review_by.';
comment on column public.shared_knowledge.outcome is
    'Of a decision or an outcome: result, scored_at, success, notes; of a decision also scored_by, the id of '
    'the outcome.';
comment on column public.shared_knowledge.accessed_count is
    'How often it was used; touch_knowledge counts.';
comment on column public.shared_knowledge.expires_at is
    'Of learning entries of low confidence: after 7 days unless given; null: never. Those that are unused '
    'by then are archived.';
comment on column public.shared_knowledge.embedding is
    'Given by the writer, or null: then memoryd embeds title, content and tags, in memoryd.entries.';
comment on column public.shared_knowledge.last_modified_human is
    'When a human last changed it in the replica.';
comment on column public.shared_knowledge.said_again is
    'How often note_knowledge() was given what this entry says already, and strengthened it instead of '
    'storing it again.';
comment on column public.shared_knowledge.scope is 'The body of text that it is searched in.';
create index shared_knowledge_tier on public.shared_knowledge (tier, category);
create index shared_knowledge_tags on public.shared_knowledge using gin (tags);
create index shared_knowledge_status on public.shared_knowledge (status);
create index shared_knowledge_author on public.shared_knowledge (created_by);
create index shared_knowledge_related on public.shared_knowledge using gin (related_ids)
    where related_ids <> '{}';
create index shared_knowledge_expiring on public.shared_knowledge (expires_at)
    where expires_at is not null and status <> 'archived';
create index shared_knowledge_names on public.shared_knowledge
    using gin (memoryd.names_of(tier, category, title, tags)) where tier <> 'learning';

-- Entries that say the very same, in one organisation.
create index shared_knowledge_text on public.shared_knowledge (
    hashtextextended(title || E'\n' || content, 0));

-- The newest decisions.
create index shared_knowledge_decisions on public.shared_knowledge (created_at desc)
    where category = 'decision';
create index shared_knowledge_capitals on public.shared_knowledge using gin (memoryd.capital_runs(title))
    with (fastupdate = off);
create index shared_knowledge_updated on public.shared_knowledge (updated_at) where status <> 'archived';
