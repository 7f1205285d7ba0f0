-- What a search is for, and what it brings: two types, so that functions/search hands each down as one value.

-- The conditions of the options, beside the filter on metadata. project: where the question is asked.
alter type memoryd.conditions add attribute project text;

-- What is asked (memoryd.recall_request makes it), and what the caller may search of it (memoryd.find sets
-- these: it runs with the owner's rights, and overwrites what a client has put there).
create type memoryd.search_request as (
    query text,
    agent text,
    -- The user who is asked about. Null: any, or nobody where an agent is named.
    about uuid,
    -- The user for whom a service asks: with this user's rights.
    on_behalf uuid,
    -- Null: memoryd.find() embeds the query, where the database can.
    embedding vector,
    -- Neighbours of words that are not in the lexicon: see memoryd.question().
    near jsonb,
    count bigint,
    sources text[],
    filter jsonb,
    conditions memoryd.conditions,
    min_score double precision,
    around integer,
    -- From here on set by memoryd.find. Whose rights decide what is found: a service that asks about a user
    -- has that user's.
    reader memoryd.caller,
    access public.user_memory_access,
    -- Null: all.
    scopes bigint[],
    -- Those of the scopes that are of groups.
    groups bigint[],
    -- Whether only rows without an owner are asked for.
    unowned boolean,
    -- How many passages are looked at.
    reach integer
);

-- A row that was found, with each part of its score (functions/search/rank.sql says what they are).
create type memoryd.search_result as (
    source text,
    id uuid,
    content text,
    score double precision,
    similarity double precision,
    metadata jsonb,
    created_at timestamptz,
    lexical double precision,
    dense double precision,
    prior double precision,
    named double precision,
    timed double precision,
    session double precision,
    relevance double precision,
    weight double precision,
    recency double precision,
    association double precision,
    -- 2: it has a word asked for that hardly any row has. 1: it has others, or they are near or beside it.
    shares integer
);

-- Functions whose arguments are others now: without this the old ones would remain beside the new, and a
-- name without its arguments would stand for two.
do $$
declare
    each record;
begin
    for each in
        select p.oid::regprocedure as name, p.pronamespace = 'memoryd'::regnamespace as inner_one
        from pg_proc p
        where p.pronamespace in ('public'::regnamespace, 'memoryd'::regnamespace)
          and p.proname in ('recall', 'explain_recall', 'build_context', 'explain_context', 'search', 'find',
                            'candidate_memories', 'best_memories', 'score_memories', 'insight_lines',
                            'memory_lines', 'older_memories', 'linked_rows', 'show_pieces', 'log_recall',
                            'check_options', 'option_fits', 'fault_of_options', 'check_search', 'access_of',
                            'in_project', 'drawn_in_project', 'may_find')
          and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')
    loop
        execute 'drop function ' || each.name || case when each.inner_one then ' cascade' else '' end;
    end loop;
end
$$;
