-- Conversations: group chats (chat_groups) and their members, sessions (conversation_sessions) and what was
-- said in them, one row a message (conversation_messages); and what is read in messages: facts and names.

create table public.chat_groups (
    id uuid primary key default gen_random_uuid(),
    platform text not null check (
        platform ~ '\S' or memoryd.refuse('platform is blank', 'Such as telegram, slack, email.')),
    group_name text,
    group_metadata jsonb not null default '{}',
    created_at timestamptz not null default now(),
    constraint chat_groups_platform_size check (memoryd.text_fits('platform', platform, 10000)),
    constraint chat_groups_group_name_size check (memoryd.text_fits('group_name', group_name, 10000)),
    constraint chat_groups_group_metadata_size check (memoryd.json_fits('group_metadata', group_metadata))
);
comment on table public.chat_groups is 'Group chats that messages come from.';
comment on column public.chat_groups.platform is 'Where the chat takes place, such as telegram or slack.';

-- Members see the group's messages (functions/tables/access.sql), and recall searches them in a scope of
-- the group's own: each message of a group has entries in two scopes, in its user's (or agent's) and in the
-- group's. So a scope is open as a whole or not at all, and who joins or leaves changes no entry.
create table public.chat_group_members (
    id uuid primary key default gen_random_uuid(),
    chat_id uuid not null references public.chat_groups (id) on delete cascade,
    user_id uuid not null,
    joined_at timestamptz not null default now() check (memoryd.time_fits('joined_at', joined_at)),
    constraint one_membership_in_a_group unique (user_id, chat_id)
);
comment on table public.chat_group_members is
    'Who is a member of a group chat, and so sees all of its messages, also those of before.';
comment on column public.chat_group_members.joined_at is
    'For the record. A member sees what was said before, too.';
create index chat_group_members_chat on public.chat_group_members (chat_id);

create table public.conversation_sessions (
    id uuid primary key default gen_random_uuid(),
    user_id uuid default memoryd.caller_id(),
    agent_id text check (
        memoryd.agent_id_fits(agent_id, 'An agent_id has 1 to 200 characters; null where there is none.')),
    chat_id uuid references public.chat_groups (id) on delete set null,
    title text,
    channel text,
    created_at timestamptz not null default now() check (memoryd.time_fits('created_at', created_at)),
    constraint conversation_sessions_title_size check (memoryd.text_fits('title', title, 10000)),
    constraint conversation_sessions_channel_size check (memoryd.text_fits('channel', channel, 10000))
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
        role in ('user', 'assistant', 'system', 'tool')
        or memoryd.refuse('unknown role ' || quote_literal(role), 'Roles: user, assistant, system, tool.')),
    speaker text check (
        speaker is null or (speaker ~ '\S' and length(speaker) <= 200)
        or memoryd.refuse('speaker is blank or too long',
                          'A name of 1 to 200 characters; null where the role says enough.')),
    content text not null,
    access_level integer check (
        access_level >= 0
        or memoryd.refuse('access_level is ' || access_level, 'Levels count from 0; null keeps it private.')),
    visibility_tags text[] not null default '{}',
    metadata jsonb not null default '{}',
    created_at timestamptz not null default now() check (memoryd.time_fits('created_at', created_at)),
    scope bigint not null generated always as (
        case when access_level is null then memoryd.scope_of(user_id, agent_id) else 0 end) stored,
    embedding vector,
    constraint one_message_at_each_index unique (session_id, message_index),
    constraint conversation_messages_content_size check (memoryd.text_fits('content', content, 10000000)),
    constraint conversation_messages_metadata_size check (memoryd.json_fits('metadata', metadata)),
    constraint conversation_messages_visibility_tags_size
        check (memoryd.list_fits('visibility_tags', visibility_tags)),
    -- Hosts keep a turn that calls a tool with its call in the metadata, often without a text.
    constraint conversation_messages_content_check check (
        content ~ '\S' or metadata <> '{}'
        or memoryd.refuse('content is blank',
                          'A message says something. '
                          'One that only calls a tool has the call in its metadata.'))
) with (toast_tuple_target = 8160);
comment on table public.conversation_messages is
    'Messages of conversations, in order of message_index within a session.';
comment on column public.conversation_messages.user_id is
    'Whose message it is, whoever speaks. '
    'Left out: the end user who writes it, else the user of the session.';
comment on column public.conversation_messages.message_index is
    'The index within the session, from 0; left out: the next one.';
comment on column public.conversation_messages.speaker is
    'Who says it, by name, where a role is not enough. By it recall knows whom a question is about.';
comment on column public.conversation_messages.content is
    'What is said. It may be empty where the metadata say what the turn did, such as call a tool.';
comment on column public.conversation_messages.access_level is
    'Null: private to user_id. Else readable by users to whom user_memory_access grants that level, and the '
    'tags.';
comment on column public.conversation_messages.visibility_tags is
    'Of shared messages: readable by users who are allowed one of these tags; without tags, by all whom the '
    'level allows.';
comment on column public.conversation_messages.scope is
    'The body of text it is searched in: its user''s, else its agent''s, else 0, which is shared.';
comment on column public.conversation_messages.embedding is
    'Given by the writer, or null: then memoryd embeds the message, in memoryd.entries.';
create index conversation_messages_time on public.conversation_messages (session_id, created_at desc);
create index conversation_messages_user on public.conversation_messages (user_id, created_at desc)
    where user_id is not null;
create index conversation_messages_shared on public.conversation_messages (user_id)
    where access_level is not null;
create index conversation_messages_chat on public.conversation_messages (chat_id) where chat_id is not null;
create index conversation_messages_created on public.conversation_messages (created_at);

-- The attributes that memories found in conversations are about. memoryd's own: nobody is granted anything.
create table memoryd.facts (
    memory_id uuid primary key references public.agent_memory (id) on delete cascade,
    user_id uuid not null,
    family text not null,
    slot text not null,
    value text not null
);
comment on table memoryd.facts is
    'What facts are about: slot is the attribute (home, taste:jazz), family its part before the colon, value '
    'what is said of it, normalised; empty where somebody reworded the memory.';
create index facts_family on memoryd.facts (user_id, family);

-- Kept when the message expires: the fact outlives it. Deleted when the message is: the fact goes with its
-- last source.
create table memoryd.fact_sources (
    message_id uuid not null,
    memory_id uuid not null references memoryd.facts (memory_id) on delete cascade,
    said_at timestamptz not null,
    primary key (message_id, memory_id)
);
comment on table memoryd.fact_sources is 'The messages that a fact was found in.';
comment on column memoryd.fact_sources.message_id is 'Stays when the message expires.';
comment on column memoryd.fact_sources.memory_id is 'The fact.';
comment on column memoryd.fact_sources.said_at is 'When the message was written.';
create index fact_sources_memory on memoryd.fact_sources (memory_id);

-- What memoryd reads in messages beside facts. Computed from the message, and deleted with it; memoryd's own:
-- nobody is granted anything. names_said() shows users their own.
create table memoryd.names (
    message_id uuid not null references public.conversation_messages (id) on delete cascade,
    user_id uuid not null,
    key text not null,
    name text not null,
    kind text,
    found_by text not null,
    primary key (message_id, key)
);
comment on table memoryd.names is
    'Names in what users said: of a person, an animal, an organisation, a project, a place or another thing.';
comment on column memoryd.names.user_id is 'Who said it.';
comment on column memoryd.names.key is 'The name in lower case, by which it is looked up.';
comment on column memoryd.names.name is 'As it stands in the message.';
comment on column memoryd.names.kind is
    'person, animal, organisation, project, place or thing; null: not known.';
comment on column memoryd.names.found_by is 'rule, or the language model that found it.';
create index names_key on memoryd.names (user_id, key);
