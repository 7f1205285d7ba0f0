-- What a user decides about their own memory, and can see of what was done with it (source design 000): settings, the audit
-- trail, reads by support, export, import, erasure.
create table public.memory_settings (
    user_id uuid primary key,
    memory_enabled boolean not null default true,
    memory_ttl_hours integer check (
        memory_ttl_hours between 1 and 876000
        or memoryd.refuse('memory_ttl_hours is ' || memory_ttl_hours, 'Hours from 1 to 876000; null for the usual ones.')),
    task_memory_ttl_hours integer check (
        task_memory_ttl_hours between 1 and 876000
        or memoryd.refuse('task_memory_ttl_hours is ' || task_memory_ttl_hours, 'Hours from 1 to 876000; null for the usual ones.')),
    conversation_retention_minutes integer check (
        conversation_retention_minutes between 1 and 52560000
        or memoryd.refuse('conversation_retention_minutes is ' || conversation_retention_minutes,
                          'Minutes from 1 to 52560000; null for the usual ones.')),
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now()
);
comment on table public.memory_settings is 'What users decide about their memory; without a row, or where it says null, the daemon''s settings hold.';
comment on column public.memory_settings.memory_enabled is 'False: nothing of this user is remembered, and nothing that was is found, until it is true again. erase_user_memory deletes.';
comment on column public.memory_settings.memory_ttl_hours is 'Hours until a memory is forgotten, at most and unless told; for all but task_memory.';
comment on column public.memory_settings.task_memory_ttl_hours is 'The same for memories of type task_memory.';

-- Nearly always empty, so that asking whether somebody's memory is off costs nearly nothing.
create index memory_settings_off on public.memory_settings (user_id) where not memory_enabled;

-- Whose rows they are is asked by the policies, by exports and by erasures.
create index agent_commands_user on public.agent_commands (user_id) where user_id is not null;
create index memory_queries_user on public.memory_queries (user_id) where user_id is not null;
create index memory_requests_user on public.memory_requests (user_id) where user_id is not null;
create index dream_insights_user on public.dream_insights (user_id) where user_id is not null;

insert into memoryd.settings (key, value) values ('audit', 'true');
create index agent_execution_logs_admin on public.agent_execution_logs
    ((input_data ->> 'transaction'), (input_data ->> 'table'), user_id) where action_type = 'admin_read';

-- Hashes of texts that were erased a moment ago. A daemon that holds one of them in its hands, about to pay for its embedding,
-- does not bring it back.
create table memoryd.erased_texts (
    content_hash bytea primary key,
    erased_at timestamptz not null default now()
);
comment on table memoryd.erased_texts is 'SHA-256 of texts erased within the last hour: their embeddings, which a daemon may still be asking for, are not kept.';

-- Whose rows others were answered with: an erasure also takes out what was changed or deleted since.
create table memoryd.answered_from (
    party bigint not null,
    request_id uuid not null references public.memory_requests (id) on delete cascade,
    primary key (party, request_id)
);
comment on table memoryd.answered_from is
    'The users (hashed, see memoryd.party_of) whose rows stand in the answer to a request of somebody else; 0: of whom is not known any more.';
create index answered_from_request on memoryd.answered_from (request_id);
