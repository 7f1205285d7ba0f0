-- What recall searches in: the entries of all sources (entries), statistics of words, sources and speakers,
-- words of similar meaning (lexicon), the tokens of the local embedder, and the types of a search.

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
-- the two halves. Of the ten passages nearest by cosine hardly any is missing among the 200 nearest by code;
-- with the first kind of bits alone it takes 400 and more. With more than 8,000 dimensions only the first
-- kind is used, since an index could not contain two bits of each; and a single dimension has no halves.
create function memoryd.signs_of(p_embedding halfvec) returns bit varying
language sql immutable parallel safe strict
return case
    when vector_dims(p_embedding) not between 2 and 8000 then binary_quantize(p_embedding)
    else binary_quantize(p_embedding)
        || binary_quantize(
            subvector(p_embedding, 1, vector_dims(p_embedding) / 2)
            + subvector(p_embedding, vector_dims(p_embedding) - vector_dims(p_embedding) / 2 + 1,
                        vector_dims(p_embedding) / 2))
        || binary_quantize(
            subvector(p_embedding, 1, vector_dims(p_embedding) / 2)
            - subvector(p_embedding, vector_dims(p_embedding) - vector_dims(p_embedding) / 2 + 1,
                        vector_dims(p_embedding) / 2))
end;

-- In scope 0, which users search too, is nothing but messages and chunks that are shared by level: what has
-- no owner and is not shared by level is the agents'.
create table memoryd.entries (
    scope bigint not null,
    source text collate "C" not null,
    id uuid not null,
    passage smallint not null,
    embedding halfvec,
    code bit varying generated always as (memoryd.signs_of(embedding)) stored,
    language text not null,
    lexemes tsvector not null,
    weights sparsevec(1000000000) not null,
    length integer not null,
    row_length integer not null,
    times datemultirange,
    asks boolean not null,
    owner_id uuid,
    agent_id text,
    access_level integer,
    visibility_tags text[],
    grants_metadata jsonb not null,
    is_current boolean not null,
    expires_at timestamptz,
    session_id uuid,
    position integer,
    speaker text,
    role text,
    created_at timestamptz not null,
    weight real not null,
    text_hash bigint not null,
    given_outdated boolean not null default false,
    group_scope bigint,
    primary key (scope, id, source, passage)
) with (toast_tuple_target = 8160);
comment on table memoryd.entries is
    'What can be found: one row a passage. A long text has several passages. Written by memoryd alone.';
comment on column memoryd.entries.scope is
    'The body of text it is searched in: its user''s, else its agent''s, else 0, which is shared.';
comment on column memoryd.entries.source is 'The kind of row that it stands for: memory, conversation ...';
comment on column memoryd.entries.id is 'The row that it stands for.';
comment on column memoryd.entries.passage is 'The index of the passage in the row''s text, from 0.';
comment on column memoryd.entries.embedding is
    'Of the passage, of unit length; null until the embedder has answered.';
comment on column memoryd.entries.code is
    'Signs of the embedding and of its halves'' sums and differences, two bits a dimension: what dense '
    'search looks through first.';
comment on column memoryd.entries.language is
    'The language whose stems the lexemes are, by its text search configuration.';
comment on column memoryd.entries.lexemes is
    'The words that it is found by.';
comment on column memoryd.entries.weights is
    'How much each lexeme counts in the passage: the lexical score of a question is the inner product.';
comment on column memoryd.entries.length is 'How many words the passage has, stop words left out.';
comment on column memoryd.entries.row_length is 'The same of the whole row.';
comment on column memoryd.entries.times is
    'The days that its text names or that the row is valid from; null: it names none.';
comment on column memoryd.entries.asks is 'Whether it ends as a question.';
comment on column memoryd.entries.grants_metadata is
    'Of the row''s metadata the project that it names, by which it is granted and found.';
comment on column memoryd.entries.weight is 'How much the row''s kind counts.';
comment on column memoryd.entries.text_hash is
    'A hash of the text that was indexed: tells whether the row has another text now.';
comment on column memoryd.entries.given_outdated is
    'Whether the embedding that the row''s writer gave was made for another model, and is not used.';
comment on column memoryd.entries.group_scope is
    'Of a message in a group chat: the group''s scope, where it has a second entry; null: it has none.';

-- The indexes:
--   entries_terms       the inverted index; without a pending list, which every search would read whole
--   entries_codes       codes and keys of a scope, by time: the search reads them from the index alone, and
--                       of the table only the nearest passages
--   entries_unembedded  passages that wait for their embedding, while a remote embedder is down
--   entries_session     the messages beside a message
create index entries_terms on memoryd.entries
    using gin (memoryd.search_terms(scope, lexemes)) with (fastupdate = off);
create index entries_unembedded on memoryd.entries (scope, id) where code is null;
create index entries_session on memoryd.entries (session_id, position) where session_id is not null;
create index entries_codes on memoryd.entries (scope, created_at) include (source, id, passage, code)
    where code is not null;

-- Generations of entries: another embedding model is built beside the one that recall answers from, then the
-- two tables change names (functions/index/generations.sql). They must always have the same columns and
-- indexes.
create table memoryd.spare_entries (
    like memoryd.entries including defaults including generated including comments including storage,
    primary key (scope, id, source, passage)
) with (toast_tuple_target = 8160);
comment on table memoryd.spare_entries is
    'The generation of entries that is being built for another model, or the one before, kept for undo.';
create index spare_entries_terms on memoryd.spare_entries
    using gin (memoryd.search_terms(scope, lexemes)) with (fastupdate = off);
create index spare_entries_unembedded on memoryd.spare_entries (scope, id) where code is null;
create index spare_entries_session on memoryd.spare_entries (session_id, position)
    where session_id is not null;
create index spare_entries_codes on memoryd.spare_entries (scope, created_at)
    include (source, id, passage, code) where code is not null;

-- Rows that wait to be indexed. Until then recall reads their text.
create table memoryd.unindexed (
    scope bigint not null,
    source text collate "C" not null,
    id uuid not null,
    changed boolean not null default false,
    given boolean not null default false,
    since timestamptz not null default now(),
    recompute boolean not null default false,
    primary key (scope, id, source)
) with (
    -- Rows live for milliseconds.
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_scale_factor = 0.0,
    autovacuum_vacuum_insert_threshold = 50000,
    autovacuum_vacuum_cost_delay = 0
);
comment on table memoryd.unindexed is
    'Rows that were written or changed a moment ago and are not indexed yet.';
comment on column memoryd.unindexed.changed is 'Whether it was indexed before, with another text.';
comment on column memoryd.unindexed.given is
    'Whether its writer gave an embedding, by which it is found until then.';
comment on column memoryd.unindexed.recompute is
    'Whether the embedding that its writer gave was made for a model of before, and is not used.';

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

-- In how many passages of a scope each lexeme occurs; how many passages a scope has; who speaks there. Only
-- memoryd.fold_lexeme_changes() writes these three tables.
create table memoryd.lexeme_statistics (
    scope bigint not null,
    lexeme text collate "C" not null,
    rows integer not null,
    primary key (scope, lexeme)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
comment on table memoryd.lexeme_statistics is 'In how many passages of a scope a lexeme occurs.';
create index lexeme_statistics_lexeme on memoryd.lexeme_statistics (lexeme, scope);

create table memoryd.scope_statistics (
    scope bigint not null,
    source text collate "C" not null,
    language text collate "C" not null,
    passages integer not null,
    words bigint not null,
    primary key (scope, source, language)
) with (fillfactor = 70);
comment on table memoryd.scope_statistics is
    'How many passages a scope has of each source and language, and how many words they have.';

-- The lexeme comes first, so that a service finds the speakers of a name in all scopes by the same index.
create table memoryd.speaker_statistics (
    lexeme text collate "C" not null,
    scope bigint not null,
    speaker text collate "C" not null,
    passages integer not null,
    primary key (lexeme, scope, speaker)
) with (fillfactor = 70);
comment on table memoryd.speaker_statistics is
    'How many passages of a scope a speaker said, by each lexeme of the speaker''s name.';

create table memoryd.lexeme_changes (
    id bigint generated always as identity primary key,
    scope bigint not null,
    source text collate "C" not null,
    language text collate "C" not null,
    speaker text collate "C",
    words integer not null,
    lexemes tsvector not null,
    sign smallint not null check (sign in (1, -1))
) with (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 2000);
comment on table memoryd.lexeme_changes is
    'Passages that were added (sign 1) or deleted (sign -1), not yet counted in the statistics: '
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

-- token   The characters of a token. A token for one byte is a space and two hexadecimal digits, a control
--         token a space and its name: no other token has a space.
-- rank, head   A token of two characters or more is made by one merge: of its first `head` characters and
--         the others. Merges take place in the order of their ranks.
-- vector  All 256 numbers, also where the database's embeddings have fewer.
create table memoryd.tokens (
    token text collate "C" primary key,
    rank integer,
    head integer,
    vector halfvec(256) not null
);
comment on table memoryd.tokens is
    'The local embedder''s tokens, from the package wordllama: empty with any other embedder.';

-- What memoryd.question() makes of a question.
create type memoryd.question as (
    weights sparsevec,
    words text[],
    word_scopes bigint[],
    combinations text[],
    combination_scopes bigint[],
    speakers text[],
    ideal double precision,
    asked text[],
    parts sparsevec[],
    nears sparsevec[],
    tops double precision[],
    average_length double precision,
    role text,
    rare sparsevec,
    times datemultirange,
    near_times datemultirange,
    -- How many rows are searched, as counted.
    rows double precision
);

-- What the results of one recall must fulfil, beside the filter on their metadata.
create type memoryd.conditions as (
    since timestamptz,
    until timestamptz,
    roles text[],
    speakers text[],
    left_out_session uuid,
    left_out_from integer,
    as_of timestamptz,
    project text,
    -- No condition: when the question is asked, for the times that it names (null: now).
    asked_at timestamptz,
    -- Nor this: how many words a context may have (null: as memoryd.context_words() says).
    words integer
);

-- What is asked (memoryd.recall_request makes it), and what the caller may search of it (memoryd.find sets
-- these: it runs with the owner's rights, and overwrites what a client has put there).
create type memoryd.search_request as (
    query text,
    agent text,
    -- The user who is asked about. Null: any, or nobody where an agent is named.
    about uuid,
    -- The user for whom a service asks: with this user's rights.
    on_behalf uuid,
    -- Null: memoryd.find() embeds the query, where the database can.
    embedding vector,
    -- Neighbours of words that are not in the lexicon: see memoryd.question().
    near jsonb,
    count bigint,
    sources text[],
    filter jsonb,
    conditions memoryd.conditions,
    min_score double precision,
    -- Whether what does not belong to the question is left out. With `explained` it comes, with the reason.
    relevant_only boolean,
    explained boolean,
    around integer,
    -- From here on set by memoryd.find. Whose rights decide what is found: a service that asks about a user
    -- has that user's.
    reader memoryd.caller,
    access public.user_memory_access,
    -- Null: all.
    scopes bigint[],
    -- Those of the scopes that are of groups.
    groups bigint[],
    -- Whether only rows without an owner are asked for.
    unowned boolean,
    -- How many passages are looked at.
    reach integer
);

-- A row that was found, with each part of its score (functions/search/rank.sql says what they are).
create type memoryd.search_result as (
    source text,
    id uuid,
    content text,
    score double precision,
    similarity double precision,
    metadata jsonb,
    created_at timestamptz,
    lexical double precision,
    dense double precision,
    prior double precision,
    named double precision,
    timed double precision,
    session double precision,
    relevance double precision,
    weight double precision,
    recency double precision,
    association double precision,
    -- 2: it has a word asked for that hardly any row has. 1: it has others, or they are near or beside it.
    shares integer,
    -- Why the row does not belong to the question; null: it belongs.
    left_out text
);
