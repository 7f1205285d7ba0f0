-- The replica: documents as files in a folder, and what is remembered as files with a section for each entry,
-- which people read and change (daemon/replica/). Its tables are memoryd's own: nobody is granted anything on
-- them.

-- The replica of this database, and which daemon has it.
create table memoryd.replica (
    one boolean primary key default true check (one),
    id uuid not null default gen_random_uuid(),
    daemon_id uuid,
    leased_until timestamptz not null default '-infinity',
    deletions_confirmed_at timestamptz,
    trouble text,
    synced_at timestamptz,
    page_token_of text,
    page_token text,
    noting boolean not null default false,
    compared_at timestamptz
);
comment on table memoryd.replica is 'The replica: which folder it is, and which daemon keeps it.';
comment on column memoryd.replica.id is
    'The id in the folder''s .memoryd-replica.json: by it the folder is known.';
comment on column memoryd.replica.deletions_confirmed_at is
    'When a person last confirmed that files that were gone are to be deleted.';
comment on column memoryd.replica.trouble is 'Why the folder cannot be used now; null: it can.';
comment on column memoryd.replica.synced_at is 'When folder and documents were last made the same.';
comment on column memoryd.replica.page_token_of is 'The folder in Google Drive that the page token is of.';
comment on column memoryd.replica.page_token is
    'From which change on Google Drive is asked after a start. Null: the replica is elsewhere.';
comment on column memoryd.replica.noting is
    'Whether changes of entries are noted in replica_changes: from when a daemon first wrote collections, '
    'until none has kept the replica for a day.';
comment on column memoryd.replica.compared_at is
    'When all entries were last compared with what is known of them.';

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
    missing_since timestamptz,
    began_hash bytea
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
comment on column memoryd.replica_files.began_hash is
    'Which text the file that was taken last names as the one that it began from: a further save that names '
    'it is by the same person. Empty: it names none. 0 at its end: others have changed the document since a '
    'file that names none was taken. Null: nothing was taken since memoryd wrote the file.';
create index replica_files_user on memoryd.replica_files (user_id) where user_id is not null;
create unique index replica_files_document on memoryd.replica_files (document_id) where conflict_id is null;
create unique index replica_files_conflict on memoryd.replica_files (conflict_id)
    where conflict_id is not null;

-- The replica looks up single files by their paths. A hash, since a path may be too long for a tree.
create index replica_files_path on memoryd.replica_files using hash (path);

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

-- The files that collections are. A collection with many entries has several: its parts.
create table memoryd.replica_collections (
    id uuid primary key default gen_random_uuid(),
    source text not null check (source in ('knowledge', 'memory', 'insight')),
    user_id uuid,
    agent_id text,
    org_id uuid,
    tier text,
    part integer not null default 1,
    path text not null,
    preamble text,
    file_hash bytea,
    stale boolean not null default true,
    erased boolean not null default false,
    missing_since timestamptz,
    missing integer not null default 0,
    version integer not null default 0
);
comment on table memoryd.replica_collections is
    'Files of the replica with a section for each entry: knowledge by tier, memories and insights by user, '
    'else by agent.';
comment on column memoryd.replica_collections.preamble is
    'The text above the first section, as people wrote it; null: what memoryd writes.';
comment on column memoryd.replica_collections.file_hash is
    'SHA-256 of the file''s bytes, when it was last read or written; null: there is none.';
comment on column memoryd.replica_collections.stale is
    'Whether entries of it have changed since the file was last compared with them.';
comment on column memoryd.replica_collections.erased is
    'Its user was erased: the file goes, whatever it says by now.';
comment on column memoryd.replica_collections.missing_since is
    'Since when many of its sections, or the file, are gone, while a person has not confirmed the deletion.';
comment on column memoryd.replica_collections.missing is 'How many entries that are.';
comment on column memoryd.replica_collections.version is
    'How often memoryd has written the file: the file says it.';
create index replica_collections_user on memoryd.replica_collections (user_id) where user_id is not null;

-- The entries of these files, each with what both sides had last. There is no foreign key to the entries: a
-- row whose entry is gone says that its section has to go.
create table memoryd.replica_sections (
    source text not null,
    row_id uuid not null,
    collection_id uuid not null references memoryd.replica_collections (id) on delete cascade,
    size integer not null,
    label text not null,
    base_hash bytea,
    row_version bytea,
    erased boolean not null default false,
    left_collection uuid,
    left_hash bytea,
    began_hash bytea,
    since integer not null default 0,
    primary key (source, row_id)
);
comment on table memoryd.replica_sections is
    'Entries in files of the replica, each with what section and row had last.';
comment on column memoryd.replica_sections.size is 'Of its text when it was placed, in bytes.';
comment on column memoryd.replica_sections.base_hash is
    'SHA-256 of label, title and text, which section and row both had last; null: it is not written yet.';
comment on column memoryd.replica_sections.row_version is
    'memoryd.replica_entries.version of the row when it was last compared with the section.';
comment on column memoryd.replica_sections.erased is
    'The entry was erased or forgotten: its section goes, whatever it says by now.';
comment on column memoryd.replica_sections.left_collection is
    'An agent moved it out of this collection, whose file may still have its section.';
comment on column memoryd.replica_sections.left_hash is 'What that section had last.';
comment on column memoryd.replica_sections.began_hash is
    'Which text the section that was taken last began from; null: memoryd wrote it since.';
comment on column memoryd.replica_sections.since is
    'The version of the file in which memoryd first wrote this text: who saves an older one has not seen it.';
create index replica_sections_collection on memoryd.replica_sections (collection_id);
create index replica_sections_left on memoryd.replica_sections (left_collection)
    where left_collection is not null;

-- Which entries have changed. Writers add rows, the daemon that keeps the replica deletes those that it has
-- read. A row per change: writers of the same entry do not wait for each other.
create table memoryd.replica_changes (
    id bigint primary key generated always as identity,
    source text not null,
    row_id uuid not null
);
comment on table memoryd.replica_changes is
    'Entries that have changed since the replica last looked. Source user: all that is remembered of a user.';

-- Entries that a person deleted by deleting their section.
create table memoryd.replica_buried (
    source text not null,
    row_id uuid not null,
    user_id uuid,
    collection_id uuid,
    row jsonb not null,
    deleted_at timestamptz not null default now(),
    confirmed boolean not null default false,
    primary key (source, row_id)
);
comment on table memoryd.replica_buried is
    'Entries whose section a person deleted, as they were. After 30 days they are deleted for good.';
create index replica_buried_user on memoryd.replica_buried (user_id) where user_id is not null;

-- Texts of entries that lost against a person's.
create table memoryd.replica_section_conflicts (
    id uuid primary key default gen_random_uuid(),
    source text not null,
    row_id uuid not null,
    user_id uuid,
    label text not null,
    title text not null,
    body text not null,
    made_at timestamptz not null default now(),
    base_hash bytea,
    ended boolean not null default false,
    since integer not null default 0
);
comment on table memoryd.replica_section_conflicts is
    'Texts of entries that were changed by an agent while a person changed the section.';
comment on column memoryd.replica_section_conflicts.base_hash is
    'What its section had last; null: it is not written yet.';
comment on column memoryd.replica_section_conflicts.ended is
    'It is resolved; the row stays until its section is gone.';
comment on column memoryd.replica_section_conflicts.since is
    'The version of the file in which its section was first.';
create index replica_section_conflicts_row on memoryd.replica_section_conflicts (source, row_id);

create table memoryd.replica_left_out (
    path text primary key,
    user_id uuid,
    reason text not null
);
comment on table memoryd.replica_left_out is
    'Files of the replica that the daemon leaves as they are, a hundred at most, as of the last pass.';
comment on column memoryd.replica_left_out.user_id is
    'Whose folder it is in, or whose document it was: an erasure deletes the row.';
comment on column memoryd.replica_left_out.reason is 'Why, and what to do; for a person.';

create table memoryd.replica_erased (
    id uuid primary key,
    erased_at timestamptz not null default now()
);
comment on table memoryd.replica_erased is
    'Ids that files and sections of the replica named and that were erased or deleted for good, for a year: '
    'a program that has such a file open may save it once more. Nothing says whose they were.';
