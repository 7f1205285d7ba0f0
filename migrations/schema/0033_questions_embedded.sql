-- A request of kind embed: a daemon embeds the question, and whoever asked compares it with the rows
-- themselves (ask_memory).

alter table public.memory_requests drop constraint memory_requests_kind_check;
alter table public.memory_requests add constraint memory_requests_kind_check check (
    kind in ('recall', 'context', 'dream', 'export', 'erase', 'embed')
    or memoryd.refuse('unknown kind ' || quote_literal(kind),
                      'Kinds: recall, context, dream, export, erase.'));
alter table public.memory_requests add constraint memory_requests_embed check (
    kind <> 'embed' or query is not null);
comment on table public.memory_requests is
    'Requests to memoryd: recall and context with the query''s embedding, a dream, an export, an erasure. '
    'LISTEN request_finished, or poll status. Those of kind embed are ask_memory''s own, and deleted at '
    'once.';

-- Those that nobody came for are deleted after a minute.
create index memory_requests_embed on public.memory_requests (created_at) where kind = 'embed';
