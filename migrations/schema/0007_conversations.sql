-- Conversations: group chats (chat_groups), sessions (conversation_sessions) and what was said in them, one
-- row a message (conversation_messages).

create table public.chat_groups (
    id uuid primary key default gen_random_uuid(),
    platform text not null check (
        platform ~ '\S' or memoryd.refuse('platform is blank', 'Such as telegram, slack, email.')),
    group_name text,
    group_metadata jsonb not null default '{}',
    created_at timestamptz not null default now()
);
comment on table public.chat_groups is 'Group chats that messages come from.';
comment on column public.chat_groups.platform is 'Where the chat takes place, such as telegram or slack.';

create table public.conversation_sessions (
    id uuid primary key default gen_random_uuid(),
    user_id uuid default memoryd.caller_id(),
    agent_id text check (
        memoryd.agent_id_fits(agent_id, 'An agent_id has 1 to 200 characters; null where there is none.')),
    chat_id uuid references public.chat_groups (id) on delete set null,
    title text,
    channel text,
    created_at timestamptz not null default now() check (memoryd.time_fits('created_at', created_at))
);
comment on table public.conversation_sessions is
    'Conversations. A row is made with a session''s first message where there is none.';
comment on column public.conversation_sessions.user_id is
    'Whose conversation it is: every message in it is theirs. '
    'Null: of no user, or of several (a group chat).';
comment on column public.conversation_sessions.channel is
    'How the user and the agent talk, such as web or email.';
create index conversation_sessions_user on public.conversation_sessions (user_id, created_at desc)
    where user_id is not null;
create index conversation_sessions_chat on public.conversation_sessions (chat_id) where chat_id is not null;
create index conversation_sessions_created on public.conversation_sessions (created_at);

create table public.conversation_messages (
    id uuid primary key default gen_random_uuid(),
    session_id uuid not null references public.conversation_sessions (id) on delete cascade,
    user_id uuid default memoryd.caller_id(),
    chat_id uuid references public.chat_groups (id) on delete set null,
    agent_id text check (
        memoryd.agent_id_fits(agent_id, 'An agent_id has 1 to 200 characters; null where there is none.')),
    message_index integer not null check (
        message_index between 0 and 1000000000
        or memoryd.refuse('message_index is ' || message_index,
                          'Indexes count from 0 to 1,000,000,000; leave it out and the next one is taken.')),
    role text not null check (
        role in ('user', 'assistant', 'system')
        or memoryd.refuse('unknown role ' || quote_literal(role), 'Roles: user, assistant, system.')),
    speaker text check (
        speaker is null or (speaker ~ '\S' and length(speaker) <= 200)
        or memoryd.refuse('speaker is blank or too long',
                          'A name of 1 to 200 characters; null where the role says enough.')),
    content text not null check (
        content ~ '\S'
        or memoryd.refuse('content is blank',
                          'A message says something; what a tool gave goes into metadata.')),
    access_level integer check (
        access_level >= 0
        or memoryd.refuse('access_level is ' || access_level, 'Levels count from 0; null keeps it private.')),
    visibility_tags text[] not null default '{}',
    metadata jsonb not null default '{}',
    created_at timestamptz not null default now() check (memoryd.time_fits('created_at', created_at)),
    constraint one_message_at_each_index unique (session_id, message_index)
);
comment on table public.conversation_messages is
    'Messages of conversations, in order of message_index within a session.';
comment on column public.conversation_messages.user_id is
    'Whose message it is, whoever speaks. '
    'Left out: the end user who writes it, else the user of the session.';
comment on column public.conversation_messages.message_index is
    'The place within the session, from 0; left out: the next one.';
comment on column public.conversation_messages.speaker is
    'Who says it, by name, where a role is not enough. By it recall knows whom a question is about.';
comment on column public.conversation_messages.access_level is
    'Null: private to user_id. Else readable by users to whom user_memory_access grants that level, and the '
    'tags.';
comment on column public.conversation_messages.visibility_tags is
    'Of shared messages: readable by users who are allowed one of these tags; without tags, by all whom the '
    'level allows.';
create index conversation_messages_time on public.conversation_messages (session_id, created_at desc);
create index conversation_messages_user on public.conversation_messages (user_id, created_at desc)
    where user_id is not null;
create index conversation_messages_shared on public.conversation_messages (user_id)
    where access_level is not null;
create index conversation_messages_chat on public.conversation_messages (chat_id) where chat_id is not null;
create index conversation_messages_created on public.conversation_messages (created_at);
