-- The documents whose chunks were written are noted beside the entries that changed: as source 'document'.
insert into memoryd.replica_changes (source, row_id)
select 'document', n.document_id from memoryd.replica_chunks n;
drop table memoryd.replica_chunks;
create index replica_changes_documents on memoryd.replica_changes (row_id) where source = 'document';
comment on table memoryd.replica_changes is
    'Entries that have changed since the replica last looked. Source user: all that is remembered of a user. '
    'Source document: one without a text whose chunks were written.';
