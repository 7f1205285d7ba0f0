-- Requests to memoryd: a client inserts a row, a daemon writes the answer into it.

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
            'an export or an erasure a user_id.'))
);
comment on table public.memory_requests is
    'Requests to memoryd: recall and context with the query''s embedding, a dream, an export, an erasure. '
    'LISTEN request_done, or poll status.';
comment on column public.memory_requests.user_id is
    'Who asks. The answer is made with that user''s rights: it contains nothing that they could not select '
    'themselves.';
comment on column public.memory_requests.result is
    'The answer. That of an export or an erasure is deleted an hour after finished_at, '
    'and status stays done.';
create index memory_requests_created on public.memory_requests (created_at);
create index memory_requests_user on public.memory_requests (user_id) where user_id is not null;

-- Answers that are deleted an hour after they were given.
create index memory_requests_answers on public.memory_requests (finished_at)
    where kind in ('export', 'erase') and result is not null;
