-- What recall searches in: the search columns of the five searchable tables and their indexes, counts of
-- words (lexeme_statistics), words of similar meaning (lexicon), and which IVFFlat indexes exist
-- (dense_indexes).

-- A scope is a body of text that is searched as one: a user's rows, an agent's own, or (0) what is shared.
create function memoryd.scope_of(p_user uuid, p_agent text) returns bigint
language sql immutable parallel safe
return case when p_user is not null then hashtextextended('user ' || p_user::text, 0)
            when p_agent is not null then hashtextextended('agent ' || p_agent, 0)
            else 0 end;

-- Lexemes are stems of English words; words of other languages stay as they are. Paths, names and addresses
-- are split into their parts, since questions name the parts. Only the first 32,768 characters are indexed.
create function memoryd.lexemes_of(p_text text) returns tsvector
language sql immutable parallel safe
return to_tsvector('pg_catalog.english'::regconfig,
                   -- The last four characters, which are invisible, are deleted.
                   translate(left(p_text, 32768), E'/\\_.:@=#\u200b\u00ad\ufeff\u2060', '         '));

-- The keys of the inverted index: each a lexeme within a scope, so that a search in one scope never reads the
-- entries of another.
create function memoryd.search_terms(p_scope bigint, p_lexemes tsvector) returns bigint[]
language sql immutable parallel safe strict
set search_path = pg_catalog, pg_temp
as $$ select array(select hashtextextended(l, p_scope) from unnest(tsvector_to_array(p_lexemes)) l) $$;

-- The code of an embedding: one bit for the sign of each number, and one for each sum and each difference of
-- the two halves. Of the ten rows nearest by cosine hardly any is missing among the 200 nearest by code; with
-- the first kind of bits alone it takes 400 and more. With more than 8,000 dimensions only the first kind is
-- used, since an index could not contain two bits of each; and a single dimension has no halves.
create function memoryd.code_of(p_embedding vector) returns bit varying
language sql immutable parallel safe strict
return case
    when :dimensions not between 2 and 8000 then binary_quantize(p_embedding)
    else binary_quantize(p_embedding)
        || binary_quantize(
            subvector(l2_normalize(p_embedding), 1, :dimensions / 2)
            + subvector(l2_normalize(p_embedding), :dimensions - :dimensions / 2 + 1, :dimensions / 2))
        || binary_quantize(
            subvector(l2_normalize(p_embedding), 1, :dimensions / 2)
            - subvector(l2_normalize(p_embedding), :dimensions - :dimensions / 2 + 1, :dimensions / 2))
end;

-- The search columns. All but scope and code are written by the handlers of topic index.
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
    add column scope bigint not null generated always as (
        case when access_level is null then memoryd.scope_of(user_id, agent_id) else 0 end) stored,
    add column code bit varying generated always as (memoryd.code_of(embedding)) stored;

alter table public.memory_chunks
    add column dense_embedding vector(:dimensions),
    add column sparse_embedding sparsevec(1000000000),
    add column lexemes tsvector,
    add column prior real,
    add column says_when boolean,
    add column scope bigint not null generated always as (
        case when access_level is null then memoryd.scope_of(user_id, null) else 0 end) stored,
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

comment on column public.conversation_messages.embedding is
    'Of the message with those around it in its session; written by memoryd.';
comment on column public.memory_chunks.dense_embedding is
    'Of the chunk with its heading; written by memoryd.';
comment on column public.shared_knowledge.embedding is 'Of title, content and tags; written by memoryd.';

-- What the five tables share: comments of the columns, four indexes, and room for long rows.
do $$
declare
    searchable text;
    described text[];
begin
    foreach searchable in array array[
        'agent_memory', 'conversation_messages', 'memory_chunks', 'shared_knowledge', 'dream_insights'
    ] loop
        foreach described slice 1 in array array[
            ['sparse_embedding',
             'BM25 weights by lexeme, written by memoryd: the score of a question is their inner product.'],
            ['lexemes', 'The row''s own lexemes, written by memoryd; null until indexed.'],
            ['scope',
             'The body of text it is searched in: its user''s, else its agent''s, else 0, which is shared.'],
            ['code',
             'Signs of the embedding and of its halves'' sums and differences, two bits a dimension: '
             'what dense search looks through first.'],
            ['prior', 'How likely the text is to answer any question; written by memoryd.'],
            ['says_when', 'Whether it names a time; written by memoryd.']
        ] loop
            execute format('comment on column public.%I.%I is %L', searchable, described[1], described[2]);
        end loop;
    end loop;
end
$$;

-- The indexes of each searchable table:
--   _terms       the inverted index; without a pending list, which every search would read whole
--   _codes       the codes of a scope, read without touching its rows
--   _unindexed   rows that wait for their lexemes
--   _unembedded  rows that wait for their embedding, while a remote embedder is down
-- toast_tuple_target: rows stay inline up to a page. To fetch an embedding from the TOAST table costs
-- ten times as much.

alter table public.agent_memory set (toast_tuple_target = 8160);
create index agent_memory_terms on public.agent_memory
    using gin (memoryd.search_terms(scope, lexemes)) with (fastupdate = off);
create index agent_memory_codes on public.agent_memory (scope) include (id, code) where code is not null;
create index agent_memory_unindexed on public.agent_memory (scope, id) where lexemes is null;
create index agent_memory_unembedded on public.agent_memory (scope, id)
    where code is null and lexemes is not null;

alter table public.conversation_messages set (toast_tuple_target = 8160);
create index conversation_messages_terms on public.conversation_messages
    using gin (memoryd.search_terms(scope, lexemes)) with (fastupdate = off);
create index conversation_messages_codes on public.conversation_messages (scope) include (id, code)
    where code is not null;
create index conversation_messages_unindexed on public.conversation_messages (scope, id)
    where lexemes is null;
create index conversation_messages_unembedded on public.conversation_messages (scope, id)
    where code is null and lexemes is not null;

alter table public.memory_chunks set (toast_tuple_target = 8160);
create index memory_chunks_terms on public.memory_chunks
    using gin (memoryd.search_terms(scope, lexemes)) with (fastupdate = off);
create index memory_chunks_codes on public.memory_chunks (scope) include (id, code) where code is not null;
create index memory_chunks_unindexed on public.memory_chunks (scope, id) where lexemes is null;
create index memory_chunks_unembedded on public.memory_chunks (scope, id)
    where code is null and lexemes is not null;

alter table public.shared_knowledge set (toast_tuple_target = 8160);
create index shared_knowledge_terms on public.shared_knowledge
    using gin (memoryd.search_terms(scope, lexemes)) with (fastupdate = off);
create index shared_knowledge_codes on public.shared_knowledge (scope) include (id, code)
    where code is not null;
create index shared_knowledge_unindexed on public.shared_knowledge (scope, id) where lexemes is null;
create index shared_knowledge_unembedded on public.shared_knowledge (scope, id)
    where code is null and lexemes is not null;

alter table public.dream_insights set (toast_tuple_target = 8160);
create index dream_insights_terms on public.dream_insights
    using gin (memoryd.search_terms(scope, lexemes)) with (fastupdate = off);
create index dream_insights_codes on public.dream_insights (scope) include (id, code) where code is not null;
create index dream_insights_unindexed on public.dream_insights (scope, id) where lexemes is null;
create index dream_insights_unembedded on public.dream_insights (scope, id)
    where code is null and lexemes is not null;

-- In how many rows of a scope each lexeme occurs. Under names that no lexeme has it also counts the rows of a
-- scope ('#memory', '#conversation' ...) and those of each speaker ('@carolin Caroline': the speaker
-- Caroline, by a lexeme of the name).
create table memoryd.lexeme_statistics (
    scope bigint not null,
    lexeme text collate "C" not null,
    rows integer not null,
    primary key (scope, lexeme)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
comment on table memoryd.lexeme_statistics is
    'In how many rows of a scope a lexeme occurs; ''#memory'': how many memories it has; '
    '''@carolin Caroline'': rows that Caroline said.';
create index lexeme_statistics_lexeme on memoryd.lexeme_statistics (lexeme, scope);

create table memoryd.lexeme_changes (
    id bigint generated always as identity primary key,
    scope bigint not null,
    lexemes text[] not null,
    counts integer[] not null
) with (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 2000);
comment on table memoryd.lexeme_changes is
    'What statements added to and took from the statistics, not yet counted in: '
    'so no writer waits for another that writes the same words.';

-- The lexicon: for each lexeme one word that it stands for. The vectors are the local embedder's, whichever
-- embedder the rows have.
create table memoryd.lexicon (
    lexeme text collate "C" primary key,
    word text not null,
    embedding vector(256)
);
comment on table memoryd.lexicon is
    'Words of the texts, by lexeme; embedding null until their neighbours are known.';
create index lexicon_new on memoryd.lexicon (lexeme) where embedding is null;

-- Lexemes whose words have a similar meaning. Each pair is there in both directions, with the same
-- similarity: so all rows that name a lexeme are found from its own rows by the primary key. No foreign keys,
-- which would look each lexeme up for each row: who writes a pair has locked both its lexemes, in the order
-- of lexemes, and forget_words(), which locks in the same order, deletes a lexeme's pairs too.
create table memoryd.lexeme_neighbours (
    lexeme text collate "C" not null,
    neighbour text collate "C" not null,
    similarity real not null,
    primary key (lexeme, similarity, neighbour)
);
comment on table memoryd.lexeme_neighbours is
    'Lexemes whose words are near in meaning, by cosine similarity.';

-- The nearest rows by embedding. A small scope is searched whole, by the codes of the embeddings, and the
-- nearest by code are then compared exactly. For large scopes the lists of an IVFFlat index are quicker: the
-- daemon builds it, and notes it here.
create table memoryd.dense_indexes (
    source text primary key,
    index_name text not null,
    lists integer not null,
    rows bigint not null,
    built_at timestamptz not null default now()
);
comment on table memoryd.dense_indexes is
    'The IVFFlat indexes that exist, and how many rows each had when it was built.';

-- What memoryd.question() makes of a question.
create type memoryd.question as (
    weights sparsevec,
    words text[],
    word_scopes bigint[],
    pairs text[],
    pair_scopes bigint[],
    speakers text[],
    ideal double precision,
    asks_when boolean
);
