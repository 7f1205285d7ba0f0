-- Recall: what is remembered about a question in all sources, in one call. Each call is put on record.

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
declare
    began constant timestamptz := clock_timestamp();
    found_rows integer;
begin
    return query
    select s.source, s.id, s.content, s.score, s.similarity, s.metadata, s.created_at
    from memoryd.search(
        recall.query, recall.agent_id, recall.user_id,
        coalesce(recall.query_embedding,
                 memoryd.embed_question(recall.query, recall.agent_id, recall.user_id)),
        recall.match_count, recall.sources, recall.filter) s;
    get diagnostics found_rows = row_count;
    perform memoryd.note_read(
        coalesce(recall.user_id, memoryd.caller_id()), recall.agent_id, 'recall', found_rows,
        memoryd.ms_since(began));
end
$$;
comment on function public.recall is
    'What is remembered about a query, best first. With a remote embedder give query_embedding for the '
    'dense half; with the local one the database embeds the query. '
    'Row-level security decides what is found.';

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
                 session double precision, relevance double precision, weight double precision,
                 recency double precision, association double precision)
language plpgsql volatile
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
#variable_conflict use_column
declare
    began constant timestamptz := clock_timestamp();
    found_rows integer;
begin
    return query
    select s.source, s.id, s.content, s.score, s.lexical, s.dense, s.prior, s.named, s.session,
           s.relevance, s.weight, s.recency, s.association
    from memoryd.search(
        explain_recall.query, explain_recall.agent_id, explain_recall.user_id,
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
