-- How much of a new entry is not known yet: 1 less what the entry that says most of it says already. What
-- it is compared with are the entries of the same organisation that are nearest to it by embedding; where
-- there is no embedding, those with the most of its words.

-- What an entry says, without its title where the content begins with it.
create or replace function memoryd.said(p_title text, p_content text) returns text
language sql immutable parallel safe
return case when starts_with(p_content, rtrim(p_title, '.… ')) then p_content
            else concat_ws(E'\n', p_title, p_content) end;

-- The entries of a scope that are nearest to an embedding, at most 8, those written a moment ago with an
-- embedding among them.
create or replace function memoryd.nearest_by_meaning(p_scope bigint, p_embedding vector)
returns table (id uuid, similarity double precision)
language plpgsql stable rows 8
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
#variable_conflict use_column
declare
    sought constant halfvec := l2_normalize(p_embedding)::halfvec;
    code_sought constant bit varying := memoryd.signs_of(sought);
    scale constant record := memoryd.calibration();
begin
    return query
    select n.id, max(m.similarity)
    from ((select e.id, 1 - (e.embedding <=> sought) as cosine
           from (select t.ctid from memoryd.entries t
                 where t.scope = p_scope and t.source = 'knowledge' and t.code is not null
                 order by t.code <~> code_sought
                 limit 40) c
           join memoryd.entries e on e.ctid = c.ctid)
          union all
          select k.id, 1 - (k.embedding <=> p_embedding)
          from (select u.id from memoryd.unindexed u
                where u.scope = p_scope and u.source = 'knowledge' and u.given
                order by u.since desc
                limit 40) f
          join public.shared_knowledge k on k.id = f.id
          where vector_dims(k.embedding) = vector_dims(p_embedding)) n
    cross join lateral (
        select memoryd.calibrated(n.cosine, scale.background, scale.unit) as similarity offset 0) m
    where m.similarity > 0.25
    group by n.id
    order by 2 desc
    limit 8;
end
$$;

-- Entries of a scope that have words of a text, with the part of its lexemes that each has: where p_indexed
-- those with the most, else the best of the newest 20 that are not indexed yet.
create or replace function memoryd.nearest_by_words(
    p_scope bigint, p_lexemes text[], p_language text, p_indexed boolean)
returns table (id uuid, overlap double precision)
language plpgsql stable rows 8
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
#variable_conflict use_column
begin
    if p_indexed then
        return query
        select t.id, max(t.overlap)
        from (select e.id, memoryd.overlap(e.lexemes, p_lexemes) as overlap
              from memoryd.entries e
              where memoryd.search_terms(e.scope, e.lexemes)
                    && array(select hashtextextended(l, p_scope) from unnest(p_lexemes) l)
                and e.scope = p_scope and e.source = 'knowledge'
              limit 2000) t
        group by t.id
        order by 2 desc
        limit 8;
        return;
    end if;
    return query
    select t.id, t.overlap
    from (select k.id,
                 memoryd.overlap(memoryd.lexemes_in(left(memoryd.searched_text(k), 2000), p_language),
                                 p_lexemes) as overlap
          from (select u.id from memoryd.unindexed u
                where u.scope = p_scope and u.source = 'knowledge' and not u.given
                order by u.since desc
                limit 20) f
          join public.shared_knowledge k on k.id = f.id) t
    where t.overlap >= 0.3
    order by t.overlap desc
    limit 3;
end
$$;

-- Up to 8 entries that are nearest to a text, the one that says most of it first, with how much of it each
-- says (said, from 0 to 1), how much it would say if nothing differed (near), and in what they differ.
-- Nothing of another organisation than the caller's, and nothing for callers who are not the service.
-- p_not: an entry to leave out.
create or replace function memoryd.nearest_knowledge(
    p_text text, p_org uuid, p_embedding vector, p_not uuid default null)
returns table (id uuid, said double precision, near double precision, difference text,
               similarity double precision)
language plpgsql stable security definer rows 8
set search_path = pg_catalog, public, :vector_schema, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set max_parallel_workers_per_gather = 0
as $$
#variable_conflict use_column
declare
    scope constant bigint := memoryd.org_scope(p_org);
    language constant text := memoryd.language_of(p_text);
    lexemes constant text[] := tsvector_to_array(memoryd.lexemes_in(left(p_text, 2000), language));
    scale constant record := memoryd.calibration();
begin
    if not memoryd.caller_is_service()
       or (memoryd.caller_org() is not null and p_org is distinct from memoryd.caller_org()) then
        return;
    end if;
    return query
    with candidates as materialized (
        select n.id, n.similarity
        from memoryd.nearest_by_meaning(scope, p_embedding) n where p_embedding is not null
        union all
        select w.id, null from memoryd.nearest_by_words(scope, lexemes, language, false) w
        union all
        select w.id, null from memoryd.nearest_by_words(scope, lexemes, language, true) w
        where p_embedding is null
    ), compared as materialized (
        select k.id, memoryd.said(k.title, k.content) as text,
               coalesce(c.similarity, memoryd.calibrated(
                   case when p_embedding is not null
                        then 1 - (memoryd.embed(left(memoryd.searched_text(k), 2000)) <=> p_embedding) end,
                   scale.background, scale.unit)) as similarity,
               memoryd.overlap(
                   memoryd.lexemes_in(left(memoryd.searched_text(k), 8192), language), lexemes) as overlap
        from candidates c
        join public.shared_knowledge k on k.id = c.id
        where k.org_id is not distinct from p_org and k.status <> 'archived' and k.id is distinct from p_not
    ), told as materialized (
        -- What says little of it need not be looked at word by word.
        select t.id, t.similarity, memoryd.part_said(t.similarity, t.overlap, false) as near,
               case when memoryd.part_said(t.similarity, t.overlap, false) > 0.2
                    then memoryd.difference(t.text, p_text) end as difference
        from compared t
        order by coalesce(t.similarity, t.overlap) + t.overlap desc
        limit 8
    )
    select t.id, least(t.near, case when t.difference is not null then 0.2 end), t.near, t.difference,
           t.similarity
    from told t
    order by 2 desc, 3 desc, 1;
end
$$;

-- How new a text is, and which entry says most of it (null: none says any of it). Entries that say the very
-- same are found without an index of words or embeddings, also those that this statement has written.
create or replace function memoryd.surprise_of(
    p_title text, p_content text, p_org uuid, p_embedding vector,
    out surprise double precision, out neighbour uuid)
language plpgsql volatile
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
begin
    select k.id into neighbour
    from public.shared_knowledge k
    where hashtextextended(k.title || E'\n' || k.content, 0)
          = hashtextextended(p_title || E'\n' || p_content, 0)
      and k.title = p_title and k.content = p_content
      and k.org_id is not distinct from p_org and k.status <> 'archived'
    order by k.created_at, k.id
    limit 1;
    if found then
        surprise := 0;
        return;
    end if;
    select n.id, 1 - n.said into neighbour, surprise
    from memoryd.nearest_knowledge(memoryd.said(p_title, p_content), p_org, p_embedding) n
    limit 1;
    surprise := coalesce(surprise, 1);
end
$$;

-- Scores an entry that a client inserts without a score. It is stored in any case.
create or replace function memoryd.score_knowledge() returns trigger
language plpgsql
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
begin
    if memoryd.importing() then
        return new;
    end if;
    select s.surprise into new.surprise_score
    from memoryd.surprise_of(
        new.title, new.content, new.org_id,
        coalesce(case when vector_dims(new.embedding) = memoryd.dimensions() then new.embedding end,
                 memoryd.embed(left(memoryd.searched_text(new), 2000)))) s;
    return new;
end
$$;
