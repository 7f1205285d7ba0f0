-- What somebody pastes who builds a chat by docs/from/chat-memory.md, on a database that memoryd has already.

create table if not exists conversation_messages (
    id uuid primary key default gen_random_uuid(),
    session_id uuid not null,
    role text not null check (role in ('user', 'assistant', 'system')),
    content text not null,
    metadata jsonb default '{}'::jsonb,
    created_at timestamptz not null default timezone('utc', now())
);

create index if not exists idx_conversation_messages_session_created
    on conversation_messages (session_id, created_at desc);
