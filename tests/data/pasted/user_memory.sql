-- What somebody pastes who builds a memory of users by docs/from/user-memory.md, on a database that memoryd has already.

create extension if not exists vector;

create or replace function public.update_updated_at_column() returns trigger language plpgsql as $$
begin
  new.updated_at = now();
  return new;
end;
$$;

create table if not exists public.agent_memory (
  id uuid primary key default gen_random_uuid(),
  user_id uuid references auth.users(id) on delete cascade not null,
  memory_type text not null,
  content text not null,
  embedding vector(1536),
  metadata jsonb default '{}'::jsonb,
  created_at timestamp with time zone default now() not null,
  updated_at timestamp with time zone default now() not null,
  expires_at timestamp with time zone
);

create table public.agent_sessions (
  id uuid primary key default gen_random_uuid(),
  user_id uuid references auth.users(id) on delete cascade not null,
  status text not null default 'initializing'
);

create index on agent_memory using ivfflat (embedding vector_cosine_ops)
  with (lists = 100);

create index on agent_memory (user_id, memory_type);

create index on agent_memory (expires_at) where expires_at is not null;

alter table agent_memory enable row level security;

create policy "Users can read their own memory"
  on agent_memory for select
  using (auth.uid() = user_id);

create policy "Users can insert their own memory"
  on agent_memory for insert
  with check (auth.uid() = user_id);

create policy "Users can update their own memory"
  on agent_memory for update
  using (auth.uid() = user_id);

create policy "Users can delete their own memory"
  on agent_memory for delete
  using (auth.uid() = user_id);

create policy "Admins can view all memory"
  on agent_memory for select
  using (has_role(auth.uid(), 'admin'));

create policy "Service role can insert logs"
  on agent_execution_logs for insert
  with check (true);

create trigger update_agent_memory_updated_at
  before update on agent_memory
  for each row
  execute function public.update_updated_at_column();

create trigger update_agent_sessions_updated_at
  before update on agent_sessions
  for each row
  execute function public.update_updated_at_column();

create index on agent_sessions (user_id, status);

create index on agent_execution_logs (session_id, created_at);

alter publication supabase_realtime add table agent_sessions;

create or replace function match_memory(
  query_embedding vector(1536),
  match_threshold float default 0.7,
  match_count int default 5,
  memory_type text default null,
  filter_user_id uuid default auth.uid()
)
returns table (
  id uuid,
  content text,
  similarity float,
  metadata jsonb,
  created_at timestamp with time zone
)
language plpgsql
security definer
set search_path = public
as $$
begin
  return query
  select m.id, m.content, 1 - (m.embedding <=> query_embedding) as similarity, m.metadata, m.created_at
  from agent_memory m
  where m.user_id = filter_user_id
    and (memory_type is null or m.memory_type = match_memory.memory_type)
    and (expires_at is null or expires_at > now())
    and 1 - (m.embedding <=> query_embedding) > match_threshold
  order by m.embedding <=> query_embedding
  limit match_count;
end;
$$;

create or replace function notify_memory_update()
returns trigger
language plpgsql
security definer
as $$
begin
  perform pg_notify('memory_updated', json_build_object(
    'user_id', new.user_id, 'memory_type', new.memory_type, 'operation', tg_op)::text);
  return new;
end;
$$;

create trigger agent_memory_updated
  after insert or update or delete on agent_memory
  for each row
  execute function notify_memory_update();

create or replace function cleanup_expired_memory()
returns void
language plpgsql
security definer
as $$
begin
  delete from agent_memory
  where expires_at is not null
    and expires_at < now();
end;
$$;

select cleanup_expired_memory();
