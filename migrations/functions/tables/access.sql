-- Who may read and write which rows: the policies that most tables have, then each table's own, with its
-- rights. Rights to functions are in grants.sql. To apply this file locks the tables, so it is applied only
-- when it has changed. The migrator drops the policies that it made before.
--
--   memoryd_service   agents: everything.
--   memoryd_user      end users: their own rows, and what is shared with them; nothing of the agents' own
--                     (user_id null).
--   memoryd_admin     support: reads everything and writes nothing. A read of a user's rows is logged before
--                     the row is seen (audit_admin_read). A row that names no user is that of its run,
--                     conversation, command or memories: with these it is erased (users/rows.sql).
--
-- End users have rights by column. They cannot choose ids: with an id that exists already they would learn
-- that it exists, and they could take an id that another client is about to use. On no table do they have
-- INSERT, UPDATE, DELETE or TRUNCATE as a whole: each of the last three allows LOCK TABLE in every mode.
-- They delete by forget(). The policies limit DELETE to their own rows all the same, in case the right is
-- granted later.
--
-- The tables' owner passes every policy: its SECURITY DEFINER functions write what no client may. Row-level
-- security is forced, so it needs policies, unless it is a superuser. It has those of the service, whose
-- member it is. Where these have a condition, and where one is restrictive (it may be a member of
-- memoryd_user, too), runs_as_owner() lets it pass.

-- What is the same for all tables. Clients have no rights but those that are granted in this file: Supabase
-- grants its clients everything by default, also TRUNCATE, which no policy stops.
do $$
declare
    clients constant text := (
        select string_agg(quote_ident(r.rolname), ', ') from pg_roles r
        where r.rolname in ('memoryd_service', 'memoryd_user', 'memoryd_admin', 'anon', 'authenticated'));
    others constant text := (
        select string_agg(quote_ident(r.rolname), ', ') from pg_roles r
        where r.rolname in ('anon', 'authenticated'));
    each record;
begin
    for each in
        select u.name from memoryd.user_tables() u
        union all
        select unnest('{agents,dream_sessions,chat_groups,shared_memory,conversation_history}'::text[])
    loop
        execute format($s$
            revoke all on public.%1$I from public, %2$s;
            grant select, insert, update, delete on public.%1$I to memoryd_service;
            grant select on public.%1$I to memoryd_admin $s$, each.name, clients);
    end loop;
    execute format('revoke all on all tables in schema memoryd from public%1$s;
                    revoke all on all sequences in schema memoryd from public%1$s', ', ' || others);
    -- Views that recall reads with the caller's rights.
    for each in select * from memoryd.sources() loop
        execute format('grant select on memoryd.%I to memoryd_service, memoryd_admin%s',
                       'source_' || each.name, case when each.for_users then ', memoryd_user' end);
    end loop;
end
$$;
grant select on memoryd.searchable_by_users, memoryd.index_states
    to memoryd_service, memoryd_user, memoryd_admin;
grant select on memoryd.searchable to memoryd_service, memoryd_admin;
-- What users read and do not write; two are views, with the reader's rights. Of the members of group chats,
-- whom the policies group_read ask for, users read their own rows: so their ids tell nobody who else is in a
-- group and has not said anything there yet.
grant select
    on public.shared_memory, public.conversation_history, public.memory_associations, public.dream_insights,
       public.chat_groups, public.chat_group_members, public.user_memory_access, public.agent_execution_logs,
       public.memory_anchors
    to memoryd_user;

-- Policies that are the same on most tables; the others stand with their tables, below.
do $$
declare
    each record;
begin
    for each in
        select p.policy, p.who, unnest(p.tables) as name
        from (values
            ('service', 'to memoryd_service using (true) with check (true)',
             '{agents,agent_commands,agent_memory,memory_associations,memory_queries,
              dream_sessions,dream_insights,memory_requests,chat_groups,chat_group_members,
              conversation_sessions,conversation_messages,documents,memory_chunks,
              user_memory_access,agent_sessions,agent_execution_logs,memory_settings}'::text[]),
            ('own', 'to memoryd_user using (%3$s) with check (%3$s or memoryd.refuse_ownerless(user_id))',
             '{agent_memory,memory_queries,conversation_sessions,memory_settings}'),
            ('own_read', 'for select to memoryd_user using (%3$s)',
             '{agent_commands,dream_insights,memory_requests,chat_group_members,
              conversation_messages,documents,memory_chunks,user_memory_access,agent_sessions,
              agent_execution_logs}'),
            ('own_insert', 'for insert to memoryd_user
                            with check (%3$s or memoryd.refuse_ownerless(user_id))',
             '{documents,agent_sessions}'),
            ('own_delete', 'for delete to memoryd_user using (%3$s)',
             '{conversation_messages,documents,memory_chunks}'),
            -- With users by level and tags.
            ('shared_read', 'for select to memoryd_user
                             using (access_level is not null and memoryd.grants_access(
                                 (select memoryd.caller_access()), access_level, visibility_tags, metadata))',
             '{conversation_messages,memory_chunks}'),
            ('admin_read', 'for select to memoryd_admin using (memoryd.audit_admin_read(%2$L, user_id))',
             '{agent_memory,chat_group_members,conversation_sessions,documents,memory_chunks,
              user_memory_access,agent_sessions,memory_settings}'),
            ('admin_read', 'for select to memoryd_admin using (true)', '{dream_sessions,chat_groups}')
        ) as p(policy, who, tables)
    loop
        execute format('drop policy if exists %1$I on public.%2$I;
                        create policy %1$I on public.%2$I ' || each.who,
                       each.policy, each.name, 'user_id = (select memoryd.caller_id())');
    end loop;
end
$$;

-- public.agents: the register of agents. End users do not see it.
create policy admin_read on public.agents for select to memoryd_admin
    using (memoryd.audit_admin_read('agents', nullif(named_for, '00000000-0000-0000-0000-000000000000')));

-- public.agent_commands: a user asks for work, of agents that are open to users; the result is written by the
-- agent. Users set no times, and do not read a command's context, which contains what the agent knows, among
-- it the agents' own memories.
grant
    select (id, agent_id, user_id, session_id, message, metadata, status, output, exit_code, error,
            created_at, ready_at, started_at, finished_at),
    insert (agent_id, user_id, session_id, message, metadata)
    on public.agent_commands to memoryd_user;
create policy own_ask on public.agent_commands for insert to memoryd_user
    with check ((user_id = (select memoryd.caller_id()) or memoryd.refuse_ownerless(user_id))
                and status = 'pending');
-- Restrictive, so that no other policy allows commands to closed agents.
create policy open_agents on public.agent_commands as restrictive for insert to memoryd_user
    with check ((select memoryd.runs_as_owner()) or memoryd.is_open(agent_id));
create policy own_session on public.agent_commands as restrictive for insert to memoryd_user
    with check ((select memoryd.runs_as_owner()) or memoryd.may_name_session(session_id));

-- A context shows rows of others, too.
create policy admin_read on public.agent_commands for select to memoryd_admin
    using (memoryd.audit_admin_read('agent_commands', user_id)
           and (coalesce(context, '') = ''
                or memoryd.audit_admin_memories('agent_commands', array[id])));

-- public.agent_memory: users write memories of their own, none for all agents (_shared), and change those
-- that are theirs; they name no session of others. They set no command_id: the outcome of a command is
-- remembered once, by its agent.
grant
    select,
    insert (agent_id, user_id, session_id, kind, memory_type, content, embedding, metadata, source,
            ttl_hours, expires_at, valid_from, valid_to, superseded_by, said_key, key),
    update (session_id, kind, memory_type, content, embedding, metadata, source, ttl_hours, expires_at,
            valid_from, valid_to, superseded_by, key)
    on public.agent_memory to memoryd_user;
create policy own_insert on public.agent_memory as restrictive for insert to memoryd_user
    with check ((select memoryd.runs_as_owner())
                or agent_id <> '_shared' and memoryd.may_name_session(session_id));
create policy own_update on public.agent_memory as restrictive for update to memoryd_user
    using (true)
    with check ((select memoryd.runs_as_owner())
                or session_id is null or memoryd.names_session(id, session_id)
                or memoryd.may_name_session(session_id));

-- public.memory_associations: a link is visible to those who see both of its memories. It has no user of its
-- own: a read is logged for the users of both.
create policy both_ends_read on public.memory_associations for select to memoryd_user
    using (exists (select from public.agent_memory m where m.id = memory_id)
       and exists (select from public.agent_memory m where m.id = related_memory_id));
create policy admin_read on public.memory_associations for select to memoryd_admin
    using (memoryd.audit_admin_memories('memory_associations', array[memory_id, related_memory_id]));

-- public.memory_queries: users add retrievals, and do not change them but by mark_useful(), which locks rows
-- of their own alone. Whoever could update these rows could lock them as well by statements of their own.
grant
    select,
    insert (agent_id, user_id, command_id, task_keywords, retrieved_memory_ids, relevance_scores, patterns,
            reason, insight_ids)
    on public.memory_queries to memoryd_user;
create policy admin_read on public.memory_queries for select to memoryd_admin
    using (memoryd.audit_admin_read('memory_queries', coalesce(
        user_id, (select c.user_id from public.agent_commands c where c.id = command_id))));

-- public.dream_insights: users read what dreams concluded from their own memories.
create policy admin_read on public.dream_insights for select to memoryd_admin
    using (memoryd.audit_admin_read('dream_insights', user_id)
       and memoryd.audit_admin_memories('dream_insights', source_memories));

-- public.memory_requests: users ask for anything but a dream; memoryd writes the answer.
grant
    select,
    insert (kind, agent_id, user_id, query, options)
    on public.memory_requests to memoryd_user;
create policy own_ask on public.memory_requests for insert to memoryd_user
    with check ((user_id = (select memoryd.caller_id()) or memoryd.refuse_ownerless(user_id))
                and kind <> 'dream' and status = 'pending' and result is null);
-- An answer shows rows of others, too.
create policy admin_read on public.memory_requests for select to memoryd_admin
    using (memoryd.audit_admin_read('memory_requests', user_id)
           and (result is null or memoryd.audit_admin_memories('memory_requests', array[id])));

-- public.chat_groups: users read the group chats that they are members of, and those of which they may read a
-- message.
create policy in_it_read on public.chat_groups for select to memoryd_user
    using (exists (select from public.conversation_messages m where m.chat_id = chat_groups.id));
create policy member_read on public.chat_groups for select to memoryd_user
    using (id = any(array(select m.chat_id from public.chat_group_members m
                          where m.user_id = (select memoryd.caller_id()))));

-- public.conversation_sessions: users read their own sessions and those of their groups. A user cannot put a
-- session into a group chat.
grant
    select,
    insert (user_id, agent_id, title, channel),
    update (title, channel)
    on public.conversation_sessions to memoryd_user;
create policy group_read on public.conversation_sessions for select to memoryd_user
    using (chat_id = any(array(select m.chat_id from public.chat_group_members m
                               where m.user_id = (select memoryd.caller_id()))));

-- public.conversation_messages: users read their own messages, those of the group chats that they are members
-- of, and those that are shared with them by level and tags. They cannot share messages, and a message that
-- is shared stays as it is: its user may delete it, not change it. Messages of role system tell an agent what
-- it is: users do not write them, and members of a group do not read them.
grant
    select,
    insert (session_id, user_id, agent_id, message_index, role, speaker, content, metadata),
    update (role, speaker, content, metadata)
    on public.conversation_messages to memoryd_user;
create policy own_insert on public.conversation_messages for insert to memoryd_user
    with check (user_id = (select memoryd.caller_id())
                and role <> 'system' and memoryd.owns_session(session_id));
create policy own_update on public.conversation_messages for update to memoryd_user
    using (user_id = (select memoryd.caller_id()) and access_level is null and role <> 'system')
    with check (user_id = (select memoryd.caller_id()) and access_level is null and role <> 'system');
create policy group_read on public.conversation_messages for select to memoryd_user
    using (role <> 'system'
           and chat_id = any(array(select m.chat_id from public.chat_group_members m
                                   where m.user_id = (select memoryd.caller_id()))));
create policy admin_read on public.conversation_messages for select to memoryd_admin
    using (memoryd.audit_admin_read('conversation_messages', coalesce(
        user_id, (select s.user_id from public.conversation_sessions s where s.id = session_id))));

-- public.documents: users read and write their own documents. One with a shared chunk stays as it is.
grant
    select,
    insert (title, source, document_type, content, metadata, user_id),
    update (title, source, document_type, content, metadata)
    on public.documents to memoryd_user;
create policy own_update on public.documents for update to memoryd_user
    using (user_id = (select memoryd.caller_id())
           and not exists (
               select from public.memory_chunks c
               where c.document_id = documents.id and c.access_level is not null))
    with check (user_id = (select memoryd.caller_id()));

-- public.memory_chunks: users read and write the chunks of their own documents, and read those that are
-- shared with them by level and tags.
grant
    select,
    insert (document_id, chunk_index, chunk_text, context, metadata),
    update (chunk_index, chunk_text, context, metadata)
    on public.memory_chunks to memoryd_user;
create policy own_insert on public.memory_chunks for insert to memoryd_user
    with check (user_id = (select memoryd.caller_id()));
create policy own_update on public.memory_chunks for update to memoryd_user
    using (user_id = (select memoryd.caller_id()) and access_level is null)
    with check (user_id = (select memoryd.caller_id()) and access_level is null);

-- public.shared_knowledge: what the team of agents knows is not for end users. A caller who names an
-- organisation has what is of it; the daemon, which names none, has all, and so has the owner: its functions
-- compare organisations themselves.
create policy service on public.shared_knowledge to memoryd_service
    using ((select memoryd.runs_as_owner())
           or (select memoryd.caller_org()) is null or org_id = (select memoryd.caller_org()))
    with check ((select memoryd.runs_as_owner())
                or (select memoryd.caller_org()) is null or org_id = (select memoryd.caller_org()));
-- The same for an owner whom the database belongs to, so that the planner sees it: under a condition no
-- index has an operator that could tell what it sees, and each context would read all entries.
create policy owner on public.shared_knowledge to pg_database_owner using (true) with check (true);
create policy admin_read on public.shared_knowledge for select to memoryd_admin
    using (((select memoryd.caller_org()) is null or org_id = (select memoryd.caller_org()))
           and memoryd.audit_admin_knowledge(created_by)
           and (outcome ->> 'scored_by' is null
                or memoryd.audit_admin_memories('shared_knowledge', array[id])));

-- public.agent_sessions: users start and change runs of their own.
grant
    select,
    insert (user_id, agent_id, status, current_step, progress_percentage, total_steps, completed_steps,
            error_message, session_data, completed_at),
    update (status, current_step, progress_percentage, total_steps, completed_steps, error_message,
            session_data, completed_at)
    on public.agent_sessions to memoryd_user;
create policy own_update on public.agent_sessions for update to memoryd_user
    using (user_id = (select memoryd.caller_id()))
    with check (user_id = (select memoryd.caller_id()));

-- public.agent_execution_logs: the trail: users read what is about them. Only memoryd and agents write it.
create policy admin_read on public.agent_execution_logs for select to memoryd_admin
    using (memoryd.audit_admin_read('agent_execution_logs', coalesce(
        user_id, (select s.user_id from public.agent_sessions s where s.id = session_id))));

-- public.memory_anchors: an anchor is visible to those who see its memory. A read is logged for the memory's
-- user. Of an erased one (category null) no signature speaks for the agent and the hashes: a service changes
-- and makes none. The owner, who is a member of the service, does: an erasure, a deletion and an import write
-- such rows.
create policy service on public.memory_anchors to memoryd_service
    using (true)
    with check ((select memoryd.runs_as_owner())
                or category is not null and payload is distinct from '{"erased": true}');
create policy erased_stays on public.memory_anchors as restrictive for update to memoryd_service
    using ((select memoryd.runs_as_owner()) or category is not null);
create policy erased_is_kept on public.memory_anchors as restrictive for delete to memoryd_service
    using ((select memoryd.runs_as_owner()) or category is not null);
create policy own_read on public.memory_anchors for select to memoryd_user
    using (exists (select from public.agent_memory m where m.id = memory_id));
create policy admin_read on public.memory_anchors for select to memoryd_admin
    using (memoryd.audit_admin_anchor(id, memory_id));

-- public.memory_settings: users decide about their own memory.
grant
    select,
    insert (user_id, memory_enabled, memory_ttl_hours, task_memory_ttl_hours, conversation_retention_minutes),
    -- The key too, which the policy keeps as it is: PostgREST's upsert sets every column that it was given.
    update (user_id, memory_enabled, memory_ttl_hours, task_memory_ttl_hours, conversation_retention_minutes)
    on public.memory_settings to memoryd_user;
