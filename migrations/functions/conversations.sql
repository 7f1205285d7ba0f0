-- Conversations: writing messages, reading and deleting those of a session, and deleting what is older than
-- its retention.

-- Writes a row of the view conversation_history as a message: its speaker is 'user' or 'agent', which
-- becomes the role, or a name, which needs a role beside it. Text and time have two names each.
create or replace function memoryd.turn_inserted() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    said_by constant text :=
        case lower(new.speaker) when 'agent' then 'assistant' else lower(new.speaker) end;
    named constant boolean := coalesce(said_by not in ('user', 'assistant', 'system', 'tool'), false);
begin
    if new.role is null and (said_by is null or named) then
        raise exception 'speaker is %, and role is null', coalesce(quote_literal(new.speaker), 'null')
            using errcode = 'check_violation',
                  hint = 'A speaker is user or agent; '
                         'beside a name say the role too: user, assistant, system or tool.';
    end if;
    insert into public.conversation_messages (
        id, user_id, session_id, chat_id, agent_id, message_index, role, speaker, content, created_at,
        access_level, visibility_tags, metadata, embedding)
    values (
        coalesce(new.id, gen_random_uuid()), new.user_id, new.session_id, new.chat_id, new.agent_id,
        new.message_index,
        coalesce(case lower(new.role) when 'agent' then 'assistant' else new.role end, said_by),
        case when named then new.speaker end, coalesce(new.message_text, new.content),
        coalesce(new."timestamp", new.created_at, now()), new.access_level,
        coalesce(new.visibility_tags, '{}'), coalesce(new.metadata, '{}'), new.embedding)
    returning id, user_id, message_index, role, created_at, created_at, content, content, visibility_tags,
              metadata
    into new.id, new.user_id, new.message_index, new.role, new."timestamp", new.created_at, new.content,
         new.message_text, new.visibility_tags, new.metadata;
    return new;
end
$$;

-- Puts a message into its session: locks the session, or creates it, gives the message the session's user,
-- and the next message_index unless it has one. Writers of one session wait for each other, also those that
-- give an index: otherwise a writer that leaves it out could get the same index and fail. They lock the
-- session's row, since advisory locks, one for each session, would run out in a load of many sessions.
create or replace function memoryd.put_in_session() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    session_user_id uuid;
begin
    if new.session_id is null then
        return new; -- the not-null constraint of the column has the better message
    end if;
    -- As chat APIs write a turn that only calls a tool.
    if new.content is null and new.metadata <> '{}' then
        new.content := '';
    end if;
    if memoryd.caller_is_service() then
        loop
            select s.user_id into session_user_id
            from public.conversation_sessions s
            where s.id = new.session_id
            for no key update;
            exit when found;
            -- The session of a group chat belongs to no single user.
            insert into public.conversation_sessions (id, user_id, agent_id, chat_id, created_at)
            values (new.session_id, case when new.chat_id is null then new.user_id end, new.agent_id,
                    new.chat_id, new.created_at)
            on conflict do nothing;
        end loop;
    else
        -- An end user writes into sessions of their own. A session of another user and one that does not
        -- exist are refused in the same way: no session is created, locked or waited for, so that a user
        -- does not learn which ids exist.
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
                  hint = 'Take a session_id of this user''s, or a new one. '
                         'A session of several users has no user_id: '
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

-- Whether a session is the caller's. Volatile, so that it sees a session that was created earlier in the
-- same statement.
create or replace function memoryd.owns_session(p_session uuid) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return exists (
        select from public.conversation_sessions s
        where s.id = p_session and s.user_id = memoryd.caller_id());
end
$$;

-- For the policies of rows that name a session: an end user names an own session, or one of a group chat
-- with this user as a member: what the user may read. A stranger's session and one that does not exist are
-- refused by the same words.
create or replace function memoryd.may_name_session(p_session uuid) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    if p_session is null or exists (select from public.conversation_sessions s where s.id = p_session) then
        return true;
    end if;
    raise exception 'session % is not yours', p_session
        using errcode = 'insufficient_privilege',
              hint = 'Take the id of a session of yours, or none; to begin one: '
                     'insert into conversation_sessions default values returning id.';
end
$$;

-- Whether a memory names this session already: what a service wrote there may stay when its user changes
-- something else. Stable, so that it sees the memory as it was before.
create or replace function memoryd.names_session(p_memory uuid, p_session uuid) returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return exists (select from public.agent_memory m where m.id = p_memory and m.session_id = p_session);
end
$$;

-- Where a session is given to a user (who signs in after it began), gives them its messages too.
create or replace function memoryd.sessions_updated() returns trigger
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

-- The newest messages of a session, oldest first, read backwards along the index of (session_id,
-- message_index).
create or replace function public.load_context(session_id uuid, max_messages integer default 12)
returns table (
    role text, speaker text, content text, message_index integer, created_at timestamptz, metadata jsonb)
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
          -- No messages of users who have switched memory off, also no older ones.
          and not exists (
              select from public.memory_settings s where s.user_id = m.user_id and not s.memory_enabled)
        order by m.message_index desc
        limit load_context.max_messages
    ) n
    order by n.message_index;
end
$$;
comment on function public.load_context(uuid, integer) is 'The newest messages of a session, oldest first.';

-- Deletes the messages of a session: an end user's own, or for the service all.
create or replace function public.reset_session(session_id uuid) returns bigint
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
comment on function public.reset_session(uuid) is
    'Deletes a session''s messages, of end users their own, and returns how many there were; '
    'the session itself stays.';

-- Messages, or sessions that have no message, which are older than their retention, the oldest first, at most
-- p_max_rows (null: all). The retention is that of their user
-- (memory_settings.conversation_retention_minutes), else p_default_minutes; null keeps for ever.
create or replace function memoryd.expired_rows(p_table text, p_default_minutes integer, p_max_rows integer)
returns uuid[]
language plpgsql stable
set search_path = pg_catalog, pg_temp
-- So that it reads along the indexes from the oldest row on: other plans may read and sort the whole table.
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    ids uuid[];
begin
    execute format(
        'select array(
            (select r.id
             from public.memory_settings s
             cross join lateral (
                 select t.id from public.%1$I t
                 where t.user_id = s.user_id
                   and t.created_at < now() - make_interval(mins => s.conversation_retention_minutes) %2$s
                 order by t.created_at
                 limit $2
             ) r
             where s.conversation_retention_minutes is not null
             limit $2)
            union all
            (select t.id from public.%1$I t
             where t.created_at < now() - make_interval(mins => $1) %2$s
               and not exists (select from public.memory_settings s
                               where s.user_id = t.user_id and s.conversation_retention_minutes is not null)
             order by t.created_at
             limit $2)
            limit $2)',
        p_table, case p_table when 'conversation_sessions' then
            'and not exists (select from public.conversation_messages m where m.session_id = t.id)' end)
    into ids using p_default_minutes, p_max_rows;
    return ids;
end
$$;

-- Deletes messages that are older than their retention, then sessions that are as old and have no message
-- left: at most p_max_rows of each (null: all). What another transaction has locked is left for the next
-- time.
create or replace function memoryd.expire_conversations(
    p_default_minutes integer, p_max_rows integer default null, out messages bigint, out sessions bigint)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
-- As in expired_rows().
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    expired uuid[];
begin
    expired := memoryd.expired_rows('conversation_messages', p_default_minutes, p_max_rows);
    -- What was learned from them stays: see memoryd.messages_deleted().
    perform set_config('memoryd.expiring', 'on', true);
    delete from public.conversation_messages m
    where m.id in (
        select l.id from public.conversation_messages l where l.id = any(expired) for update skip locked);
    get diagnostics messages = row_count;
    perform set_config('memoryd.expiring', '', true);

    expired := memoryd.expired_rows('conversation_sessions', p_default_minutes, p_max_rows);
    -- Locked first, then checked again: a session into which a message is written meanwhile is kept.
    with locked as (
        select c.id from public.conversation_sessions c where c.id = any(expired) for update skip locked
    )
    select array_agg(l.id) into expired from locked l;
    delete from public.conversation_sessions c
    where c.id = any(expired)
      and not exists (select from public.conversation_messages m where m.session_id = c.id);
    get diagnostics sessions = row_count;
end
$$;

-- Refuses that a user changes who said a message that others read: in a group chat it would look like
-- somebody else's.
create or replace function memoryd.keep_speaker() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if not memoryd.caller_is_service() then
        raise exception 'role and speaker of a message in a group chat cannot be changed'
            using errcode = 'insufficient_privilege',
                  hint = 'Change its content, or delete it. Only memoryd_service changes who said it.';
    end if;
    return new;
end
$$;
