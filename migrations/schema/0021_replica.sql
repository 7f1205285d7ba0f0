-- The replica: documents as files in a folder, which people read and change (daemon/replica/). Its tables are
-- memoryd's own: nobody is granted anything on them.

-- The replica of this database, and which daemon has it.
create table memoryd.replica (
    one boolean primary key default true check (one),
    id uuid not null default gen_random_uuid(),
    daemon_id uuid,
    leased_until timestamptz not null default '-infinity',
    deletions_confirmed_at timestamptz,
    trouble text,
    synced_at timestamptz
);
comment on table memoryd.replica is 'The replica: which folder it is, and which daemon keeps it.';
comment on column memoryd.replica.id is
    'The id in the folder''s .memoryd-replica.json: by it the folder is known.';
comment on column memoryd.replica.deletions_confirmed_at is
    'When a person last confirmed that files that were gone are to be deleted.';
comment on column memoryd.replica.trouble is 'Why the folder cannot be used now; null: it can.';
comment on column memoryd.replica.synced_at is 'When folder and documents were last made the same.';
insert into memoryd.replica default values;

-- The files of the replica, each with what both sides had last. There is no foreign key: a row whose document
-- is gone says that its file has to be deleted.
create table memoryd.replica_files (
    id bigint primary key generated always as identity,
    path text not null,
    document_id uuid not null,
    conflict_id uuid,
    user_id uuid,
    base_hash bytea not null,
    file_hash bytea not null,
    row_version timestamptz,
    missing_since timestamptz
);
comment on table memoryd.replica_files is 'The files of the replica, each with what file and row had last.';
comment on column memoryd.replica_files.path is
    'Where it was last. Two have the same path for a moment, when a person moved one file over another.';
comment on column memoryd.replica_files.conflict_id is
    'Of the file of a conflict: which one. Null: the file is the document''s own.';
comment on column memoryd.replica_files.user_id is
    'Whose the document was when the file was written: a file of another user''s goes to their folder.';
comment on column memoryd.replica_files.base_hash is
    'SHA-256 of title, text and further front matter, which file and row both had last.';
comment on column memoryd.replica_files.file_hash is
    'SHA-256 of the file''s bytes, when it was last read or written.';
comment on column memoryd.replica_files.row_version is
    'The document''s updated_at when it was last compared with the file; null: it has to be compared again.';
comment on column memoryd.replica_files.missing_since is
    'Since when the file is gone, while a person has not confirmed that its document is to be deleted.';
create unique index replica_files_document on memoryd.replica_files (document_id) where conflict_id is null;
create unique index replica_files_conflict on memoryd.replica_files (conflict_id)
    where conflict_id is not null;

-- Documents that a person deleted by deleting their file.
create table memoryd.replica_tombstones (
    document_id uuid primary key references public.documents (id) on delete cascade,
    deleted_at timestamptz not null default now(),
    confirmed boolean not null default false
);
comment on table memoryd.replica_tombstones is
    'Documents whose file a person deleted. After 30 days the document is deleted for good.';

-- Texts that lost against another change. The document has the person's text; the other text is here, and in
-- a file beside the document's.
create table memoryd.replica_conflicts (
    id uuid primary key default gen_random_uuid(),
    document_id uuid not null references public.documents (id) on delete cascade,
    title text not null,
    content text not null,
    front_matter text not null default '',
    made_at timestamptz not null default now()
);
comment on table memoryd.replica_conflicts is
    'Texts of documents that were changed by an agent while a person changed the file.';
create index replica_conflicts_document on memoryd.replica_conflicts (document_id);
