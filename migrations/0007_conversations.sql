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

create view public.conversation_history with (security_invoker = true) as
    select id, user_id, session_id, chat_id, agent_id, message_index,
           coalesce(speaker, case role when 'assistant' then 'agent' else role end) as speaker, role,
           content as message_text, created_at as "timestamp", access_level, visibility_tags, metadata
    from public.conversation_messages;
comment on view public.conversation_history is 'The messages under the names of source design 001; rows inserted here become messages.';

-- Turns written as source design 001 writes them: the speaker is 'user' or 'agent', or a name beside a role.
create function memoryd.turn_inserted() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    said_by constant text := case lower(new.speaker) when 'agent' then 'assistant' else lower(new.speaker) end;
    named constant boolean := coalesce(said_by not in ('user', 'assistant', 'system'), false);
begin
    if new.role is null and (said_by is null or named) then
        raise exception 'speaker is %, and role is null', coalesce(quote_literal(new.speaker), 'null')
            using errcode = 'check_violation',
                  hint = 'A speaker is user or agent; beside a name say the role too: user, assistant or system.';
    end if;
    insert into public.conversation_messages (
        id, user_id, session_id, chat_id, agent_id, message_index, role, speaker, content, created_at, access_level,
        visibility_tags, metadata)
    values (
        coalesce(new.id, gen_random_uuid()), new.user_id, new.session_id, new.chat_id, new.agent_id, new.message_index,
        coalesce(new.role, said_by), case when named then new.speaker end, new.message_text,
        coalesce(new."timestamp", now()), new.access_level, coalesce(new.visibility_tags, '{}'), coalesce(new.metadata, '{}'))
    returning id, user_id, message_index, role, created_at, visibility_tags, metadata
    into new.id, new.user_id, new.message_index, new.role, new."timestamp", new.visibility_tags, new.metadata;
    return new;
end
$$;
create trigger turn_inserted instead of insert on public.conversation_history
    for each row execute function memoryd.turn_inserted();

-- A message finds its session, or makes it, is its user's, and takes the next place unless it brings one.
create function memoryd.place_message() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    session_user_id uuid;
begin
    if new.session_id is null then
        return new; -- the column's own constraint says so better
    end if;
    -- Writers of one session take turns, also those that bring an index: else one that leaves it out might be given the
    -- same and fail for it. By the row: advisory locks, one a session, run out in a load of many sessions.
    if memoryd.caller_is_service() then
        loop
            select s.user_id into session_user_id
            from public.conversation_sessions s
            where s.id = new.session_id
            for no key update;
            exit when found;
            -- A group chat's session is of all who speak in it, not of the first who did.
            insert into public.conversation_sessions (id, user_id, agent_id, chat_id, created_at)
            values (new.session_id, case when new.chat_id is null then new.user_id end, new.agent_id,
                    new.chat_id, new.created_at)
            on conflict do nothing;
        end loop;
    else
        -- An end user writes into a session of theirs. One that is another's and one that is not there are
        -- the same to them: neither is made, locked or waited for, so that nothing tells which ids there are.
        select s.user_id into session_user_id
        from public.conversation_sessions s
        where s.id = new.session_id and s.user_id = memoryd.caller_id()
        for no key update;
        if not found then
            raise exception 'session % is not yours', new.session_id
                using errcode = 'insufficient_privilege',
                      hint = 'Take the id of a session of yours; to begin one: '
                             'insert into conversation_sessions default values returning id.';
        end if;
    end if;
    if new.user_id is null then
        new.user_id := session_user_id;
    elsif new.user_id <> session_user_id then
        raise exception 'session % is another user''s', new.session_id
            using errcode = 'insufficient_privilege',
                  hint = 'Take a session_id of this user''s, or a new one. A session of several users has no user_id: '
                         'insert it into conversation_sessions first, or give its messages a chat_id.';
    end if;
    if new.message_index is null then
        select coalesce(max(m.message_index), -1) + 1 into new.message_index
        from public.conversation_messages m
        where m.session_id = new.session_id;
    end if;
    return new;
end
$$;
create trigger place_message before insert on public.conversation_messages
    for each row execute function memoryd.place_message();

-- Whether a session is the caller's. Volatile, to see also one that was made earlier in the same statement.
create function memoryd.owns_session(p_session uuid) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return exists (select from public.conversation_sessions s where s.id = p_session and s.user_id = memoryd.caller_id());
end
$$;

-- A session given to a user (who had not signed in before) takes its messages along.
create function memoryd.sessions_updated() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    given uuid[];
    users_before jsonb;
begin
    select array_agg(n.id) into given
    from new_rows n
    where n.user_id is not null
      and (n.id, n.user_id) not in (select o.id, o.user_id from old_rows o where o.user_id is not null);
    if given is not null then
        select jsonb_object_agg(o.id, o.user_id) into users_before from old_rows o;
        update public.conversation_messages m set user_id = n.user_id
        from new_rows n
        where n.id = any(given) and m.session_id = n.id
          and m.user_id::text is not distinct from users_before ->> n.id::text;
    end if;
    return null;
end
$$;
create trigger sessions_updated after update on public.conversation_sessions
    referencing old table as old_rows new table as new_rows
    for each statement execute function memoryd.sessions_updated();

-- Newest n, oldest first; with fewer messages than asked for, all of them. One walk along the index of places.
create function public.load_context(session_id uuid, max_messages integer default 12)
returns table (role text, speaker text, content text, message_index integer, created_at timestamptz, metadata jsonb)
language plpgsql stable
set search_path = pg_catalog, public, pg_temp
as $$
#variable_conflict use_column
begin
    if load_context.session_id is null then
        raise exception 'session_id is null'
            using errcode = 'null_value_not_allowed', hint = 'Give the session whose messages you want.';
    end if;
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
          -- Who has switched memory off is not remembered, in words of old either.
          and not exists (select from public.memory_settings s where s.user_id = m.user_id and not s.memory_enabled)
        order by m.message_index desc
        limit load_context.max_messages
    ) n
    order by n.message_index;
end
$$;
comment on function public.load_context is 'The newest messages of a session, oldest first.';

create function public.reset_session(session_id uuid) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    caller constant uuid := memoryd.caller_id();
    gone bigint;
begin
    if reset_session.session_id is null then
        raise exception 'session_id is null'
            using errcode = 'null_value_not_allowed', hint = 'Give the session whose messages are to go.';
    end if;
    delete from public.conversation_messages m
    where m.session_id = reset_session.session_id and (memoryd.caller_is_service() or m.user_id = caller);
    get diagnostics gone = row_count;
    return gone;
end
$$;
comment on function public.reset_session is
    'Deletes a session''s messages, of end users their own, and returns how many there were; '
    'the session itself stays.';
