-- Views. To apply this file locks the tables, so it is applied only when it has changed.

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
       content as message_text, created_at as "timestamp", access_level, visibility_tags, metadata, embedding
from public.conversation_messages;
comment on view public.conversation_history is
    'The messages, one row a turn, with the speaker (user, agent or a name); '
    'rows inserted here become messages.';

-- The sources of recall: each searchable table with the same columns. Only these views say how a source is
-- indexed and shown. memoryd.entries is made of them.
--   scope            the body of text that it is searched in
--   searched_text    the text that is searched (memoryd.searched_text)
--   text_hash        tells whether it must be indexed again
--   given_embedding  its embedding, where the writer of the row gave one that can be compared
--   content          what recall returns
--   owner_id         the user whose row it is (null: no user)
--   agent_id         the agent that it is for (null: any)
--   access_level     null: private. With visibility_tags and row_metadata it decides what others are granted
--   is_current       whether recall may find it, until expires_at (null: for ever). A memory that was
--                    replaced keeps its entries, with false
--   position         the place of a message in its session
--   weight           how much its kind counts

create or replace view memoryd.source_memory with (security_invoker = true) as
select 'memory'::text as source, m.id, m.scope, memoryd.searched_text(m) as searched_text,
       memoryd.text_hash(m) as text_hash,
       case when vector_dims(m.embedding) = memoryd.dimensions() then m.embedding end
           as given_embedding,
       m.content,
       m.metadata || jsonb_strip_nulls(jsonb_build_object(
           'kind', m.kind, 'memory_type', m.memory_type)) as metadata,
       m.user_id as owner_id, nullif(m.agent_id, '_shared') as agent_id,
       null::integer as access_level, null::text[] as visibility_tags, m.metadata as row_metadata,
       m.superseded_by is null as is_current,
       case when m.superseded_by is null then least(m.expires_at, m.valid_to) else m.expires_at end
           as expires_at,
       null::uuid as session_id, null::integer as position, null::text as speaker, null::text as role,
       m.created_at,
       memoryd.memory_weight(m.kind, m.source) as weight, m.keywords
from public.agent_memory m;
comment on view memoryd.source_memory is 'agent_memory as recall searches it.';

create or replace view memoryd.source_conversation with (security_invoker = true) as
select 'conversation'::text as source, m.id,
       memoryd.message_scope(m.scope, m.user_id, m.chat_id, m.access_level) as scope,
       memoryd.searched_text(m) as searched_text,
       memoryd.text_hash(m) as text_hash,
       case when vector_dims(m.embedding) = memoryd.dimensions() then m.embedding end
           as given_embedding,
       m.content,
       m.metadata || jsonb_strip_nulls(jsonb_build_object(
           'session_id', m.session_id, 'message_index', m.message_index, 'role', m.role,
           'speaker', m.speaker)) as metadata,
       m.user_id as owner_id, m.agent_id,
       m.access_level, m.visibility_tags, m.metadata as row_metadata,
       true as is_current, null::timestamptz as expires_at,
       m.session_id, m.message_index as position, m.speaker, m.role, m.created_at,
       1::double precision as weight, null::text[] as keywords
from public.conversation_messages m;
comment on view memoryd.source_conversation is 'conversation_messages as recall searches it.';

create or replace view memoryd.source_document with (security_invoker = true) as
select 'document'::text as source, c.id, c.scope, memoryd.searched_text(c) as searched_text,
       memoryd.text_hash(c) as text_hash,
       case when vector_dims(c.dense_embedding) = memoryd.dimensions() then c.dense_embedding end
           as given_embedding,
       c.chunk_text as content,
       c.metadata || jsonb_strip_nulls(jsonb_build_object(
           'document_id', c.document_id, 'chunk_index', c.chunk_index, 'chunk_context', c.context,
           'headings', nullif(c.headings, '{}'),
           'title', (select d.title from public.documents d where d.id = c.document_id))) as metadata,
       c.user_id as owner_id, null::text as agent_id,
       c.access_level, c.visibility_tags, c.metadata as row_metadata,
       coalesce((select d.status in ('active', 'conflict') from public.documents d
                 where d.id = c.document_id), true)
           as is_current, null::timestamptz as expires_at,
       null::uuid as session_id, null::integer as position, null::text as speaker, null::text as role,
       c.created_at,
       1::double precision as weight, null::text[] as keywords
from public.memory_chunks c;
comment on view memoryd.source_document is 'memory_chunks as recall searches it.';

create or replace view memoryd.source_knowledge with (security_invoker = true) as
select 'knowledge'::text as source, k.id, k.scope, memoryd.searched_text(k) as searched_text,
       memoryd.text_hash(k) as text_hash,
       case when vector_dims(k.embedding) = memoryd.dimensions() then k.embedding end
           as given_embedding,
       k.content,
       jsonb_strip_nulls(jsonb_build_object(
           'tier', k.tier, 'category', k.category, 'title', k.title, 'tags', k.tags,
           'confidence', k.confidence, 'status', k.status, 'created_by', k.created_by,
           'created_by_name', k.created_by_name,
           'outcome', case when k.category = 'decision' then k.outcome end,
           'corrects', case when k.category = 'correction' and k.related_ids <> '{}' then k.related_ids end,
           'corrected_by', memoryd.corrected_by(k))) as metadata,
       null::uuid as owner_id, null::text as agent_id,
       null::integer as access_level, null::text[] as visibility_tags, null::jsonb as row_metadata,
       k.status <> 'archived' as is_current, null::timestamptz as expires_at,
       null::uuid as session_id, null::integer as position, null::text as speaker, null::text as role,
       k.created_at,
       case when memoryd.corrected_by(k) is null then 1 else 0.4 end::double precision as weight,
       null::text[] as keywords
from public.shared_knowledge k;
comment on view memoryd.source_knowledge is 'shared_knowledge as recall searches it.';

create or replace view memoryd.source_insight with (security_invoker = true) as
select 'insight'::text as source, i.id, i.scope, memoryd.searched_text(i) as searched_text,
       memoryd.text_hash(i) as text_hash,
       case when vector_dims(i.embedding) = memoryd.dimensions() then i.embedding end
           as given_embedding,
       i.insight as content,
       jsonb_strip_nulls(jsonb_build_object(
           'category', i.category, 'confidence', i.confidence,
           'source_memories', i.source_memories, 'resolved_at', i.resolved_at)) as metadata,
       i.user_id as owner_id, i.agent_id,
       null::integer as access_level, null::text[] as visibility_tags, null::jsonb as row_metadata,
       not i.stale as is_current, null::timestamptz as expires_at,
       null::uuid as session_id, null::integer as position, null::text as speaker, null::text as role,
       i.generated_at as created_at,
       i.confidence as weight, i.keywords
from public.dream_insights i;
comment on view memoryd.source_insight is 'dream_insights as recall searches it.';

create or replace view memoryd.searchable_by_users with (security_invoker = true) as
select * from memoryd.source_memory
union all
select * from memoryd.source_conversation
union all
select * from memoryd.source_document
union all
select * from memoryd.source_insight;
comment on view memoryd.searchable_by_users is
    'What end users may search: all sources but knowledge, which only agents and support read.';

create or replace view memoryd.searchable with (security_invoker = true) as
select * from memoryd.searchable_by_users
union all
select * from memoryd.source_knowledge;
comment on view memoryd.searchable is 'All sources of recall.';

-- The entries that the replica shows, each with the columns of the collection that it is in. They are those
-- that recall finds, but for what is in passing: outcomes of commands, and observations, outcomes and errors
-- that expire; and but for texts of more than 1 MB. Nothing of users who have switched memory off.
create or replace view memoryd.replica_entries with (security_invoker = true) as
select e.*, sha256(convert_to(
           jsonb_build_array(e.label, e.title, e.body, e.author, e.status)::text, 'UTF8')) as version
from (
    select 'memory'::text as source, m.id, m.user_id,
           case when m.user_id is null then m.agent_id end as agent_id, null::uuid as org_id,
           null::text as tier, m.kind as label, ''::text as title, m.content as body, m.agent_id as author,
           null::text as status, m.created_at
    from public.agent_memory m
    where m.command_id is null and m.superseded_by is null
      and (m.expires_at is null or (m.kind in ('fact', 'goal', 'note') and m.expires_at > now()))
    union all
    select 'insight', i.id, i.user_id, case when i.user_id is null then coalesce(i.agent_id, '_shared') end,
           null, null, i.category, '', i.insight, i.agent_id, null, i.generated_at
    from public.dream_insights i
    union all
    select 'knowledge', k.id, null, null, k.org_id, k.tier, k.category, k.title, k.content,
           coalesce(k.created_by_name, k.created_by), nullif(k.status, 'active'), k.created_at
    from public.shared_knowledge k
    where k.status <> 'archived'
) e
where octet_length(e.body) <= 1000000
  and not exists (select from public.memory_settings s
                  where s.user_id = e.user_id and not s.memory_enabled);
comment on view memoryd.replica_entries is 'What is remembered, as the replica shows it.';
