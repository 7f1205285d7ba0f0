-- Conversation memory (source designs 001 and 002): sessions, group chats and their messages, one row a message.

create table public.chat_groups (
    id uuid primary key default gen_random_uuid(),
    platform text not null check (platform ~ '\S' or memoryd.refuse('platform is blank', 'Such as telegram, slack, email.')),
    group_name text,
    group_metadata jsonb not null default '{}',
    created_at timestamptz not null default now()
);
comment on table public.chat_groups is 'Group chats that messages come from.';

create table public.conversation_sessions (
    id uuid primary key default gen_random_uuid(),
    user_id uuid,
    agent_id text,
    chat_id uuid references public.chat_groups (id) on delete set null,
    title text,
    channel text,
    created_at timestamptz not null default now()
);
comment on table public.conversation_sessions is 'Conversations. A row is made with a session''s first message where there is none.';
create index conversation_sessions_user on public.conversation_sessions (user_id, created_at desc) where user_id is not null;

create table public.conversation_messages (
    id uuid primary key default gen_random_uuid(),
    session_id uuid not null references public.conversation_sessions (id) on delete cascade,
    user_id uuid,
    chat_id uuid references public.chat_groups (id) on delete set null,
    agent_id text check (
        agent_id is null or (agent_id ~ '\S' and length(agent_id) <= 200)
        or memoryd.refuse('agent_id is blank or too long', 'An agent_id has 1 to 200 characters; null where there is none.')),
    message_index integer not null check (
        message_index >= 0 or memoryd.refuse('message_index is ' || message_index,
                                             'Indexes count from 0; leave it out and the next one is taken.')),
    role text not null check (
        role in ('user', 'assistant', 'system')
        or memoryd.refuse('unknown role ' || quote_literal(role), 'Roles: user, assistant, system.')),
    speaker text check (
        speaker is null or length(speaker) <= 200 or memoryd.refuse('speaker is too long', 'A name of at most 200 characters.')),
    content text not null check (content ~ '\S' or memoryd.refuse('content is blank', 'A message says something.')),
    access_level integer check (
        access_level >= 0 or memoryd.refuse('access_level is ' || access_level, 'Levels count from 0; null keeps it private.')),
    visibility_tags text[] not null default '{}',
    metadata jsonb not null default '{}',
    created_at timestamptz not null default now() check (
        created_at between '1900-01-01 00:00+00' and '9999-12-30 00:00+00'
        or memoryd.refuse('created_at is ' || created_at, 'Times from 1900 to 9999.')),
    constraint message_place unique (session_id, message_index)
);
comment on table public.conversation_messages is 'Messages of conversations, in order of message_index within a session.';
comment on column public.conversation_messages.speaker is 'Who says it, by name, where a role is not enough: it is how recall knows whom a question is about.';
comment on column public.conversation_messages.access_level is 'Null: private to user_id. Else readable by whom user_memory_access grants that level, and the tags.';
create index conversation_messages_time on public.conversation_messages (session_id, created_at desc);
create index conversation_messages_user on public.conversation_messages (user_id, created_at desc) where user_id is not null;
create index conversation_messages_chat on public.conversation_messages (chat_id) where chat_id is not null;
create index conversation_messages_created on public.conversation_messages (created_at);

create view public.conversation_history with (security_invoker = true) as
    select id, user_id, session_id, chat_id, agent_id, message_index, coalesce(speaker, role) as speaker, role,
           content as message_text, created_at as "timestamp", access_level, visibility_tags, metadata
    from public.conversation_messages;
comment on view public.conversation_history is 'The messages under the names of source design 001.';

-- A message finds its session, or makes it, and takes the session's next place unless it brings one.
create function memoryd.place_message() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if new.session_id is null then
        return new; -- the column's own constraint says so better
    end if;
    insert into public.conversation_sessions (id, user_id, agent_id, chat_id, created_at)
    select new.session_id, new.user_id, new.agent_id, c.id, new.created_at
    from (select 1) one
    left join public.chat_groups c on c.id = new.chat_id
    where not exists (select from public.conversation_sessions s where s.id = new.session_id)
    on conflict do nothing;
    if new.message_index is null then
        -- Two writers of one session take turns; of two sessions they do not know of each other.
        perform pg_advisory_xact_lock(hashtextextended('memoryd.session:' || new.session_id::text, 0));
        select coalesce(max(m.message_index), -1) + 1 into new.message_index
        from public.conversation_messages m
        where m.session_id = new.session_id;
    end if;
    return new;
end
$$;
create trigger place_message before insert on public.conversation_messages
    for each row execute function memoryd.place_message();

-- With fewer messages than asked for, all of them. Newest n, oldest first, one walk along the index of places.
create function public.load_context(session_id uuid, max_messages integer default 12)
returns table (role text, speaker text, content text, message_index integer, created_at timestamptz, metadata jsonb)
language plpgsql stable
set search_path = pg_catalog, public, pg_temp
as $$
#variable_conflict use_column
begin
    if load_context.max_messages is null or load_context.max_messages < 0 then
        raise exception 'max_messages is %', coalesce(load_context.max_messages::text, 'null')
            using errcode = 'invalid_parameter_value', hint = 'Give how many messages you want, 0 or more.';
    end if;
    return query
    select n.role, n.speaker, n.content, n.message_index, n.created_at, n.metadata
    from (
        select m.role, m.speaker, m.content, m.message_index, m.created_at, m.metadata
        from public.conversation_messages m
        where m.session_id = load_context.session_id
        order by m.message_index desc
        limit load_context.max_messages
    ) n
    order by n.message_index;
end
$$;
comment on function public.load_context is 'The newest messages of a session, oldest first.';

create function public.reset_session(session_id uuid) returns bigint
language sql volatile
set search_path = pg_catalog, public, pg_temp
as $$
    with gone as (
        delete from public.conversation_messages m where m.session_id = reset_session.session_id returning 1
    )
    select count(*) from gone
$$;
comment on function public.reset_session is 'Deletes a session''s messages and returns how many there were; the session itself stays.';
