-- Documents (documents), the passages of them that are searched (memory_chunks), and which shared rows a user
-- may read (user_memory_access).

create table public.documents (
    id uuid primary key default gen_random_uuid(),
    title text not null check (title ~ '\S' or memoryd.refuse('title is blank', 'A document has a title.')),
    source text,
    document_type text,
    content text,
    metadata jsonb not null default '{}',
    user_id uuid,
    drop_path text,
    replica_path text,
    last_modified_agent timestamptz,
    last_modified_human timestamptz,
    status text not null default 'processing' check (
        status in ('processing', 'active', 'deleted', 'conflict')
        or memoryd.refuse('unknown status ' || quote_literal(status),
                          'Statuses: processing, active, deleted, conflict.')),
    content_hash bytea check (
        length(content_hash) = 32
        or memoryd.refuse('content_hash has ' || length(content_hash) || ' bytes', 'A SHA-256 has 32.')),
    created_at timestamptz not null default now() check (memoryd.time_fits('created_at', created_at)),
    updated_at timestamptz not null default now(),
    access_level integer check (
        access_level >= 0 or memoryd.refuse('access_level is ' || access_level,
                                            'Levels count from 0; null keeps it to the document''s user.')),
    visibility_tags text[] not null default '{}',
    chunked_at timestamptz,
    file_hash bytea check (
        length(file_hash) = 32
        or memoryd.refuse('file_hash has ' || length(file_hash) || ' bytes', 'A SHA-256 has 32.')),
    constraint documents_content_size check (memoryd.text_fits('content', content, 10000000)),
    constraint documents_title_size check (memoryd.text_fits('title', title, 10000)),
    constraint documents_source_size check (memoryd.text_fits('source', source, 10000)),
    constraint documents_document_type_size check (memoryd.text_fits('document_type', document_type, 10000)),
    constraint documents_drop_path_size check (memoryd.text_fits('drop_path', drop_path, 10000)),
    constraint documents_replica_path_size check (memoryd.text_fits('replica_path', replica_path, 10000)),
    constraint documents_metadata_size check (memoryd.json_fits('metadata', metadata))
);
comment on table public.documents is 'Documents. Their chunks are what is searched.';
comment on column public.documents.source is 'Where it came from, such as upload, email or an agent.';
comment on column public.documents.content is
    'Its text, as Markdown: memoryd cuts it into chunks. Null where the writer brings the chunks.';
comment on column public.documents.drop_path is 'Where in the drop folder it was found.';
comment on column public.documents.replica_path is 'Where its human-readable replica is.';
comment on column public.documents.last_modified_agent is 'When an agent, or memoryd, last changed it.';
comment on column public.documents.last_modified_human is 'When a human last changed its replica.';
comment on column public.documents.status is
    'processing: its chunks do not stand yet; conflict: an agent and a human changed it at the same time. '
    'Recall finds active documents, and those in conflict.';
comment on column public.documents.content_hash is
    'SHA-256 of the content, in UTF-8, of which the chunks are.';
comment on column public.documents.access_level is
    'The access_level of the chunks that memoryd cuts from it. Null: for the document''s user alone.';
comment on column public.documents.visibility_tags is
    'The visibility_tags of the chunks that memoryd cuts from it.';
comment on column public.documents.chunked_at is
    'When memoryd last cut its content into chunks; null: its chunks are those that its writer brings.';
comment on column public.documents.file_hash is
    'SHA-256 of the file that it was read from, at drop_path; null: it was not read from a file.';
create index documents_user on public.documents (user_id, created_at desc) where user_id is not null;
create index documents_hash on public.documents (content_hash) where content_hash is not null;
create unique index documents_replica on public.documents (replica_path) where replica_path is not null;

-- One document for each file and user. (An index cannot contain a whole path: it may be too long.)
create unique index documents_file on public.documents
    (md5(drop_path), (coalesce(user_id, '00000000-0000-0000-0000-000000000000')))
    where file_hash is not null;
create index documents_file_hash on public.documents (file_hash) where file_hash is not null;
create index documents_updated on public.documents (updated_at);

create table public.memory_chunks (
    id uuid primary key default gen_random_uuid(),
    document_id uuid not null references public.documents (id) on delete cascade,
    user_id uuid,
    chunk_index integer not null check (
        chunk_index >= 0 or memoryd.refuse('chunk_index is ' || chunk_index, 'Chunks are counted from 0.')),
    chunk_text text not null check (
        chunk_text ~ '\S' or memoryd.refuse('chunk_text is blank', 'A chunk says something.')),
    context text,
    metadata jsonb not null default '{}',
    access_level integer check (
        access_level >= 0 or memoryd.refuse('access_level is ' || access_level,
                                            'Levels count from 0; null keeps it to the document''s user.')),
    visibility_tags text[] not null default '{}',
    created_at timestamptz not null default now() check (memoryd.time_fits('created_at', created_at)),
    dense_embedding vector,
    sparse_embedding sparsevec(1000000000),
    scope bigint not null generated always as (
        case when access_level is null then memoryd.scope_of(user_id, null) else 0 end) stored,
    headings text[] not null default '{}',
    situation text,
    constraint chunk_position unique (document_id, chunk_index),
    constraint memory_chunks_chunk_text_size check (memoryd.text_fits('chunk_text', chunk_text, 10000000)),
    constraint memory_chunks_context_size check (memoryd.text_fits('context', context, 10000000)),
    constraint memory_chunks_metadata_size check (memoryd.json_fits('metadata', metadata)),
    constraint memory_chunks_visibility_tags_size
        check (memoryd.list_fits('visibility_tags', visibility_tags))
) with (toast_tuple_target = 8160);
comment on table public.memory_chunks is 'Chunks of documents, in order of chunk_index.';
comment on column public.memory_chunks.user_id is
    'The document''s user; taken from the document, whatever is written here.';
comment on column public.memory_chunks.context is
    'What the chunk is about within its document (its heading): searched with it.';
comment on column public.memory_chunks.access_level is
    'Null: readable by the document''s user alone. Else by users to whom user_memory_access grants that '
    'level, and the tags. Of chunks that memoryd cuts: the document''s.';
comment on column public.memory_chunks.visibility_tags is
    'Of shared chunks: readable by users who are allowed one of these tags; without tags, by all whom the '
    'level allows.';
comment on column public.memory_chunks.dense_embedding is
    'Given by the writer, or null: then memoryd embeds the chunk with its heading, in memoryd.entries.';
comment on column public.memory_chunks.sparse_embedding is
    'Free for the writer. memoryd''s own weights of the words are in memoryd.entries.';
comment on column public.memory_chunks.scope is
    'The body of text it is searched in: its user''s, else its agent''s, else 0, which is shared.';
comment on column public.memory_chunks.headings is
    'The headings that it stands under in its document, the highest first.';
comment on column public.memory_chunks.situation is
    'The last line of context, where a language model wrote it; empty: it had nothing to say; '
    'null: it was not asked.';
create index memory_chunks_user on public.memory_chunks (user_id) where user_id is not null;
create index memory_chunks_shared on public.memory_chunks (user_id) where access_level is not null;

create table public.user_memory_access (
    id uuid primary key default gen_random_uuid(),
    user_id uuid not null unique,
    user_role text not null default 'client' check (
        user_role in ('client', 'employee', 'admin')
        or memoryd.refuse('unknown user_role ' || quote_literal(user_role),
                          'Roles: client, employee, admin.')),
    access_level integer not null default 0 check (
        access_level >= 0 or memoryd.refuse('access_level is ' || access_level, 'Levels count from 0.')),
    allowed_contexts text[],
    allowed_tags text[] not null default '{}',
    visibility_scope text not null default 'tags' check (
        visibility_scope in ('own', 'tags', 'all')
        or memoryd.refuse('unknown visibility_scope ' || quote_literal(visibility_scope),
                          'Scopes: own (nothing shared), tags (what is untagged or shares a tag), '
                          'all (whatever the tags).')),
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    constraint user_memory_access_allowed_contexts_size
        check (memoryd.list_fits('allowed_contexts', allowed_contexts)),
    constraint user_memory_access_allowed_tags_size check (memoryd.list_fits('allowed_tags', allowed_tags))
);
comment on table public.user_memory_access is
    'What shared chunks and messages a user may read. Without a row here: their own alone.';
comment on column public.user_memory_access.access_level is
    'Reads shared rows up to this level. A user_role of admin reads every level and tag.';
comment on column public.user_memory_access.allowed_contexts is
    'Of rows whose metadata name a project, only these; null: any.';
comment on column public.user_memory_access.allowed_tags is
    'Of tagged rows, those that carry one of these.';
comment on column public.user_memory_access.visibility_scope is
    'own: nothing shared; tags: what is untagged or carries an allowed tag; all: whatever the tags.';
