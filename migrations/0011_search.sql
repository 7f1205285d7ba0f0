-- What makes rows findable: the same search columns on the five searchable tables, written by the index topic; lexeme
-- statistics for each scope; the lexicon of words that stand near each other.
--
-- A scope is a body of text that is searched as one: a user's rows, an agent's own, or (0) what is shared.

create function memoryd.scope_of(p_user uuid, p_agent text) returns bigint
language sql immutable parallel safe
return case when p_user is not null then hashtextextended('user ' || p_user::text, 0)
            when p_agent is not null then hashtextextended('agent ' || p_agent, 0)
            else 0 end;

-- Lexemes are stems of English words; words of other languages stand as they are. Paths, names and addresses fall into their
-- parts, which is what is asked for. Nobody searches for the 33rd kilobyte.
create function memoryd.lexemes_of(p_text text) returns tsvector
language sql immutable parallel safe
return to_tsvector('pg_catalog.english'::regconfig,
                   -- The last three, which nobody sees, go.
                   translate(left(p_text, 32768), E'/\\_.:@=#\u200b\u00ad\ufeff\u2060', '         '));

-- A lexeme's place in a sparse vector: 1 to a milliard, which is pgvector's limit.
create function memoryd.sparse_index(p_lexeme text) returns integer
language sql immutable parallel safe
return ((hashtextextended(p_lexeme, 0) & 2147483647) % 1000000000 + 1)::integer;

-- The keys of the inverted index: a lexeme within a scope, so that one scope's words are never looked for among another's rows.
create function memoryd.search_terms(p_scope bigint, p_lexemes tsvector) returns bigint[]
language sql immutable parallel safe strict
set search_path = pg_catalog, pg_temp
as $$ select array(select hashtextextended(l, p_scope) from unnest(tsvector_to_array(p_lexemes)) l) $$;

-- BM25 weights of many texts at once, given each text's lexemes and their (weighted) counts as columns: k1 = 1.2, b = 0.75. The
-- other factor, the inverse document frequency, comes with the question, so that a row need not be written again because
-- others arrived.
create function memoryd.bm25(p_ids uuid[], p_lexemes text[], p_counts real[], p_average real)
returns table (id uuid, weights sparsevec)
language sql immutable parallel safe
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
    select w.id, ('{' || string_agg(w.place || ':' || w.weight, ',') || '}/1000000000')::sparsevec
    from (
        select v.id, v.place, v.weight, row_number() over (partition by v.id order by v.weight desc, v.place) as rank
        from (
            select c.id, c.place,
                   (c.count * 2.2 / (c.count + 1.2 * (0.25 + 0.75 * sum(c.count) over (partition by c.id) / p_average)))::real as weight
            from (select l.id, memoryd.sparse_index(l.lexeme) as place, sum(l.count)::double precision as count
                  from unnest(p_ids, p_lexemes, p_counts) as l(id, lexeme, count)
                  group by 1, 2) c
        ) v
    ) w
    -- The heaviest: a sparsevec ends at 16,000.
    where w.rank <= 16000
    group by w.id
$$;

create function memoryd.prior_of(p_text text, p_lexemes integer) returns real
language sql immutable parallel safe
return (0.15 * ln(1 + 2.5 * p_lexemes) - case when right(rtrim(right(p_text, 100)), 1) in ('?', '？', '؟') then 0.2 else 0 end)::real;

create function memoryd.says_when(p_text text) returns boolean
language sql immutable parallel safe
return left(p_text, 8192) ~* '\m(yesterday|today|tonight|tomorrow|last|next|ago|weekend|weeks?|months?|years?|monday|tuesday|wednesday|thursday|friday|saturday|sunday|january|february|march|april|june|july|august|september|october|november|december|recently|since|just|morning|night|\d{4})\M';

-- What is written beside texts that stand for themselves. Own words count 3, as within a window (see memoryd.weigh_messages).
-- prior: longer texts say more; a question rarely is its own answer.
create function memoryd.weigh_texts(p_ids uuid[], p_texts text[])
returns table (id uuid, lexemes tsvector, weights sparsevec, prior real, says_when boolean)
language sql immutable parallel safe
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
    with texts as materialized (
        select t.id, t.text, memoryd.lexemes_of(t.text) as lexemes from unnest(p_ids, p_texts) as t(id, text)
    ), counts as (
        select array_agg(t.id) as ids, array_agg(l.lexeme) as lexemes, array_agg((3 * cardinality(l.positions))::real) as counts
        from texts t cross join lateral unnest(t.lexemes) l
    )
    select t.id, t.lexemes, coalesce(w.weights, '{}/1000000000'), memoryd.prior_of(t.text, length(t.lexemes)),
           memoryd.says_when(t.text)
    from texts t
    left join (select b.* from counts c cross join lateral memoryd.bm25(c.ids, c.lexemes, c.counts, 60) b) w on w.id = t.id
$$;

-- The same of one text.
create function memoryd.weigh_text(
    p_text text, out lexemes tsvector, out weights sparsevec, out prior real, out says_when boolean)
language sql immutable parallel safe
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
    select w.lexemes, w.weights, w.prior, w.says_when
    from memoryd.weigh_texts(array['00000000-0000-0000-0000-000000000000'::uuid], array[p_text]) w
$$;

-- An embedding's code: the signs of its numbers, and of the sums and the differences of its two halves. Hardly any of the ten
-- nearest by cosine is missing among the 200 nearest by code; with the plain signs it takes 400 and more. Of so many dimensions
-- that an index would not hold two bits of each, one; and of a single one there are no halves.
create function memoryd.code_of(p_embedding vector) returns bit varying
language sql immutable parallel safe strict
return case
    when :dimensions not between 2 and 8000 then binary_quantize(p_embedding)
    else binary_quantize(p_embedding)
        || binary_quantize(subvector(l2_normalize(p_embedding), 1, :dimensions / 2)
                           + subvector(l2_normalize(p_embedding), :dimensions - :dimensions / 2 + 1, :dimensions / 2))
        || binary_quantize(subvector(l2_normalize(p_embedding), 1, :dimensions / 2)
                           - subvector(l2_normalize(p_embedding), :dimensions - :dimensions / 2 + 1, :dimensions / 2))
end;

alter table public.agent_memory
    add column sparse_embedding sparsevec(1000000000),
    add column lexemes tsvector,
    add column prior real,
    add column says_when boolean,
    add column scope bigint not null generated always as (memoryd.scope_of(user_id, agent_id)) stored,
    add column code bit varying generated always as (memoryd.code_of(embedding)) stored;

alter table public.conversation_messages
    add column embedding vector(:dimensions),
    add column sparse_embedding sparsevec(1000000000),
    add column lexemes tsvector,
    add column prior real,
    add column says_when boolean,
    add column scope bigint not null
        generated always as (case when access_level is null then memoryd.scope_of(user_id, agent_id) else 0 end) stored,
    add column code bit varying generated always as (memoryd.code_of(embedding)) stored;

alter table public.memory_chunks
    add column dense_embedding vector(:dimensions),
    add column sparse_embedding sparsevec(1000000000),
    add column lexemes tsvector,
    add column prior real,
    add column says_when boolean,
    add column scope bigint not null
        generated always as (case when access_level is null then memoryd.scope_of(user_id, null) else 0 end) stored,
    add column code bit varying generated always as (memoryd.code_of(dense_embedding)) stored;

alter table public.shared_knowledge
    add column embedding vector(:dimensions),
    add column sparse_embedding sparsevec(1000000000),
    add column lexemes tsvector,
    add column prior real,
    add column says_when boolean,
    add column scope bigint not null generated always as (memoryd.scope_of(null, null)) stored,
    add column code bit varying generated always as (memoryd.code_of(embedding)) stored;

alter table public.dream_insights
    add column sparse_embedding sparsevec(1000000000),
    add column lexemes tsvector,
    add column prior real,
    add column says_when boolean,
    add column scope bigint not null generated always as (memoryd.scope_of(user_id, agent_id)) stored,
    add column code bit varying generated always as (memoryd.code_of(embedding)) stored;

-- Lexeme statistics. Beside words they count, under names that no word has, a scope's rows ('#memory', '#conversation' ...)
-- and what each speaker said ('@carolin Caroline': the speaker Caroline, by a lexeme of the name).

create table memoryd.lexeme_statistics (
    scope bigint not null,
    lexeme text collate "C" not null,
    rows integer not null,
    primary key (scope, lexeme)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
comment on table memoryd.lexeme_statistics is 'In how many rows of a scope a lexeme occurs; ''#memory'': how many memories it has; ''@carolin Caroline'': rows that Caroline said.';
create index lexeme_statistics_lexeme on memoryd.lexeme_statistics (lexeme, scope);

create table memoryd.lexeme_changes (
    id bigint generated always as identity primary key,
    scope bigint not null,
    lexemes text[] not null,
    counts integer[] not null
) with (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 2000);
comment on table memoryd.lexeme_changes is 'What statements added to and took from the statistics, not yet counted in: writers never wait for one another''s words.';

-- Every statement's words, in its own transaction: right through insert, update, delete and rollback.
create function memoryd.count_lexemes() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    mark constant text := '#' || tg_argv[0];
begin
    if tg_op = 'INSERT' then
        insert into memoryd.lexeme_changes (scope, lexemes, counts)
        select t.scope, array_agg(t.lexeme), array_agg(t.count)
        from (select n.scope, l.lexeme, count(*)::integer as count
              from new_rows n cross join lateral unnest(mark || tsvector_to_array(n.lexemes)) as l(lexeme)
              where n.lexemes is not null
              group by n.scope, l.lexeme) t
        group by t.scope;
    elsif tg_op = 'DELETE' then
        insert into memoryd.lexeme_changes (scope, lexemes, counts)
        select t.scope, array_agg(t.lexeme), array_agg(-t.count)
        from (select o.scope, l.lexeme, count(*)::integer as count
              from old_rows o cross join lateral unnest(mark || tsvector_to_array(o.lexemes)) as l(lexeme)
              where o.lexemes is not null
              group by o.scope, l.lexeme) t
        group by t.scope;
    else
        insert into memoryd.lexeme_changes (scope, lexemes, counts)
        -- Rows that have other lexemes now, or stand in another scope. Looked up by a hash, as no join of the two would be for sure.
        select t.scope, array_agg(t.lexeme), array_agg(t.count)
        from (select c.scope, l.lexeme, sum(c.count)::integer as count
              from (select n.scope, n.lexemes, 1 as count
                    from new_rows n
                    where n.lexemes is not null
                      and (n.id, n.scope, n.lexemes::text) not in (
                          select o.id, o.scope, o.lexemes::text from old_rows o where o.lexemes is not null)
                    union all
                    select o.scope, o.lexemes, -1
                    from old_rows o
                    where o.lexemes is not null
                      and (o.id, o.scope, o.lexemes::text) not in (
                          select n.id, n.scope, n.lexemes::text from new_rows n where n.lexemes is not null)) c
              cross join lateral unnest(mark || tsvector_to_array(c.lexemes)) as l(lexeme)
              group by c.scope, l.lexeme
              having sum(c.count) <> 0) t
        group by t.scope;
    end if;
    if found then
        insert into memoryd.jobs (topic, lane) values ('statistics', 'lexemes');
        perform memoryd.ring('statistics');
    end if;
    return null;
end
$$;

-- The lexicon: of each lexeme one word that it stands for, and the lexemes whose words mean something near. The vectors are
-- the local embedder's, whichever embedder the rows have.
create table memoryd.lexicon (
    lexeme text collate "C" primary key,
    word text not null,
    embedding vector(256)
);
comment on table memoryd.lexicon is 'Words of the texts, by lexeme; embedding null until their neighbours are known.';
create index lexicon_new on memoryd.lexicon (lexeme) where embedding is null;

-- Each pair stands there both ways round, with the same similarity: a lexeme's own rows lead to all that name it, by the
-- primary key. No foreign keys, which would look each lexeme up for each row: who writes a pair has locked both its lexemes, in
-- the order of lexemes, and forget_words(), which locks in the same order, takes a lexeme's pairs along.
create table memoryd.lexeme_neighbours (
    lexeme text collate "C" not null,
    neighbour text collate "C" not null,
    similarity real not null,
    primary key (lexeme, similarity, neighbour)
);
comment on table memoryd.lexeme_neighbours is 'Lexemes whose words are near in meaning, by cosine similarity.';

-- Of these words those whose lexeme is new here. Letters only, of a length that words have.
create function memoryd.unknown_words(p_words text[]) returns setof text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select distinct on (s.lexeme collate "C") w.word
    from unnest(p_words) as w(word)
    cross join lateral (select (ts_lexize('english_stem', w.word))[1] as lexeme) s
    where s.lexeme is not null
      and not exists (select from memoryd.lexicon l where l.lexeme = s.lexeme offset 0)
    -- The shortest form is most often the word itself.
    order by s.lexeme collate "C", length(w.word), w.word
$$;

-- Adds words that are new here and that a row of p_rows is found by (null: whatever rows there are); a job embeds them. Called
-- in the transaction that writes those rows, as its last statement: it waits for who is adding or forgetting the same word.
create function memoryd.learn_words(p_words text[], p_rows uuid[] default null) returns integer
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    learnt integer;
begin
    with given as materialized (
        select w.word, (ts_lexize('english_stem', w.word))[1] as lexeme
        from memoryd.unknown_words(p_words) as w(word)
    ), found as materialized (
        select distinct l.lexeme
        from (select m.lexemes from public.agent_memory m where m.id = any(p_rows)
              union all
              select m.lexemes from public.conversation_messages m where m.id = any(p_rows)
              union all
              select c.lexemes from public.memory_chunks c where c.id = any(p_rows)
              union all
              select k.lexemes from public.shared_knowledge k where k.id = any(p_rows)
              union all
              select i.lexemes from public.dream_insights i where i.id = any(p_rows)) r
        cross join lateral unnest(tsvector_to_array(r.lexemes)) as l(lexeme)
        where exists (select from given)
    )
    insert into memoryd.lexicon (lexeme, word)
    select g.lexeme, g.word
    from given g
    where p_rows is null or g.lexeme in (select f.lexeme from found f)
    order by g.lexeme collate "C"
    on conflict do nothing;
    get diagnostics learnt = row_count;
    if learnt > 0 then
        insert into memoryd.jobs (topic, lane) values ('lexicon', 'words');
        perform memoryd.ring('lexicon');
    end if;
    return learnt;
end
$$;

-- Of words that nobody's rows hold any more nothing stays. Null: of all such words.
create function memoryd.forget_words(p_lexemes text[] default null) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    gone text[];
begin
    with locked as materialized (
        select l.lexeme from memoryd.lexicon l
        where (p_lexemes is null or l.lexeme in (select unnest(p_lexemes)))
          and not exists (select from memoryd.lexeme_statistics s where s.lexeme = l.lexeme)
        order by l.lexeme
        for update of l
    )
    select array_agg(k.lexeme) into gone from locked k;
    if gone is not null then
        delete from memoryd.lexeme_neighbours n
        using memoryd.lexeme_neighbours own
        where own.lexeme = any(gone)
          and n.lexeme = own.neighbour and n.similarity = own.similarity and n.neighbour = own.lexeme;
        delete from memoryd.lexeme_neighbours n where n.lexeme = any(gone);
        delete from memoryd.lexicon l where l.lexeme = any(gone);
    end if;
end
$$;

-- Counts in what has changed, and returns how many changes that were. One at a time, in order, so that no count is ever
-- below nothing; of a lexeme that is gone nothing stays, though it came and went since the last time and was never counted.
create function memoryd.fold_lexeme_changes(p_most integer default 5000) returns integer
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    folded integer;
    gone_scopes bigint[];
    gone_lexemes text[];
begin
    perform memoryd.lock('lexeme_statistics');
    with taken as (
        delete from memoryd.lexeme_changes c
        where c.id in (select f.id from memoryd.lexeme_changes f order by f.id limit p_most)
        returning c.scope, c.lexemes, c.counts
    ), summed as materialized (
        select t.scope, l.lexeme, sum(l.count) as count
        from taken t cross join lateral unnest(t.lexemes, t.counts) as l(lexeme, count)
        group by t.scope, l.lexeme
    ), changed as (
        insert into memoryd.lexeme_statistics as s (scope, lexeme, rows)
        select t.scope, t.lexeme, t.count
        from summed t
        where t.count <> 0
        order by t.scope, t.lexeme
        on conflict (scope, lexeme) do update set rows = s.rows + excluded.rows
        returning s.scope, s.lexeme, s.rows
    ), gone as (
        select c.scope, c.lexeme from changed c where c.rows <= 0
        union all
        select t.scope, t.lexeme from summed t where t.count = 0
    )
    select (select count(*) from taken), array_agg(g.scope), array_agg(g.lexeme)
    into folded, gone_scopes, gone_lexemes
    from gone g;
    if gone_scopes is not null then
        delete from memoryd.lexeme_statistics s
        using unnest(gone_scopes, gone_lexemes) as g(scope, lexeme)
        where s.scope = g.scope and s.lexeme = g.lexeme and s.rows <= 0;
        perform memoryd.forget_words(gone_lexemes);
    end if;
    return folded;
end
$$;

-- The same indexes and triggers for each of the five.
do $$
declare
    t record;
begin
    for t in
        select * from (values
            ('agent_memory', 'memory'), ('conversation_messages', 'conversation'), ('memory_chunks', 'document'),
            ('shared_knowledge', 'knowledge'), ('dream_insights', 'insight')) as v(name, source)
    loop
        -- Inline up to a page: an embedding that is fetched from beside the table costs ten times as much.
        execute format('alter table public.%I set (toast_tuple_target = 8160)', t.name);
        -- No pending list: it is walked whole by each search.
        execute format('create index %I on public.%I using gin (memoryd.search_terms(scope, lexemes)) with (fastupdate = off)',
                       t.name || '_terms', t.name);
        execute format('create index %I on public.%I (scope) include (id, code) where code is not null', t.name || '_codes', t.name);
        execute format('create index %I on public.%I (scope, id) where lexemes is null', t.name || '_unindexed', t.name);
        -- While a remote embedder is down.
        execute format('create index %I on public.%I (scope, id) where code is null and lexemes is not null',
                       t.name || '_unembedded', t.name);
        execute format('comment on column public.%I.sparse_embedding is %L', t.name,
                       'BM25 weights by lexeme, written by memoryd: the score of a question is their inner product.');
        execute format('comment on column public.%I.lexemes is %L', t.name, 'The row''s own lexemes, written by memoryd; null until indexed.');
        execute format('comment on column public.%I.scope is %L', t.name,
                       'The body of text it is searched in: its user''s, else its agent''s, else 0, which is shared.');
        execute format('comment on column public.%I.code is %L', t.name, 'Signs of the embedding and of its halves'' sums and differences, two bits a dimension: what dense search looks through first.');
        execute format('comment on column public.%I.prior is %L', t.name, 'What the text is worth as an answer to whatever question; written by memoryd.');
        execute format('comment on column public.%I.says_when is %L', t.name, 'Whether it names a time; written by memoryd.');
        execute format('create trigger count_lexemes_inserted after insert on public.%I
            referencing new table as new_rows for each statement execute function memoryd.count_lexemes(%L)', t.name, t.source);
        execute format('create trigger count_lexemes_updated after update on public.%I
            referencing old table as old_rows new table as new_rows
            for each statement execute function memoryd.count_lexemes(%L)', t.name, t.source);
        execute format('create trigger count_lexemes_deleted after delete on public.%I
            referencing old table as old_rows for each statement execute function memoryd.count_lexemes(%L)', t.name, t.source);
    end loop;
end
$$;
comment on column public.conversation_messages.embedding is 'Of the message with those around it in its session; written by memoryd.';
comment on column public.memory_chunks.dense_embedding is 'Of the chunk with its context; written by memoryd.';
comment on column public.shared_knowledge.embedding is 'Of title and content; written by memoryd.';

-- New words make the old index a lie: what is searched by goes at once, and is written anew.
create function memoryd.forget_index() returns trigger
language plpgsql
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
begin
    new.lexemes := null;
    new.sparse_embedding := null;
    if tg_argv[0] = 'dense_embedding' then
        new.dense_embedding := null;
    elsif new.embedding is not distinct from old.embedding then
        -- Unless the writer brought the new one along.
        new.embedding := null;
    end if;
    return new;
end
$$;
create trigger forget_index before update on public.agent_memory
    for each row when (new.content is distinct from old.content) execute function memoryd.forget_index('embedding');
create trigger forget_index before update on public.conversation_messages
    for each row when ((new.content, new.speaker, new.session_id, new.message_index, new.created_at)
                       is distinct from (old.content, old.speaker, old.session_id, old.message_index, old.created_at))
    execute function memoryd.forget_index('embedding');
create trigger forget_index before update on public.memory_chunks
    for each row when ((new.chunk_text, new.context) is distinct from (old.chunk_text, old.context))
    execute function memoryd.forget_index('dense_embedding');
create trigger forget_index before update on public.shared_knowledge
    for each row when ((new.title, new.content, new.tags) is distinct from (old.title, old.content, old.tags))
    execute function memoryd.forget_index('embedding');
create trigger forget_index before update on public.dream_insights
    for each row when (new.insight is distinct from old.insight) execute function memoryd.forget_index('embedding');

-- What lacks its index gets a job, whoever wrote it. An end user's rows take turns with what others write meanwhile: those of one
-- statement stand 4 ms apart, each about ten times as long as an index takes, so that thousands of them hold nobody up for long.
create function memoryd.turns_apart() returns interval
language sql stable
set search_path = pg_catalog, pg_temp
as $$ select case when memoryd.caller_serves() then interval '0' else interval '4 milliseconds' end $$;

create function memoryd.rows_to_index() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    apart constant interval := memoryd.turns_apart();
    began constant timestamptz := clock_timestamp();
begin
    if tg_op = 'INSERT' then
        insert into memoryd.jobs (topic, ref, payload, turn)
        select 'index', n.id, jsonb_build_object('source', tg_argv[0]), began + apart * (row_number() over () - 1)
        from new_rows n
        where n.lexemes is null or n.code is null;
    else
        insert into memoryd.jobs (topic, ref, payload, turn)
        select 'index', n.id, jsonb_build_object('source', tg_argv[0]), began + apart * (row_number() over () - 1)
        from new_rows n
        where n.lexemes is null
           or (n.code is null and n.id not in (select o.id from old_rows o where o.code is null));
    end if;
    if found then
        perform memoryd.ring('index');
    end if;
    return null;
end
$$;

-- A message that is gone, or has moved, is no longer around those that it stood among. Who they are is asked once this is
-- committed: one that is being written meanwhile is not seen yet, and may be indexed with this one before. Of a session that
-- goes as a whole nobody is left.
create function memoryd.messages_gone() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
-- A plan that was kept from an empty table would read all messages for each that is gone.
set enable_seqscan = off
as $$
declare
    apart constant interval := memoryd.turns_apart();
    began constant timestamptz := clock_timestamp();
begin
    insert into memoryd.jobs (topic, ref, payload, turn)
    select 'index', s.id, jsonb_build_object('source', 'conversation', 'gone', p.places), began + apart * (row_number() over () - 1)
    from (select o.session_id, range_agg(int4range(o.message_index, o.message_index + 1)) as places
          from old_rows o
          where not exists (select from public.conversation_messages m
                            where m.id = o.id and m.session_id = o.session_id and m.message_index = o.message_index)
          group by o.session_id) g
    join public.conversation_sessions s on s.id = g.session_id
    cross join lateral unnest(g.places) as p(places);
    if found then
        perform memoryd.ring('index');
    end if;
    return null;
end
$$;
create trigger messages_gone_updated after update on public.conversation_messages
    referencing old table as old_rows for each statement execute function memoryd.messages_gone();
create trigger messages_gone_deleted after delete on public.conversation_messages
    referencing old table as old_rows for each statement execute function memoryd.messages_gone();

do $$
declare
    t record;
begin
    for t in
        select * from (values
            ('agent_memory', 'memory'), ('conversation_messages', 'conversation'), ('memory_chunks', 'document'),
            ('shared_knowledge', 'knowledge'), ('dream_insights', 'insight')) as v(name, source)
    loop
        execute format('create trigger rows_to_index_inserted after insert on public.%I
            referencing new table as new_rows for each statement execute function memoryd.rows_to_index(%L)', t.name, t.source);
        execute format('create trigger rows_to_index_updated after update on public.%I
            referencing old table as old_rows new table as new_rows
            for each statement execute function memoryd.rows_to_index(%L)', t.name, t.source);
    end loop;
end
$$;

-- A message with those around it: what a turn is about is often said in the turns before it, and answered in those after.
-- Counts: own words 3, the message before 1.5, then 1, then 0.5; the one after 1, then 0.5; its date 2.
create function memoryd.windows(p_ids uuid[])
returns table (id uuid, neighbour uuid, weight real)
language sql stable
set search_path = pg_catalog, public, pg_temp
as $$
    select m.id, n.neighbour, n.weight
    from public.conversation_messages m
    cross join lateral (
        select m.id as neighbour, 3::real as weight
        union all
        select b.id, (array[1.5, 1, 0.5])[row_number() over (order by b.message_index desc)]
        from (select e.id, e.message_index from public.conversation_messages e
              where e.session_id = m.session_id and e.message_index < m.message_index
              order by e.message_index desc limit 3) b
        union all
        select a.id, (array[1, 0.5])[row_number() over (order by a.message_index)]
        from (select e.id, e.message_index from public.conversation_messages e
              where e.session_id = m.session_id and e.message_index > m.message_index
              order by e.message_index limit 2) a
    ) n
    where m.id = any(p_ids)
$$;

create function memoryd.weigh_messages(p_ids uuid[])
returns table (id uuid, lexemes tsvector, weights sparsevec, prior real, says_when boolean)
language sql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
    with windows as materialized (
        select * from memoryd.windows(p_ids)
    ), texts as materialized (
        select m.id, m.content, m.created_at, m.speaker, memoryd.lexemes_of(m.content) as lexemes
        from (select distinct w.neighbour from windows w) w
        cross join lateral (select * from public.conversation_messages n where n.id = w.neighbour offset 0) m
    ), counts as (
        select array_agg(u.id) as ids, array_agg(u.lexeme) as lexemes, array_agg(u.count) as counts
        from (
            select w.id, l.lexeme, (w.weight * cardinality(l.positions))::real as count
            from windows w
            join texts t on t.id = w.neighbour
            cross join lateral unnest(t.lexemes) l
            union all
            select t.id, l.lexeme, 2
            from texts t
            cross join lateral unnest(memoryd.lexemes_of(to_char(t.created_at at time zone 'utc', 'FMMonth FMDD YYYY'))) l
            where t.id = any(p_ids)
        ) u
    )
    select t.id,
           t.lexemes || array_to_tsvector(array(
               select '@' || l || ' ' || btrim(t.speaker) from unnest(tsvector_to_array(memoryd.lexemes_of(t.speaker))) l)),
           coalesce(c.weights, '{}/1000000000'),
           memoryd.prior_of(t.content, length(t.lexemes)),
           memoryd.says_when(t.content)
    from texts t
    left join (select b.* from counts c cross join lateral memoryd.bm25(c.ids, c.lexemes, c.counts, 100) b) c on c.id = t.id
    where t.id = any(p_ids)
$$;
