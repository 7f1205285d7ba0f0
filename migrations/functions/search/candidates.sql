-- The rows that may answer a question, of all sources at once.
--
-- They are found with the owner's rights: under row-level security Postgres could use no index of words,
-- since the operators of these indexes are not leakproof. Only ids are found this way: in scopes that are
-- open to the caller, and in scope 0 (what is shared) only what the caller is granted. The rows themselves
-- are read with the caller's own rights (memoryd.candidate_rows). Clients can call only the last function
-- of this file, memoryd.find_candidates(), which checks who calls.

-- The sources that have rows in these scopes (null: all), each with the scopes to search. Most scopes have
-- rows in only one or two sources. In p_scopes only messages and chunks are searched, else p_own_scopes:
-- nothing else can be shared with an end user, and what a search costs would tell which words are there.
create or replace function memoryd.sources_present(
    p_sources text[], p_scopes bigint[], p_own_scopes bigint[]) returns table (source text, scopes bigint[])
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
begin
    -- One query for each partial index (rows with a code, rows without lexemes, rows without an embedding),
    -- one step of the index each (offset).
    return query
    select s.source, s.scopes
    from (select p.source,
                 case when p.source in ('conversation', 'document') then p_scopes else p_own_scopes end
          from unnest(p_sources) as p(source)) as s(source, scopes)
    where p_scopes is null
       or exists (select from memoryd.searchable t
                  where t.source = s.source and t.scope = any(s.scopes) and t.code is not null offset 0)
       or exists (select from memoryd.searchable t
                  where t.source = s.source and t.scope = any(s.scopes) and t.lexemes is null offset 0)
       or exists (select from memoryd.searchable t
                  where t.source = s.source and t.scope = any(s.scopes)
                    and t.code is null and t.lexemes is not null offset 0);
end
$$;

-- How many lists of a source's IVFFlat index to probe: as many as contain about 25,000 rows of these
-- scopes, beside the rows of other scopes. Null: compare all codes of the scopes instead. For few rows this
-- costs no more (a code costs two fifths of a row in a list) and finds more. The daemon builds the indexes
-- of big tables, and notes them in memoryd.dense_indexes.
create or replace function memoryd.lists_to_probe(
    p_caller memoryd.caller, p_source text, p_scopes bigint[]) returns integer
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    index memoryd.dense_indexes;
    rows bigint;
begin
    select * into index from memoryd.dense_indexes d where d.source = p_source;
    if not found then
        return null;
    end if;
    rows := case when p_scopes is null then index.rows
                 else memoryd.count_rows(p_caller, p_scopes, p_source) end;
    return case when rows > 250 * sqrt(index.rows)
                then least(index.lists, ceil(index.lists * 25000.0 / rows))::integer end;
end
$$;

-- The nearest rows of one source by the lists of its IVFFlat index. The query is planned for each call and
-- without sorting, so that the plan reads this index: only this index returns the rows in order, and only
-- for the view of one source.
create or replace function memoryd.nearest_by_lists(
    p_caller memoryd.caller, p_access public.user_memory_access, p_source text, p_probes integer,
    p_scopes bigint[], p_embedding vector, p_count integer)
returns uuid[]
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    probes_before constant text := coalesce(current_setting('ivfflat.probes', true), '1');
    nearest uuid[];
begin
    perform set_config('ivfflat.probes', p_probes::text, true), set_config('enable_sort', 'off', true);
    execute format(
        'select array(
             select t.id from memoryd.%I t
             where ($1 is null or t.scope = any($1))
               and memoryd.may_find($2, $3, t.scope, t.owner_id, t.access_level, t.visibility_tags,
                                    t.row_metadata)
             order by (l2_normalize(t.embedding)::halfvec(:dimensions)) <=> $4 limit $5)',
        'source_' || p_source)
    into nearest
    using p_scopes, p_caller, p_access,
          l2_normalize(p_embedding)::halfvec(:dimensions), p_count;
    perform set_config('ivfflat.probes', probes_before, true), set_config('enable_sort', 'on', true);
    return nearest;
end
$$;

-- The nearest rows of one source by code. The codes are read from an index, not from the rows. Each table
-- has a statement of its own, because the union of all sources would be slower: hundreds of thousands of
-- codes may be compared here.
create or replace function memoryd.nearest_by_code(
    p_source text, p_scopes bigint[], p_code bit varying, p_count integer) returns uuid[]
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
begin
    return case p_source
        when 'memory' then array(
            select t.id from public.agent_memory t
            where t.scope = any(p_scopes) and t.code is not null order by t.code <~> p_code limit p_count)
        when 'conversation' then array(
            select t.id from public.conversation_messages t
            where t.scope = any(p_scopes) and t.code is not null order by t.code <~> p_code limit p_count)
        when 'document' then array(
            select t.id from public.memory_chunks t
            where t.scope = any(p_scopes) and t.code is not null order by t.code <~> p_code limit p_count)
        when 'knowledge' then array(
            select t.id from public.shared_knowledge t
            where t.scope = any(p_scopes) and t.code is not null order by t.code <~> p_code limit p_count)
        when 'insight' then array(
            select t.id from public.dream_insights t
            where t.scope = any(p_scopes) and t.code is not null order by t.code <~> p_code limit p_count)
    end;
end
$$;

-- The nearest rows of one source by code, for an end user: in their own scope all rows, in scope 0 (what is
-- shared) only those that they are granted.
create or replace function memoryd.nearest_granted(
    p_caller memoryd.caller, p_access public.user_memory_access, p_source text, p_scopes bigint[],
    p_code bit varying, p_count integer) returns uuid[]
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    own constant uuid[] := memoryd.nearest_by_code(p_source, array_remove(p_scopes, 0), p_code, p_count);
begin
    return array(
        select n.id
        from (
            select t.id, t.code <~> p_code as distance from memoryd.searchable t
            where t.source = p_source and t.id = any(own)
            union all
            (select t.id, t.code <~> p_code from memoryd.searchable t
             where t.source = p_source and t.scope = 0 and t.code is not null
               and memoryd.may_find(
                   p_caller, p_access, t.scope, t.owner_id, t.access_level, t.visibility_tags, t.row_metadata)
             order by 2 limit p_count)
        ) n
        order by n.distance
        limit p_count);
end
$$;

-- The nearest rows of a source by embedding. In small scopes the codes of all rows are compared, then the
-- embeddings of those nearest by code. In big scopes the lists of an index are faster.
create or replace function memoryd.nearest_rows(
    p_caller memoryd.caller, p_access public.user_memory_access, p_source text, p_scopes bigint[],
    p_embedding vector, p_reach integer)
returns uuid[]
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    probes constant integer := memoryd.lists_to_probe(p_caller, p_source, p_scopes);
    -- Computed once: under a generic plan an expression of a parameter is computed for each row.
    code_sought constant bit varying := memoryd.code_of(p_embedding);
    -- This many by code, of which the nearest by embedding are kept: of the nearest ten rows almost none is
    -- missed.
    by_code constant integer := greatest(p_reach, 200);
    keep constant integer := case when p_reach > 200 then p_reach else 64 end;
    near uuid[];
begin
    if probes is not null then
        return memoryd.nearest_by_lists(p_caller, p_access, p_source, probes, p_scopes, p_embedding, keep);
    elsif p_scopes is null then
        near := array(select t.id from memoryd.searchable t
                      where t.source = p_source and t.code is not null
                      order by t.code <~> code_sought limit by_code);
    elsif (p_caller).privileged or 0 <> all (p_scopes) then
        near := memoryd.nearest_by_code(p_source, p_scopes, code_sought, by_code);
    else
        near := memoryd.nearest_granted(p_caller, p_access, p_source, p_scopes, code_sought, by_code);
    end if;
    return array(select t.id from memoryd.searchable t
                 where t.source = p_source and t.id = any(near)
                 order by t.embedding <=> p_embedding
                 limit keep);
end
$$;

-- The rows of a source that the question's words lead to: those with the highest score, in that order. A
-- row that several pairs lead to is contained several times.
create or replace function memoryd.worded_rows(
    p_caller memoryd.caller, p_access public.user_memory_access, p_source text, p_scopes bigint[],
    p_question memoryd.question, p_reach integer)
returns uuid[]
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    terms constant bigint[] := memoryd.keys_of((p_question).words, (p_question).word_scopes, p_scopes);
    pairs constant bigint[] := memoryd.keys_of((p_question).pairs, (p_question).pair_scopes, p_scopes);
    weights constant sparsevec := (p_question).weights;
begin
    return array(
        select l.id
        from (
            (select t.id, t.sparse_embedding from memoryd.searchable t
             where t.source = p_source and memoryd.search_terms(t.scope, t.lexemes) && terms
               and (p_scopes is null or t.scope = any(p_scopes))
               and memoryd.may_find(
                   p_caller, p_access, t.scope, t.owner_id, t.access_level, t.visibility_tags, t.row_metadata)
             limit 4000)
            union all
            (select p.id, p.sparse_embedding
             from generate_series(1, cardinality(pairs), 2) place
             cross join lateral (
                 select t.id, t.sparse_embedding from memoryd.searchable t
                 where t.source = p_source
                   and memoryd.search_terms(t.scope, t.lexemes) @> pairs[place:place + 1]
                   and (p_scopes is null or t.scope = any(p_scopes))
                   and memoryd.may_find(
                       p_caller, p_access, t.scope, t.owner_id, t.access_level, t.visibility_tags,
                       t.row_metadata)
                 limit 1000
             ) p
             limit 2000)
        ) l
        order by l.sparse_embedding <#> weights
        limit p_reach + p_reach / 2);
end
$$;

-- The messages before and after these messages: a question is often answered in the next messages.
create or replace function memoryd.messages_beside(
    p_caller memoryd.caller, p_access public.user_memory_access, p_ids uuid[], p_scopes bigint[])
returns uuid[]
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return array(
        select t.id
        from unnest(p_ids) as w(id)
        join public.conversation_messages m on m.id = w.id
        join public.conversation_messages t
            on t.session_id = m.session_id
           and t.message_index between m.message_index - 1 and m.message_index + 3
        where (p_scopes is null or t.scope = any(p_scopes))
          and memoryd.may_find(
              p_caller, p_access, t.scope, t.user_id, t.access_level, t.visibility_tags, t.metadata));
end
$$;

-- Those of these chunks that belong to a document which is not deleted.
create or replace function memoryd.live_chunks(p_ids uuid[]) returns uuid[]
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return array(
        select c.id
        from public.memory_chunks c
        join public.documents d on d.id = c.document_id
        where c.id = any(p_ids) and d.status <> 'deleted');
end
$$;

-- The rows of one source that may answer the question.
create or replace function memoryd.candidates(
    p_caller memoryd.caller, p_access public.user_memory_access, p_source text, p_scopes bigint[],
    p_question memoryd.question, p_embedding vector, p_reach integer)
returns uuid[]
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    worded constant uuid[] := memoryd.worded_rows(
        p_caller, p_access, p_source, p_scopes, p_question, p_reach);
    nearest uuid[] := '{}';
    beside uuid[] := '{}';
    together uuid[];
begin
    if p_embedding is not null then
        nearest := memoryd.nearest_rows(p_caller, p_access, p_source, p_scopes, p_embedding, p_reach);
    end if;
    if p_source = 'conversation' then
        beside := memoryd.messages_beside(p_caller, p_access, worded[1:80], p_scopes);
    end if;
    together := array(
        select n from unnest(worded || nearest || beside) n
        union
        -- Rows that are not indexed yet, because they were written a moment ago.
        (select t.id from memoryd.searchable t
         where p_scopes is null and t.source = p_source and t.lexemes is null
         limit 200)
        union
        (select t.id from memoryd.searchable t
         where t.source = p_source and t.lexemes is null and t.scope = any(p_scopes)
           and memoryd.may_find(
               p_caller, p_access, t.scope, t.owner_id, t.access_level, t.visibility_tags, t.row_metadata)
         limit 200));
    return case p_source when 'document' then memoryd.live_chunks(together) else together end;
end
$$;

-- What to look for (see memoryd.question(), also for p_near), and the rows that may answer the question:
-- their ids, each with its source beside it. p_scopes null: all scopes that are open to the caller.
--
-- The settings apply to all functions that are called from here. Their plans are made once in a session.
-- Without the settings, a generic plan, which does not know how few rows are wanted, may read a whole
-- table; and with a million rows the planner would start parallel workers, which takes longer than the
-- search.
create or replace function memoryd.find_candidates(
    p_query text, p_scopes bigint[], p_sources text[], p_embedding vector, p_reach integer, p_near jsonb,
    out question memoryd.question, out sources text[], out ids uuid[])
language plpgsql stable security definer
set search_path = pg_catalog, public, :vector_schema, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set max_parallel_workers_per_gather = 0
as $$
declare
    caller constant memoryd.caller := memoryd.current_caller();
    scopes constant bigint[] := memoryd.open_scopes(caller, p_scopes);
    access constant public.user_memory_access :=
        case when not caller.privileged then memoryd.caller_access() end;
    each record;
    found_ids uuid[];
begin
    question := memoryd.question(caller, p_query, scopes, p_near);
    sources := '{}';
    ids := '{}';
    for each in
        select * from memoryd.sources_present(p_sources, scopes, memoryd.counted_scopes(caller, scopes))
    loop
        found_ids := memoryd.candidates(
            caller, access, each.source, each.scopes, question, p_embedding, p_reach);
        sources := sources || array_fill(each.source, array[cardinality(found_ids)]);
        ids := ids || found_ids;
    end loop;
end
$$;
