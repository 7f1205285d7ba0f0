-- Conversation memory (source designs 001 and 002): sessions, group chats and their messages, one row a message.
create table public.chat_groups (
    id uuid primary key default gen_random_uuid(),
    platform text not null check (platform ~ '\S' or memoryd.refuse('platform is blank', 'Such as telegram, slack, email.')),
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
        agent_id is null or (agent_id ~ '\S' and length(agent_id) <= 200)
        or memoryd.refuse('agent_id is blank or too long', 'An agent_id has 1 to 200 characters; null where there is none.'))
        check (memoryd.is_plain(agent_id) or memoryd.refuse_unseen(agent_id)),
    chat_id uuid references public.chat_groups (id) on delete set null,
    title text,
    channel text,
    created_at timestamptz not null default now() check (
        created_at between '1900-01-01 00:00+00' and '9999-12-30 00:00+00'
        or memoryd.refuse('created_at is ' || created_at, 'Times from 1900 to 9999.'))
);
comment on table public.conversation_sessions is 'Conversations. A row is made with a session''s first message where there is none.';
comment on column public.conversation_sessions.user_id is 'Whose conversation it is: every message in it is theirs. Null: of no user, or of several (a group chat).';
comment on column public.conversation_sessions.channel is 'How the user and the agent talk, such as web or email.';
create index conversation_sessions_user on public.conversation_sessions (user_id, created_at desc) where user_id is not null;
create index conversation_sessions_chat on public.conversation_sessions (chat_id) where chat_id is not null;
create index conversation_sessions_created on public.conversation_sessions (created_at);

create table public.conversation_messages (
    id uuid primary key default gen_random_uuid(),
    session_id uuid not null references public.conversation_sessions (id) on delete cascade,
    user_id uuid default memoryd.caller_id(),
    chat_id uuid references public.chat_groups (id) on delete set null,
    agent_id text check (
        agent_id is null or (agent_id ~ '\S' and length(agent_id) <= 200)
        or memoryd.refuse('agent_id is blank or too long', 'An agent_id has 1 to 200 characters; null where there is none.'))
        check (memoryd.is_plain(agent_id) or memoryd.refuse_unseen(agent_id)),
    message_index integer not null check (
        message_index between 0 and 1000000000
        or memoryd.refuse('message_index is ' || message_index,
                          'Indexes count from 0 to 1,000,000,000; leave it out and the next one is taken.')),
    role text not null check (
        role in ('user', 'assistant', 'system')
        or memoryd.refuse('unknown role ' || quote_literal(role), 'Roles: user, assistant, system.')),
    speaker text check (
        speaker is null or (speaker ~ '\S' and length(speaker) <= 200)
        or memoryd.refuse('speaker is blank or too long', 'A name of 1 to 200 characters; null where the role says enough.')),
    content text not null check (
        content ~ '\S' or memoryd.refuse('content is blank', 'A message says something; what a tool gave goes into metadata.')),
    access_level integer check (
        access_level >= 0 or memoryd.refuse('access_level is ' || access_level, 'Levels count from 0; null keeps it private.')),
    visibility_tags text[] not null default '{}',
    metadata jsonb not null default '{}',
    created_at timestamptz not null default now() check (
        created_at between '1900-01-01 00:00+00' and '9999-12-30 00:00+00'
        or memoryd.refuse('created_at is ' || created_at, 'Times from 1900 to 9999.')),
    constraint one_message_at_each_index unique (session_id, message_index)
);
comment on table public.conversation_messages is 'Messages of conversations, in order of message_index within a session.';
comment on column public.conversation_messages.user_id is 'Whose message it is, whoever speaks; left out: the end user who writes it, else the session''s.';
comment on column public.conversation_messages.message_index is 'The place within the session, from 0; left out: the next one.';
comment on column public.conversation_messages.speaker is 'Who says it, by name, where a role is not enough: it is how recall knows whom a question is about.';
comment on column public.conversation_messages.access_level is 'Null: private to user_id. Else readable by whom user_memory_access grants that level, and the tags.';
comment on column public.conversation_messages.visibility_tags is 'Of shared messages: readable by who is allowed one of these, or, without any, by whom the level allows.';
create index conversation_messages_time on public.conversation_messages (session_id, created_at desc);
create index conversation_messages_user on public.conversation_messages (user_id, created_at desc) where user_id is not null;
create index conversation_messages_chat on public.conversation_messages (chat_id) where chat_id is not null;
create index conversation_messages_created on public.conversation_messages (created_at);
