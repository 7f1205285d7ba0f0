-- The tables that have rows of users: what of them is exported, imported, erased, forgotten, dropped while
-- memory is switched off, and kept in the audit trail. Triggers are made of the last two
-- (tables/triggers.sql): so to apply this file locks the tables, and it is applied only when it has changed.

-- One of the tables, with what is true of most of them.
--   exported      which rows (t) of a user ($1) an export has
--   erased        which rows are erased with the user: those that are exported, or these
--   imported      which rows of a file are put back for a user ($2): those that belong to the user's own
--                 conversations, memories, documents and runs, and name no row of another user
--   turns         in which turns of memoryd.erase_rows() they are deleted (null: another function does it)
--   forgotten_as  what forget() calls the table (null: users do not delete single rows)
--   dropped       which new rows are dropped when their user has switched memory off
--   audited         columns: the audit trail has who inserted and deleted rows, and who changed one of these
create or replace function memoryd.user_table(
    inout name text, inout exported text default 't.user_id = $1', inout erased text default null,
    inout imported text default 'true', inout turns integer[] default null,
    inout forgotten_as text default null, inout dropped text default null, inout audited text[] default null)
language sql immutable parallel safe
return (name, exported, coalesce(erased, exported), imported, turns, forgotten_as, dropped, audited);

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

-- Whether one of these ids is a row of another user.
create or replace function memoryd.names_others(p_ids uuid[], p_user uuid) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select exists (select from public.agent_memory m where m.id = any(p_ids) and m.user_id <> p_user)
        or exists (select from public.dream_insights i where i.id = any(p_ids) and i.user_id <> p_user)
        or exists (select from public.shared_knowledge k
                   where k.id = any(p_ids) and k.created_by <> p_user::text
                     and pg_input_is_valid(k.created_by, 'uuid'))
$$;

-- The tables, in an order in which an import can put their rows back.
--
-- An erasure deletes commands before memories, links and messages, which are made of the commands' outcomes:
-- if a command was inserted meanwhile and a daemon has locked it, it is waited for here. Queries come before
-- the commands, since some are found by their command, and once more after the commands, for those that were
-- written until then. Requests come last, when no daemon is writing an answer.
create or replace function memoryd.declared_user_tables()
returns table (name text, exported text, erased text, imported text, turns integer[], forgotten_as text,
               dropped text, audited text[])
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select * from memoryd.user_table('user_memory_access', turns => '{9}')
    union all select * from memoryd.user_table('chat_group_members', turns => '{9}',
        imported => 'exists (select from public.chat_groups c where c.id = t.chat_id)')
    union all select * from memoryd.user_table('agent_sessions', turns => '{9}')
    union all select * from memoryd.user_table('conversation_sessions', forgotten_as => 'session')
    -- Of a conversation without owner only where this transaction has put it back: then its xmin is this
    -- transaction.
    union all select * from memoryd.user_table('conversation_messages',
        't.id in (select memoryd.messages_of($1))',
        imported => 'not exists (select from public.conversation_sessions s
                                 where s.id = t.session_id and s.user_id is distinct from $2
                                   and not (s.user_id is null and s.xmin = pg_current_xact_id()::xid))',
        turns => '{8}', forgotten_as => 'message', dropped => 'true',
        audited => '{user_id,session_id,role,speaker,content,metadata,access_level,visibility_tags}')
    -- The context of a command is not exported (memoryd.own_columns): it contains what the agents know.
    union all select * from memoryd.user_table('agent_commands', turns => '{3}')
    -- While memory is off, stamp_expiry() drops its rows.
    union all select * from memoryd.user_table('agent_memory', turns => '{7}', forgotten_as => 'memory',
        audited => '{agent_id,user_id,session_id,kind,memory_type,content,metadata,source,ttl_hours,
                     expires_at,valid_from,valid_to,superseded_by,key}')
    union all select * from memoryd.user_table('memory_associations',
        't.memory_id in (select m.id from public.agent_memory m where m.user_id = $1)
         and t.related_memory_id in (select m.id from public.agent_memory m where m.user_id = $1)',
        erased => 't.memory_id in (select m.id from public.agent_memory m where m.user_id = $1)
                   or t.related_memory_id in (select m.id from public.agent_memory m where m.user_id = $1)',
        imported => 'exists (select from public.agent_memory m where m.id = t.memory_id and m.user_id = $2)
                     and exists (select from public.agent_memory m
                                 where m.id = t.related_memory_id and m.user_id = $2)',
        turns => '{5}')
    union all select * from memoryd.user_table('memory_queries', turns => '{2,4}',
        dropped => 'new.user_id is not null',
        imported => 'not memoryd.names_others(
                         t.retrieved_memory_ids || t.knowledge_ids || t.insight_ids, $2)',
        erased => 't.user_id = $1 or t.command_id in (select c.id from public.agent_commands c
                                                      where c.user_id = $1)')
    union all select * from memoryd.user_table('dream_insights', turns => '{6}',
        dropped => 'new.user_id is not null', imported => 'not memoryd.names_others(t.source_memories, $2)',
        erased => 't.user_id = $1 or exists (select from unnest(t.source_memories) as s(id)
                                             where s.id in (select m.id from public.agent_memory m
                                                            where m.user_id = $1))')
    -- A request that is not answered yet is not exported. A request to erase stays until it is answered, and
    -- then for an hour, so that the client finds the answer. Its result is not exported (memoryd.user_rows).
    union all select * from memoryd.user_table('memory_requests',
        't.user_id = $1 and t.status <> ''pending''',
        erased => 't.user_id = $1 and not (t.kind = ''erase''
                                           and (t.status = ''pending''
                                                or t.finished_at > now() - interval ''1 hour''))',
        imported => 't.status <> ''pending''', turns => '{10}')
    union all select * from memoryd.user_table('documents', turns => '{9}', forgotten_as => 'document',
        dropped => 'new.user_id is not null',
        audited => '{user_id,title,source,document_type,content,metadata}')
    union all select * from memoryd.user_table('memory_chunks', turns => '{8}', forgotten_as => 'chunk',
        dropped => 'true',
        imported => 'exists (select from public.documents d where d.id = t.document_id and d.user_id = $2)')
    union all select * from memoryd.user_table('shared_knowledge', 't.created_by = $1::text', turns => '{9}',
        imported => 'not memoryd.names_others(t.related_ids, $2)')
    union all select * from memoryd.user_table('memory_anchors',
        't.memory_id in (select m.id from public.agent_memory m where m.user_id = $1)
         or t.id in (select l.anchor_id from memoryd.trail_leaves l where l.user_id = $1)')
    -- Steps that a service wrote in a run of the user are the service's: they are not exported, and the
    -- foreign key deletes them with the run.
    union all select * from memoryd.user_table('agent_execution_logs', turns => '{1}',
        imported => 't.session_id is null or exists (select from public.agent_sessions s
                                                     where s.id = t.session_id and s.user_id = $2)',
        dropped => 'new.user_id is not null and new.action_type in (''memory_read'', ''memory_write'')')
    union all select * from memoryd.user_table('memory_settings', turns => '{9}',
        erased => 't.user_id = $1 and t.memory_enabled', forgotten_as => 'settings')
$$;

-- From here on nothing names a table. memoryd.user_tables() is what is declared above, as constants: exports
-- and erasures read it many times. The other functions are made of it for the same reason.
do $$
declare
    constants text;
    ids text;
    texts text;
    known text;
    forgotten jsonb;
begin
    select string_agg(format('(%L, %L, %L, %L, %L::integer[], %L, %L, %L::text[])', u.name, u.exported,
                             u.erased, u.imported, u.turns, u.forgotten_as, u.dropped, u.audited), ', '),
           jsonb_object_agg(u.forgotten_as, u.name) filter (where u.forgotten_as is not null),
           -- Links and anchors go with memories and leaves.
           string_agg(format('exists (select from public.%I t where %s)', u.name,
                             replace(u.exported, '$1', 'u.id')), ' or ')
               filter (where u.name not in ('memory_associations', 'memory_anchors'))
    into constants, forgotten, known
    from memoryd.declared_user_tables() u;
    select string_agg(format('select t.id from public.%I t where %s', u.name, u.exported), ' union all '),
           string_agg(format('select s.searched_text from memoryd.%I s
                              where s.id in (select t.id from public.%I t where %s)',
                             'source_' || s.name, u.name, u.exported), ' union all ')
    into ids, texts
    from memoryd.sources() s join memoryd.declared_user_tables() u on u.name = s.table_name;
    execute format($s$
create or replace function memoryd.user_tables()
returns table (name text, exported text, erased text, imported text, turns integer[], forgotten_as text,
               dropped text, audited text[])
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $f$ %s $f$;
create or replace function memoryd.table_to_forget(p_name text) returns text
language sql immutable parallel safe
return %L::jsonb ->> p_name;
create or replace function memoryd.searched_ids_of(p_user uuid) returns setof uuid
language sql stable
set search_path = pg_catalog, pg_temp
as $f$ %s $f$;
create or replace function memoryd.searched_texts_of(p_user uuid) returns setof text
language sql stable
set search_path = pg_catalog, pg_temp
as $f$ %s $f$;
create or replace function memoryd.users_with_rows(p_users uuid[]) returns setof uuid
language sql stable
set search_path = pg_catalog, pg_temp
as $f$ %s $f$;
$s$, 'values ' || constants, forgotten, ids, texts,
     'select u.id from unnest(p_users) as u(id) where ' || known);
end
$$;
