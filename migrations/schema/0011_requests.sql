-- Requests to memoryd (memory_requests), which rows the stored texts show (quotes), what users decide about
-- their own memory (memory_settings), and what an erasure has to know to be complete.

-- A block of context, with what memoryd.quotes keeps of it.
create type memoryd.composed as (
    block text,
    row_ids uuid[],
    hashes bigint[]
);

-- A line that may stand in a context, with what it is of. why: the reason where it does not stand there.
create type memoryd.context_line as (
    source text,
    kind text,
    id uuid,
    scope bigint,
    score double precision,
    created_at timestamptz,
    trust text,
    content text,
    line text,
    why text
);

create table public.memory_requests (
    id uuid primary key default gen_random_uuid(),
    kind text not null check (
        kind in ('recall', 'context', 'dream', 'export', 'erase')
        or memoryd.refuse('unknown kind ' || quote_literal(kind),
                          'Kinds: recall, context, dream, export, erase.')),
    agent_id text check (memoryd.is_plain(agent_id) or memoryd.refuse_unseen(agent_id)),
    user_id uuid,
    query text,
    options jsonb not null default '{}' check (
        jsonb_typeof(options) = 'object'
        or memoryd.refuse('options is of type ' || jsonb_typeof(options),
                          'Give an object; of a recall: '
                          '{"match_count": 10, "sources": ["memory", "insight"], "filter": {}}.')),
    status text not null default 'pending' check (
        status in ('pending', 'done', 'failed')
        or memoryd.refuse('unknown status ' || quote_literal(status), 'Statuses: pending, done, failed.')),
    result jsonb,
    error text,
    created_at timestamptz not null default now(),
    finished_at timestamptz,
    traceparent text check (
        traceparent is null
        or traceparent ~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$'
        or memoryd.refuse('traceparent is no header of W3C Trace Context',
                          'Give one, such as 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.')),
    constraint request_is_whole check (
        case kind when 'recall' then query is not null
                  when 'context' then query is not null and agent_id is not null
                  when 'export' then user_id is not null
                  when 'erase' then user_id is not null
                  else true end
        or memoryd.refuse(
            'a request of kind ' || kind || ' lacks its '
                || case when kind in ('export', 'erase') then 'user_id'
                        when query is null then 'query'
                        else 'agent_id' end,
            'A recall needs a query, a context an agent_id and a query (the task), '
            'an export or an erasure a user_id.')),
    constraint memory_requests_query_size check (memoryd.text_fits('query', query, 10000000)),
    constraint memory_requests_agent_id_size check (memoryd.text_fits('agent_id', agent_id, 200)),
    constraint memory_requests_options_size check (memoryd.json_fits('options', options))
);
comment on table public.memory_requests is
    'Requests to memoryd: recall and context with the query''s embedding, a dream, an export, an erasure. '
    'LISTEN request_finished, or poll status.';
comment on column public.memory_requests.user_id is
    'Who asks. The answer is made with that user''s rights: it contains nothing that they could not select '
    'themselves.';
comment on column public.memory_requests.traceparent is
    'The trace (W3C Trace Context) that the daemon''s work for this request belongs to, where it has a '
    'collector of OpenTelemetry.';
comment on column public.memory_requests.result is
    'The answer. That of an export or an erasure is deleted an hour after finished_at, '
    'and status stays done.';
create index memory_requests_created on public.memory_requests (created_at);
create index memory_requests_user on public.memory_requests (user_id) where user_id is not null;

-- Answers that are deleted an hour after they were given.
create index memory_requests_answers on public.memory_requests (finished_at)
    where kind in ('export', 'erase') and result is not null;

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

create table public.memory_settings (
    user_id uuid primary key,
    memory_enabled boolean not null default true,
    memory_ttl_hours integer check (
        memory_ttl_hours between 1 and 876000
        or memoryd.refuse('memory_ttl_hours is ' || memory_ttl_hours,
                          'Hours from 1 to 876000; null for the usual ones.')),
    task_memory_ttl_hours integer check (
        task_memory_ttl_hours between 1 and 876000
        or memoryd.refuse('task_memory_ttl_hours is ' || task_memory_ttl_hours,
                          'Hours from 1 to 876000; null for the usual ones.')),
    conversation_retention_minutes integer check (
        conversation_retention_minutes between 1 and 52560000
        or memoryd.refuse('conversation_retention_minutes is ' || conversation_retention_minutes,
                          'Minutes from 1 to 52560000; null for the usual ones.')),
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now()
);
comment on table public.memory_settings is
    'What users decide about their memory; without a row, or where it says null, the daemon''s settings '
    'apply.';
comment on column public.memory_settings.memory_enabled is
    'False: nothing of this user is remembered, and nothing that was is found, until it is true again. '
    'erase_user_memory deletes.';
comment on column public.memory_settings.memory_ttl_hours is
    'Hours until a memory is forgotten: the default and the maximum; for all but task_memory.';
comment on column public.memory_settings.task_memory_ttl_hours is
    'The same for memories of type task_memory.';

-- Nearly always empty, so that it costs nearly nothing to ask whether a user's memory is switched off.
create index memory_settings_off on public.memory_settings (user_id) where not memory_enabled;

-- Hashes of texts that were erased within the last hour. A daemon that has read such a text before, and now
-- gets its embedding from a provider, does not store it.
create table memoryd.erased_texts (
    content_hash bytea primary key,
    erased_at timestamptz not null default now()
);
comment on table memoryd.erased_texts is
    'SHA-256 of texts erased within the last hour: their embeddings, which a daemon may still be asking '
    'for, are not kept.';

create table memoryd.deleted_accounts (
    user_id uuid primary key,
    deleted_at timestamptz not null default now()
);
comment on table memoryd.deleted_accounts is
    'Users whose account was deleted, until their memory is erased: nearly always in the same transaction.';
