-- From a question to the words and weights to look for.

-- The speakers in these scopes (null: in any) who have a name among the lexemes; null where there are none.
-- If there are more than fifty, it returns the fifty with the most words of their name among the lexemes;
-- of these, shorter names first.
create or replace function memoryd.speakers_named(p_lexemes text[], p_scopes bigint[]) returns text[]
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select array_agg(f.speaker order by f.speaker)
        from (
            select n.speaker
            from unnest(p_lexemes) as a(lexeme)
            cross join lateral (
                -- Looked up by the whole key, scope and lexeme. By the lexeme first, it would read the
                -- speakers of that name in all scopes, and the time would show how many there are.
                (select s.speaker
                 from unnest(p_scopes) as p(scope)
                 cross join lateral (
                     select t.speaker from memoryd.speaker_statistics t
                     where t.lexeme = a.lexeme and t.scope = p.scope
                     order by t.speaker
                     limit 20
                 ) s
                 limit 20)
                union all
                (select s.speaker
                 from memoryd.speaker_statistics s
                 where p_scopes is null and s.lexeme = a.lexeme
                 limit 20)
            ) n
            group by n.speaker
            order by count(distinct a.lexeme) desc, length(n.speaker), n.speaker
            limit 50
        ) f);
end
$$;

-- What is asked for in these scopes, which are counted (p_everywhere: the search is one of all scopes).
--   languages  Those that the question is looked up in: its own, and the four that most rows of the scopes
--              are in. The first is the one that it most likely is in: its own if the scopes have it. Of the
--              scopes of others an end user's question learns nothing: each is read by itself.
--   telling    See words_of_question().
--   speakers   Those that the question names.
--   words      The lexemes of the question in these languages, without those of the speakers' names. The
--              first scope is the asker's own. A name that only speakers in the others have (members of a
--              group chat) takes no word out of the question that rows of the first have: otherwise who is
--              called "Lantern" there would keep others from finding their own rows about lanterns.
create or replace function memoryd.words_asked(
    p_query text, p_counted bigint[], p_everywhere boolean,
    out languages text[], out telling text, out speakers text[], out words text[])
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    allowed constant text[] := (
        select nullif(array(select jsonb_array_elements_text(s.value)), '{}')
        from memoryd.settings s where s.key = 'languages');
    names constant text[] := (memoryd.words_in(p_query))[1:200];
    own text;
    passages bigint[];
    said text;
    of_speakers text[];
    of_own text[];
begin
    select array_agg(u.language), array_agg(u.passages) into languages, passages
    from (select t.language, sum(t.passages)::bigint as passages
          from unnest(p_counted) as c(scope)
          cross join lateral (
              select s.language, s.passages from memoryd.scope_statistics s where s.scope = c.scope
              offset 0) t
          group by t.language
          order by 2 desc, 1) u;
    own := memoryd.language_of(p_query, allowed, case
        when languages[1] <> 'simple' and passages[1] * 2 > (select sum(n) from unnest(passages) n)
        then languages[1] end);
    languages := coalesce(languages[:4], '{english}');
    languages := case when own = any(languages) then own || array_remove(languages, own)
                      else languages || own end;
    telling := (memoryd.words_of_question(
        p_query, memoryd.language_of(p_query, allowed, languages[1]))).telling;
    said := coalesce(telling, p_query);
    speakers := memoryd.speakers_named(names, p_counted);
    -- A single letter of what is written without spaces says nothing beside pairs. Chinese ones are words.
    words := (array(
        select w from unnest(memoryd.words_in(said, languages)) w
        where length(w) > 1 or ascii(w) < 3584 or length(said) = 1
           or w !~ '[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff]'))[1:200];
    if speakers is null then
        return;
    end if;
    of_speakers := memoryd.words_in(array_to_string(speakers, ' '), languages);
    -- Scope 0 is one of an agent's.
    if not p_everywhere and cardinality(p_counted) > 1 and 0 <> all (p_counted) then
        of_own := memoryd.words_in(
            array_to_string(memoryd.speakers_named(names, p_counted[1:1]), ' '), languages);
        words := array(
            select w from unnest(words) w
            where w <> all (of_own)
              and (w <> all (of_speakers) or exists (
                      select from memoryd.lexeme_statistics s
                      where s.scope = p_counted[1] and s.lexeme = w offset 0)));
    else
        words := array(select w from unnest(words) w where w <> all (of_speakers));
    end if;
end
$$;

-- What is embedded of a question: with the name of a speaker, the nearest messages are those that address
-- this speaker, so it is left out. So is what two of three rows in these scopes say (null: none are looked
-- at), of ten or more, unless nothing else is asked: the name of a project does not tell its rows apart.
create or replace function memoryd.without_names(p_query text, p_speakers text[], p_scopes bigint[])
returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    talk constant jsonb := memoryd.time_words() -> 'talk' -> 'english';
    asked constant text[] := case when p_scopes <> '{}' then memoryd.words_in(left(p_query, 8192)) end;
    most constant double precision := (
        select sum(t.passages) * 2 / 3.0
        from unnest(p_scopes) as c(scope)
        cross join lateral (
            select s.passages from memoryd.scope_statistics s where s.scope = c.scope offset 0) t);
    common constant text[] := case when most > 6 then array(
        select w.lexeme
        from unnest(asked[1:200]) as w(lexeme)
        cross join unnest(p_scopes) as c(scope)
        cross join lateral (
            select s.rows from memoryd.lexeme_statistics s
            where s.scope = c.scope and s.lexeme = w.lexeme
            offset 0) t
        group by w.lexeme
        having sum(t.rows) >= most) end;
    names constant text := (
        select string_agg(regexp_replace(n, '([^[:alnum:][:space:]])', '\\\1', 'g'), '|'
                          order by length(n) desc, n)
        from unnest(p_speakers || case when exists (
                 select unnest(asked) except select unnest(common) except select jsonb_object_keys(talk))
             then common end) n);
    rest text := left(p_query, 32768);
begin
    if names is not null then
        -- All names in one pass: a pass over the text for each name would let a client keep the server busy.
        rest := regexp_replace(rest, '\m(' || names || ')(''s|’s)?(?!\w)', '', 'gi');
    end if;
    return case when rest ~ '\w' then rest else left(p_query, 32768) end;
end
$$;

-- For the daemon, which embeds a question. text: the question without the names of speakers, and without the
-- words that most rows have. words, lexemes: the words that are not in
-- the lexicon, which the daemon embeds and looks up with near_words().
create or replace function memoryd.read_question(
    p_query text, p_agent text, p_user uuid, out text text, out words text[], out lexemes text[])
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    scopes constant bigint[] := (memoryd.scopes_asked((null, true, true), p_agent, p_user)).scopes;
begin
    text := memoryd.without_names(
        p_query, memoryd.speakers_named((memoryd.words_in(left(p_query, 8192)))[1:200], scopes),
        case when p_user is null then scopes else array_remove(scopes, 0) end);
    if memoryd.asks_nothing(text) then
        text := '';
    end if;
    select array_agg(w.word), array_agg(w.lexeme) into words, lexemes
    from (
        select distinct on (s.lexeme) s.lexeme, m.word[1] as word
        from regexp_matches(lower(left(text, 8192)), '[a-z]{3,24}', 'g') as m(word)
        cross join lateral (select (ts_lexize('english_stem', m.word[1]))[1] as lexeme) s
        where s.lexeme is not null
          and (not exists (select from memoryd.lexicon l
                           where l.lexeme = s.lexeme and l.embedding is not null)
               -- A question of a user: the lexicon may show them only words of their own rows.
               or (p_user is not null and not exists (
                       select from memoryd.lexeme_statistics c
                       where c.scope = memoryd.scope_of(p_user, null) and c.lexeme = s.lexeme)))
        limit 50
    ) w;
end
$$;

-- The lexemes in the lexicon that are nearest to these words, which are not in it: what p_near brings to
-- the other functions. p_vectors: the words' embeddings.
create or replace function memoryd.near_words(p_lexemes text[], p_vectors vector[]) returns jsonb
language sql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
    select jsonb_agg(jsonb_build_object(
        'lexeme', w.lexeme, 'neighbour', n.lexeme, 'similarity', n.similarity))
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

-- In how many rows of each counted scope these lexemes occur. Each lexeme is looked up by itself: a join
-- could read all lexemes of a scope.
create or replace function memoryd.count_lexeme_rows(
    p_caller memoryd.caller, p_lexemes text[], p_counted bigint[])
returns table (lexeme text, scope bigint, rows integer)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    privileged constant boolean := (p_caller).privileged;
    mine constant bigint[] := case when not privileged then p_counted else '{}' end;
begin
    return query
    select w.lexeme, s.scope, s.rows
    from (select distinct l as lexeme from unnest(p_lexemes) l) w
    cross join lateral (
        select s.scope, s.rows from memoryd.lexeme_statistics s
        where privileged and s.scope = any(p_counted) and s.lexeme = w.lexeme
        union all
        select t.scope, t.rows
        from unnest(mine) as c(scope)
        cross join lateral (
            select s.scope, s.rows from memoryd.lexeme_statistics s
            where s.scope = c.scope and s.lexeme = w.lexeme
            offset 0) t
        offset 0
    ) s;
end
$$;

-- The lexemes to look for: each one asked, and the nearest eight that occur in the counted scopes. Each comes
-- with its weight and with each counted scope in which it occurs. The weight is BM25's inverse document
-- frequency, times the square of the similarity to the lexeme asked for (`asked`). `upto`: how many rows this
-- lexeme and those with more weight lead to. The scopes of an end user are looked at one by one: for an array
-- of scopes, Postgres 16 looks up only the word and filters the scopes afterwards. This reads a page more if
-- other users have the word, and the time would show it.
create or replace function memoryd.weigh_lexemes(
    p_caller memoryd.caller, p_asked text[], p_languages text[], p_counted bigint[], p_near jsonb,
    p_all_rows double precision)
returns table (lexeme text, asked text, similarity real, weight double precision, scope bigint, rows integer,
               upto bigint)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    privileged constant boolean := (p_caller).privileged;
    mine constant bigint[] := case when not privileged then p_counted else '{}' end;
begin
    return query
    with given as materialized (
        select n.* from jsonb_to_recordset(p_near) as n(lexeme text, neighbour text, similarity real)
        where n.lexeme = any(p_asked) and n.similarity >= 0.3
    ), near as materialized (
        select a.lexeme as asked, a.lexeme, 1::real as similarity from unnest(p_asked) as a(lexeme)
        union all
        select a.lexeme, n.neighbour, n.similarity
        -- The lexicon is English.
        from (select unnest(p_asked) as lexeme where 'english' = any(p_languages)
              except select g.lexeme from given g where g.similarity = 1) a
        cross join lateral (
            select n.neighbour, n.similarity
            from (select n.neighbour, n.similarity from memoryd.lexeme_neighbours n
                  where n.lexeme = a.lexeme and n.similarity >= 0.3
                  order by n.similarity desc
                  limit 40) n
            where (privileged and exists (
                      select from memoryd.lexeme_statistics s
                      where s.scope = any(p_counted) and s.lexeme = n.neighbour offset 0))
               or exists (select from unnest(mine) as c(scope) cross join lateral (
                              select from memoryd.lexeme_statistics s
                              where s.scope = c.scope and s.lexeme = n.neighbour offset 0) s)
            limit 8
        ) n
        -- A word is in the lexicon because a row contains it. An end user may learn this only of rows that
        -- they may read.
        where privileged or exists (select from unnest(mine) as c(scope) cross join lateral (
                                        select from memoryd.lexeme_statistics s
                                        where s.scope = c.scope and s.lexeme = a.lexeme offset 0) s)
        union all
        select g.lexeme, g.neighbour, g.similarity from given g
    ), counts as materialized (
        select c.* from memoryd.count_lexeme_rows(p_caller, array(select n.lexeme from near n), p_counted) c
    ), ranked as (
        select n.lexeme, n.asked, n.similarity,
               -- As it is written, with marks: in how many rows it is without them, where none has it so.
               coalesce(c.rows, case when n.similarity = 1 then max(c.rows) over w end, 0) as rows,
               row_number() over (w order by n.similarity desc, n.lexeme) as nth,
               -- Who writes marks means them: without them the word counts less.
               case when n.lexeme = n.asked and bool_or(n.similarity = 1 and n.lexeme <> n.asked) over w
                    then 0.64 else n.similarity ^ 2 end as worth
        from near n
        left join (select c.lexeme, sum(c.rows) as rows from counts c group by c.lexeme) c
            on c.lexeme = n.lexeme
        where n.similarity = 1 or c.rows > 0
        window w as (partition by n.asked)
    ), weighed as materialized (
        select r.lexeme, (array_agg(r.asked order by r.similarity desc, r.asked))[1] as asked,
               max(r.similarity) as similarity,
               max(r.worth * memoryd.telling_part(p_languages[1], r.rows, p_all_rows)
                   * ln(1 + (greatest(p_all_rows - r.rows, 0) + 0.5) / (r.rows + 0.5))
               )::double precision as weight
        from ranked r
        where r.nth <= 9
        group by r.lexeme
    )
    select w.lexeme, w.asked, w.similarity, w.weight, c.scope, c.rows,
           sum(c.rows) over (partition by c.scope is not distinct from p_counted[1]
                             order by w.weight desc, w.lexeme, c.scope)
    from weighed w
    left join counts c on c.lexeme = w.lexeme;
end
$$;

-- `weights`, `parts`, `nears`, `tops` and `rare` of memoryd.question(). Columns: a lexeme each, with the
-- lexeme asked for, its weight, and how many rows have it (null: none): words that no row has come last.
create or replace function memoryd.question_parts(
    p_lexemes text[], p_asked text[], p_weights double precision[], p_rows bigint[],
    out weights sparsevec, out parts sparsevec[], out nears sparsevec[], out tops double precision[],
    out rare sparsevec)
language plpgsql immutable parallel safe
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
begin
    with words as (
        select k.asked, max(k.weight) as top,
               least(24, row_number() over (
                   order by bool_or(k.rows is not null) desc, max(k.weight) desc, k.asked)) as slot
        from unnest(p_lexemes, p_asked, p_weights, p_rows) as k(lexeme, asked, weight, rows)
        where k.weight > 0
        group by k.asked
    ), indexes as (
        select w.slot, memoryd.sparse_index(k.lexeme) as index, k.lexeme = k.asked as own,
               max(k.weight)::real as weight
        from unnest(p_lexemes, p_asked, p_weights) as k(lexeme, asked, weight)
        join words w on w.asked = k.asked
        where k.weight > 0
        group by 1, 2, 3
    ), vectors as (
        select p.slot,
               ('{' || string_agg(p.index || ':' || p.weight, ',') filter (where p.own)
                    || '}/1000000000')::sparsevec as own,
               ('{' || string_agg(p.index || ':' || p.weight, ',') filter (where not p.own)
                    || '}/1000000000')::sparsevec as near
        from indexes p
        group by p.slot
    )
    select array_agg(v.own order by v.slot), array_agg(v.near order by v.slot),
           array_agg(t.top order by v.slot)
    into parts, nears, tops
    from vectors v
    join (select w.slot, sum(w.top) as top from words w group by w.slot) t on t.slot = v.slot;
    weights := (
        select ('{' || string_agg(v.index || ':' || v.weight, ',') || '}/1000000000')::sparsevec
        from (select memoryd.sparse_index(k.lexeme) as index, max(k.weight)::real as weight
              from unnest(p_lexemes, p_weights) as k(lexeme, weight) where k.weight > 0 group by 1) v);
    rare := (
        select ('{' || string_agg(distinct memoryd.sparse_index(k.lexeme) || ':1', ',')
                    || '}/1000000000')::sparsevec
        from unnest(p_lexemes, p_asked, p_rows) as k(lexeme, asked, rows)
        where k.lexeme = k.asked and coalesce(k.rows, 0) <= 3);
end
$$;

-- memoryd.question() without what it reads from the text: the words that are asked for, those of them that
-- are of the question's own language (p_plain), and those that the statistics may lack (p_uncounted, each
-- with its scope). Of the combinations those with the fewest rows, if their words were independent of each
-- other, come first, at most six of a scope and as far as the budget goes; of three words where two lead to
-- more rows than are read.
create or replace function memoryd.weigh_question(
    p_caller memoryd.caller, p_asked text[], p_languages text[], p_plain text[], p_scopes bigint[],
    p_counted bigint[], p_near jsonb, p_uncounted text[], p_uncounted_scopes bigint[])
returns memoryd.question
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    made memoryd.question;
    all_rows double precision;
    all_words double precision;
    budget integer;
begin
    -- Each scope is read by itself: what others have must not cost anything.
    select coalesce(sum(t.passages), 0), coalesce(sum(t.words), 0) into all_rows, all_words
    from unnest(p_counted) as c(scope)
    cross join lateral (
        select s.passages, s.words from memoryd.scope_statistics s where s.scope = c.scope offset 0) t;
    budget := 500 + least(all_rows / 1000, 2000)::integer;
    with keys as materialized (
        select * from memoryd.weigh_lexemes(p_caller, p_asked, p_languages, p_counted, p_near, all_rows)
    ), biggest as materialized (
        -- The caller's own scope, and the one with the most rows.
        select array[p_counted[1], (select k.scope from keys k where k.similarity = 1
                                    order by k.rows desc nulls last, k.scope limit 1)] as scopes
    ), common as materialized (
        -- Words asked for that lead to too many rows by themselves: the five rarest of these scopes.
        select * from (
            select k.lexeme, k.scope, k.rows,
                   row_number() over (partition by k.scope order by k.rows, k.lexeme) as nth
            from keys k cross join biggest b
            where k.similarity = 1 and k.upto > budget and k.scope = any(b.scopes)) r where r.nth <= 5
    ), singles as (
        select array_agg(t.lexeme) as lexemes, array_agg(t.scope) as scopes
        from (select k.lexeme, k.scope from keys k cross join biggest b
              where k.scope is not null
                -- A word that stands alone makes no pair, however common it is.
                and (k.upto <= budget or (k.similarity = 1 and k.scope = any(b.scopes)
                                          and (select count(*) from common c where c.scope = k.scope) < 2))
              union all
              -- In scopes that are not counted, every word.
              select a, s from unnest(p_asked) a, unnest(p_scopes) s where s <> all (p_counted)
              union all
              select * from unnest(p_uncounted, p_uncounted_scopes)) t
    ), pairs as materialized (
        select a.lexeme as one, b.lexeme as other, b.nth, a.scope, a.rows * (b.rows / all_rows) as rows
        from common a join common b on a.scope = b.scope and a.nth < b.nth
    ), together as (
        select array_agg(w.lexeme order by r.scope, r.nth, w.number) as lexemes,
               array_agg(r.scope order by r.scope, r.nth, w.number) as scopes
        from (select t.*, row_number() over w as nth, sum(t.rows) over w as upto
              from (select array[p.one, p.other, p.other] as words, p.scope, p.rows from pairs p
                    where p.rows <= 500 or (select count(*) from common c where c.scope = p.scope) = 2
                    union all
                    select array[p.one, p.other, c.lexeme], p.scope, p.rows * (c.rows / all_rows)
                    from pairs p join common c on c.scope = p.scope and c.nth > p.nth
                    where p.rows > 500) t
              window w as (partition by t.scope order by t.rows, t.words)) r
        cross join lateral unnest(r.words) with ordinality as w(lexeme, number)
        where r.nth <= 6 and (r.nth = 1 or r.upto <= budget)
    )
    -- Where none is counted yet, the average length is that of a message.
    select p.*, (select sum(d.weight)
                 from (select max(k.weight) as weight from keys k
                       where k.similarity = 1 and k.asked = any(p_plain) group by k.asked) d),
           coalesce(o.lexemes, '{}'), coalesce(o.scopes, '{}'), coalesce(t.lexemes, '{}'),
           coalesce(t.scopes, '{}'), all_rows,
           case when all_rows > 0 then greatest(1, all_words / all_rows) else 20 end
    into made.weights, made.parts, made.nears, made.tops, made.rare, made.ideal, made.words,
         made.word_scopes, made.combinations, made.combination_scopes, made.rows, made.average_length
    from singles o
    cross join together t
    cross join (select array_agg(d.lexeme) as lexemes, array_agg(d.asked) as asked,
                       array_agg(d.weight) as weights, array_agg(d.rows) as rows
                from (select k.lexeme, k.asked, k.weight, sum(k.rows) as rows from keys k
                      group by k.lexeme, k.asked, k.weight) d) c
    cross join lateral memoryd.question_parts(c.lexemes, c.asked, c.weights, c.rows) p;
    return made;
end
$$;

-- What to look for to answer a question in these scopes (null: all), which are open to the caller:
--   weights   The inner product of a row's sparse_embedding with this is the row's BM25 score. Words with a
--             similar meaning count by the square of their similarity.
--   words     Lexemes to look for, each in the scope beside it (word_scopes). They lead to at most 500 rows
--             (more in big scopes).
--   combinations  Words that lead to more rows are looked for together: rows that contain two of them, or
--             three where two lead to too many rows. Each is three words, of which the last two may be the
--             same. The rarest come first. Each word has its scope beside it (combination_scopes).
--   speakers  The speakers that the question names. Their names are not searched for as words, because the
--             messages that contain a name are mostly those that address the speaker.
--   ideal     The score of a row that contains every word asked for, in the first of the languages asked.
--   asked     The words asked for, as lexemes.
--   parts     The words asked for, each as weights of its own: the 23 of the highest weight, and all others
--             together as the 24th. nears: the same of their near words; tops: the highest weight of each.
--   rare      The words asked for that at most three of the counted rows have, as one vector.
--   role      The role that the question speaks of: user (I, my), assistant (you); null: none, or it names a
--             speaker.
--   times      The days that the question names, as of p_asked_at (null: now); null: it names none.
--   only_times  Whether nothing else is asked.
--   near_times  The same, and days near them.
--   rows       How many rows the counted scopes have.
-- p_near: the neighbours of words that are not in the lexicon: [{"lexeme", "neighbour", "similarity"}].
create or replace function memoryd.question(
    p_caller memoryd.caller, p_query text, p_scopes bigint[], p_near jsonb,
    p_asked_at timestamptz default null)
returns memoryd.question
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    text constant text := left(p_query, 8192);
    scopes constant bigint[] := coalesce(p_scopes, array(
        -- The words of a question to all scopes are looked for in the thousand with the most rows.
        select s.scope from memoryd.scope_statistics s
        group by s.scope order by sum(s.passages) desc limit 1000));
    -- How common a word is in what others share would tell what they share: so for an end user only their own
    -- rows and those of their groups count, all of which they may read.
    counted constant bigint[] := case when p_caller.privileged then scopes else array_remove(scopes, 0) end;
    asked constant record := memoryd.words_asked(text, counted, p_scopes is null);
    said constant text := coalesce(asked.telling, text);
    today constant date := coalesce(memoryd.day_of(p_asked_at), memoryd.day_of(now()));
    written text[];
    uncounted text[];
    uncounted_scopes bigint[];
    made memoryd.question;
begin
    if octet_length(said) > length(said) then
        written := array(
            select w from unnest(asked.languages) l
            cross join lateral unnest(tsvector_to_array(memoryd.lexemes_in(said, l, true))) w
            except select unnest(memoryd.words_in(said, asked.languages)));
    end if;
    -- The words that the statistics may lack: they do not count rows that were indexed a moment ago.
    if p_scopes is null then
        select array_agg(u.a), array_agg(u.scope) into uncounted, uncounted_scopes
        from (select distinct a, c.scope
              from (select l.scope, l.lexemes from memoryd.lexeme_changes l order by l.id desc limit 5000) c
              cross join lateral unnest(tsvector_to_array(c.lexemes)) a where a = any(asked.words)) u;
    else
        -- The offset: each is looked up by itself, or what is read would depend on the words of other users.
        select array_agg(a), array_agg(s) into uncounted, uncounted_scopes
        from unnest(asked.words) a, unnest(counted) s
        where not exists (
            select from memoryd.lexeme_statistics c where c.scope = s and c.lexeme = a offset 0);
    end if;
    made := memoryd.weigh_question(
        p_caller, asked.words, asked.languages, case when asked.telling is null then '{}'
            else memoryd.words_in(asked.telling, asked.languages[1:1]) end, scopes,
        counted, coalesce(p_near, '[]') || coalesce((select jsonb_agg(jsonb_build_object(
            'lexeme', (memoryd.words_in(w, '{simple}'))[1], 'neighbour', w, 'similarity', 1))
            from unnest(written) w), '[]'), uncounted, uncounted_scopes);
    made.asked := asked.words || written;
    made.rare := case when asked.telling is not null then made.rare end;
    -- Pairs of letters meet by chance as often as words do in ten times as many rows.
    made.rows := made.rows * case when octet_length(text) > length(text)
        and asked.telling ~ '[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]{2}' then 10 else 1 end;
    made.speakers := asked.speakers;
    select t.days, t.alone into made.times, made.only_times from memoryd.times_in(text, today, false) t;
    if made.times is not null and made.speakers is not null then
        select t.alone into made.only_times
        from memoryd.times_in(memoryd.without_names(text, made.speakers, null), today, false) t;
    end if;
    made.near_times := (
        -- As much before and after each time as a third of it, two days or more, and of what was lately also
        -- what was written since. Of what is to come nothing is written yet.
        select range_agg(daterange(lower(t.days) - w.days, greatest(
            upper(t.days) + w.days, case when today - upper(t.days) between 0 and 62 then today + 1 end)))
        from unnest(made.times) as t(days)
        cross join lateral (select greatest(2, coalesce(upper(t.days) - lower(t.days), 0) / 3)) as w(days)
        where coalesce(lower(t.days), today) <= today);
    made.role := case when made.speakers is not null then null
                      when lower(p_query) like any ('{%you%,%你%,%您%}')
                           and p_query ~* '\m(you|your|yours)\M|你|您' then 'assistant'
                      when p_query ~* '\m(i|my|me|mine|myself)\M|我' then 'user' end;
    return made;
end
$$;
