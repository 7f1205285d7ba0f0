-- Generations of entries: another embedding model is built beside the one that recall answers from, then the
-- two tables change places (functions/index/generations.sql). The two tables must always have the same
-- columns and indexes: a later file that changes memoryd.entries changes memoryd.spare_entries too.

alter table memoryd.entries add column given_outdated boolean not null default false;
comment on column memoryd.entries.given_outdated is
    'Whether the embedding that the row''s writer gave was made for another model, and is not used.';

create table memoryd.spare_entries (
    like memoryd.entries including defaults including generated including comments including storage,
    primary key (scope, id, source, passage)
) with (toast_tuple_target = 8160);
comment on table memoryd.spare_entries is
    'The generation of entries that is being built for another model, or the one before, kept for undo.';
create index spare_entries_terms on memoryd.spare_entries
    using gin (memoryd.search_terms(scope, lexemes)) with (fastupdate = off);
create index spare_entries_codes on memoryd.spare_entries (scope) include (source, code)
    where code is not null;
create index spare_entries_unembedded on memoryd.spare_entries (scope, id) where code is null;
create index spare_entries_session on memoryd.spare_entries (session_id, position)
    where session_id is not null;

-- The columns that writers give embeddings in take any number of dimensions: only the catalog changes. A
-- trigger (memoryd.check_embedding) compares with the model that recall uses. Postgres changes no type under
-- a view; the views are made again by functions/tables/views.sql, with their rights and triggers.
drop view if exists
    memoryd.searchable, memoryd.searchable_by_users, memoryd.source_memory, memoryd.source_conversation,
    memoryd.source_document, memoryd.source_knowledge, memoryd.source_insight cascade;
drop view if exists public.shared_memory, public.conversation_history;
alter table public.agent_memory alter column embedding type vector;
alter table public.conversation_messages alter column embedding type vector;
alter table public.memory_chunks alter column dense_embedding type vector;
alter table public.shared_knowledge alter column embedding type vector;
alter table public.dream_insights alter column embedding type vector;
alter table memoryd.embeddings alter column embedding type vector;

alter table memoryd.unindexed add column recompute boolean not null default false;
comment on column memoryd.unindexed.recompute is
    'Whether the embedding that its writer gave was made for a model of before, and is not used.';
