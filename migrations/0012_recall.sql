-- Recall: what is remembered about a question, of all five sources, in one call.
--
-- Lexical (BM25 over windows, with words near in meaning), dense, what a conversation's speaker, session and time say, and
-- for memories the formula of source design 004. Everything that is found is read with the rights of the caller: row-level
-- security decides. What runs as the owner gives statistics and ids alone, to an end user only of what is theirs to find.
--
-- These functions plan for no workers: among a million rows the planner would start some, which takes longer than all the rest.

-- Whether anything of scope 0 is the user's to find: granted to them, or their own and shared with others. To
-- everybody else the scope stays closed, so that not even the time that a search takes tells them what others
-- share.
create function memoryd.has_shared(p_user uuid) returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return exists (select from public.user_memory_access a
                   where a.user_id = p_user and a.visibility_scope <> 'own')
        or exists (select from public.conversation_messages m
                   where m.user_id = p_user and m.access_level is not null)
        or exists (select from public.memory_chunks c
                   where c.user_id = p_user and c.access_level is not null);
end
$$;
create index conversation_messages_shared on public.conversation_messages (user_id)
    where access_level is not null;
create index memory_chunks_shared on public.memory_chunks (user_id) where access_level is not null;

-- Of the scopes asked for those that the caller may have looked into: a user's own, and 0, which is shared. Null for who serves:
-- all there are. What is looked up for support is on record before.
create function memoryd.scopes_open(p_scopes bigint[]) returns bigint[]
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    own uuid;
    mine bigint;
begin
    if memoryd.caller_serves() then
        if not memoryd.caller_is_service() then
            perform memoryd.note_admin_search();
        end if;
        return p_scopes;
    end if;
    own := memoryd.caller_id();
    mine := memoryd.scope_of(own, null);
    if own is null then
        return '{}';
    end if;
    return case when p_scopes is null or mine = any(p_scopes) then array[mine] else '{}' end
        || case when (p_scopes is null or 0 = any(p_scopes)) and memoryd.has_shared(own) then array[0::bigint]
                else '{}' end;
end
$$;

-- The keys of the inverted index of lexemes, each within its scope; of scopes that are not open (null: all
-- are) none. Callers bring words, never keys: those of another's scope would show, by what the search costs,
-- which words are there.
create function memoryd.keys_of(p_lexemes text[], p_scopes bigint[], p_open bigint[]) returns bigint[]
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select array(select hashtextextended(k.lexeme, k.scope)
                 from unnest(p_lexemes, p_scopes) with ordinality as k(lexeme, scope, place)
                 where k.lexeme is not null and (p_open is null or k.scope = any(p_open))
                 order by k.place)
$$;

-- The speakers, in these scopes (null: in any), one of whose names is among the lexemes; null when there is
-- none. Where thousands are called alike, fifty: of whose names most words are there, the shortest first.
create function memoryd.speakers_named(p_lexemes text[], p_scopes bigint[]) returns text[]
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select array_agg(f.speaker order by f.speaker)
    from (
        select n.speaker
        from unnest(p_lexemes) as a(lexeme)
        cross join lateral (
            -- Of a scope by the key alone: by the lexeme first, it would cost what all others' speakers of that name do.
            (select substr(s.lexeme, length(a.lexeme) + 3) as speaker
             from unnest(p_scopes) as p(scope)
             cross join lateral (
                 select t.lexeme from memoryd.lexeme_statistics t
                 where (t.scope, t.lexeme) >= (p.scope, '@' || a.lexeme || ' ')
                   and (t.scope, t.lexeme) < (p.scope, '@' || a.lexeme || '!')
                 order by t.scope, t.lexeme
                 limit 20
             ) s
             limit 20)
            union all
            (select substr(s.lexeme, length(a.lexeme) + 3)
             from memoryd.lexeme_statistics s
             where p_scopes is null
               and s.lexeme >= '@' || a.lexeme || ' ' and s.lexeme < '@' || a.lexeme || '!'
             limit 20)
        ) n
        group by n.speaker
        order by count(distinct a.lexeme) desc, length(n.speaker), n.speaker
        limit 50
    ) f
$$;

-- The scopes that a question goes to (null: all), and whether to nobody's rows alone.
create function memoryd.scopes_asked(p_agent text, p_user uuid, p_serves boolean, out scopes bigint[], out unowned boolean)
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select case
               -- A user's own; to themselves also what is shared with them.
               when not p_serves then array[memoryd.scope_of(coalesce(p_user, memoryd.caller_id()), null), 0]
               when p_user is not null then array[memoryd.scope_of(p_user, null)]
               when p_agent is not null then array[memoryd.scope_of(null, p_agent), memoryd.scope_of(null, '_shared'), 0]
           end,
           p_serves and p_user is null and p_agent is not null
$$;

-- For who embeds a question: its text without the names of speakers, which draw towards whom they address; and those of its
-- words that the lexicon does not know, to be embedded and looked up with near_words().
create function memoryd.read_question(
    p_query text, p_agent text, p_user uuid, out text text, out words text[], out lexemes text[])
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    asked constant text[] := (tsvector_to_array(memoryd.lexemes_of(left(p_query, 8192))))[1:200];
    names constant text := (
        select string_agg(regexp_replace(n, '([^[:alnum:][:space:]])', '\\\1', 'g'), '|'
                          order by length(n) desc, n)
        from unnest(memoryd.speakers_named(asked, (memoryd.scopes_asked(p_agent, p_user, true)).scopes)) n);
begin
    text := left(p_query, 32768);
    if names is not null then
        -- All at once: a look at the whole text for each would be somebody's way to keep the daemon busy.
        text := regexp_replace(text, '\m(' || names || ')(''s|’s)?(?!\w)', '', 'gi');
    end if;
    if text !~ '\w' then
        text := left(p_query, 32768);
    end if;
    select array_agg(w.word), array_agg(w.lexeme) into words, lexemes
    from (
        select distinct on (s.lexeme) s.lexeme, m.word[1] as word
        from regexp_matches(lower(left(text, 8192)), '[a-z]{3,24}', 'g') as m(word)
        cross join lateral (select (ts_lexize('english_stem', m.word[1]))[1] as lexeme) s
        where s.lexeme is not null
          and (not exists (select from memoryd.lexicon l where l.lexeme = s.lexeme and l.embedding is not null)
               -- Asked by a user, of whom the lexicon may tell only their own words.
               or (p_user is not null and not exists (
                       select from memoryd.lexeme_statistics c
                       where c.scope = memoryd.scope_of(p_user, null) and c.lexeme = s.lexeme)))
        limit 50
    ) w;
end
$$;

create function memoryd.near_words(p_lexemes text[], p_vectors vector[]) returns jsonb
language sql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
    select jsonb_agg(jsonb_build_object('lexeme', w.lexeme, 'neighbour', n.lexeme, 'similarity', n.similarity))
    from unnest(p_lexemes, p_vectors) as w(lexeme, vector)
    cross join lateral (
        select l.lexeme, 1 - (l.embedding <=> w.vector) as similarity
        from memoryd.lexicon l
        where l.embedding is not null
        order by l.embedding <=> w.vector
        limit 40
    ) n
    where n.similarity >= 0.3
$$;

-- What is asked for, in the terms of these scopes (null: all there are):
--   weights   of a row's sparse_embedding the inner product with this is its BM25 score; words near in meaning count by the
--             square of their similarity
--   words     lexemes to look for, each in the scope beside it (word_scopes), that lead to p_budget rows at most (some
--             more in big scopes)
--   pairs     of words that lead to more: to be looked for together, two by two, the rarest pairs first (in
--             pair_scopes)
--   speakers  who are named, and are therefore not searched for as words: a name draws to the turns that address somebody
--   ideal     what a row would score that holds every word asked for
-- p_near brings the neighbours of words that the lexicon does not know: [{"lexeme", "neighbour", "similarity"}].
create function memoryd.question(
    p_query text, p_scopes bigint[], p_budget integer, p_near jsonb,
    out weights sparsevec,
    out words text[], out word_scopes bigint[], out pairs text[], out pair_scopes bigint[],
    out speakers text[], out ideal double precision, out asks_when boolean)
language plpgsql stable security definer
set search_path = pg_catalog, public, :vector_schema, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set max_parallel_workers_per_gather = 0
as $$
declare
    serves constant boolean := memoryd.caller_serves();
    scopes bigint[] := memoryd.scopes_open(p_scopes);
    counted bigint[];
    mine bigint;
    asked text[] := (tsvector_to_array(memoryd.lexemes_of(left(p_query, 8192))))[1:200];
    everywhere constant boolean := scopes is null;
    uncounted text[];
    uncounted_in bigint[];
    all_rows double precision;
    budget integer;
begin
    if everywhere then
        scopes := array(select s.scope from memoryd.lexeme_statistics s where s.lexeme >= '#' and s.lexeme < '$'
                        group by s.scope order by sum(s.rows) desc limit 1000);
    end if;
    -- How common a word is among what others share tells what they share: an end user learns it of their own rows alone.
    counted := case when serves then scopes else array_remove(scopes, 0) end;
    asks_when := p_query ~* '^\s*(when|how long|since when|until when|what (date|year|month|day|time))\M';

    speakers := memoryd.speakers_named(asked, counted);
    if speakers is not null then
        asked := array(select unnest(asked)
                       except select unnest(tsvector_to_array(memoryd.lexemes_of(array_to_string(speakers, ' ')))));
    end if;

    -- Of what was indexed this moment the words are not counted in yet.
    if everywhere then
        select coalesce(array_agg(u.a), '{}'), coalesce(array_agg(u.scope), '{}') into uncounted, uncounted_in
        from (select distinct a, c.scope
              from (select l.scope, l.lexemes from memoryd.lexeme_changes l order by l.id desc limit 1000) c
              join unnest(asked) a on a = any(c.lexemes)) u;
    else
        select coalesce(array_agg(a), '{}'), coalesce(array_agg(s), '{}') into uncounted, uncounted_in
        from unnest(asked) a, unnest(counted) s
        -- One look-up each (offset): joined, what is read would depend on where among others' words a word
        -- stands.
        where not exists (select from memoryd.lexeme_statistics c where c.scope = s and c.lexeme = a offset 0);
    end if;

    -- Of an end user one scope is counted, and looked up as one (`mine`): in an array of scopes Postgres 16 looks a word up by the
    -- word alone and leaves others' scopes out afterwards, which costs a page where others have it.
    mine := case when not serves then counted[1] end;
    if serves then
        select coalesce(sum(s.rows), 0) into all_rows from memoryd.lexeme_statistics s
        where s.scope = any(counted) and s.lexeme >= '#' and s.lexeme < '$';
    else
        select coalesce(sum(s.rows), 0) into all_rows from memoryd.lexeme_statistics s
        where (s.scope, s.lexeme) >= (mine, '#') and (s.scope, s.lexeme) < (mine, '$');
    end if;

    budget := p_budget + least(all_rows / 1000, 2000)::integer;

    with near as materialized (
        select a.lexeme as asked, a.lexeme, 1::real as similarity from unnest(asked) as a(lexeme)
        union all
        select a.lexeme, n.neighbour, n.similarity
        from unnest(asked) as a(lexeme)
        cross join lateral (
            -- The nearest eight of those that these scopes know.
            select n.neighbour, n.similarity
            from (select n.neighbour, n.similarity from memoryd.lexeme_neighbours n
                  where n.lexeme = a.lexeme and n.similarity >= 0.3
                  order by n.similarity desc
                  limit 40) n
            where (serves and exists (select from memoryd.lexeme_statistics s
                                      where s.scope = any(counted) and s.lexeme = n.neighbour offset 0))
               or exists (select from memoryd.lexeme_statistics s
                          where s.scope = mine and s.lexeme = n.neighbour offset 0)
            limit 8
        ) n
        -- That the lexicon knows a word tells that somebody's rows have it: an end user learns it of their own alone.
        where serves or exists (select from memoryd.lexeme_statistics s
                                where s.scope = mine and s.lexeme = a.lexeme offset 0)
        union all
        select n.lexeme, n.neighbour, n.similarity
        from jsonb_to_recordset(p_near) as n(lexeme text, neighbour text, similarity real)
        where n.lexeme = any(asked) and n.similarity >= 0.3
    ), counts as materialized (
        select w.lexeme, s.scope, s.rows
        from (select distinct n.lexeme from near n) w
        -- One look-up each: joined as a whole, the scope's whole vocabulary would be read.
        cross join lateral (
            select s.scope, s.rows from memoryd.lexeme_statistics s
            where serves and s.scope = any(counted) and s.lexeme = w.lexeme
            union all
            select s.scope, s.rows from memoryd.lexeme_statistics s
            where s.scope = mine and s.lexeme = w.lexeme
            offset 0
        ) s
    ), ranked as (
        select n.lexeme, n.similarity, coalesce(c.rows, 0) as rows,
               row_number() over (partition by n.asked order by n.similarity desc, n.lexeme) as place
        from near n
        left join (select c.lexeme, sum(c.rows) as rows from counts c group by c.lexeme) c on c.lexeme = n.lexeme
        where n.similarity = 1 or c.rows > 0
    ), weighed as materialized (
        select r.lexeme, max(r.similarity) as similarity,
               max(r.similarity ^ 2 * ln(1 + (greatest(all_rows - r.rows, 0) + 0.5) / (r.rows + 0.5))) as weight
        from ranked r
        where r.place <= 9
        group by r.lexeme
    ), keys as materialized (
        select w.lexeme, c.scope, c.rows, w.similarity,
               sum(c.rows) over (order by w.weight desc, w.lexeme, c.scope) as upto
        from weighed w join counts c on c.lexeme = w.lexeme
    ), common as materialized (
        -- Words asked for that lead to too many rows by themselves: the rarest of them, in the scope that has most.
        select k.lexeme, k.scope, k.rows, row_number() over (order by k.rows, k.lexeme) as place
        from keys k
        where k.similarity = 1 and k.upto > budget
          and k.scope = (select b.scope from keys b where b.similarity = 1 order by b.rows desc, b.scope limit 1)
        order by k.rows, k.lexeme
        limit 5
    ), pairs as materialized (
        -- As many rows as two words share that know nothing of each other.
        select e.one, e.other, e.scope, row_number() over w as place, sum(e.rows) over w as upto
        from (select a.lexeme as one, b.lexeme as other, a.scope, a.rows * (b.rows / all_rows) as rows
              from common a join common b on a.place < b.place) e
        window w as (order by e.rows, e.one, e.other)
    ), singles as (
        select array_agg(t.lexeme) as lexemes, array_agg(t.scope) as scopes
        from (select k.lexeme, k.scope from keys k where k.upto <= budget
              union all
              -- Of what is not counted, every word.
              select a, s from unnest(asked) a, unnest(scopes) s where s <> all (counted)
              union all
              select u.lexeme, u.scope from unnest(uncounted, uncounted_in) as u(lexeme, scope)) t
    ), twos as (
        select array_agg(t.lexeme order by p.place, t.second) as lexemes,
               array_agg(p.scope order by p.place, t.second) as scopes
        from pairs p
        cross join lateral (values (p.one, false), (p.other, true)) as t(lexeme, second)
        where p.place <= 6 and (p.place = 1 or p.upto <= budget)
    )
    select (select ('{' || string_agg(v.place || ':' || v.weight, ',') || '}/1000000000')::sparsevec
            from (select memoryd.sparse_index(w.lexeme) as place, max(w.weight)::real as weight from weighed w
                  where w.weight > 0 group by 1) v),
           coalesce(o.lexemes, '{}'), coalesce(o.scopes, '{}'),
           coalesce(t.lexemes, '{}'), coalesce(t.scopes, '{}'),
           (select 1.6 * sum(w.weight) from weighed w where w.similarity = 1)
    into weights, words, word_scopes, pairs, pair_scopes, ideal
    from singles o cross join twos t;
end
$$;

-- The nearest by embedding. A small scope is looked through whole, by the codes of the embeddings (an index holds them: no row is
-- touched), and the nearest by code are then compared exactly. Of big scopes the lists of an IVFFlat index are quicker; the daemon
-- builds it, and notes it here.
create table memoryd.dense_indexes (
    source text primary key,
    index_name text not null,
    lists integer not null,
    rows bigint not null,
    built_at timestamptz not null default now()
);
comment on table memoryd.dense_indexes is 'The IVFFlat indexes that stand, and of how many rows they were built.';

-- Rows of a source in the scopes; to an end user of their own alone.
create function memoryd.rows_in(p_scopes bigint[], p_source text) returns bigint
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select coalesce(sum(s.rows), 0)::bigint
    from memoryd.lexeme_statistics s
    where s.scope = any(case when memoryd.caller_serves() then memoryd.scopes_open(p_scopes)
                             else array_remove(memoryd.scopes_open(array_remove(p_scopes, 0)), 0) end)
      and s.lexeme = '#' || p_source
$$;

-- How many lists of the index to probe: so many as hold 25,000 rows of these scopes, beside others' rows. Null: look through the codes,
-- which up to so many rows costs no more (a code costs two fifths of a row in a list), and finds more.
create function memoryd.lists_to_probe(p_source text, p_scopes bigint[]) returns integer
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select least(d.lists, ceil(d.lists * 25000.0 / n.rows))::integer
    from memoryd.dense_indexes d
    cross join lateral (
        select case when p_scopes is null then d.rows else memoryd.rows_in(p_scopes, p_source) end as rows
    ) n
    where d.source = p_source and n.rows > 250 * sqrt(d.rows)
$$;

-- The candidates of one source; what each part of the search says of them; how a source's rows are shown: the same functions for
-- each.
--
-- Candidates are found as the owner: under row-level security no index of words could be used at all, since its operators are
-- not known to be leakproof. What is found so is ids alone, of the scopes that the caller may have looked into, and of what is
-- shared only what they are granted; the rows themselves are read with the caller's own rights.
do $$
declare
    source record;
    part record;
    body text;
    candidates constant text := $template$
create function memoryd.candidates_%source%(
    p_scopes bigint[], p_weights sparsevec,
    p_words text[], p_word_scopes bigint[], p_pairs text[], p_pair_scopes bigint[],
    p_embedding vector, p_reach integer)
returns uuid[]
language plpgsql stable security definer
set search_path = pg_catalog, public, :vector_schema, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set max_parallel_workers_per_gather = 0
as $body$
declare
    scopes constant bigint[] := memoryd.scopes_open(p_scopes);
    terms constant bigint[] := memoryd.keys_of(p_words, p_word_scopes, scopes);
    pairs constant bigint[] := memoryd.keys_of(p_pairs, p_pair_scopes, scopes);
    serves boolean;
    own uuid;
    access public.user_memory_access;
    probes integer;
    -- Reckoned once: under a generic plan an expression of a parameter is reckoned for each row.
    sought constant bit varying := memoryd.code_of(p_embedding);
    halved constant halfvec(:dimensions) := l2_normalize(p_embedding)::halfvec(:dimensions);
    -- So many by code, of which the nearest are kept: hardly any of the nearest ten is missed.
    by_code constant integer := greatest(p_reach, 200);
    keep constant integer := case when p_reach > 200 then p_reach else 64 end;
    before text;
    found uuid[] := '{}';
begin
    -- Most scopes have rows of one or two sources.
    if scopes is not null
       and not exists (select from public.%name% t where t.scope = any(scopes) and t.code is not null)
       and not exists (select from public.%name% t where t.scope = any(scopes) and t.lexemes is null)
       and not exists (select from public.%name% t
                       where t.scope = any(scopes) and t.code is null and t.lexemes is not null) then
        return '{}';
    end if;
    serves := memoryd.caller_serves();
    if not serves then
        own := memoryd.caller_id();
        access := memoryd.caller_access();
    end if;
    probes := memoryd.lists_to_probe('%source%', scopes);
    if p_embedding is null then
        null;
    elsif probes is not null then
        before := coalesce(current_setting('ivfflat.probes', true), '1');
        perform set_config('ivfflat.probes', probes::text, true), set_config('enable_sort', 'off', true);
        found := array(select t.id from public.%name% t
                       where (scopes is null or t.scope = any(scopes)) and (serves or t.scope <> 0 or %granted%)
                       order by (l2_normalize(t.%embedding%)::halfvec(:dimensions)) <=> halved limit keep);
        perform set_config('ivfflat.probes', before, true), set_config('enable_sort', 'on', true);
    else
        if scopes is null then
            found := array(select t.id from public.%name% t
                           where t.code is not null
                           order by t.code <~> sought limit by_code);
        elsif serves or 0 <> all (scopes) then
            found := array(select t.id from public.%name% t
                           where t.scope = any(scopes) and t.code is not null
                           order by t.code <~> sought limit by_code);
        else
            found := array(select n.id from (
                (select t.id, t.code <~> sought as distance from public.%name% t
                 where t.scope = any(array_remove(scopes, 0)) and t.code is not null
                 order by 2 limit by_code)
                union all
                (select t.id, t.code <~> sought from public.%name% t
                 where t.scope = 0 and t.code is not null and %granted%
                 order by 2 limit by_code)) n
                order by n.distance limit by_code);
        end if;
        found := array(select t.id from unnest(found) as f(id) join public.%name% t on t.id = f.id
                       order by t.%embedding% <=> p_embedding limit keep);
    end if;
    return array(
        with led_to as materialized (
            (select t.id, t.sparse_embedding from public.%name% t
             where memoryd.search_terms(t.scope, t.lexemes) && terms
               and (scopes is null or t.scope = any(scopes)) and (serves or t.scope <> 0 or %granted%)
             limit 4000)
            union all
            select p.id, p.sparse_embedding
            from generate_series(1, cardinality(pairs), 2) place
            cross join lateral (
                select t.id, t.sparse_embedding from public.%name% t
                where memoryd.search_terms(t.scope, t.lexemes) @> pairs[place:place + 1]
                  and (scopes is null or t.scope = any(scopes)) and (serves or t.scope <> 0 or %granted%)
                limit 1000
            ) p
            limit 2000
        ), worded as materialized (
            -- A row that several pairs led to stands there several times.
            select l.id from led_to l
            order by l.sparse_embedding <#> p_weights
            limit p_reach + p_reach / 2
        ), together as (
            select w.id from worded w
            union
            select n from unnest(found) n
            union
            -- What was written this moment is found by its words before it is indexed.
            (select t.id from public.%name% t where t.lexemes is null and scopes is null limit 200)
            union
            (select t.id from public.%name% t
             where t.lexemes is null and t.scope = any(scopes) and (serves or t.scope <> 0 or %granted%)
             limit 200)
            %beside%
        )
        select t.id from together t %live%
    );
end
$body$
$template$;
    find constant text := $template$
create function memoryd.find_%source%(
    p_ids uuid[], p_weights sparsevec, p_embedding vector, p_user uuid, p_unowned boolean, p_agent text, p_filter jsonb)
returns table (source text, id uuid, lexical double precision, similarity double precision, prior real, says_when boolean,
               session_id uuid, speaker text, created_at timestamptz, weight double precision)
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set max_parallel_workers_per_gather = 0
as $body$
begin
    return query
    select '%source%', t.id, greatest(0, -(coalesce(t.sparse_embedding, w.weights) <#> p_weights)),
           1 - (t.%embedding% <=> p_embedding), coalesce(t.prior, w.prior), coalesce(t.says_when, w.says_when),
           %session%, %speaker%, %born%, %weight%
    from unnest(p_ids) as f(id)
    join public.%name% t on t.id = f.id
    left join lateral (
        -- Of rows that are not indexed yet; the offset keeps it from being reckoned for all.
        select w.* from (select 1 where t.lexemes is null offset 0) fresh cross join lateral memoryd.weigh_text(%body%) w
    ) w on true
    where (p_user is null or %owner% = p_user)
      and (not p_unowned or %owner% is null)
      and (p_agent is null or %agent%)
      and %unexpired%
      and (p_filter = '{}' or (%metadata%) @> p_filter);
end
$body$
$template$;
    show constant text := $template$
create function memoryd.show_%source%(p_ids uuid[]) returns table (source text, id uuid, content text, metadata jsonb)
language sql stable
set search_path = pg_catalog, public, pg_temp
as $body$
    select '%source%', t.id, %content%, %metadata% from public.%name% t where t.id = any(p_ids)
$body$
$template$;
begin
    for source in
        select * from jsonb_to_recordset($sources$[
            {"source": "memory", "weight": "memoryd.kind_weight(t.kind)", "name": "agent_memory", "embedding": "embedding",
             "content": "t.content", "body": "t.content", "owner": "t.user_id",
             "agent": "(t.agent_id = p_agent or t.agent_id = '_shared')",
             "unexpired": "(t.expires_at is null or t.expires_at > now())", "live": "", "granted": "false",
             "session": "null::uuid", "speaker": "null::text", "born": "t.created_at", "beside": "",
             "metadata": "t.metadata || jsonb_strip_nulls(jsonb_build_object('kind', t.kind, 'memory_type', t.memory_type))"},
            {"source": "conversation", "weight": "1::double precision", "name": "conversation_messages", "embedding": "embedding",
             "content": "t.content", "body": "t.content", "owner": "t.user_id",
             "agent": "(t.agent_id is null or t.agent_id = p_agent)", "unexpired": "true", "live": "",
             "granted": "(t.user_id = own or memoryd.grants_access(access, t.access_level, t.visibility_tags, t.metadata))",
             "session": "t.session_id", "speaker": "t.speaker", "born": "t.created_at",
             "beside": "union select t.id from (select * from worded limit 80) w join public.conversation_messages m on m.id = w.id join public.conversation_messages t on t.session_id = m.session_id and t.message_index between m.message_index - 1 and m.message_index + 3 where (scopes is null or t.scope = any(scopes)) and (serves or t.scope <> 0 or %granted%)",
             "metadata": "t.metadata || jsonb_strip_nulls(jsonb_build_object('session_id', t.session_id, 'message_index', t.message_index, 'role', t.role, 'speaker', t.speaker))"},
            {"source": "document", "weight": "1::double precision", "name": "memory_chunks", "embedding": "dense_embedding",
             "content": "t.chunk_text", "body": "concat_ws(E'\\n', t.context, t.chunk_text)", "owner": "t.user_id",
             "agent": "true",
             "unexpired": "true",
             "live": "join public.memory_chunks c on c.id = t.id join public.documents d on d.id = c.document_id where d.status <> 'deleted'",
             "granted": "(t.user_id = own or memoryd.grants_access(access, t.access_level, t.visibility_tags, t.metadata))",
             "session": "null::uuid", "speaker": "null::text", "born": "t.created_at", "beside": "",
             "metadata": "t.metadata || jsonb_strip_nulls(jsonb_build_object('document_id', t.document_id, 'chunk_index', t.chunk_index, 'context', t.context, 'title', (select d.title from public.documents d where d.id = t.document_id)))"},
            {"source": "knowledge", "weight": "1::double precision", "name": "shared_knowledge", "embedding": "embedding",
             "content": "t.content", "body": "concat_ws(E'\\n', t.title, t.content)", "owner": "null::uuid",
             "agent": "true", "unexpired": "t.status <> 'archived'", "live": "", "granted": "false",
             "session": "null::uuid", "speaker": "null::text", "born": "t.created_at", "beside": "",
             "metadata": "jsonb_strip_nulls(jsonb_build_object('tier', t.tier, 'category', t.category, 'title', t.title, 'tags', t.tags, 'confidence', t.confidence, 'status', t.status, 'created_by', t.created_by, 'created_by_name', t.created_by_name))"},
            {"source": "insight", "weight": "t.confidence", "name": "dream_insights", "embedding": "embedding",
             "content": "t.insight", "body": "t.insight", "owner": "t.user_id",
             "agent": "(t.agent_id is null or t.agent_id = p_agent)", "unexpired": "true", "live": "", "granted": "false",
             "session": "null::uuid", "speaker": "null::text", "born": "t.generated_at", "beside": "",
             "metadata": "jsonb_build_object('category', t.category, 'confidence', t.confidence, 'source_memories', t.source_memories)"}
        ]$sources$) as s(source text, name text, embedding text, content text, body text, owner text, agent text, live text,
                         session text, speaker text, born text, beside text, metadata text,
                         unexpired text, granted text, weight text)
    loop
        foreach body in array array[candidates, find, show] loop
            -- The parts that hold parts come first.
            for part in select * from jsonb_each_text(to_jsonb(source)) p order by p.value not like '%\%%' loop
                body := replace(body, '%' || part.key || '%', part.value);
            end loop;
            execute body;
        end loop;
    end loop;
end
$$;

-- The whole search, with all its parts; recall() and explain_recall() are two views of it.
--
-- What a row says of the question is lexical + dense + prior + named + timed + session, each of the first two relative to the
-- best candidate's, the whole relative to the best again, times how well the best fits at all: from 0 to 1. It is the relevance in
-- source design 004's formula, score = min(1, relevance x weight + recency + association). Without an embedding a memory's or
-- an insight's relevance is the part of the question's keywords that it has, exactly as that design says.
create function memoryd.search(
    p_query text, p_agent text, p_user uuid, p_embedding vector, p_count integer, p_sources text[], p_filter jsonb,
    p_near jsonb default null
) returns table (source text, id uuid, content text, score double precision, similarity double precision, metadata jsonb,
                 created_at timestamptz, lexical double precision, dense double precision, prior double precision,
                 named double precision, timed double precision, session double precision, relevance double precision,
                 weight double precision, recency double precision, association double precision)
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set max_parallel_workers_per_gather = 0
as $$
#variable_conflict use_column
declare
    known constant text[] := array['memory', 'conversation', 'document', 'knowledge', 'insight'];
    wanted text[] := coalesce(p_sources, known);
    condition constant jsonb := coalesce(p_filter, '{}');
    serves constant boolean := has_table_privilege('public.agents', 'select');
    asker constant uuid := coalesce(p_user, memoryd.caller_id());
    asked_keywords constant text[] := public.extract_keywords(p_query);
    -- With a filter, many of the nearest may fall away.
    reach constant integer := case when condition = '{}' then 200 else 4000 end;
    scopes bigint[];
    unowned boolean;
    asked record;
    unknown text[];
    memory_ids uuid[] := '{}';
    message_ids uuid[] := '{}';
    chunk_ids uuid[] := '{}';
    knowledge_ids uuid[] := '{}';
    insight_ids uuid[] := '{}';
begin
    if p_count is null or p_count < 0 then
        raise exception 'match_count is %', coalesce(p_count::text, 'null')
            using errcode = 'invalid_parameter_value', hint = 'Give how many results you want, 0 or more.';
    end if;
    if cardinality(wanted) > 100 then
        raise exception 'sources has % entries', cardinality(wanted)
            using errcode = 'invalid_parameter_value', hint = 'Sources: ' || array_to_string(known, ', ') || '.';
    end if;
    select array_agg(coalesce(w, 'null')) into unknown from unnest(wanted) w where w <> all (known) or w is null;
    if unknown is not null then
        raise exception 'unknown source %', unknown[1]
            using errcode = 'invalid_parameter_value', hint = 'Sources: ' || array_to_string(known, ', ') || '.';
    end if;
    if jsonb_typeof(condition) <> 'object' then
        raise exception 'filter is of type %', jsonb_typeof(condition)
            using errcode = 'invalid_parameter_value',
                  hint = 'Give an object that the metadata contain, such as {"kind": "fact"}.';
    end if;
    if vector_dims(p_embedding) <> :dimensions then
        raise exception 'query_embedding has % dimensions, this database''s have :dimensions', vector_dims(p_embedding)
            using errcode = 'invalid_parameter_value', hint = 'Embed the query with the model that the rows are embedded with.';
    end if;
    -- Nobody has nothing, and who has switched memory off is told nothing.
    if (not serves and asker is null) or memoryd.memory_is_off(asker) then
        return;
    end if;
    if not serves then
        wanted := array_remove(wanted, 'knowledge'); -- which is the agents'
    end if;
    select * into scopes, unowned from memoryd.scopes_asked(p_agent, p_user, serves);
    if not serves then
        scopes := memoryd.scopes_open(scopes); -- asked here, so that none of the rest asks again
    end if;
    select * into asked from memoryd.question(p_query, scopes, 500, p_near);

    if 'memory' = any(wanted) then
        memory_ids := memoryd.candidates_memory(
            scopes, asked.weights, asked.words, asked.word_scopes, asked.pairs, asked.pair_scopes,
            p_embedding, reach);
    end if;
    if 'conversation' = any(wanted) then
        message_ids := memoryd.candidates_conversation(
            scopes, asked.weights, asked.words, asked.word_scopes, asked.pairs, asked.pair_scopes,
            p_embedding, reach);
    end if;
    if 'document' = any(wanted) then
        chunk_ids := memoryd.candidates_document(
            scopes, asked.weights, asked.words, asked.word_scopes, asked.pairs, asked.pair_scopes,
            p_embedding, reach);
    end if;
    if 'knowledge' = any(wanted) then
        knowledge_ids := memoryd.candidates_knowledge(
            scopes, asked.weights, asked.words, asked.word_scopes, asked.pairs, asked.pair_scopes,
            p_embedding, reach);
    end if;
    if 'insight' = any(wanted) then
        insight_ids := memoryd.candidates_insight(
            scopes, asked.weights, asked.words, asked.word_scopes, asked.pairs, asked.pair_scopes,
            p_embedding, reach);
    end if;

    return query
    with candidates as materialized (
        select f.* from memoryd.find_memory(memory_ids, asked.weights, p_embedding, p_user, unowned, p_agent, condition) f
        where memory_ids <> '{}'
        union all
        select f.* from memoryd.find_conversation(message_ids, asked.weights, p_embedding, p_user, unowned, p_agent, condition) f
        where message_ids <> '{}'
        union all
        select f.* from memoryd.find_document(chunk_ids, asked.weights, p_embedding, p_user, unowned, p_agent, condition) f
        where chunk_ids <> '{}'
        union all
        select f.* from memoryd.find_knowledge(knowledge_ids, asked.weights, p_embedding, p_user, unowned, p_agent, condition) f
        where knowledge_ids <> '{}'
        union all
        select f.* from memoryd.find_insight(insight_ids, asked.weights, p_embedding, p_user, unowned, p_agent, condition) f
        where insight_ids <> '{}'
    ), parts as materialized (
        select c.*,
               coalesce(c.lexical / nullif(max(c.lexical) over (), 0), 0) as lexical_part,
               coalesce(0.5 * c.near / nullif(max(c.near) over (), 0), 0) as dense_part,
               coalesce(c.prior, 0) as prior_part,
               case when c.speaker = any(asked.speakers) then 0.5 else 0 end as named_part,
               case when asked.asks_when and c.says_when then 0.2 else 0 end as timed_part,
               max(least(1, greatest(c.lexical / asked.ideal, c.near))) over () as fit
        from (select f.*, coalesce(greatest(0, nullif(f.similarity, 'NaN')), 0) as near from candidates f) c
        where c.lexical > 0 or c.near > 0.2
    ), sums as (
        select p.*, p.lexical_part + p.dense_part + p.prior_part + p.named_part + p.timed_part as total
        from parts p
    ), sessions as (
        select s.*, case when s.session_id is null then 0
                         else 0.3 * max(s.total) over (partition by s.session_id) end as session_part
        from sums s
    ), hybrids as (
        select s.*, greatest(0, s.total + s.session_part) / nullif(max(s.total + s.session_part) over (), 0) * s.fit as hybrid
        from sessions s
    ), ranked as materialized (
        select h.* from hybrids h
        order by h.hybrid * h.weight desc, h.created_at desc, h.id
        limit greatest(100, 2::bigint * p_count)
    ), weighed as materialized (
        select r.source, r.id, r.similarity, r.created_at, r.lexical_part, r.dense_part, r.prior_part, r.named_part, r.timed_part,
               r.session_part,
               case when k.keywords && asked_keywords
                    then (select count(*) from unnest(asked_keywords) w where w = any(k.keywords))::double precision
                         / cardinality(asked_keywords)
                    else r.hybrid end as relevance,
               r.weight
        from ranked r
        left join lateral (
            select m.keywords from public.agent_memory m
            where p_embedding is null and r.source = 'memory' and m.id = r.id
            union all
            select i.keywords from public.dream_insights i
            where p_embedding is null and r.source = 'insight' and i.id = r.id
        ) k on true
    ), top as materialized (
        select w.id from weighed w
        where w.source = 'memory' and w.relevance > 0.3
        order by w.relevance desc
        limit 20
    ), links as materialized (
        select l.id, max(l.strength) as strength
        from (
            select a.related_memory_id as id, a.strength
            from public.memory_associations a join top on a.memory_id = top.id
            where a.strength >= 0.3
            union all
            select a.memory_id, a.strength
            from public.memory_associations a join top on a.related_memory_id = top.id
            where a.strength >= 0.3
        ) l
        group by l.id
    ), scored as (
        select w.source, w.id, w.similarity, w.created_at, w.lexical_part, w.dense_part, w.prior_part, w.named_part,
               w.timed_part, w.session_part, w.relevance, w.weight, coalesce(0.2 * l.strength, 0) as association
        from weighed w
        left join links l on l.id = w.id and w.source = 'memory'
        union all
        -- What is linked to the best belongs to it, whatever its own words.
        select 'memory', m.id, 1 - (m.embedding <=> p_embedding), m.created_at, 0, 0, 0, 0, 0, 0,
               case when p_embedding is null and m.keywords && asked_keywords
                    then (select count(*) from unnest(asked_keywords) w where w = any(m.keywords))::double precision
                         / cardinality(asked_keywords)
                    else 0 end,
               memoryd.kind_weight(m.kind), 0.2 * l.strength
        from links l
        join public.agent_memory m on m.id = l.id
        where not exists (select from weighed w where w.id = m.id and w.source = 'memory')
          and (p_user is null or m.user_id = p_user)
          and (not unowned or m.user_id is null)
          and (p_agent is null or m.agent_id in (p_agent, '_shared'))
          and (m.expires_at is null or m.expires_at > now())
          and (condition = '{}' or m.metadata || jsonb_strip_nulls(
                   jsonb_build_object('kind', m.kind, 'memory_type', m.memory_type)) @> condition)
    ), best as materialized (
        select s.*, memoryd.recency(s.created_at) as recency,
               s.relevance * s.weight + memoryd.recency(s.created_at) + s.association as rank
        from scored s
        where s.relevance > 0 or s.association > 0
        order by rank desc, s.created_at desc, s.id
        limit p_count
    )
    select b.source, b.id, s.content, least(1, b.rank), b.similarity, s.metadata, b.created_at,
           b.lexical_part::double precision, b.dense_part::double precision, b.prior_part::double precision,
           b.named_part::double precision, b.timed_part::double precision, b.session_part::double precision,
           b.relevance, b.weight::double precision, b.recency::double precision, b.association
    from best b
    join (
        select * from memoryd.show_memory(array(select b.id from best b where b.source = 'memory'))
        union all
        select * from memoryd.show_conversation(array(select b.id from best b where b.source = 'conversation')) where message_ids <> '{}'
        union all
        select * from memoryd.show_document(array(select b.id from best b where b.source = 'document')) where chunk_ids <> '{}'
        union all
        select * from memoryd.show_knowledge(array(select b.id from best b where b.source = 'knowledge')) where knowledge_ids <> '{}'
        union all
        select * from memoryd.show_insight(array(select b.id from best b where b.source = 'insight')) where insight_ids <> '{}'
    ) s on s.id = b.id and s.source = b.source
    order by b.rank desc, b.created_at desc, b.id;
end
$$;

create function public.recall(
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
    from memoryd.search(recall.query, recall.agent_id, recall.user_id, recall.query_embedding, recall.match_count,
                        recall.sources, recall.filter) s;
    get diagnostics found_rows = row_count;
    perform memoryd.note_read(coalesce(recall.user_id, memoryd.caller_id()), recall.agent_id, 'recall', found_rows,
                              (extract(epoch from clock_timestamp() - began) * 1000)::integer);
end
$$;
comment on function public.recall is 'What is remembered about a query, best first. Give query_embedding for the dense half. Row-level security decides what is found.';

create function public.explain_recall(
    query text,
    agent_id text default null,
    user_id uuid default null,
    query_embedding vector default null,
    match_count integer default 10,
    sources text[] default null,
    filter jsonb default '{}'
) returns table (source text, id uuid, content text, score double precision, lexical double precision, dense double precision,
                 prior double precision, named double precision, timed double precision, session double precision,
                 relevance double precision, weight double precision, recency double precision, association double precision)
language plpgsql volatile
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
#variable_conflict use_column
declare
    began constant timestamptz := clock_timestamp();
    found_rows integer;
begin
    return query
    select s.source, s.id, s.content, s.score, s.lexical, s.dense, s.prior, s.named, s.timed, s.session, s.relevance, s.weight,
           s.recency, s.association
    from memoryd.search(explain_recall.query, explain_recall.agent_id, explain_recall.user_id, explain_recall.query_embedding,
                        explain_recall.match_count, explain_recall.sources, explain_recall.filter) s;
    get diagnostics found_rows = row_count;
    perform memoryd.note_read(coalesce(explain_recall.user_id, memoryd.caller_id()), explain_recall.agent_id, 'explain_recall',
                              found_rows, (extract(epoch from clock_timestamp() - began) * 1000)::integer);
end
$$;
comment on function public.explain_recall is 'recall() with what each part contributed: relevance from lexical to session, then score = min(1, relevance x weight + recency + association).';
