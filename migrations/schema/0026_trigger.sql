-- What the log of retrievals says of the patterns of a message and of knowledge that was used, and the indexes by
-- which names in a message are found.

alter table public.memory_queries add column patterns text[] not null default '{}';
alter table public.memory_queries add column reason text;
alter table public.memory_queries add column knowledge_ids uuid[] not null default '{}';
alter table public.memory_queries add column knowledge_counted boolean not null default false;
alter table public.memory_queries add constraint memory_queries_patterns_size
    check (memoryd.list_fits('patterns', patterns)) not valid;
alter table public.memory_queries add constraint memory_queries_reason_size
    check (memoryd.text_fits('reason', reason, 200)) not valid;
alter table public.memory_queries add constraint memory_queries_knowledge_ids_size
    check (memoryd.list_fits('knowledge_ids', knowledge_ids)) not valid;
comment on column public.memory_queries.patterns is
    'Of a context: which patterns the message showed (classify_message), or task.';
comment on column public.memory_queries.reason is 'Of a context: why nothing was searched; null: it was.';
comment on column public.memory_queries.knowledge_ids is
    'Of a context or a recall: the entries of shared_knowledge in it.';
comment on column public.memory_queries.knowledge_counted is
    'Whether the uses in knowledge_ids are in accessed_count already.';
create index memory_queries_uncounted on public.memory_queries (query_time)
    where knowledge_ids <> '{}' and not knowledge_counted;

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
create index shared_knowledge_names on public.shared_knowledge
    using gin (memoryd.names_of(tier, category, title, tags)) where tier <> 'learning';
create index agents_name on public.agents (lower(agent_id));

-- A line that may stand in a context, with what it is of. why: the reason where it does not stand there.
create type memoryd.context_line as (
    source text,
    kind text,
    id uuid,
    scope bigint,
    score double precision,
    created_at timestamptz,
    trust text,
    content text,
    line text,
    why text
);
