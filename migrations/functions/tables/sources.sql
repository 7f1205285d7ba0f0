-- The sources: the tables that recall searches. Each has a row in memoryd.sources() and a view. From the two
-- come the names that recall knows, the views of all sources, the triggers that index the rows
-- (tables/triggers.sql), and the rights to the views (tables/access.sql). A table with rows of users is in
-- tables/user_tables.sql, too. To apply this file locks the tables: it is applied only when it has changed.

-- The sources, one a row.
--   for_users   whether end users may search it
--   embedding   the column with the embedding that the writer of a row may give
--   searched    the columns with its text: when one changes, an embedding that was given is forgotten
--   shown       the columns that contexts and answers show: when one changes, stored texts lose what they
--               show of the row
create or replace function memoryd.sources()
returns table (name text, table_name text, for_users boolean, embedding text, searched text[], shown text[])
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    values
        ('memory', 'agent_memory', true, 'embedding', '{content}'::text[], '{content}'::text[]),
        ('conversation', 'conversation_messages', true, 'embedding',
         '{content}', '{content,speaker,created_at}'),
        ('document', 'memory_chunks', true, 'dense_embedding',
         '{chunk_text,context}', '{chunk_text,context}'),
        ('knowledge', 'shared_knowledge', false, 'embedding',
         '{title,content,tags}', '{title,content,tags,outcome}'),
        ('insight', 'dream_insights', true, 'embedding', '{insight}', '{insight}')
$$;

-- The view of each source, memoryd.source_<name>, says how its rows are indexed and shown. It has the columns
-- below, or leaves one out where the default further below is right. It selects from its table alone: with a
-- second one in its from clause a search would read the whole table. memoryd.entries is made of these views.
--   id, created_at
--   scope            the body of text that it is searched in
--   searched_text    the text that is searched: words, weights and embedding are made of it. Of a message it
--                    is the message alone: the daemon indexes it with those around it
--   text_hash        tells whether it must be indexed again. Of a message also who said it and on which day,
--                    of a memory from which day on it is valid
--   embedding        its embedding, where the writer of the row gave one
--   content          what recall returns
--   metadata         what recall returns beside it
--   owner_id         the user whose row it is (null: no user)
--   agent_id         the agent that it is for (null: any)
--   access_level     null: private. With visibility_tags and row_metadata it decides what others are granted
--   is_current       whether recall may find it, until expires_at (null: for ever). A memory that was
--                    replaced keeps its entries, with false
--   session_id, position, speaker, role   of a message: its conversation, its place there, who said it
--   valid_from       since when it is true (null: since created_at)
--   weight           how much its kind counts
--   keywords

create or replace view memoryd.source_memory with (security_invoker = true) as
select m.id, m.scope, m.content as searched_text,
       hashtextextended(concat_ws(E'\n', m.content, (m.valid_from at time zone 'utc')::date), 0) as text_hash,
       m.embedding, m.content,
       m.metadata || jsonb_strip_nulls(jsonb_build_object(
           'kind', m.kind, 'memory_type', m.memory_type)) as metadata,
       m.user_id as owner_id, nullif(m.agent_id, '_shared') as agent_id, m.metadata as row_metadata,
       m.superseded_by is null as is_current,
       case when m.superseded_by is null then least(m.expires_at, m.valid_to) else m.expires_at end
           as expires_at,
       m.created_at, m.valid_from, memoryd.memory_weight(m.kind, m.source) as weight, m.keywords
from public.agent_memory m;
comment on view memoryd.source_memory is 'agent_memory as recall searches it.';

create or replace view memoryd.source_conversation with (security_invoker = true) as
select m.id, memoryd.message_scope(m.scope, m.user_id, m.chat_id, m.access_level) as scope,
       m.content as searched_text,
       hashtextextended(
           concat_ws(E'\n', m.content, m.speaker, (m.created_at at time zone 'utc')::date), 0) as text_hash,
       m.embedding, m.content,
       m.metadata || jsonb_strip_nulls(jsonb_build_object(
           'session_id', m.session_id, 'message_index', m.message_index, 'role', m.role,
           'speaker', m.speaker)) as metadata,
       m.user_id as owner_id, m.agent_id, m.access_level, m.visibility_tags, m.metadata as row_metadata,
       m.session_id, m.message_index as position, m.speaker, m.role, m.created_at
from public.conversation_messages m;
comment on view memoryd.source_conversation is 'conversation_messages as recall searches it.';

create or replace view memoryd.source_document with (security_invoker = true) as
select c.id, c.scope, concat_ws(E'\n', c.context, c.chunk_text) as searched_text,
       hashtextextended(concat_ws(E'\n', c.context, c.chunk_text), 0) as text_hash,
       c.dense_embedding as embedding, c.chunk_text as content,
       c.metadata || jsonb_strip_nulls(jsonb_build_object(
           'document_id', c.document_id, 'chunk_index', c.chunk_index, 'chunk_context', c.context,
           'headings', nullif(c.headings, '{}'),
           'title', (select d.title from public.documents d where d.id = c.document_id))) as metadata,
       c.user_id as owner_id, c.access_level, c.visibility_tags, c.metadata as row_metadata,
       coalesce((select d.status in ('active', 'conflict') from public.documents d
                 where d.id = c.document_id), true) as is_current,
       c.created_at
from public.memory_chunks c;
comment on view memoryd.source_document is 'memory_chunks as recall searches it.';

create or replace view memoryd.source_knowledge with (security_invoker = true) as
select k.id, k.scope, memoryd.searched_text(k) as searched_text,
       hashtextextended(memoryd.searched_text(k), 0) as text_hash, k.embedding, k.content,
       jsonb_strip_nulls(jsonb_build_object(
           'tier', k.tier, 'category', k.category, 'title', k.title, 'tags', k.tags,
           'confidence', k.confidence, 'status', k.status, 'created_by', k.created_by,
           'created_by_name', k.created_by_name, 'source', k.source,
           'outcome', case when k.category = 'decision' then k.outcome end,
           'corrects', case when k.category = 'correction' and k.related_ids <> '{}' then k.related_ids end,
           'corrected_by', memoryd.corrected_by(k))) as metadata,
       k.status <> 'archived' as is_current, k.expires_at, k.created_at,
       case when memoryd.corrected_by(k) is null then 1 else 0.4 end::double precision as weight
from public.shared_knowledge k;
comment on view memoryd.source_knowledge is 'shared_knowledge as recall searches it.';

create or replace view memoryd.source_insight with (security_invoker = true) as
select i.id, i.scope, i.insight as searched_text, hashtextextended(i.insight, 0) as text_hash, i.embedding,
       i.insight as content,
       jsonb_strip_nulls(jsonb_build_object(
           'category', i.category, 'confidence', i.confidence,
           'source_memories', i.source_memories, 'resolved_at', i.resolved_at)) as metadata,
       i.user_id as owner_id, i.agent_id, not i.stale as is_current, i.generated_at as created_at,
       i.confidence as weight, i.keywords
from public.dream_insights i;
comment on view memoryd.source_insight is 'dream_insights as recall searches it.';

-- From here on nothing names a source.

-- The views of all sources, with the same columns; the names of the sources, or of those for users; whether a
-- user shares rows of one of them by level (shares); and what is shown of rows, read with the caller's own
-- rights, each source by itself: a session plans only those that it has found something in (show_rows). A
-- search reads these, and does not read what is declared above. A given embedding counts only where it can be
-- compared.
do $$
declare
    columns constant text[] :=
        '{id,scope,searched_text,text_hash,given_embedding,content,metadata,owner_id,agent_id,access_level,
          visibility_tags,row_metadata,is_current,expires_at,session_id,position,speaker,role,created_at,
          valid_from,weight,keywords}';
    defaults constant jsonb := jsonb_build_object(
        'given_embedding', 'case when vector_dims(v.embedding) = memoryd.dimensions() then v.embedding end',
        'owner_id', 'null::uuid', 'agent_id', 'null::text', 'access_level', 'null::integer',
        'visibility_tags', 'null::text[]', 'row_metadata', 'null::jsonb', 'is_current', 'true',
        'expires_at', 'null::timestamptz', 'session_id', 'null::uuid', 'position', 'null::integer',
        'speaker', 'null::text', 'role', 'null::text', 'valid_from', 'null::timestamptz',
        'weight', '1::double precision', 'keywords', 'null::text[]');
    of_users text;
    others text;
begin
    with branches as (
        select s.for_users, format(
                   'select %L::text as source, %s from memoryd.%I v', s.name,
                   string_agg(
                       case when a.attname is null then coalesce(defaults ->> c.name, 'v.' || c.name)
                            else 'v.' || c.name end || ' as ' || c.name, ', ' order by c.nth),
                   'source_' || s.name) as branch
        from memoryd.sources() s
        cross join unnest(columns) with ordinality as c(name, nth)
        left join pg_attribute a
            on a.attrelid = ('memoryd.source_' || s.name)::regclass and a.attname = c.name
        group by s.name, s.for_users
    )
    select string_agg(b.branch, ' union all ') filter (where b.for_users),
           string_agg(b.branch, ' union all ') filter (where not b.for_users)
    into of_users, others from branches b;
    execute format($s$
        create or replace view memoryd.searchable_by_users with (security_invoker = true) as %s;
        create or replace view memoryd.searchable with (security_invoker = true) as
            select * from memoryd.searchable_by_users union all %s $s$, of_users, others);
    execute format($s$
create or replace function memoryd.source_names(p_for_users boolean default false) returns text[]
language sql immutable parallel safe
return case when p_for_users then %L else %L end::text[];
create or replace function memoryd.shares(p_user uuid) returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $f$ begin return %s; end $f$;
create or replace function memoryd.show_rows(p_sources text[], p_ids uuid[])
returns table (source text, id uuid, content text, metadata jsonb, searched_text text, keywords text[])
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $f$ begin %s end $f$;
$s$, array(select s.name from memoryd.sources() s where s.for_users),
     array(select s.name from memoryd.sources() s),
     (select string_agg(format('exists (select from public.%I t
                                        where t.user_id = p_user and t.access_level is not null)',
                               s.table_name), ' or ')
      from memoryd.sources() s
      join pg_attribute a
          on a.attrelid = ('public.' || s.table_name)::regclass and a.attname = 'access_level'),
     (select string_agg(format('
if %L = any(p_sources) then
    return query select %1$L, v.id, v.content, v.metadata, v.searched_text, %s
                 from memoryd.%I v where v.id = any(p_ids);
end if;', s.name, case when a.attname is null then 'null::text[]' else 'v.keywords' end,
                               'source_' || s.name), '')
      from memoryd.sources() s
      left join pg_attribute a
          on a.attrelid = ('memoryd.source_' || s.name)::regclass and a.attname = 'keywords'));
end
$$;
comment on view memoryd.searchable_by_users is 'The sources that end users may search (memoryd.sources).';
comment on view memoryd.searchable is 'All sources of recall (memoryd.sources).';

-- Views for clients.

create or replace view public.shared_memory with (security_invoker = true) as
select id, agent_id, user_id, session_id, kind, memory_type, content, embedding, keywords, metadata, source,
       command_id, ttl_hours, expires_at, created_at, updated_at
from public.agent_memory
where agent_id = '_shared'
order by created_at desc;
comment on view public.shared_memory is 'Memories visible to all agents (agent_id ''_shared'').';

create or replace view public.conversation_history with (security_invoker = true) as
select id, user_id, session_id, chat_id, agent_id, message_index,
       coalesce(speaker, case role when 'assistant' then 'agent' else role end) as speaker, role,
       content as message_text, created_at as "timestamp", access_level, visibility_tags, metadata, embedding,
       content, created_at
from public.conversation_messages;
comment on view public.conversation_history is
    'The messages, one row a turn, with the speaker (user, agent or a name); '
    'rows inserted here become messages.';
