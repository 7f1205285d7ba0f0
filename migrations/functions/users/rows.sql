-- Whose rows.

-- Messages of a user: those that bear their name; and, in a conversation that is theirs by name, those of no
-- user that are theirs as much: the assistant's, and words that nobody else is named for. What an agent is
-- told to be (system) is the agents', and a conversation that has no owner is nobody's: only what bears their
-- name is theirs there. Exports, erasures and what an erasure takes from the daemons all go by this.
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
      and m.role <> 'system' and (m.role = 'assistant' or m.speaker is null)
$$;

-- The tables that hold a user's rows ($1), in an order in which they may be put back: which rows are exported, and which are
-- erased where that differs. Of a command its context stays behind: it holds what the agents know.
create or replace function memoryd.user_tables() returns table (name text, exported text, erased text)
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    values
        ('user_memory_access', 't.user_id = $1', null),
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
                                    where s.id in (select m.id from public.agent_memory m where m.user_id = $1))'),
        -- What is not answered yet is no memory. Who asked for an erasure is still to be answered, and finds the answer for an hour.
        ('memory_requests', 't.user_id = $1 and t.status <> ''pending''',
         't.user_id = $1 and not (t.kind = ''erase'' and (t.status = ''pending'' or t.finished_at > now() - interval ''1 hour''))'),
        ('documents', 't.user_id = $1', null),
        ('memory_chunks', 't.user_id = $1', null),
        ('shared_knowledge', 't.created_by = $1::text', null),
        ('memory_anchors', 't.memory_id in (select m.id from public.agent_memory m where m.user_id = $1)', null),
        -- A service's steps in a run of theirs are the service's; they go with the run, by its foreign key.
        ('agent_execution_logs', 't.user_id = $1', null),
        ('memory_settings', 't.user_id = $1', 't.user_id = $1 and t.memory_enabled')
$$;

-- Columns of a table that are a row's own: without what is reckoned from the others.
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
      and not (a.attname in ('prior', 'says_when') and p_table in (
          'agent_memory', 'conversation_messages', 'memory_chunks', 'shared_knowledge', 'dream_insights'))
$$;
