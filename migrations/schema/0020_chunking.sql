-- Documents with content are cut into chunks by memoryd. What a document is shared as, its chunks are.

alter table public.documents
    add column access_level integer check (
        access_level >= 0 or memoryd.refuse('access_level is ' || access_level,
                                            'Levels count from 0; null keeps it to the document''s user.')),
    add column visibility_tags text[] not null default '{}',
    add column chunked_at timestamptz,
    add column file_hash bytea check (
        length(file_hash) = 32
        or memoryd.refuse('file_hash has ' || length(file_hash) || ' bytes', 'A SHA-256 has 32.'));
comment on column public.documents.file_hash is
    'SHA-256 of the file that it was read from, at drop_path; null: it was not read from a file.';
comment on column public.documents.access_level is
    'The access_level of the chunks that memoryd cuts from it. Null: for the document''s user alone.';
comment on column public.documents.visibility_tags is
    'The visibility_tags of the chunks that memoryd cuts from it.';
comment on column public.documents.chunked_at is
    'When memoryd last cut its content into chunks; null: its chunks are those that its writer brings.';
comment on column public.documents.content is
    'Its text, as Markdown: memoryd cuts it into chunks. Null where the writer brings the chunks.';
comment on column public.documents.content_hash is
    'SHA-256 of the content, in UTF-8, of which the chunks are.';
comment on column public.documents.status is
    'processing: its chunks do not stand yet; conflict: an agent and a human changed it at the same time. '
    'Recall finds active documents, and those in conflict.';

-- One document for each file and user. (An index cannot contain a whole path: it may be too long.)
create unique index documents_file on public.documents
    (md5(drop_path), (coalesce(user_id, '00000000-0000-0000-0000-000000000000')))
    where file_hash is not null;
create index documents_file_hash on public.documents (file_hash) where file_hash is not null;

alter table public.memory_chunks
    add column headings text[] not null default '{}';
comment on column public.memory_chunks.headings is
    'The headings that it stands under in its document, the highest first.';
comment on column public.memory_chunks.access_level is
    'Null: readable by the document''s user alone. Else by users to whom user_memory_access grants that '
    'level, and the tags. Of chunks that memoryd cuts: the document''s.';

-- Without content, its writer brings the chunks: it is complete as it is. A document with content that nobody
-- has cut yet is cut now.
update public.documents set status = 'active' where status = 'processing' and content is null;
insert into memoryd.jobs (topic, ref)
select 'document', d.id from public.documents d where d.content is not null and d.status = 'processing';
