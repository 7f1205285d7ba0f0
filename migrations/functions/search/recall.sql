-- Recall: what is remembered about a question in all sources, in one call. Three layers:
--   entry   recall(), explain_recall() and requests of kind recall: arguments and options are checked and
--           become one memoryd.search_request (recall_request); what was read is put on record (log_recall)
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
    advice text;
    made memoryd.search_request;
begin
    perform memoryd.refuse(f.fault, f.hint)
    from memoryd.fault_of_options('recall', options, p_call) f where f.fault is not null;
    if options <> '{}' then
        made := jsonb_populate_record(made, options);
    end if;
    made.query := p_query;
    made.agent := p_agent;
    made.about := p_user;
    made.embedding := p_embedding;
    made.near := p_near;
    made.count := p_count;
    made.sources := p_sources;
    made.filter := coalesce(p_filter, '{}');
    made.conditions := memoryd.conditions_of(options);
    made.explained := p_call = 'explain_recall';
    -- An upgrade locks the table of logins first: whoever waits for it there has locked nothing.
    perform memoryd.caller_id();
    if made.count is null or made.count < 0 then
        fault := 'match_count is ' || coalesce(made.count::text, 'null');
        advice := 'Give how many results you want, 0 or more.';
    elsif made.around > 0 and made.count > 1000 then
        fault := 'match_count is ' || made.count;
        advice := 'With around at most 1000 results are put together.';
    elsif cardinality(made.sources) > 100 then
        fault := 'sources has ' || cardinality(made.sources) || ' entries';
    elsif not made.sources <@ known or array_position(made.sources, null) is not null then
        fault := 'unknown source ' || (
            select coalesce(s, 'null') from unnest(made.sources) s
            where s <> all (known) or s is null limit 1);
    elsif jsonb_typeof(made.filter) <> 'object' then
        fault := 'filter is of type ' || jsonb_typeof(made.filter);
        advice := 'Give an object that the metadata contain, such as {"kind": "fact"}.';
    elsif made.embedding is not null
        and vector_dims(made.embedding) <> memoryd.searched_dimensions() then
        fault := 'query_embedding has ' || vector_dims(made.embedding)
            || ' dimensions, this database''s have ' || memoryd.searched_dimensions();
        advice := 'Embed the query with the model that the rows are embedded with.';
    end if;
    if fault is not null then
        raise exception '%', fault
            using errcode = 'invalid_parameter_value',
                  hint = coalesce(advice, 'Sources: ' || array_to_string(known, ', ') || '.');
    end if;
    return made;
end
$$;

-- Puts the results of a request on record: in the audit trail that the memory was read, and in
-- memory_queries what was found. Support, and an end user without an id, write nothing there.
create or replace function memoryd.log_recall(
    p_request memoryd.search_request, p_found memoryd.search_result[], p_began timestamptz) returns void
language plpgsql volatile
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    caller constant memoryd.caller := memoryd.current_caller();
    found record;
begin
    perform memoryd.audit_read(
        coalesce(p_request.about, caller.user_id), p_request.agent, 'recall', cardinality(p_found),
        memoryd.ms_since(p_began));
    if current_setting('transaction_read_only') = 'off'
       and (caller.is_service or not caller.privileged and caller.user_id is not null) then
        select array_agg(f.source) as sources, array_agg(f.id) as ids, array_agg(f.score) as scores
        into found from unnest(p_found) f;
        perform set_config('memoryd.last_recall', coalesce(memoryd.log_retrieval(
            memoryd.one_line(left(p_request.agent, 200)),
            case when caller.privileged then p_request.about else caller.user_id end, null,
            public.extract_keywords(left(p_request.query, 8192)), '{}', null, found.sources, found.ids,
            found.scores)::text, ''), false);
    end if;
end
$$;

-- The results of a request, put on record: for an answer, in whose statement it stands.
create or replace function memoryd.recall_and_log(p_request memoryd.search_request)
returns setof memoryd.search_result
language plpgsql volatile
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    began constant timestamptz := clock_timestamp();
    found constant memoryd.search_result[] := array(select s from memoryd.search(p_request) s);
begin
    perform memoryd.log_recall(p_request, found, began);
    return query select f.* from unnest(found) f;
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
    began constant timestamptz := clock_timestamp();
    request constant memoryd.search_request := memoryd.recall_request(
        'recall', recall.query, recall.agent_id, recall.user_id, recall.query_embedding, recall.match_count,
        recall.sources, recall.filter, recall.options);
    found constant memoryd.search_result[] := array(select s from memoryd.search(request) s);
begin
    return query
    select r.source, r.id, r.content, r.score,
           case when recall.query_embedding is null then memoryd.calibrated(r.similarity, 0, 1)
                else k.background + r.similarity * k.unit end,
           r.metadata, r.created_at
    from unnest(found) r cross join memoryd.calibration() k;
    perform memoryd.log_recall(request, found, began);
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
        'relevance x weight + recency + association). options: ' || options || '.');
end
$$;
