-- Search by nearness alone: match_memory() and search_shared_knowledge(). A row is as near as its nearest
-- passage: by the cosine to an embedding that is given, by the calibrated similarity to a text (query) that
-- is embedded here. Where the database cannot embed it, since its embeddings are a remote model's, a row is
-- as near as it has words of the text.

-- The embedding to compare with: the one given, or that of the text given, exactly one of the two. Null where
-- the database cannot embed the text: then it is searched by words (memoryd.matches). Refuses arguments that
-- neither of the two functions can work with.
create or replace function memoryd.embedding_to_match(
    p_embedding vector, p_query text, p_threshold double precision, p_count integer) returns vector
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    dimensions constant integer := memoryd.searched_dimensions();
    made vector := p_embedding;
begin
    if p_query is not null then
        if p_embedding is not null then
            raise exception 'both query and query_embedding are given'
                using errcode = 'invalid_parameter_value', hint = 'Give one of them, the other is null.';
        end if;
        made := memoryd.vector_of_question(p_query);
    end if;
    if made is null and p_query is null then
        raise exception 'query_embedding is null'
            using errcode = 'null_value_not_allowed',
                  hint = 'Give the embedding of what you look for, or its text (query => ''...''); '
                         'recall() takes words.';
    end if;
    if vector_dims(made) <> dimensions then
        raise exception 'query_embedding has % dimensions, this database %',
                        vector_dims(made), dimensions
            using errcode = 'invalid_parameter_value',
                  hint = 'Embed the query with the embedder that memoryd runs with (MEMORYD_EMBEDDER).';
    end if;
    if p_threshold is null or not (p_threshold between -1 and 1 or p_threshold = '-infinity') then
        raise exception 'match_threshold is %', coalesce(p_threshold::text, 'null')
            using errcode = 'invalid_parameter_value', hint = 'Give a similarity from -1 to 1.';
    end if;
    if p_count is null or p_count < 0 then
        raise exception 'match_count is %', coalesce(p_count::text, 'null')
            using errcode = 'invalid_parameter_value', hint = 'Give how many results you want, 0 or more.';
    end if;
    return made;
end
$$;

-- The words of a question that a text has, as lexemes of the question's language. It runs with the owner's
-- rights since callers have none to the functions of lexemes, and reads nothing but its arguments.
create or replace function memoryd.words_shared(p_query text, p_text text) returns text[]
language plpgsql immutable parallel safe security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    language constant text := memoryd.language_of(left(p_query, 8192), null);
begin
    return array(
        select l from unnest(tsvector_to_array(memoryd.lexemes_in(left(p_query, 8192), language))) l
        intersect
        select l from unnest(tsvector_to_array(memoryd.lexemes_in(left(p_text, 8192), language))) l);
end
$$;

-- The rows of a source in a scope that are nearer to an embedding than p_threshold, with their similarity: at
-- most p_count; where no threshold is given (-infinity), those that are about what is asked, by the
-- calibrated similarity: a cosine of 0.3 with the local model, of 0.82 with one whose unrelated texts have
-- 0.75. Of small scopes all passages are compared, of big ones those that are nearest by code. Nothing of a
-- scope that is not the caller's own. p_query: the text of the embedding, if it was made here. Then of the
-- rows that no daemon has come to yet those that share a word with it are embedded here, too.
create or replace function memoryd.nearest_in_scope(
    p_source text, p_scope bigint, p_embedding vector, p_query text, p_threshold double precision,
    p_count integer)
returns table (id uuid, similarity double precision)
language plpgsql stable security definer
set search_path = pg_catalog, public, :vector_schema, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set max_parallel_workers_per_gather = 0
as $$
#variable_conflict use_column
declare
    caller constant memoryd.caller := memoryd.current_caller();
    own constant record := memoryd.calibration();
    sought constant halfvec := l2_normalize(p_embedding)::halfvec;
    code_sought constant bit varying := memoryd.signs_of(sought);
    reach constant bigint := greatest(2000, 20::bigint * p_count);
    scale record := memoryd.calibration();
begin
    if p_query is null then
        select 0::double precision as background, 1::double precision as unit into scale;
    end if;
    if not caller.privileged
       and (caller.user_id is null or p_scope <> memoryd.scope_of(caller.user_id, null)) then
        return;
    end if;
    return query
    select n.id, m.similarity
    from (select e.id, max(1 - (e.embedding <=> sought)) as cosine
          from (select t.ctid from memoryd.entries t
                where t.scope = p_scope and t.source = p_source and t.code is not null
                order by t.code <~> code_sought
                limit reach) c
          join memoryd.entries e on e.ctid = c.ctid
          group by e.id
          union all
          -- Rows that came a moment ago with an embedding.
          select r.id, 1 - (r.given_embedding <=> p_embedding)
          from memoryd.unindexed u
          cross join lateral (
              select t.id, t.given_embedding from memoryd.searchable t
              where t.source = p_source and t.id = u.id
          ) r
          where u.scope = p_scope and u.source = p_source and u.given
          union all
          select f.id, 1 - (memoryd.embed(f.text) <=> p_embedding)
          from (select t.id, left(t.searched_text, 1200) as text
                from (select u.id from memoryd.unindexed u
                      where p_query is not null and u.scope = p_scope and u.source = p_source and not u.given
                      limit 200) u
                cross join lateral (
                    select r.id, r.searched_text from memoryd.searchable r
                    where r.source = p_source and r.id = u.id
                    offset 0) t
                where memoryd.words_shared(p_query, t.searched_text) <> '{}'
                offset 0) f) n
    cross join lateral (
        select memoryd.calibrated(n.cosine, scale.background, scale.unit) as similarity offset 0) m
    where case when p_threshold = '-infinity'
               then memoryd.calibrated(n.cosine, own.background, own.unit) > 0.3
               else m.similarity > p_threshold end
    order by m.similarity desc;
end
$$;

-- The rows of a source that recall finds by the words of a question, with how many of these each has, as part
-- of those that the best row has, if it is more than p_threshold. So the best rows pass every threshold below
-- one: a threshold is meant for similarities, and few rows have most words of a question. p_user null: of any
-- user.
create or replace function memoryd.matched_by_words(
    p_source text, p_user uuid, p_query text, p_filter jsonb, p_threshold double precision, p_count integer)
returns table (id uuid, similarity double precision)
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
begin
    return query
    with found as materialized (
        select s.id, memoryd.words_shared(
                   p_query, concat_ws(' ', s.metadata ->> 'title', s.content, s.metadata ->> 'tags')) as words
        from memoryd.search(memoryd.recall_request(
            'recall', p_query, null, p_user, null, greatest(200, p_count), array[p_source], p_filter, '{}')) s
        where s.lexical > 0
    )
    select f.id, p.similarity
    from found f
    cross join (select max(cardinality(o.words)) as words from found o) c
    cross join lateral (
        select coalesce(cardinality(f.words) / nullif(c.words, 0)::double precision, 0) as similarity) p
    where p.similarity > p_threshold;
end
$$;

-- Rows of a source that are near to an embedding, or without one to the words of a text: where no threshold
-- is given, those that have most of the words. p_filter: what the metadata that recall shows contain.
create or replace function memoryd.matches(
    p_source text, p_user uuid, p_scope bigint, p_embedding vector, p_query text, p_filter jsonb,
    p_threshold double precision, p_count integer)
returns table (id uuid, similarity double precision)
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
begin
    if p_embedding is null then
        return query
        select n.* from memoryd.matched_by_words(
            p_source, p_user, p_query, jsonb_strip_nulls(p_filter),
            case when p_threshold = '-infinity' then 0.7 else p_threshold end, p_count) n;
    else
        return query
        select n.* from memoryd.nearest_in_scope(
            p_source, p_scope, p_embedding, p_query, p_threshold, p_count) n;
    end if;
end
$$;

-- Refuses a type of memory that there is not. Null is one only where p_any.
create or replace function memoryd.check_memory_type(p_type text, p_any boolean) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    if (p_type is null and not p_any)
       or p_type not in ('brand_memory', 'user_preferences', 'competitive_memory', 'task_memory',
                         'performance_memory') then
        raise exception 'unknown memory_type %', coalesce(quote_literal(left(p_type, 100)), 'null')
            using errcode = 'invalid_parameter_value',
                  hint = 'Types: brand_memory, user_preferences, competitive_memory, task_memory, '
                         'performance_memory' || case when p_any then '; or null for all.' else '.' end;
    end if;
end
$$;

-- Runs with the caller's rights: row-level security decides which users' memories the caller may search.
create or replace function public.match_memory(
    query_embedding vector default null,
    match_threshold double precision default '-infinity',
    match_count integer default 5,
    memory_type text default null,
    filter_user_id uuid default memoryd.caller_id(),
    query text default null
) returns table (id uuid, content text, similarity double precision, metadata jsonb, created_at timestamptz)
language plpgsql volatile
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
#variable_conflict use_column
declare
    began constant timestamptz := clock_timestamp();
    found_rows bigint;
    wanted constant vector := memoryd.embedding_to_match(
        match_memory.query_embedding, match_memory.query, match_memory.match_threshold,
        match_memory.match_count);
begin
    perform memoryd.check_memory_type(match_memory.memory_type, true);
    if match_memory.filter_user_id is null or memoryd.memory_is_off(match_memory.filter_user_id) then
        return;
    end if;
    return query
    select s.id, s.content, s.similarity, s.metadata, s.created_at
    from (
        select m.id, m.content, n.similarity, m.metadata, m.created_at
        from memoryd.matches(
            'memory', match_memory.filter_user_id, memoryd.scope_of(match_memory.filter_user_id, null),
            wanted, match_memory.query, jsonb_build_object('memory_type', match_memory.memory_type),
            match_memory.match_threshold, match_memory.match_count) n
        join public.agent_memory m on m.id = n.id
        where m.user_id = match_memory.filter_user_id
          and (match_memory.memory_type is null or m.memory_type = match_memory.memory_type)
          and (m.expires_at is null or m.expires_at > now())
          and memoryd.is_current(m.superseded_by, m.valid_to)
    ) s
    order by s.similarity desc, s.created_at desc, s.id
    limit match_memory.match_count;
    get diagnostics found_rows = row_count;
    perform memoryd.audit_read(
        match_memory.filter_user_id, null, 'match_memory', found_rows::integer, memoryd.ms_since(began));
end
$$;
comment on function public.match_memory(vector, double precision, integer, text, uuid, text) is
    'A user''s memories nearest to an embedding or a text, most similar first; row-level security decides '
    'whose. With a remote embedder a text is compared by its words.';

-- What the team knows has no owner: only the service may search it, each organisation its own.
create or replace function public.search_shared_knowledge(
    query_embedding vector default null,
    match_threshold double precision default '-infinity',
    match_count integer default 10,
    filter_tier text default null,
    filter_category text default null,
    filter_tags text[] default null,
    exclude_archived boolean default true,
    query text default null
) returns table (id uuid, tier text, category text, title text, content text, created_by_name text,
                 confidence text, tags text[], similarity double precision, created_at timestamptz)
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
#variable_conflict use_column
declare
    wanted constant vector := memoryd.embedding_to_match(
        search_shared_knowledge.query_embedding, search_shared_knowledge.query,
        search_shared_knowledge.match_threshold, search_shared_knowledge.match_count);
begin
    if search_shared_knowledge.filter_tier not in ('core', 'working', 'learning') then
        raise exception 'unknown tier %', quote_literal(search_shared_knowledge.filter_tier)
            using errcode = 'invalid_parameter_value',
                  hint = 'Tiers: core, working, learning; or null for all.';
    end if;
    return query
    select s.id, s.tier, s.category, s.title, s.content, s.created_by_name, s.confidence, s.tags,
           s.similarity, s.created_at
    from (
        select k.*, n.similarity
        from memoryd.matches(
            'knowledge', null, memoryd.org_scope(memoryd.caller_org()), wanted, search_shared_knowledge.query,
            jsonb_build_object('tier', search_shared_knowledge.filter_tier,
                               'category', search_shared_knowledge.filter_category),
            search_shared_knowledge.match_threshold, search_shared_knowledge.match_count) n
        join public.shared_knowledge k on k.id = n.id
        where k.org_id is not distinct from memoryd.caller_org()
          and (search_shared_knowledge.filter_tier is null or k.tier = search_shared_knowledge.filter_tier)
          and (search_shared_knowledge.filter_category is null
               or k.category = search_shared_knowledge.filter_category)
          and (search_shared_knowledge.filter_tags is null or k.tags && search_shared_knowledge.filter_tags)
          and (k.status <> 'archived' or not coalesce(search_shared_knowledge.exclude_archived, true))
    ) s
    order by s.similarity desc, s.created_at desc, s.id
    limit search_shared_knowledge.match_count;
end
$$;
comment on function public.search_shared_knowledge(vector, double precision, integer, text, text, text[],
    boolean, text) is
    'What the team knows nearest to an embedding or a text, most similar first; archived entries only when '
    'asked for, and not by words. With a remote embedder a text is compared by its words.';
