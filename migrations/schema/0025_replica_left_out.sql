-- Files of the replica that are left as they are, so that `memoryd replica` can name them.

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
