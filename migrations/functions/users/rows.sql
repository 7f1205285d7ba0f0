-- Which rows are a user's. Exports and erasures use these definitions, also for the jobs that an erasure
-- takes from the daemons.

-- Messages of a user: those that name the user as their user; and, in a conversation that the user owns,
-- also messages without a user, if the assistant or a tool wrote them or no speaker is named. Messages of
-- role system are the agents'. In a conversation without an owner, only the messages that name the user are
-- theirs.
create or replace function memoryd.messages_of(p_user uuid) returns setof uuid
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select m.id from public.conversation_messages m where m.user_id = p_user
    union all
    select m.id
    from public.conversation_sessions s
    join public.conversation_messages m on m.session_id = s.id
    where s.user_id = p_user and m.user_id is null
      and m.role <> 'system' and (m.role in ('assistant', 'tool') or m.speaker is null)
$$;

-- Ids of a user's rows that jobs, dead letters and executions may refer to. Without the requests to erase,
-- which must still be answered.
create or replace function memoryd.row_ids_of(p_user uuid) returns setof uuid
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select c.id from public.agent_commands c where c.user_id = p_user
    union all
    select m.id from public.agent_memory m where m.user_id = p_user
    union all
    select i.id from public.dream_insights i where i.user_id = p_user
    union all
    select r.id from public.memory_requests r where r.user_id = p_user and r.kind <> 'erase'
    union all
    select memoryd.messages_of(p_user)
    union all
    select s.id from public.conversation_sessions s where s.user_id = p_user
    union all
    select d.id from public.documents d where d.user_id = p_user
    union all
    select c.id from public.memory_chunks c where c.user_id = p_user
    union all
    select k.id from public.shared_knowledge k where k.created_by = p_user::text
$$;

-- The tables that have rows of a user ($1), in an order in which an import can put them back: which rows
-- (t) are exported, and which are erased. The context of a command is not exported: it contains what the
-- agents know. The result of a request is not, either (user_rows).
create or replace function memoryd.user_tables() returns table (name text, exported text, erased text)
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select v.name, v.exported, coalesce(v.erased, v.exported)
    from (values
        ('user_memory_access', 't.user_id = $1', null),
        ('chat_group_members', 't.user_id = $1', null),
        ('agent_sessions', 't.user_id = $1', null),
        ('conversation_sessions', 't.user_id = $1', null),
        ('conversation_messages', 't.id in (select memoryd.messages_of($1))', null),
        ('agent_commands', 't.user_id = $1', null),
        ('agent_memory', 't.user_id = $1', null),
        ('memory_associations',
         't.memory_id in (select m.id from public.agent_memory m where m.user_id = $1)
          and t.related_memory_id in (select m.id from public.agent_memory m where m.user_id = $1)',
         't.memory_id in (select m.id from public.agent_memory m where m.user_id = $1)
          or t.related_memory_id in (select m.id from public.agent_memory m where m.user_id = $1)'),
        ('memory_queries', 't.user_id = $1',
         't.user_id = $1 or t.command_id in (select c.id from public.agent_commands c where c.user_id = $1)'),
        ('dream_insights', 't.user_id = $1',
         't.user_id = $1 or exists (select from unnest(t.source_memories) as s(id)
                                    where s.id in (select m.id from public.agent_memory m
                                                   where m.user_id = $1))'),
        -- A request that is not answered yet is not exported. A request to erase stays until it is
        -- answered, and then for an hour, so that the client finds the answer.
        ('memory_requests', 't.user_id = $1 and t.status <> ''pending''',
         't.user_id = $1 and not (t.kind = ''erase''
                                  and (t.status = ''pending''
                                       or t.finished_at > now() - interval ''1 hour''))'),
        ('documents', 't.user_id = $1', null),
        ('memory_chunks', 't.user_id = $1', null),
        ('shared_knowledge', 't.created_by = $1::text', null),
        ('memory_anchors',
         't.memory_id in (select m.id from public.agent_memory m where m.user_id = $1)
          or t.id in (select l.anchor_id from memoryd.trail_leaves l where l.user_id = $1)', null),
        -- Steps that a service wrote in a run of the user are the service's: they are not exported, and the
        -- foreign key deletes them with the run.
        ('agent_execution_logs', 't.user_id = $1', null),
        ('memory_settings', 't.user_id = $1', 't.user_id = $1 and t.memory_enabled')
    ) as v(name, exported, erased)
$$;

-- The columns of a table without those that memoryd computes from the others.
create or replace function memoryd.own_columns(p_table text) returns text[]
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select array_agg(a.attname::text order by a.attnum)
    from pg_attribute a
    join pg_type t on t.oid = a.atttypid
    where a.attrelid = ('public.' || quote_ident(p_table))::regclass
      and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
      and t.typname not in ('vector', 'halfvec', 'sparsevec', 'tsvector')
      and not (p_table = 'agent_commands' and a.attname = 'context')
$$;
