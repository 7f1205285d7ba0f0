-- Facts that people say of themselves in conversations: which messages are read, what goes with a message,
-- and memories that replace others.

-- Queues messages of users to be read for facts and names, where a language model does (the setting facts is
-- 'model'). Not those that an import puts back: their facts are in the export.
create or replace function memoryd.read_for_facts(p_ids uuid[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    if p_ids is null or memoryd.importing()
       or not exists (select from memoryd.settings s where s.key = 'facts' and s.value = '"model"') then
        return;
    end if;
    insert into memoryd.unread (message_id, session_id, user_id, message_index, said_at)
    select m.id, m.session_id, m.user_id, m.message_index, m.created_at
    from public.conversation_messages m
    where m.id = any(p_ids) and m.user_id is not null and m.role = 'user' and not memoryd.is_blank(m.content)
    order by m.id
    on conflict (message_id) do update
    set user_id = excluded.user_id, queued_at = excluded.queued_at;
end
$$;

-- Has the messages of users read.
create or replace function memoryd.messages_inserted() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not memoryd.importing() then
        perform memoryd.read_for_facts(array_agg(n.id))
        from new_rows n where n.role = 'user' and n.user_id is not null;
    end if;
    return null;
end
$$;

-- A message that says something else now, or is somebody else's, is read again; what only the message of
-- before said goes.
create or replace function memoryd.messages_updated() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    changed constant uuid[] := array(
        select n.id from new_rows n
        -- `not in` is looked up by a hash: see memoryd.memories_updated().
        where (n.id, n.content, n.role, coalesce(n.user_id::text, ''))
              not in (select o.id, o.content, o.role, coalesce(o.user_id::text, '') from old_rows o));
begin
    if changed <> '{}' and not memoryd.importing() then
        delete from memoryd.names n where n.message_id = any(changed);
        delete from memoryd.unread u where u.message_id = any(changed);
        perform memoryd.forget_facts(changed);
        perform memoryd.read_for_facts(changed);
    end if;
    -- One that only moved is read where it is now.
    update memoryd.unread u
    set session_id = n.session_id, message_index = n.message_index
    from new_rows n
    where u.message_id = n.id and (u.session_id, u.message_index) <> (n.session_id, n.message_index);
    return null;
end
$$;

-- Queues stretches of conversations to be read: of those that have paused, or have 20 messages since they
-- were read, or are long and old (see plugins/facts/facts.py). One at a time of each user, and p_room at most
-- in the queue: what was said last comes first. p_user: only what this user said. While more than half of the
-- room is taken, nothing is looked for: all that waits is read for it. Returns how many users wait, or, where
-- it did not look, how many are queued.
create or replace function memoryd.queue_stretches(
    p_room integer, p_pause interval default '1 minute', p_user uuid default null) returns bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    waiting bigint;
    queued constant bigint := (select count(*) from memoryd.jobs j where j.topic = 'facts');
begin
    if p_user is null and queued > p_room / 2 then
        return queued;
    end if;
    with stretches as materialized (
        select u.user_id, u.session_id, max(u.said_at) as said_at, count(*) as messages,
               (array_agg(u.message_id order by u.message_index desc))[1] as newest
        from memoryd.unread u
        where (p_user is null or u.user_id = p_user)
          and exists (select from memoryd.settings s where s.key = 'facts' and s.value = '"model"')
        group by u.user_id, u.session_id
        having max(u.queued_at) <= now() - p_pause
            or max(u.message_index) - min(u.message_index) >= 19
    ), next as materialized (
        -- A short backlog in the order in which it was said, a long one (an import) from its end.
        select distinct on (s.user_id) s.user_id, s.newest, max(s.said_at) over whose as said_at
        from stretches s
        window whose as (partition by s.user_id)
        order by s.user_id,
                 extract(epoch from s.said_at)
                     * case when sum(s.messages) over whose <= 100 then 1 else -1 end
    ), added as (
        insert into memoryd.jobs (topic, lane, ref)
        select 'facts', memoryd.associate_lane('facts', n.user_id), n.newest
        from next n
        where not exists (select from memoryd.jobs j where j.topic = 'facts'
                            and j.lane = memoryd.associate_lane('facts', n.user_id))
        order by n.said_at desc
        limit greatest(0, p_room - queued)
        returning 1
    )
    select count(n.user_id) into waiting from next n, (select count(*) from added) a;
    if waiting > 0 then
        perform memoryd.wake('facts');
    end if;
    return waiting;
end
$$;

-- Names in what a user said: to the user, and to a service.
create or replace function public.names_said(
    user_id uuid default memoryd.caller_id(), max_rows integer default 100)
returns table (name text, kind text, messages bigint, first_said timestamptz, last_said timestamptz)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    began constant timestamptz := clock_timestamp();
    found_rows bigint;
begin
    if names_said.max_rows is null or names_said.max_rows < 0 then
        raise exception 'max_rows is %', coalesce(names_said.max_rows::text, 'null')
            using errcode = 'invalid_parameter_value', hint = 'Give how many names you want, 0 or more.';
    end if;
    if not (memoryd.caller_is_service() or names_said.user_id is not distinct from memoryd.caller_id())
       or memoryd.memory_is_off(names_said.user_id) then
        return;
    end if;
    return query
    select (array_agg(n.name order by m.created_at desc))[1],
           -- What a language model says of a kind counts before what a rule does.
           (array_agg(n.kind order by n.found_by = 'rule', m.created_at desc)
                filter (where n.kind is not null))[1],
           count(*), min(m.created_at), max(m.created_at)
    from memoryd.names n
    join public.conversation_messages m on m.id = n.message_id
    where n.user_id = names_said.user_id
    group by n.key
    order by count(*) desc, max(m.created_at) desc, n.key
    limit names_said.max_rows;
    get diagnostics found_rows = row_count;
    perform memoryd.audit_read(
        names_said.user_id, null, 'names_said', found_rows::integer, memoryd.ms_since(began));
end
$$;
comment on function public.names_said(uuid, integer) is
    'Names of people, animals, organisations, projects, places and things in what a user said, those most '
    'said first; kind null: not known.';

-- Deletes what was found in these messages alone, and their ids from facts that others say, too.
create or replace function memoryd.forget_facts(p_messages uuid[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    touched uuid[];
    gone uuid[];
begin
    with d as (
        delete from memoryd.fact_sources s where s.message_id = any(p_messages) returning s.memory_id
    )
    select array_agg(distinct d.memory_id order by d.memory_id) into touched from d;
    if touched is null then
        return;
    end if;
    perform from public.agent_memory m where m.id = any(touched) order by m.id for update;
    with d as (
        delete from public.agent_memory m
        where m.id = any(touched)
          and not exists (select from memoryd.fact_sources s where s.memory_id = m.id)
        returning m.id
    )
    select array_agg(d.id) into gone from d;
    if gone is not null then
        perform memoryd.forget_sections(gone);
    end if;
    perform memoryd.tell_sources(touched);
end
$$;

-- Writes into the metadata of facts which messages say them: the newest twenty, so that a greeting that is
-- said each day does not fill them.
create or replace function memoryd.tell_sources(p_memories uuid[]) returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    update public.agent_memory m
    set metadata = m.metadata || jsonb_build_object(
            'message_ids', s.ids, 'count', s.number, 'last_said', s.last_said)
    from (select f.memory_id, count(*) as number, max(f.said_at) as last_said,
                 to_jsonb((array_agg(f.message_id order by f.said_at desc))[:20]) as ids
          from memoryd.fact_sources f where f.memory_id = any(p_memories) group by f.memory_id) s
    -- Its user may have filled the metadata: then nobody could delete the message.
    where m.id = s.memory_id and octet_length(m.metadata::text) < 1000000
$$;

-- Messages were deleted: facts go with their last message. Not where messages expire (expire_conversations):
-- what was learned of a user outlives the conversation.
create or replace function memoryd.messages_deleted() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not memoryd.daemon_says('memoryd.expiring') then
        perform memoryd.forget_facts(array_agg(o.id)) from old_rows o having count(*) > 0;
    end if;
    return null;
end
$$;

-- A fact that somebody rewords is theirs: it stays when the messages go.
create or replace function memoryd.facts_reworded() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from memoryd.fact_sources s where s.memory_id in (
        select n.id from new_rows n
        where (n.id, n.content, coalesce(n.user_id::text, ''))
              not in (select o.id, o.content, coalesce(o.user_id::text, '') from old_rows o));
    return null;
end
$$;

-- Checks a memory that is replaced: the other is the same user's (of memories without a user: has none
-- either). A memory of another user is refused like one that does not exist. Sets valid_to, unless the writer
-- has.
create or replace function memoryd.check_superseded() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    begins timestamptz;
begin
    -- Rows of others are refused by row-level security, after this trigger: nothing is looked up for them.
    if memoryd.importing()
       or not memoryd.caller_is_service() and new.user_id is distinct from memoryd.caller_id() then
        return new;
    end if;
    select coalesce(m.valid_from, m.created_at) into begins
    from public.agent_memory m
    where m.id = new.superseded_by and m.user_id is not distinct from new.user_id;
    if not found then
        raise exception 'no memory % of this user', new.superseded_by
            using errcode = 'foreign_key_violation',
                  hint = 'superseded_by is the id of another memory of the same user.';
    end if;
    if new.valid_to is null then
        new.valid_to := greatest(begins, new.valid_from);
    end if;
    return new;
end
$$;

-- These memories, those that have replaced them, and so on, by id; beside each what has replaced it.
create or replace function memoryd.replacements(p_memories uuid[], out ids uuid[], out newer uuid[])
language sql stable
set search_path = pg_catalog, pg_temp
-- By the primary key, one after the other: other plans read the whole table at each step.
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
    with recursive later as (
        select unnest(p_memories) as id
        union
        select m.superseded_by
        from later l join public.agent_memory m on m.id = l.id
        where m.superseded_by is not null
    )
    select array_agg(m.id order by m.id), array_agg(m.superseded_by order by m.id)
    from later l join public.agent_memory m on m.id = l.id
$$;

-- Refuses a statement after which a memory has replaced itself, directly or over others. It locks the
-- memories that lead there, which are all of one user, in the order of their ids: so of two transactions that
-- would close a circle together the second waits, and then sees the first; where each has written its own row
-- already, the server ends one as a deadlock. (An older snapshot does not show the first: then the lock
-- fails.) Each memory is visited once, however many the statement has changed.
create or replace function memoryd.refuse_circles() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_nestloop = off
as $$
declare
    changed uuid[];
    locked uuid[] := '{}';
    chain record;
    next integer[];
    visited_from integer[];
    at integer;
begin
    if tg_op = 'INSERT' then
        changed := array(select n.id from new_rows n where n.superseded_by is not null);
    else
        changed := array(
            select n.id from new_rows n
            where n.superseded_by is not null
              and (n.id, n.superseded_by)
                  not in (select o.id, o.superseded_by from old_rows o where o.superseded_by is not null));
    end if;
    if changed = '{}' then
        return null;
    end if;
    loop
        select r.ids, r.newer into chain from memoryd.replacements(changed) r;
        exit when chain.ids is not distinct from locked;
        perform from public.agent_memory m where m.id = any(chain.ids) order by m.id for share;
        locked := chain.ids;
    end loop;
    select array_agg(coalesce(n.nth, 0) order by c.nth) into next
    from unnest(chain.ids, chain.newer) with ordinality as c(id, newer, nth)
    left join unnest(chain.ids) with ordinality as n(id, nth) on n.id = c.newer;
    visited_from := array_fill(0, array[cardinality(next)]);
    for start in 1 .. cardinality(next) loop
        at := start;
        while at > 0 and visited_from[at] = 0 loop
            visited_from[at] := start;
            at := next[at];
        end loop;
        if at > 0 and visited_from[at] = start then
            raise exception 'memory % is superseded by itself', chain.ids[at]
                using errcode = 'check_violation',
                      hint = 'Of two memories one replaces the other: set superseded_by of the older one.';
        end if;
    end loop;
    return null;
end
$$;

-- Writes what replaces a memory, with its agent, user, kind and time to live, and returns its id.
create or replace function public.supersede_memory(old_id uuid, new_content text) returns uuid
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    old public.agent_memory;
    new_id uuid;
begin
    select m.* into old
    from public.agent_memory m
    where m.id = supersede_memory.old_id
      and (memoryd.caller_is_service() or m.user_id = memoryd.caller_id())
    for no key update;
    if not found then
        raise exception 'no memory %', coalesce(supersede_memory.old_id::text, 'null')
            using errcode = case when memoryd.caller_is_service() then 'no_data_found'
                                 else 'insufficient_privilege' end,
                  hint = 'Give the id of a memory of yours.';
    end if;
    perform memoryd.refuse(format('memory %s is superseded already', old.id),
                           'Give the one that replaced it: ' || old.superseded_by || '.');
    -- Its metadata are the older one's: they are not checked again.
    perform set_config('memoryd.metadata_kept', memoryd.pass_for_metadata(), true);
    insert into public.agent_memory (
        agent_id, user_id, session_id, kind, memory_type, content, metadata, source, ttl_hours, valid_from)
    values (old.agent_id, old.user_id, old.session_id, old.kind, old.memory_type,
            supersede_memory.new_content, old.metadata - '{value,message_ids,count,last_said}'::text[],
            old.source, old.ttl_hours, clock_timestamp())
    returning id into new_id;
    perform set_config('memoryd.metadata_kept', '', true);
    if new_id is null then
        return null; -- memory is switched off for this user
    end if;
    update public.agent_memory m set superseded_by = new_id where m.id = old.id;
    return new_id;
end
$$;
comment on function public.supersede_memory(uuid, text) is
    'Replaces a memory: writes new_content as a new one, and returns its id. The old one stays as history.';

-- What was true of a user at a time: with the rows that were replaced since. With the caller's rights.
create or replace function public.memory_as_of(
    as_of timestamptz, user_id uuid default memoryd.caller_id(), max_rows integer default 100)
returns table (
    id uuid, kind text, memory_type text, content text, metadata jsonb, valid_from timestamptz,
    valid_to timestamptz, superseded_by uuid)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    began constant timestamptz := clock_timestamp();
    found_rows bigint;
begin
    if memory_as_of.as_of is null then
        raise exception 'as_of is null'
            using errcode = 'null_value_not_allowed', hint = 'Give the time that is asked about.';
    end if;
    if memory_as_of.max_rows is null or memory_as_of.max_rows < 0 then
        raise exception 'max_rows is %', coalesce(memory_as_of.max_rows::text, 'null')
            using errcode = 'invalid_parameter_value', hint = 'Give how many memories you want, 0 or more.';
    end if;
    if memoryd.memory_is_off(memory_as_of.user_id) then
        return;
    end if;
    return query
    select m.id, m.kind, m.memory_type, m.content, m.metadata, coalesce(m.valid_from, m.created_at),
           m.valid_to, m.superseded_by
    from public.agent_memory m
    where m.user_id = memory_as_of.user_id
      and coalesce(m.valid_from, m.created_at) <= memory_as_of.as_of
      and (m.valid_to is null or m.valid_to > memory_as_of.as_of)
      -- What has expired is shown of no time, whether it is deleted yet or not.
      and (m.expires_at is null or m.expires_at > greatest(now(), memory_as_of.as_of))
      and memoryd.in_project(m.metadata, memoryd.current_project())
    order by coalesce(m.valid_from, m.created_at) desc, m.id
    limit memory_as_of.max_rows;
    get diagnostics found_rows = row_count;
    perform memoryd.audit_read(
        memory_as_of.user_id, null, 'memory_as_of', found_rows::integer, memoryd.ms_since(began));
end
$$;
comment on function public.memory_as_of(timestamptz, uuid, integer) is
    'A user''s memories that were true at a time, the newest first; also those that were replaced since.';
