-- A chunk's sparse embedding is JSON, of any form: memoryd only keeps it. What was given as a sparsevec
-- before stays in a column of its own: a numbered file does not read a table that may be big.

alter table public.memory_chunks rename column sparse_embedding to sparse_vector;
comment on column public.memory_chunks.sparse_vector is
    'What writers gave as sparse_embedding to memoryd 0.1.0, whose column was a sparsevec.';
alter table public.memory_chunks add column sparse_embedding jsonb;
alter table public.memory_chunks add constraint memory_chunks_sparse_embedding_size
    check (memoryd.json_fits('sparse_embedding', sparse_embedding)) not valid;
comment on column public.memory_chunks.sparse_embedding is
    'Free for the writer. memoryd''s own weights of the words are in memoryd.entries.';
