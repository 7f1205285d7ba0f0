"""A database in which every table that grows has many rows, so that a plan that reads one from end to end is seen."""

from __future__ import annotations

BIG = {
    "jobs", "lanes", "agents", "agent_memory", "agent_commands", "memory_associations", "memory_queries", "memory_requests",
    "dream_insights", "dream_sessions", "conversation_sessions", "conversation_messages", "documents", "memory_chunks",
    "shared_knowledge", "chat_group_members", "lexeme_statistics", "lexicon", "lexeme_neighbours", "entries", "unindexed",
    "fact_sources", "unread", "names", "memory_anchors", "trail_leaves", "trail_agents", "trail_tiles", "trail_checkpoints",
    "trail_receipts", "quotes", "activity",
}  # fmt: skip

# Their jobs come with the rows: 30,000 to index, 2,000 contexts, 5,000 requests of 50 users, 16,000 captures in 500 lanes.
SEED = """
insert into agents (agent_id) select 'agent ' || n from generate_series(0, 20000) n;

insert into agent_commands (agent_id, message, status, created_at, started_at)
select 'agent ' || n % 500, 'deploy server ' || n,
       case when n % 10 = 0 then 'pending' when n % 10 = 1 then 'ready' when n % 1000 = 2 then 'running' else 'completed' end,
       now() - make_interval(mins => n), now() - make_interval(mins => n)
from generate_series(1, 20000) n;

insert into agent_memory (agent_id, user_id, content, kind, ttl_hours, created_at)
select 'agent ' || n % 500, case when n % 3 = 0 then gen_random_uuid() end, 'deploy server ' || n || ' word' || n, 'fact',
       case when n % 2 = 0 then n end, now() - make_interval(mins => n)
from generate_series(1, 30000) n;

insert into memory_associations (memory_id, related_memory_id, association_type, strength)
select id, lag(id) over w, 'related', 0.1 + random() * 0.9
from agent_memory window w as (order by created_at) offset 1;

insert into memory_queries (agent_id, query_time)
select 'agent ' || n % 500, now() - make_interval(mins => n) from generate_series(1, 20000) n;

insert into memory_requests (kind, query, status, created_at)
select 'recall', 'q', 'done', now() - make_interval(mins => n) from generate_series(1, 20000) n;

insert into memory_requests (kind, user_id, status, result, created_at, finished_at)
select 'export', md5('u' || n)::uuid, 'done', case when n % 100 = 0 then '{}'::jsonb end,
       now() - make_interval(mins => n), now() - make_interval(mins => n)
from generate_series(1, 2000) n;

insert into memory_requests (kind, user_id, query)
select 'recall', md5('u' || n / 100)::uuid, 'q' from generate_series(1, 5000) n;

insert into dream_sessions (started_by, status, started_at, finished_at)
select 'idle', 'completed', now() - make_interval(hours => n), now() - make_interval(hours => n)
from generate_series(1, 10000) n;

insert into dream_insights (agent_id, insight, source_memories, category, confidence, generated_at)
select 'agent ' || n % 500, 'deploy ' || n, '{}', 'pattern', 0.3 + random() * 0.6, now() - make_interval(hours => n)
from generate_series(1, 10000) n;

insert into conversation_messages (session_id, user_id, message_index, role, speaker, content)
select md5('s' || n / 40)::uuid, md5('u' || n / 400)::uuid, n % 40, 'user', 'Ann ' || n % 3, 'we talked about server ' || n
from generate_series(1, 20000) n;

insert into chat_groups (id, platform) select md5('g' || n)::uuid, 'web' from generate_series(1, 2) n;
insert into chat_group_members (chat_id, user_id)
select md5('g1')::uuid, md5('u' || n)::uuid from generate_series(7, 5000) n;
insert into conversation_messages (session_id, user_id, chat_id, message_index, role, content)
select md5('g' || 1 + n % 2)::uuid, md5('u' || n / 400)::uuid, md5('g' || 1 + n % 2)::uuid, n, 'user', 'group, server ' || n
from generate_series(1, 10000) n;

insert into memoryd.fact_sources (message_id, memory_id, said_at)
select md5(id::text)::uuid, id, now() from agent_memory where user_id is not null;
insert into memoryd.unread (message_id, session_id, user_id, message_index, said_at)
select id, session_id, user_id, message_index, created_at from conversation_messages where user_id is not null;

insert into memoryd.names (message_id, user_id, key, name, found_by)
select m.id, m.user_id, 'name' || m.message_index, 'Name' || m.message_index, 'rule'
from conversation_messages m where m.user_id is not null;

insert into documents (id, title, content) select md5('d' || n)::uuid, 'notes ' || n, 'x' from generate_series(1, 2500) n;
insert into memory_chunks (document_id, chunk_index, chunk_text, access_level)
select md5('d' || 1 + n / 4)::uuid, n % 4, 'how to restart server ' || n, 0 from generate_series(1, 8000) n;

-- With a score, since scoring takes seconds.
insert into shared_knowledge (tier, category, title, content, created_by, surprise_score)
select 'learning', 'decision', 'server ' || n, 'restart server ' || n || ' first', 'agent 1', 0.5
from generate_series(1, 3000) n;

-- As the index topic leaves them; fifteen of sixteen still wait for it.
select count(*)
from (select s.source, array_agg(s.id order by s.id) as ids, array_agg(s.text_hash order by s.id) as hashes,
             array_agg(s.searched_text order by s.id) as texts
      from memoryd.searchable s
      where hashtext(s.id::text) % 16 = 0
      group by s.source) r
cross join lateral memoryd.write_entries(r.source, r.ids, r.hashes, r.ids, r.texts,
                                         array_fill(null::vector, array[cardinality(r.ids)]));
select memoryd.fold_lexeme_changes();
insert into memoryd.lexicon (lexeme, word) select 'word' || n, 'word' || n from generate_series(1, 10000) n;
insert into memoryd.lexeme_neighbours (lexeme, neighbour, similarity)
select 'word' || n, 'word' || 1 + n % 9999, 0.5 from generate_series(1, 10000) n;

-- Anchors of a long trail: the last four wait for their places.
insert into memory_anchors (agent_id, category, payload)
select 'agent ' || n % 500, 'decision', '{}' from generate_series(1, 5000) n;
update memoryd.trail_leaves l set position = l.id - 1, fact_written = true where l.id <= 4996;
update memoryd.trail set size = 4996, carried = true;
insert into memoryd.trail_tiles (level, number, hashes) select 0, n, '' from generate_series(0, 5000) n;
insert into memoryd.trail_checkpoints (size, root, note, verifier) select n, '', '', 'k' from generate_series(1, 4990) n;
insert into memoryd.trail_agents (agent_id, anchors, last_hash)
select 'agent ' || n, 10, '' from generate_series(0, 20000) n;
insert into memoryd.trail_ledgers (name, from_position, next_position, from_size) values ('evm', 0, 4980, 0);
insert into memoryd.trail_receipts (ledger, key, anchor_id, final)
select 'evm', anchor_id, anchor_id, position < 4970 from memoryd.trail_leaves where position < 4980;

insert into memoryd.quotes (command_id, row_ids, hashes)
select c.id, array[md5('q' || row_number() over ())::uuid], '{0}' from agent_commands c;
insert into memoryd.outdated_rows (row_ids) select array[md5('q' || n)::uuid] from generate_series(1, 100) n;

insert into memoryd.lanes (topic, lane) select 'capture', 'agent ' || n from generate_series(1, 20000) n;

-- A history of two days, of ten daemons.
insert into memoryd.activity (writer, number, began_at, topic, done)
select md5(w::text)::uuid, m, date_trunc('minute', now()) - make_interval(mins => m), t, 1
from generate_series(1, 10) w, generate_series(1, 2880) m, unnest('{context,index}'::text[]) t;

analyze;
"""
