-- Parts of a daemon that fail and are started again, for status and doctor.

alter table memoryd.daemons add column failing jsonb not null default '{}';
comment on column memoryd.daemons.failing is
    'Parts that deal with the outside, have failed, and are started again: each with its error.';

-- From which text a person began: who saves an old copy of a file takes nothing from agents unseen.

alter table memoryd.replica_files add column began_hash bytea;
comment on column memoryd.replica_files.began_hash is
    'Which text the file that was taken last names as the one that it began from: a further save that names '
    'it is by the same person. Empty: it names none. 0 at its end: others have changed the document since a '
    'file that names none was taken. Null: nothing was taken since memoryd wrote the file.';
alter table memoryd.replica_collections add column version integer not null default 0;
comment on column memoryd.replica_collections.version is
    'How often memoryd has written the file: the file says it.';
alter table memoryd.replica_sections add column began_hash bytea;
alter table memoryd.replica_sections add column since integer not null default 0;
comment on column memoryd.replica_sections.began_hash is
    'Which text the section that was taken last began from; null: memoryd wrote it since.';
comment on column memoryd.replica_sections.since is
    'The version of the file in which memoryd first wrote this text: who saves an older one has not seen it.';
alter table memoryd.replica_section_conflicts add column since integer not null default 0;
comment on column memoryd.replica_section_conflicts.since is
    'The version of the file in which its section was first.';

create table memoryd.replica_erased (
    id uuid primary key,
    erased_at timestamptz not null default now()
);
comment on table memoryd.replica_erased is
    'Ids that files and sections of the replica named and that were erased or deleted for good, for a year: '
    'a program that has such a file open may save it once more. Nothing says whose they were.';
