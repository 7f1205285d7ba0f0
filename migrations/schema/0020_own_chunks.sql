-- Chunks that their writer brings, without a text of the document.

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

-- Such documents have a file in the replica, too. Who writes a chunk does not wait for its document: it is
-- only noted, and the daemon that keeps the replica takes the note.
create table memoryd.replica_chunks (
    document_id uuid not null
);
comment on table memoryd.replica_chunks is
    'Documents without a text whose chunks were written, since the replica last looked.';
