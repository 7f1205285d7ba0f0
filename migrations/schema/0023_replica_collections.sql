-- The replica of what is remembered: knowledge, memories and insights as files with a section for each entry
-- (daemon/replica/collections*.py). Its tables are memoryd's own: nobody is granted anything on them.

alter table public.agent_memory add column last_modified_human timestamptz;
alter table public.dream_insights add column last_modified_human timestamptz;
alter table public.shared_knowledge add column last_modified_human timestamptz;
comment on column public.agent_memory.last_modified_human is
    'When a human last changed it in the replica.';
comment on column public.dream_insights.last_modified_human is
    'When a human last changed it in the replica. Dreams leave the text of such an insight as it is.';
comment on column public.shared_knowledge.last_modified_human is
    'When a human last changed it in the replica.';

alter table memoryd.replica add column noting boolean not null default false;
alter table memoryd.replica add column compared_at timestamptz;
comment on column memoryd.replica.noting is
    'Whether changes of entries are noted in replica_changes: from when a daemon first wrote collections, '
    'until none has kept the replica for a day.';
comment on column memoryd.replica.compared_at is
    'When all entries were last compared with what is known of them.';

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
    missing integer not null default 0
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
    ended boolean not null default false
);
comment on table memoryd.replica_section_conflicts is
    'Texts of entries that were changed by an agent while a person changed the section.';
comment on column memoryd.replica_section_conflicts.base_hash is
    'What its section had last; null: it is not written yet.';
comment on column memoryd.replica_section_conflicts.ended is
    'It is resolved; the row stays until its section is gone.';
create index replica_section_conflicts_row on memoryd.replica_section_conflicts (source, row_id);
