-- An application built by four of the designs: user memory, documents, chat memory and team knowledge, with rows; in them some
-- that memoryd refuses. Extension vector is there.

create schema auth;
create table auth.users (id uuid primary key);
create function auth.uid() returns uuid language sql stable return null::uuid;
insert into auth.users select md5('user ' || n)::uuid from generate_series(1, 20) n;

create function public.update_updated_at_column() returns trigger language plpgsql as $$
begin
    new.updated_at := now();
    return new;
end
$$;

-- User memory.
create table public.agent_memory (
    id uuid primary key default gen_random_uuid(),
    user_id uuid references auth.users (id) on delete cascade not null,
    memory_type text not null check (memory_type in ('brand_memory', 'user_preferences', 'competitive_memory',
                                                     'task_memory', 'performance_memory')),
    content text not null,
    embedding vector(1536),
    metadata jsonb default '{}'::jsonb,
    created_at timestamp with time zone default now() not null,
    updated_at timestamp with time zone default now() not null,
    expires_at timestamp with time zone,
    mood text
);
create index on agent_memory using ivfflat (embedding vector_cosine_ops) with (lists = 1);
create index agent_memory_user on agent_memory (user_id, memory_type);
alter table agent_memory enable row level security;
alter table agent_memory force row level security;
create policy "Users can read their own memory" on agent_memory for select using (auth.uid() = user_id);
create trigger update_agent_memory_updated_at before update on agent_memory
    for each row execute function public.update_updated_at_column();
create function public.notify_memory_update() returns trigger language plpgsql security definer as $$
begin
    perform pg_notify('memory_updated', json_build_object('user_id', new.user_id)::text);
    return new;
end
$$;
create trigger agent_memory_updated after insert or update or delete on agent_memory
    for each row execute function public.notify_memory_update();
create function public.match_memory(
    query_embedding vector(1536), match_threshold float default 0.7, match_count int default 5,
    memory_type text default null, filter_user_id uuid default auth.uid()
) returns table (id uuid, content text, similarity float, metadata jsonb, created_at timestamptz)
language plpgsql security definer set search_path = public as $$
begin
    return query select m.id, m.content, 1 - (m.embedding <=> query_embedding), m.metadata, m.created_at
    from agent_memory m where m.user_id = filter_user_id limit match_count;
end
$$;
create function public.cleanup_expired_memory() returns void language sql as $$
    delete from agent_memory where expires_at < now()
$$;

create table public.agent_sessions (
    id uuid primary key default gen_random_uuid(),
    user_id uuid references auth.users (id) on delete cascade not null,
    status text not null default 'initializing',
    current_step text,
    progress_percentage integer default 0,
    total_steps integer default 8,
    completed_steps text[] default array[]::text[],
    error_message text,
    session_data jsonb default '{}'::jsonb,
    started_at timestamptz default now() not null,
    completed_at timestamptz,
    created_at timestamptz default now() not null,
    updated_at timestamptz default now() not null
);
create table public.agent_execution_logs (
    id uuid primary key default gen_random_uuid(),
    session_id uuid references agent_sessions (id) on delete cascade not null,
    user_id uuid references auth.users (id) on delete cascade not null,
    step_name text not null,
    tool_name text,
    action_type text not null,
    input_data jsonb,
    output_data jsonb,
    reasoning text,
    confidence_score numeric(3, 2),
    execution_time_ms integer,
    status text not null,
    error_message text,
    created_at timestamptz default now() not null
);

insert into agent_memory (id, user_id, memory_type, content, metadata, created_at, updated_at, expires_at, mood)
select md5('memory ' || n)::uuid, md5('user ' || 1 + n % 20)::uuid,
       case when n % 2 = 0 then 'task_memory' else 'brand_memory' end, 'The wombat number ' || n || ' digs.',
       jsonb_build_object('n', n), timestamptz '2026-01-02 03:04:05+00' + n * interval '1 second', '2026-02-03 00:00+00',
       case when n % 100 = 0 then timestamptz '2026-03-01' when n % 2 = 0 then timestamptz '2126-01-01' end,
       case when n % 10 = 0 then 'calm' end
from generate_series(1, 3000) n;
insert into agent_memory (id, user_id, memory_type, content, metadata)
select md5('odd memory ' || n)::uuid, md5('user 1')::uuid, 'brand_memory', o.content, o.metadata
from (values (1, '', '{}'::jsonb), (2, E' \n', '{}'), (3, 'The metadata are a list.', '[1]'), (4, 'None.', null),
             (5, repeat('long ', 2000001), '{}'), (6, 'deep', (repeat('[', 70) || repeat(']', 70))::jsonb)) as o(n, content, metadata);
update agent_memory set embedding = array_fill(0.5, array[1536])::vector where id = md5('memory 1')::uuid;
insert into agent_sessions (id, user_id, status, completed_at, updated_at)
select md5('run ' || n)::uuid, md5('user ' || n)::uuid, 'completed', null, '2026-02-03 00:00+00' from generate_series(1, 20) n;
insert into agent_execution_logs (session_id, user_id, step_name, action_type, status, created_at)
select md5('run ' || 1 + n % 20)::uuid, md5('user ' || 1 + n % 20)::uuid, case when n = 1 then ' ' else 'step' end,
       'tool_call', 'success', now() - interval '1 day'
from generate_series(1, 500) n;

-- Documents.
create table public.documents (id uuid primary key, title varchar, source varchar, document_type varchar, metadata jsonb,
                               created_at timestamp);
create table public.memory_chunks (
    id uuid primary key, document_id uuid references documents (id), chunk_text text, dense_embedding vector,
    sparse_embedding jsonb, context text, metadata jsonb, created_at timestamp);
create table public.conversation_history (
    id uuid primary key, user_id uuid, session_id uuid, message_index int, speaker text, message_text text,
    "timestamp" timestamp, embedding vector, access_level text, visibility_tags text[]);
create table public.user_memory_access (
    id uuid primary key, user_id uuid, user_role varchar, access_level int, allowed_contexts jsonb, allowed_tags jsonb,
    visibility_scope varchar, created_at timestamp, updated_at timestamp);
insert into documents select md5('document ' || n)::uuid, case when n > 1 then 'Handbook ' || n end, 'upload', 'pdf',
                             '{"pages": 3}', '2026-01-02 03:04:05' from generate_series(1, 50) n;
insert into memory_chunks
select md5('chunk ' || n)::uuid, md5('document ' || 1 + n % 50)::uuid, 'The quokka part ' || n, null,
       '{"quokka": 0.5}', 'Quokkas', '{"access_level": 1}', timestamp '2026-01-02 03:04:05' + n * interval '1 second'
from generate_series(1, 500) n;
update memory_chunks set dense_embedding = array_fill(0.25, array[256])::vector where id = md5('chunk 50')::uuid;
update memory_chunks set dense_embedding = array_fill(0.25, array[8])::vector where id = md5('chunk 51')::uuid;
insert into conversation_history
select md5('turn ' || n)::uuid, md5('user 1')::uuid, md5('talk ' || n % 10)::uuid, case when n > 20 then 300 - n / 20 end,
       case when n % 2 = 0 then 'agent' else 'user' end, 'Turn ' || n, timestamp '2026-01-02 00:00' + n * interval '1 minute',
       null, case when n = 7 then 'staff' when n = 9 then '2' end, '{}'
from generate_series(1, 400) n;
insert into user_memory_access (id, user_id, user_role, access_level, allowed_tags)
select md5('access ' || n)::uuid, md5('user ' || n)::uuid, case when n = 3 then 'king' else 'client' end, 1, '["plants"]'
from generate_series(1, 3) n;

-- Chat memory.
create table conversation_messages (
    id uuid primary key default gen_random_uuid(),
    session_id uuid not null,
    role text not null check (role in ('user', 'assistant', 'system')),
    content text not null,
    metadata jsonb default '{}'::jsonb,
    created_at timestamptz not null default timezone('utc', now())
);
create index idx_conversation_messages_session_created on conversation_messages (session_id, created_at desc);
insert into conversation_messages
select md5('message ' || n)::uuid, md5('chat ' || n % 40)::uuid, case when n % 2 = 0 then 'assistant' else 'user' end,
       case when n = 13 then '' else 'Message ' || n end, '{"tokens": 2}', timestamptz '2026-01-02 00:00+00' - n * interval '1 minute'
from generate_series(1, 1000) n;
insert into conversation_messages (id, session_id, role, content, created_at)
values (md5('too old')::uuid, md5('chat 1')::uuid, 'user', 'Before all times', '0044-03-15 BC');

-- Team knowledge.
create table shared_knowledge (
    id uuid default gen_random_uuid() primary key,
    org_id uuid not null default '6420346e-4e6a-47a8-b671-80beacd394b4',
    tier text not null check (tier in ('core', 'working', 'learning')),
    category text not null,
    title text not null,
    content text not null,
    created_by uuid not null,
    created_by_name text,
    source text,
    confidence text default 'high' check (confidence in ('high', 'medium', 'low')),
    surprise_score float,
    tags text[],
    related_ids uuid[],
    decision_context jsonb,
    outcome jsonb,
    status text default 'active' check (status in ('active', 'resolved', 'archived')),
    resolved_at timestamptz,
    embedding vector(1536),
    accessed_count int default 0,
    last_accessed_at timestamptz,
    expires_at timestamptz,
    created_at timestamptz default now(),
    updated_at timestamptz default now()
);
create function touch_knowledge(knowledge_id uuid) returns void language sql as $$
    update shared_knowledge set accessed_count = accessed_count + 1 where id = knowledge_id;
$$;
insert into shared_knowledge (id, tier, category, title, content, created_by, created_at, updated_at, accessed_count)
select md5('knowledge ' || n)::uuid, 'learning', 'insight', 'Insight ' || n,
       case when n = 5 then 'password: hunter2secret9' else 'Numbats eat termites, ' || n end, md5('agent')::uuid,
       '2026-01-02 00:00+00', '2026-01-03 00:00+00', n
from generate_series(1, 200) n;

-- What the application built on them.
create table public.favourites (memory_id uuid references agent_memory (id), said text);
insert into favourites values (md5('memory 1')::uuid, 'kept');
create view public.brands as select id, content from agent_memory where memory_type = 'brand_memory';
create function public.count_memories() returns bigint language sql as 'select count(*) from agent_memory';
