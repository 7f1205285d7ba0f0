-- Recall: what is remembered about a question in all sources, in one call. Each call is put on record.

-- Whether a row that was found may be shown in the current context. Knowledge names none.
create or replace function memoryd.row_in_context(p_source text, p_id uuid) returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return case
        when memoryd.current_context() is null then true
        when p_source = 'memory' then memoryd.in_context(
            (select m.metadata from public.agent_memory m where m.id = p_id))
        when p_source = 'conversation' then memoryd.in_context(
            (select m.metadata from public.conversation_messages m where m.id = p_id))
        when p_source = 'document' then memoryd.in_context(
            (select c.metadata from public.memory_chunks c where c.id = p_id))
        when p_source = 'insight' then memoryd.drawn_in_context(
            (select i.source_memories from public.dream_insights i where i.id = p_id))
        else true end;
end
$$;

-- memoryd.search() in a context (null: in the current one, if there is one). What a search runs over is not
-- only rows of the context, so it is asked for more rows than are shown.
create or replace function memoryd.search_in_context(
    p_context text, p_query text, p_agent text, p_user uuid, p_embedding vector, p_count integer,
    p_sources text[], p_filter jsonb, p_near jsonb default null,
    p_conditions memoryd.conditions default null)
returns table (source text, id uuid, content text, score double precision, similarity double precision,
               metadata jsonb, created_at timestamptz, lexical double precision, dense double precision,
               prior double precision, named double precision, timed double precision,
               session double precision, relevance double precision, weight double precision,
               recency double precision, association double precision)
language plpgsql volatile
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
#variable_conflict use_column
declare
    before constant text := memoryd.enter_context(p_context);
begin
    if memoryd.current_context() is null then
        return query
        select * from memoryd.search(
            p_query, p_agent, p_user, p_embedding, p_count, p_sources, p_filter, p_near, p_conditions);
        return;
    end if;
    return query
    select s.*
    from memoryd.search(
        p_query, p_agent, p_user, p_embedding,
        case when p_count > 0 then greatest(p_count, 1000) else p_count end,
        p_sources, p_filter, p_near, p_conditions) s
    where memoryd.row_in_context(s.source, s.id)
    limit nullif(greatest(p_count, 0), 0);
    perform set_config('memoryd.context', before, true);
end
$$;

-- memoryd.search_in_context() with options (known_options() of 'recall_with'). With `around`, messages that
-- are found come as pieces of their conversation, each as good as its best message; so more are searched for
-- than are shown.
create or replace function memoryd.search_with(
    p_options jsonb, p_query text, p_agent text, p_user uuid, p_embedding vector, p_count integer,
    p_sources text[], p_filter jsonb, p_near jsonb default null)
returns table (source text, id uuid, content text, score double precision, similarity double precision,
               metadata jsonb, created_at timestamptz, lexical double precision, dense double precision,
               prior double precision, named double precision, timed double precision,
               session double precision, relevance double precision, weight double precision,
               recency double precision, association double precision)
language plpgsql volatile
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
#variable_conflict use_column
declare
    context_before constant text := memoryd.enter_context(p_options ->> 'context');
    conditions constant memoryd.conditions := memoryd.conditions_of(p_options);
    around constant integer := coalesce((p_options ->> 'around')::integer, 0);
    reach constant integer := case when around = 0 then p_count else least(3 * p_count::bigint, 1000) end;
    min_score constant double precision := coalesce((p_options ->> 'min_score')::double precision, 0);
begin
    if around > 0 and p_count > 1000 then
        raise exception 'match_count is %', p_count
            using errcode = 'invalid_parameter_value',
                  hint = 'With around at most 1000 results are put together.';
    end if;
    if around = 0 then
        return query
        select s.*
        from memoryd.search_in_context(
            null, p_query, p_agent, p_user, p_embedding, p_count, p_sources, p_filter, p_near, conditions) s
        where s.score >= min_score;
    else
        return query
        with found as materialized (
            select s.*, row_number() over () as place
            from memoryd.search_in_context(
                null, p_query, p_agent, p_user, p_embedding, reach, p_sources, p_filter, p_near,
                conditions) s
            where s.score >= min_score
        ), messages as materialized (
            select array_agg(f.id order by f.place) as ids from found f where f.source = 'conversation'
        ), pieces as materialized (
            select m.ids[p.number] as id, p.content, p.message_ids
            from messages m
            cross join lateral memoryd.show_pieces(m.ids, around, conditions, p_agent, p_user) p
        )
        select f.source, f.id, coalesce(p.content, f.content), f.score, f.similarity,
               f.metadata || coalesce(jsonb_build_object('message_ids', p.message_ids), '{}'),
               f.created_at, f.lexical, f.dense, f.prior, f.named, f.timed, f.session, f.relevance, f.weight,
               f.recency, f.association
        from found f
        left join pieces p on p.id = f.id
        where f.source <> 'conversation' or p.id is not null
        order by f.place
        limit p_count;
    end if;
    perform set_config('memoryd.context', context_before, true);
end
$$;

create or replace function memoryd.check_min_score(p_score double precision) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    if p_score is null or not p_score between 0 and 1 then
        raise exception 'min_score is %', coalesce(p_score::text, 'null')
            using errcode = 'invalid_parameter_value',
                  hint = 'Give a score from 0 to 1, such as 0.35; docs/retrieval.md says what it cuts.';
    end if;
end
$$;

-- search_with(), put on record: in the audit trail that the memory was read, and in memory_queries what was
-- found.
create or replace function memoryd.search_and_log(
    p_options jsonb, p_query text, p_agent text, p_user uuid, p_embedding vector, p_count integer,
    p_sources text[], p_filter jsonb, p_near jsonb default null)
returns table (source text, id uuid, content text, score double precision, similarity double precision,
               metadata jsonb, created_at timestamptz)
language plpgsql volatile
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    began constant timestamptz := clock_timestamp();
    memories uuid[] := '{}';
    scores double precision[] := '{}';
    knowledge uuid[] := '{}';
    insights uuid[] := '{}';
    number integer := 0;
begin
    for source, id, content, score, similarity, metadata, created_at in
        select s.source, s.id, s.content, s.score, s.similarity, s.metadata, s.created_at
        from memoryd.search_with(
            p_options, p_query, p_agent, p_user, p_embedding, p_count, p_sources, p_filter, p_near) s
    loop
        number := number + 1;
        if source = 'memory' then
            memories := memories || id;
            scores := scores || score;
        elsif source = 'knowledge' then
            knowledge := knowledge || id;
        elsif source = 'insight' then
            insights := insights || id;
        end if;
        return next;
    end loop;
    perform memoryd.note_read(
        coalesce(p_user, memoryd.caller_id()), p_agent, 'recall', number, memoryd.ms_since(began));
    perform memoryd.log_recall(p_agent, p_user, p_query, memories, scores, knowledge, insights);
end
$$;

create or replace function public.recall(
    query text,
    agent_id text default null,
    user_id uuid default null,
    query_embedding vector default null,
    match_count integer default 10,
    sources text[] default null,
    filter jsonb default '{}'
) returns table (source text, id uuid, content text, score double precision, similarity double precision,
                 metadata jsonb, created_at timestamptz)
language plpgsql volatile
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
#variable_conflict use_column
begin
    return query
    select s.*
    from memoryd.search_and_log(
        '{}', recall.query, recall.agent_id, recall.user_id,
        coalesce(recall.query_embedding,
                 memoryd.embed_question(recall.query, recall.agent_id, recall.user_id)),
        recall.match_count, recall.sources, recall.filter) s;
end
$$;
comment on function public.recall is
    'What is remembered about a query, best first. With a remote embedder give query_embedding for the '
    'dense half; with the local one the database embeds the query. '
    'Row-level security decides what is found.';

-- Functions of their own, and not arguments of recall(): a function with other arguments is another one, and
-- the views and grants that users have made for recall() would not survive it.
create or replace function public.recall_above(
    min_score double precision,
    query text,
    agent_id text default null,
    user_id uuid default null,
    query_embedding vector default null,
    match_count integer default 10,
    sources text[] default null,
    filter jsonb default '{}'
) returns table (source text, id uuid, content text, score double precision, similarity double precision,
                 metadata jsonb, created_at timestamptz)
language plpgsql volatile
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
#variable_conflict use_column
begin
    perform memoryd.check_min_score(recall_above.min_score);
    return query
    select r.*
    from public.recall(
        recall_above.query, recall_above.agent_id, recall_above.user_id, recall_above.query_embedding,
        recall_above.match_count, recall_above.sources, recall_above.filter) r
    where r.score >= recall_above.min_score;
end
$$;
comment on function public.recall_above is
    'recall() without results whose score is below min_score (0 to 1): nothing, where nothing fits.';

create or replace function public.recall_with(
    options jsonb,
    query text,
    agent_id text default null,
    user_id uuid default null,
    query_embedding vector default null,
    match_count integer default 10,
    sources text[] default null,
    filter jsonb default '{}'
) returns table (source text, id uuid, content text, score double precision, similarity double precision,
                 metadata jsonb, created_at timestamptz)
language plpgsql volatile
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
#variable_conflict use_column
begin
    perform memoryd.check_options('recall_with', recall_with.options);
    return query
    select s.*
    from memoryd.search_and_log(
        coalesce(recall_with.options, '{}'), recall_with.query, recall_with.agent_id, recall_with.user_id,
        coalesce(recall_with.query_embedding,
                 memoryd.embed_question(recall_with.query, recall_with.agent_id, recall_with.user_id)),
        recall_with.match_count, recall_with.sources, recall_with.filter) s;
end
$$;
comment on function public.recall_with is
    'recall() with options: exclude_session and exclude_last (the conversation that is going on), since, '
    'until, roles, speakers, around (messages beside those found), context, min_score.';

create or replace function public.recall_in_context(
    context text,
    query text,
    agent_id text default null,
    user_id uuid default null,
    query_embedding vector default null,
    match_count integer default 10,
    sources text[] default null,
    filter jsonb default '{}'
) returns table (source text, id uuid, content text, score double precision, similarity double precision,
                 metadata jsonb, created_at timestamptz)
language plpgsql volatile
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
#variable_conflict use_column
declare
    before constant text := memoryd.enter_context(recall_in_context.context);
begin
    return query
    select r.*
    from public.recall(
        recall_in_context.query, recall_in_context.agent_id, recall_in_context.user_id,
        recall_in_context.query_embedding, recall_in_context.match_count, recall_in_context.sources,
        recall_in_context.filter) r;
    perform set_config('memoryd.context', before, true);
end
$$;
comment on function public.recall_in_context is
    'recall() where the caller is (a project, a channel, a group chat): nothing whose metadata name another '
    'context.';

create or replace function public.explain_recall(
    query text,
    agent_id text default null,
    user_id uuid default null,
    query_embedding vector default null,
    match_count integer default 10,
    sources text[] default null,
    filter jsonb default '{}'
) returns table (source text, id uuid, content text, score double precision, lexical double precision,
                 dense double precision, prior double precision, named double precision,
                 timed double precision, session double precision, relevance double precision,
                 weight double precision, recency double precision, association double precision)
language plpgsql volatile
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
#variable_conflict use_column
declare
    began constant timestamptz := clock_timestamp();
    found_rows integer;
begin
    return query
    select s.source, s.id, s.content, s.score, s.lexical, s.dense, s.prior, s.named, s.timed, s.session,
           s.relevance, s.weight, s.recency, s.association
    from memoryd.search_in_context(
        null, explain_recall.query, explain_recall.agent_id, explain_recall.user_id,
        coalesce(explain_recall.query_embedding,
                 memoryd.embed_question(
                     explain_recall.query, explain_recall.agent_id, explain_recall.user_id)),
        explain_recall.match_count, explain_recall.sources, explain_recall.filter) s;
    get diagnostics found_rows = row_count;
    perform memoryd.note_read(
        coalesce(explain_recall.user_id, memoryd.caller_id()), explain_recall.agent_id, 'explain_recall',
        found_rows, memoryd.ms_since(began));
end
$$;
comment on function public.explain_recall is
    'recall() with what each part contributed: relevance from lexical to session, '
    'then score = min(1, relevance x weight + recency + association).';
