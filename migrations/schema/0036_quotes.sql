-- Which rows each stored text shows: contexts of commands, and answers to requests. It takes the place of
-- answered_from, which knew only of answers to recalls, and users instead of rows.

drop table memoryd.answered_from;

create table memoryd.quotes (
    id bigint generated always as identity primary key,
    command_id uuid unique references public.agent_commands (id) on delete cascade,
    request_id uuid unique references public.memory_requests (id) on delete cascade,
    row_ids uuid[] not null,
    hashes bigint[] not null,
    made_at timestamptz not null default clock_timestamp(),
    read_in pg_snapshot not null default pg_current_snapshot(),
    check (num_nonnulls(command_id, request_id) = 1)
);
comment on table memoryd.quotes is
    'The ids of the rows that a stored text shows (the context of a command, the answer to a request), and '
    'beside each the hash of the line that shows it.';
comment on column memoryd.quotes.read_in is
    'A snapshot from before the text was made: changes that it does not see may be missing in the text.';
create index quotes_rows on memoryd.quotes using gin (row_ids) with (fastupdate = off);

create table memoryd.outdated_rows (
    id bigint generated always as identity primary key,
    row_ids uuid[] not null,
    outdated_at timestamptz not null default clock_timestamp(),
    outdated_by xid8 not null default pg_current_xact_id(),
    look_at timestamptz not null default clock_timestamp(),
    wait_for xid8
);
comment on table memoryd.outdated_rows is
    'Rows that were deleted, replaced or reworded, until no stored text shows what they said.';
comment on column memoryd.outdated_rows.wait_for is
    'Null before the first look. The last look comes when all transactions before this one have ended: these '
    'may have been writing texts at the first.';

-- A block of context, with what memoryd.quotes keeps of it.
create type memoryd.composed as (
    block text,
    row_ids uuid[],
    hashes bigint[]
);
