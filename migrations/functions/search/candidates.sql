-- The rows that may answer a question, of all sources at once.
--
-- They are found as the owner: under row-level security no index of words could be used at all, since its operators are not known
-- to be leakproof. What is found so is ids alone, of scopes that are open to the caller, and of what is shared only what they are
-- granted; the rows themselves are read with the caller's own rights (memoryd.candidate_rows).
--
-- These functions plan for no workers: among a million rows the planner would start some, which takes longer than all the rest.

-- Of these sources those that have rows in these scopes (null: all sources): most scopes have rows of one or two.
create or replace function memoryd.sources_present(p_sources text[], p_scopes bigint[]) returns text[]
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
begin
    if p_scopes is null then
        return p_sources;
    end if;
    -- One look-up each (offset), in the indexes of rows with a code, of rows without an index, of rows without an embedding.
    return array(
        select s.source from unnest(p_sources) as s(source)
        where exists (select from memoryd.searchable t
                      where t.source = s.source and t.scope = any(p_scopes) and t.code is not null offset 0)
           or exists (select from memoryd.searchable t
                      where t.source = s.source and t.scope = any(p_scopes) and t.lexemes is null offset 0)
           or exists (select from memoryd.searchable t
                      where t.source = s.source and t.scope = any(p_scopes) and t.code is null
                        and t.lexemes is not null offset 0));
end
$$;

-- How many lists of each source's IVFFlat index to probe: as many as hold 25,000 rows of these scopes, beside others' rows. Not
-- there: look through the codes, which up to so many rows costs no more (a code costs two fifths of a row in a list), and finds
-- more. The daemon builds the indexes of big tables, and notes them in memoryd.dense_indexes.
create or replace function memoryd.lists_to_probe(p_caller memoryd.caller, p_sources text[], p_scopes bigint[])
returns table (source text, index_name text, probes integer)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
    select d.source, d.index_name, least(d.lists, ceil(d.lists * 25000.0 / n.rows))::integer
    from memoryd.dense_indexes d
    cross join lateral (
        select case when p_scopes is null then d.rows else memoryd.count_rows(p_caller, p_scopes, d.source) end as rows
    ) n
    where d.source = any(p_sources) and n.rows > 250 * sqrt(d.rows);
end
$$;

-- The nearest rows of one source by the lists of its IVFFlat index. Planned for each call: this index alone gives rows in order,
-- and only of the source's own view.
create or replace function memoryd.nearest_by_lists(
    p_caller memoryd.caller, p_access public.user_memory_access, p_source text, p_probes integer, p_scopes bigint[],
    p_embedding vector, p_count integer)
returns uuid[]
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
set max_parallel_workers_per_gather = 0
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
               and ($2 or t.scope <> 0 or t.owner_id = $3
                    or memoryd.grants_access($4, t.access_level, t.visibility_tags, t.row_metadata))
             order by (l2_normalize(t.embedding)::halfvec(:dimensions)) <=> $5 limit $6)',
        'source_' || p_source)
    into nearest
    using p_scopes, (p_caller).privileged, (p_caller).user_id, p_access,
          l2_normalize(p_embedding)::halfvec(:dimensions), p_count;
    perform set_config('ivfflat.probes', probes_before, true), set_config('enable_sort', 'on', true);
    return nearest;
end
$$;

-- The nearest rows by embedding. A small scope is looked through whole, by the codes of the embeddings (an index holds them: no
-- row is read), and the nearest by code are then compared exactly. Of big scopes the lists of an index are quicker.
create or replace function memoryd.nearest_rows(
    p_caller memoryd.caller, p_access public.user_memory_access, p_sources text[], p_scopes bigint[], p_embedding vector,
    p_reach integer)
returns table (source text, id uuid)
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set max_parallel_workers_per_gather = 0
as $$
declare
    -- Computed once: under a generic plan an expression of a parameter is computed for each row.
    code_sought constant bit varying := memoryd.code_of(p_embedding);
    -- So many by code, of which the nearest are kept: hardly any of the nearest ten is missed.
    by_code constant integer := greatest(p_reach, 200);
    keep constant integer := case when p_reach > 200 then p_reach else 64 end;
    checks_grants constant boolean := not (p_caller).privileged and 0 = any(p_scopes);
    without_grants constant bigint[] := case when checks_grants then array_remove(p_scopes, 0) else p_scopes end;
    through_codes text[] := p_sources;
    list record;
begin
    for list in select * from memoryd.lists_to_probe(p_caller, p_sources, p_scopes) loop
        through_codes := array_remove(through_codes, list.source);
        return query
        select list.source, n
        from unnest(memoryd.nearest_by_lists(
            p_caller, p_access, list.source, list.probes, p_scopes, p_embedding, keep)) n;
    end loop;
    return query
    select s.source, e.id
    from unnest(through_codes) as s(source)
    cross join lateral (
        select t.id
        from (
            (select t.id, t.code <~> code_sought as distance from memoryd.searchable t
             where t.source = s.source and t.scope = any(without_grants) and t.code is not null
             order by 2 limit by_code)
            union all
            (select t.id, t.code <~> code_sought from memoryd.searchable t
             where p_scopes is null and t.source = s.source and t.code is not null
             order by 2 limit by_code)
            union all
            (select t.id, t.code <~> code_sought from memoryd.searchable t
             where checks_grants and t.source = s.source and t.scope = 0 and t.code is not null
               and (t.owner_id = (p_caller).user_id
                    or memoryd.grants_access(p_access, t.access_level, t.visibility_tags, t.row_metadata))
             order by 2 limit by_code)
            order by distance limit by_code
        ) n
        join memoryd.searchable t on t.source = s.source and t.id = n.id
        order by t.embedding <=> p_embedding
        limit keep
    ) e;
end
$$;

-- The rows that the question's words lead to: those with the most weight.
create or replace function memoryd.worded_rows(
    p_caller memoryd.caller, p_access public.user_memory_access, p_sources text[], p_scopes bigint[],
    p_question memoryd.question, p_reach integer)
returns table (source text, id uuid)
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set max_parallel_workers_per_gather = 0
as $$
declare
    terms constant bigint[] := memoryd.keys_of((p_question).words, (p_question).word_scopes, p_scopes);
    pairs constant bigint[] := memoryd.keys_of((p_question).pairs, (p_question).pair_scopes, p_scopes);
    weights constant sparsevec := (p_question).weights;
    privileged constant boolean := (p_caller).privileged;
    own_id constant uuid := (p_caller).user_id;
begin
    return query
    select s.source, w.id
    from unnest(p_sources) as s(source)
    cross join lateral (
        -- A row that several pairs led to stands there several times.
        select l.id
        from (
            (select t.id, t.sparse_embedding from memoryd.searchable t
             where t.source = s.source and memoryd.search_terms(t.scope, t.lexemes) && terms
               and (p_scopes is null or t.scope = any(p_scopes))
               and (privileged or t.scope <> 0 or t.owner_id = own_id
                    or memoryd.grants_access(p_access, t.access_level, t.visibility_tags, t.row_metadata))
             limit 4000)
            union all
            (select p.id, p.sparse_embedding
             from generate_series(1, cardinality(pairs), 2) place
             cross join lateral (
                 select t.id, t.sparse_embedding from memoryd.searchable t
                 where t.source = s.source and memoryd.search_terms(t.scope, t.lexemes) @> pairs[place:place + 1]
                   and (p_scopes is null or t.scope = any(p_scopes))
                   and (privileged or t.scope <> 0 or t.owner_id = own_id
                        or memoryd.grants_access(p_access, t.access_level, t.visibility_tags, t.row_metadata))
                 limit 1000
             ) p
             limit 2000)
        ) l
        order by l.sparse_embedding <#> weights
        limit p_reach + p_reach / 2
    ) w;
end
$$;

-- Rows that were written this moment, and are not indexed yet.
create or replace function memoryd.unindexed_rows(
    p_caller memoryd.caller, p_access public.user_memory_access, p_sources text[], p_scopes bigint[])
returns table (source text, id uuid)
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set max_parallel_workers_per_gather = 0
as $$
begin
    return query
    select s.source, f.id
    from unnest(p_sources) as s(source)
    cross join lateral (
        (select t.id from memoryd.searchable t
         where p_scopes is null and t.source = s.source and t.lexemes is null
         limit 200)
        union all
        (select t.id from memoryd.searchable t
         where t.source = s.source and t.lexemes is null and t.scope = any(p_scopes)
           and ((p_caller).privileged or t.scope <> 0 or t.owner_id = (p_caller).user_id
                or memoryd.grants_access(p_access, t.access_level, t.visibility_tags, t.row_metadata))
         limit 200)
    ) f;
end
$$;

-- The messages around these messages: what was asked is often answered in the next turns.
create or replace function memoryd.messages_beside(
    p_caller memoryd.caller, p_access public.user_memory_access, p_ids uuid[], p_scopes bigint[])
returns table (source text, id uuid)
language plpgsql stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set max_parallel_workers_per_gather = 0
as $$
begin
    return query
    select 'conversation', t.id
    from unnest(p_ids) as w(id)
    join public.conversation_messages m on m.id = w.id
    join public.conversation_messages t
        on t.session_id = m.session_id and t.message_index between m.message_index - 1 and m.message_index + 3
    where (p_scopes is null or t.scope = any(p_scopes))
      and ((p_caller).privileged or t.scope <> 0 or t.user_id = (p_caller).user_id
           or memoryd.grants_access(p_access, t.access_level, t.visibility_tags, t.metadata));
end
$$;

-- A question as the search understands it, and the rows that may answer it: ids, each with its source beside it. p_scopes null:
-- all that are open to the caller. p_near: see memoryd.question().
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
    access constant public.user_memory_access := case when not caller.privileged then memoryd.caller_access() end;
    present constant text[] := memoryd.sources_present(p_sources, scopes);
begin
    question := memoryd.question(caller, p_query, scopes, p_near);
    with worded as materialized (
        select w.source, w.id, row_number() over () as place
        from memoryd.worded_rows(caller, access, present, scopes, question, p_reach) w
    ), together as (
        select w.source, w.id from worded w
        union
        select n.source, n.id from memoryd.nearest_rows(caller, access, present, scopes, p_embedding, p_reach) n
        where p_embedding is not null
        union
        select u.source, u.id from memoryd.unindexed_rows(caller, access, present, scopes) u
        union
        select b.source, b.id
        from memoryd.messages_beside(
            caller, access,
            array(select w.id from worded w where w.source = 'conversation' order by w.place limit 80),
            scopes) b
        where 'conversation' = any(present)
    )
    select array_agg(t.source), array_agg(t.id) into sources, ids
    from together t
    where t.source <> 'document'
       or exists (select from public.memory_chunks c join public.documents d on d.id = c.document_id
                  where c.id = t.id and d.status <> 'deleted');
end
$$;
