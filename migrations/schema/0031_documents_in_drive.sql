-- Drop folders in Google Drive, and a quick way to single files of the replica.

-- The replica looks up single files by their paths. A hash, since a path may be too long for a tree.
create index replica_files_path on memoryd.replica_files using hash (path);

-- Which daemon takes files from a drop folder in Google Drive: a local one is locked by a file in it.
create table memoryd.drop_folders (
    folder text primary key,
    daemon_id uuid not null,
    leased_until timestamptz not null
);
comment on table memoryd.drop_folders is
    'Drop folders in Google Drive, each with the daemon that takes files from it, or did last.';
comment on column memoryd.drop_folders.folder is 'The folder''s id in Google Drive.';
comment on column memoryd.drop_folders.leased_until is 'Another daemon may take it over then.';
