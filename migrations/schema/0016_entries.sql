-- One search index for all sources: memoryd.entries replaces the search columns and indexes of the five
-- searchable tables. What was indexed before is indexed again by the daemon, in the background.

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
    says_when boolean not null,
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
    primary key (scope, id, source, passage)
) with (toast_tuple_target = 8160);
comment on table memoryd.entries is
    'What can be found: one row a passage. A long text has several passages. Written by memoryd alone.';
comment on column memoryd.entries.scope is
    'The body of text it is searched in: its user''s, else its agent''s, else 0, which is shared.';
comment on column memoryd.entries.source is 'The kind of row that it stands for: memory, conversation ...';
comment on column memoryd.entries.id is 'The row that it stands for.';
comment on column memoryd.entries.passage is 'The place of the passage in the row''s text, from 0.';
comment on column memoryd.entries.embedding is
    'Of the passage, of unit length; null until the embedder has answered.';
comment on column memoryd.entries.code is
    'Signs of the embedding and of its halves'' sums and differences, two bits a dimension: what dense '
    'search looks through first.';
comment on column memoryd.entries.language is
    'The language whose stems the lexemes are, by its text search configuration.';
comment on column memoryd.entries.lexemes is
    'The words that it is found by; and ''@lexeme Name'' for the words of its speaker''s name.';
comment on column memoryd.entries.weights is
    'How much each lexeme counts in the passage: the lexical score of a question is the inner product.';
comment on column memoryd.entries.length is 'How many words the passage has, stop words left out.';
comment on column memoryd.entries.row_length is 'The same of the whole row.';
comment on column memoryd.entries.says_when is 'Whether it names a time.';
comment on column memoryd.entries.asks is 'Whether it ends as a question.';
comment on column memoryd.entries.grants_metadata is
    'Of the row''s metadata the project that it names, by which it is granted and found.';
comment on column memoryd.entries.weight is 'How much the row''s kind counts.';
comment on column memoryd.entries.text_hash is
    'A hash of the text that was indexed: tells whether the row has another text now.';

-- The indexes:
--   entries_terms       the inverted index; without a pending list, which every search would read whole
--   entries_codes       the codes of a scope, read without touching the rows
--   entries_unembedded  passages that wait for their embedding, while a remote embedder is down
--   entries_session     the messages beside a message
create index entries_terms on memoryd.entries
    using gin (memoryd.search_terms(scope, lexemes)) with (fastupdate = off);
create index entries_codes on memoryd.entries (scope) include (source, code) where code is not null;
create index entries_unembedded on memoryd.entries (scope, id) where code is null;
create index entries_session on memoryd.entries (session_id, position) where session_id is not null;

-- Rows that wait to be indexed. Until then recall reads their text.
create table memoryd.unindexed (
    scope bigint not null,
    source text collate "C" not null,
    id uuid not null,
    changed boolean not null default false,
    given boolean not null default false,
    since timestamptz not null default now(),
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

-- The views are made again by functions/tables/views.sql.
drop view if exists
    memoryd.searchable, memoryd.searchable_by_users, memoryd.source_memory, memoryd.source_conversation,
    memoryd.source_document, memoryd.source_knowledge, memoryd.source_insight cascade;

-- What has no owner and is not shared by level is the agents': so that in scope 0, which users search too,
-- is nothing but messages and chunks that are shared by level.
alter table public.shared_knowledge drop column scope;
alter table public.shared_knowledge
    add column scope bigint not null generated always as (memoryd.scope_of(null, '_shared')) stored;
alter table public.dream_insights drop column scope;
alter table public.dream_insights
    add column scope bigint not null generated always as (
        memoryd.scope_of(user_id, coalesce(agent_id, '_shared'))) stored;
comment on column public.shared_knowledge.scope is 'The body of text that it is searched in.';
comment on column public.dream_insights.scope is 'The body of text that it is searched in.';


-- All rows are indexed anew. An embedding that is stored in a row counts as given by its writer: so memories,
-- chunks, knowledge and insights need not be embedded again.
insert into memoryd.unindexed (scope, source, id)
select m.scope, 'memory', m.id from public.agent_memory m
union all
select m.scope, 'conversation', m.id from public.conversation_messages m
union all
select c.scope, 'document', c.id from public.memory_chunks c
union all
select k.scope, 'knowledge', k.id from public.shared_knowledge k
union all
select i.scope, 'insight', i.id from public.dream_insights i;
delete from memoryd.jobs where topic = 'index';
insert into memoryd.jobs (topic, ref, payload)
select 'index', u.id, jsonb_build_object('source', u.source) from memoryd.unindexed u;
truncate memoryd.lexeme_statistics, memoryd.lexeme_changes;

-- The triggers, indexes and columns that go.
do $$
declare
    each record;
begin
    for each in
        select t.tgname, t.tgrelid::regclass as relation
        from pg_trigger t
        where not t.tgisinternal
          and t.tgname
              ~ '^(forget_index|(count_lexemes|rows_to_index|messages_gone)_(inserted|updated|deleted))$'
          and t.tgrelid in ('public.agent_memory'::regclass, 'public.conversation_messages'::regclass,
                            'public.memory_chunks'::regclass, 'public.shared_knowledge'::regclass,
                            'public.dream_insights'::regclass)
    loop
        execute format('drop trigger %I on %s', each.tgname, each.relation);
    end loop;
    for each in
        select d.index_name from memoryd.dense_indexes d
    loop
        execute format('drop index if exists public.%I', each.index_name);
    end loop;
end
$$;
delete from memoryd.dense_indexes;

alter table public.agent_memory
    drop column sparse_embedding, drop column lexemes, drop column prior, drop column says_when,
    drop column code;
alter table public.conversation_messages
    drop column sparse_embedding, drop column lexemes, drop column prior, drop column says_when,
    drop column code;
alter table public.memory_chunks
    drop column lexemes, drop column prior, drop column says_when, drop column code;
alter table public.shared_knowledge
    drop column sparse_embedding, drop column lexemes, drop column prior, drop column says_when,
    drop column code;
alter table public.dream_insights
    drop column sparse_embedding, drop column lexemes, drop column prior, drop column says_when,
    drop column code;
drop function memoryd.code_of(vector);

-- The embedding of a message was that of its neighbours too: a new column takes the place of the old one,
-- also in the view that shows it.
alter table public.conversation_messages rename column embedding to embedding_with_neighbours;
alter table public.conversation_messages add column embedding vector(:dimensions);
do $$
begin
    if to_regclass('public.conversation_history') is not null then
        create or replace view public.conversation_history with (security_invoker = true) as
        select id, user_id, session_id, chat_id, agent_id, message_index,
               coalesce(speaker, case role when 'assistant' then 'agent' else role end) as speaker, role,
               content as message_text, created_at as "timestamp", access_level, visibility_tags, metadata,
               embedding
        from public.conversation_messages;
    end if;
end
$$;
alter table public.conversation_messages drop column embedding_with_neighbours;

-- What recall makes of a question: see memoryd.question().
alter type memoryd.question
    add attribute asked text[],
    add attribute parts sparsevec[],
    add attribute nears sparsevec[],
    add attribute tops double precision[],
    add attribute average_length double precision,
    add attribute role text;

comment on column public.agent_memory.embedding is
    'Given by the writer, or null: then memoryd embeds the content, in memoryd.entries.';
comment on column public.conversation_messages.embedding is
    'Given by the writer, or null: then memoryd embeds the message, in memoryd.entries.';
comment on column public.memory_chunks.dense_embedding is
    'Given by the writer, or null: then memoryd embeds the chunk with its heading, in memoryd.entries.';
comment on column public.memory_chunks.sparse_embedding is
    'Free for the writer. memoryd''s own weights of the words are in memoryd.entries.';
comment on column public.shared_knowledge.embedding is
    'Given by the writer, or null: then memoryd embeds title, content and tags, in memoryd.entries.';
comment on column public.dream_insights.embedding is
    'Given by the writer, or null: then memoryd embeds the insight, in memoryd.entries.';
