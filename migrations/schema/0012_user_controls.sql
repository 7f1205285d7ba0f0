-- What users decide about their own memory (memory_settings), and what an erasure has to know to be complete
-- (erased_texts, answered_from).

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

-- Which users' rows an answer to somebody else contains: an erasure takes these answers too, also where the
-- rows have been changed or deleted since.
create table memoryd.answered_from (
    tenant bigint not null,
    request_id uuid not null references public.memory_requests (id) on delete cascade,
    primary key (tenant, request_id)
);
comment on table memoryd.answered_from is
    'The users (hashed, see memoryd.tenant_of) whose rows are in the answer to a request of somebody else; '
    '0: it is not known any more whose.';
create index answered_from_request on memoryd.answered_from (request_id);
