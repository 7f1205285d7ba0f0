-- Recall: what is remembered about a question in all sources, in one call. Three layers:
--   entry   recall(), explain_recall() and requests of kind recall: arguments and options are checked and
--           become one memoryd.search_request (recall_request); what was read is put on record
--           (recall_and_log)
--   search  search.sql: the best rows, what is linked to them, their contents, the messages around them
--   find    search.sql: with the owner's rights, which rows answer. From the question to words and weights
--           (question.sql), the passages that these and the embedding lead to (candidates.sql), and their
--           order (rank.sql)

-- What a recall asks for. Refuses what no search can follow. p_call: the function that is called (null: it
-- is a request, whose options have no arguments beside them). p_near: see memoryd.question().
create or replace function memoryd.recall_request(
    p_call text, p_query text, p_agent text, p_user uuid, p_embedding vector, p_count integer,
    p_sources text[], p_filter jsonb, p_options jsonb, p_near jsonb default null)
returns memoryd.search_request
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    options constant jsonb := coalesce(p_options, '{}');
    known constant text[] := memoryd.source_names();
    fault text;
    made memoryd.search_request;
begin
    perform memoryd.refuse(f.fault, f.hint)
    from memoryd.fault_of_options('recall', options, p_call) f where f.fault is not null;
    if options <> '{}' then
        made := jsonb_populate_record(made, options);
    end if;
    -- An upgrade locks the table of logins first: whoever waits for it there has locked nothing.
    perform memoryd.caller_id();
    select p_query, p_agent, p_user, p_embedding, p_near, p_count, p_sources, coalesce(p_filter, '{}'),
           memoryd.conditions_of(options), p_call = 'explain_recall'
    into made.query, made.agent, made.about, made.embedding, made.near, made.count, made.sources, made.filter,
         made.conditions, made.explained;
    fault := case
        when p_count is null or p_count < 0 or made.around > 0 and p_count > 1000
            then 'match_count is ' || coalesce(p_count::text, 'null')
        when cardinality(p_sources) > 100 then 'sources has ' || cardinality(p_sources) || ' entries'
        when not p_sources <@ known or array_position(p_sources, null) is not null
            then 'unknown source ' || coalesce((
                select s from unnest(p_sources) s where s <> all (known) limit 1), 'null')
        when jsonb_typeof(made.filter) <> 'object' then 'filter is of type ' || jsonb_typeof(made.filter)
        when p_embedding is not null and vector_dims(p_embedding) <> memoryd.searched_dimensions()
            then 'query_embedding has ' || vector_dims(p_embedding) || ' dimensions, this database''s have '
                || memoryd.searched_dimensions() end;
    if fault is not null then
        raise exception '%', fault
            using errcode = 'invalid_parameter_value', hint = case
                when p_count > 1000 and fault like 'match_count%'
                    then 'With around at most 1000 results are put together.'
                when fault like 'match_count%' then 'Give how many results you want, 0 or more.'
                when fault like 'filter%' then
                    'Give an object that the metadata contain, such as {"kind": "fact"}.'
                when fault like 'query_embedding%' then
                    'Embed the query with the model that the rows are embedded with.'
                else 'Sources: ' || array_to_string(known, ', ') || '.' end;
    end if;
    return made;
end
$$;

-- Puts on record what a request that began then has brought: in the audit trail that the memory was read, and
-- in memory_queries what was found. Support, and an end user without an id, write nothing there.
create or replace function memoryd.log_recall(
    p_request memoryd.search_request, p_results memoryd.search_result[], p_began timestamptz) returns void
language plpgsql volatile
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    caller constant memoryd.caller := memoryd.current_caller();
    found record;
begin
    perform memoryd.audit_read(
        coalesce(p_request.about, caller.user_id), p_request.agent, 'recall', cardinality(p_results),
        memoryd.ms_since(p_began));
    if current_setting('transaction_read_only') = 'off'
       and (caller.is_service or not caller.privileged and caller.user_id is not null) then
        select array_agg(f.source) as sources, array_agg(f.id) as ids, array_agg(f.score) as scores
        into found from unnest(p_results) f;
        perform set_config('memoryd.last_recall', coalesce(memoryd.log_retrieval(
            memoryd.one_line(left(p_request.agent, 200)),
            case when caller.privileged then p_request.about else caller.user_id end, null,
            public.extract_keywords(left(p_request.query, 8192)), '{}', null, found.sources, found.ids,
            found.scores)::text, ''), false);
    end if;
end
$$;

-- The results of a request, put on record.
create or replace function memoryd.recall_and_log(p_request memoryd.search_request)
returns setof memoryd.search_result
language plpgsql volatile
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    began constant timestamptz := clock_timestamp();
    results constant memoryd.search_result[] := array(select s from memoryd.search(p_request) s);
begin
    return query select f.* from unnest(results) f;
    perform memoryd.log_recall(p_request, results, began);
end
$$;

create or replace function public.recall(
    query text,
    agent_id text default null,
    user_id uuid default null,
    query_embedding vector default null,
    match_count integer default 10,
    sources text[] default null,
    filter jsonb default '{}',
    options jsonb default '{}'
) returns table (source text, id uuid, content text, score double precision, similarity double precision,
                 metadata jsonb, created_at timestamptz)
language plpgsql volatile
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    -- First, since it waits for an upgrade.
    request constant memoryd.search_request := memoryd.recall_request(
        'recall', recall.query, recall.agent_id, recall.user_id, recall.query_embedding, recall.match_count,
        recall.sources, recall.filter, recall.options);
begin
    return query
    select r.source, r.id, r.content, r.score,
           case when recall.query_embedding is not null then k.background + r.similarity * k.unit
                when r.similarity is not null then greatest(-1, least(1, r.similarity)) end,
           r.metadata, r.created_at
    from memoryd.recall_and_log(request) r cross join memoryd.calibration() k;
end
$$;

create or replace function public.explain_recall(
    query text,
    agent_id text default null,
    user_id uuid default null,
    query_embedding vector default null,
    match_count integer default 10,
    sources text[] default null,
    filter jsonb default '{}',
    options jsonb default '{}'
) returns table (source text, id uuid, content text, score double precision, lexical double precision,
                 dense double precision, prior double precision, named double precision,
                 timed double precision, session double precision, relevance double precision,
                 weight double precision, recency double precision, association double precision,
                 left_out text, reason text)
language plpgsql volatile
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    began constant timestamptz := clock_timestamp();
    found_rows integer;
begin
    return query
    select s.source, s.id, s.content, s.score, s.lexical, s.dense, s.prior, s.named, s.timed, s.session,
           s.relevance, s.weight, s.recency, s.association, s.left_out,
           case when s.shares = 3 then 'of that time' end
    from memoryd.search(memoryd.recall_request(
        'explain_recall', explain_recall.query, explain_recall.agent_id, explain_recall.user_id,
        explain_recall.query_embedding, explain_recall.match_count, explain_recall.sources,
        explain_recall.filter, explain_recall.options)) s;
    get diagnostics found_rows = row_count;
    perform memoryd.audit_read(
        coalesce(explain_recall.user_id, memoryd.caller_id()), explain_recall.agent_id, 'explain_recall',
        found_rows, memoryd.ms_since(began));
end
$$;

do $$
declare
    options constant text := (
        select string_agg(o.name, ', ') from memoryd.options() o where o.recall and not o.argument);
    arguments constant text := '(text, text, uuid, vector, integer, text[], jsonb, jsonb)';
begin
    execute format('comment on function public.recall%s is %L', arguments,
        'What is remembered about a query, best first. With a remote embedder give query_embedding for the '
        'dense half; with the local one the database embeds the query. Row-level security decides what is '
        'found. options: ' || options || '.');
    execute format('comment on function public.explain_recall%s is %L', arguments,
        'recall() with what each part contributed: relevance from lexical to session, then score = min(1, '
        'relevance x weight + recency + association), by words alone never above a better one. options: '
        || options || '.');
end
$$;
