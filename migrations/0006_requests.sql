-- Ask the daemon by inserting a row.

create table public.memory_requests (
    id uuid primary key default gen_random_uuid(),
    kind text not null check (
        kind in ('recall', 'context', 'dream')
        or memoryd.refuse('unknown kind ' || quote_literal(kind), 'Kinds: recall, context, dream.')),
    agent_id text,
    user_id uuid,
    query text,
    options jsonb not null default '{}' check (
        jsonb_typeof(options) = 'object'
        or memoryd.refuse('options is of type ' || jsonb_typeof(options),
                          'Give an object; of a recall: {"match_count": 10, "sources": ["memory", "insight"], "filter": {}}.')),
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
                  else true end
        or memoryd.refuse('a request of kind ' || kind || ' lacks its ' || case when query is null then 'query' else 'agent_id' end,
                          'A recall needs a query, a context needs an agent_id and a query (the task).'))
);
comment on table public.memory_requests is 'Requests to memoryd: recall and context with the query''s embedding, or a dream. LISTEN request_done, or poll status.';
create index memory_requests_created on public.memory_requests (created_at);

create function memoryd.requests_inserted() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    insert into memoryd.jobs (topic, ref) select 'request', id from new_rows
    where status = 'pending' and kind <> 'dream' order by created_at, id;
    if found then
        perform pg_notify('memoryd', 'request');
    end if;
    -- A dream takes minutes: its own topic, so that no recall waits behind it.
    insert into memoryd.jobs (topic, ref) select 'dream', id from new_rows
    where status = 'pending' and kind = 'dream' order by created_at, id;
    if found then
        perform pg_notify('memoryd', 'dream');
    end if;
    return null;
end
$$;
create trigger requests_inserted after insert on public.memory_requests
    referencing new table as new_rows
    for each statement execute function memoryd.requests_inserted();

create function memoryd.requests_updated() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform memoryd.announce('request_done', n.id::text)
    from new_rows n join old_rows o using (id)
    where n.status in ('done', 'failed') and o.status = 'pending';
    return null;
end
$$;
create trigger requests_updated after update on public.memory_requests
    referencing old table as old_rows new table as new_rows
    for each statement execute function memoryd.requests_updated();
