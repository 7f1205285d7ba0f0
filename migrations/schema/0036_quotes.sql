-- Which rows each stored text shows: contexts of commands, and answers to requests. It takes the place of
-- answered_from, which knew only of answers to recalls, and users instead of rows.

drop table memoryd.answered_from;

create table memoryd.quotes (
    id bigint generated always as identity primary key,
    command_id uuid unique references public.agent_commands (id) on delete cascade,
    request_id uuid unique references public.memory_requests (id) on delete cascade,
    row_ids uuid[] not null,
    hashes bigint[] not null,
    made_at timestamptz not null default now(),
    check (num_nonnulls(command_id, request_id) = 1)
);
comment on table memoryd.quotes is
    'The ids of the rows that a stored text shows (the context of a command, the answer to a request), and '
    'beside each the hash of the line that shows it.';
create index quotes_rows on memoryd.quotes using gin (row_ids) with (fastupdate = off);

create table memoryd.outdated_rows (
    id bigint generated always as identity primary key,
    row_ids uuid[] not null,
    outdated_at timestamptz not null default clock_timestamp(),
    look_at timestamptz not null default clock_timestamp(),
    looked boolean not null default false
);
comment on table memoryd.outdated_rows is
    'Rows that were deleted, replaced or reworded, until no stored text shows what they said.';

-- A block of context, with what memoryd.quotes keeps of it.
create type memoryd.composed as (
    block text,
    row_ids uuid[],
    hashes bigint[]
);
