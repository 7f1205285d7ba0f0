"""Rows for every table that `memoryd web` shows, by statements: what the daemon and its users write one by one.

Triggers rest meanwhile, so only the memories (bulk.py) can be searched. The rows numbered highest are the oldest, and the last
hundred of them have values that no other row has.
"""

from __future__ import annotations

import asyncpg

# $1: rows that are there already; $2: rows that there are to be; n: the number of a row.
NUMBERS = "from generate_series($1::bigint + 1, $2::bigint) as r(n)"
USER = "lpad(to_hex(n % 1000 + 1), 32, '0')::uuid"
BORN = "now() - make_interval(secs => 20.0 * n)"
RARE = "n > $2 - 100"
# One in ten is the hundredth part of another whole: so some conversations and documents are long.
WHOLE = "case when n % 10 = 0 and n > 9 then n / 1000 + 1 else n end"
PART = "case when n % 10 = 0 and n > 9 then 1 + n % 1000 / 10 else 0 end"
NUMBERED = """
from (select m.id, m.user_id, m.agent_id, m.content, m.created_at, lag(m.id) over w as before,
             row_number() over (order by m.created_at desc, m.id) as n
      from public.agent_memory m window w as (partition by m.user_id order by m.created_at, m.id)) m
where n > $1::bigint and n <= $2::bigint
"""
TABLES = {
    "conversation_sessions": f"""
insert into conversation_sessions (id, user_id, agent_id, channel, title, created_at)
select md5('session' || n)::uuid, {USER}, case when {RARE} then 'old hand' when n % 3 > 0 then 'assistant' end,
       case when {RARE} then 'fax' when n % 2 = 0 then 'web' else 'email' end, 'about server ' || n, {BORN} {NUMBERS}
""",
    "conversation_messages": f"""
insert into conversation_messages (id, session_id, user_id, message_index, role, content, created_at)
select md5('message' || n)::uuid, md5('session' || s.whole)::uuid, {USER.replace("n %", "whole %")}, s.nth, 'user',
       'how do we restart server ' || n || ' after the deploy of today?', {BORN} {NUMBERS}
cross join lateral (select {WHOLE} as whole, {PART} as nth) s
""",
    "documents": f"""
insert into documents (id, title, user_id, status, source, document_type, content, access_level, created_at, updated_at)
select md5('document' || n)::uuid, 'notes ' || n, {USER}, case when {RARE} then 'conflict' else 'active' end,
       case when {RARE} then 'fax' else 'upload' end, 'notes', 'how to restart server ' || n,
       case when n % 10 = 0 then 0 end, {BORN}, {BORN} {NUMBERS}
""",
    "memory_chunks": f"""
insert into memory_chunks (id, document_id, user_id, chunk_index, chunk_text, created_at)
select md5('chunk' || n)::uuid, md5('document' || s.whole)::uuid, {USER.replace("n %", "whole %")}, s.nth,
       'how to restart server ' || n || ' after the deploy of today', {BORN} {NUMBERS}
cross join lateral (select {WHOLE} as whole, {PART} as nth) s
""",
    "shared_knowledge": f"""
insert into shared_knowledge (id, tier, category, title, content, created_by, tags, surprise_score, status, created_at,
                              updated_at)
select md5('knowledge' || n)::uuid, case when n % 100 = 0 then 'core' when n % 10 = 0 then 'working' else 'learning' end,
       case when {RARE} then 'commitment' when n % 3 = 0 then 'decision' else 'insight' end, 'server ' || n,
       'restart server ' || n || ' first', case when {RARE} then 'old hand' else 'agent ' || n % 50 end,
       array['team', case when {RARE} then 'old' else 'tag ' || n % 1000 end], 0.5,
       (array['active', 'resolved', 'archived'])[1 + greatest(0, n % 10 - 7)], {BORN}, {BORN} {NUMBERS}
""",
    "dream_sessions": f"""
insert into dream_sessions (id, started_by, status, started_at, finished_at, insights_generated)
select md5('dream' || n)::uuid, 'idle', 'completed', {BORN}, now() - make_interval(secs => 20.0 * n - 15), 1 {NUMBERS}
""",
    "dream_insights": f"""
insert into dream_insights (id, agent_id, user_id, insight, source_memories, category, confidence, generated_at, dream_id)
select md5('insight' || n)::uuid, case when {RARE} then 'old hand' else 'assistant' end, m.user_id, 'deploys of server ' || n,
       array_remove(array[m.id, m.before], null), case when {RARE} then 'correction' else 'pattern' end,
       case when {RARE} then 0.95 else 0.5 end, now() - make_interval(secs => 20.0 * n - 5), md5('dream' || n)::uuid {NUMBERED}
""",
    "agent_commands": f"""
insert into agent_commands (id, agent_id, user_id, message, status, created_at, started_at, finished_at)
select md5('command' || n)::uuid, 'assistant', {USER}, 'restart server ' || n, 'completed', {BORN}, {BORN}, {BORN} {NUMBERS}
""",
    "memory_associations": f"""
insert into memory_associations (memory_id, related_memory_id, association_type, strength, automatic)
select m.id, m.before, 'related', 0.2 + n % 80 / 100.0, true {NUMBERED} and m.before is not null
on conflict do nothing
""",
    "memory_queries": f"""
insert into memory_queries (agent_id, user_id, task_keywords, query_time, useful)
select 'assistant', {USER}, array['restart', 'server'], {BORN}, case when n % 5 < 2 then n % 5 = 0 end {NUMBERS}
""",
    "agent_execution_logs": f"""
insert into agent_execution_logs (user_id, agent_id, step_name, action_type, input_data, created_at)
select {USER}, 'assistant', 'recall', 'memory_read', '{{"table": "agent_memory"}}', {BORN} {NUMBERS}
""",
    "memory_anchors": f"""
insert into memory_anchors (id, memory_id, agent_id, category, payload, content_hash, created_at)
select md5('anchor' || n)::uuid, m.id, case when {RARE} then 'old hand' else m.agent_id end,
       case when {RARE} then 'incident' else 'decision' end, jsonb_build_object('content', m.content),
       sha256(convert_to(m.content, 'UTF8')), m.created_at {NUMBERED}
""",
    "trail_leaves": """
insert into memoryd.trail_leaves (anchor_id, leaf, salt, chained, fact_written)
select a.id, a.content_hash, a.content_hash, true, true
from memory_anchors a where not exists (select from memoryd.trail_leaves l where l.anchor_id = a.id) and $1::bigint < $2::bigint
order by a.created_at
""",
    "dead_letters": f"""
insert into memoryd.dead_letters (id, topic, attempts, error, created_at, died_at)
select -n, ('{{index,capture,associate}}'::text[])[1 + n % 3], 10, 'ValueError: ' || n, {BORN}, {BORN} {NUMBERS}
""",
    "memory_uses": f"""
insert into memoryd.memory_uses (memory_id, uses, used_at) select m.id, 1.5, m.created_at {NUMBERED}
on conflict do nothing
""",
}  # fmt: skip
# Positions in the log follow the order of its leaves; a checkpoint for each hundred.
LOG = """
update memoryd.trail_leaves l set position = l.id - 1 where l.position is null;
update memoryd.trail set carried = true, size = (select count(*) from memoryd.trail_leaves);
insert into memoryd.trail_checkpoints (size, root, note, verifier)
select n, '', '', 'k' from memoryd.trail t cross join generate_series(1, t.size, 100) n on conflict do nothing;
insert into memoryd.trail_ledgers (name, from_position, next_position, from_size)
values ('evm', 0, 0, 0) on conflict do nothing;
insert into memoryd.trail_receipts (ledger, key, anchor_id, final)
select 'evm', anchor_id, anchor_id, true from memoryd.trail_leaves on conflict do nothing;
"""
# The oldest: a chain of 50 that replaced each other, others with a kind and a tag of their own; and the links of one that all
# those of its user are linked with, and of a user whose memories are linked with twenty each.
MEMORIES = """
create temp table oldest as
select id, row_number() over (order by created_at, id) as n from public.agent_memory order by created_at, id limit 150;
update public.agent_memory m set kind = 'goal', metadata = '{"tags": ["old"]}' from oldest o where o.id = m.id and o.n > 50;
update public.agent_memory m set superseded_by = later.id, valid_to = now()
from oldest o join oldest later on later.n = o.n + 1 where m.id = o.id and o.n < 50;
insert into public.memory_associations (memory_id, related_memory_id, association_type, strength)
select m.id, o.id, 'similar', 0.5
from oldest o join lateral (select id from public.agent_memory m where m.id <> o.id order by id limit 10000) m on true
where o.n = 50
on conflict do nothing;
with newest as (
    select m.id, row_number() over (order by m.created_at desc) as n from public.agent_memory m
    where m.user_id = (select user_id from public.agent_memory order by created_at desc limit 1)
)
insert into public.memory_associations (memory_id, related_memory_id, association_type, strength)
select one.id, other.id, 'similar', 0.4 from newest one join newest other on other.n between one.n + 2 and one.n + 21
on conflict do nothing;
"""
DAYS = """
insert into memoryd.settings (key, value)
select 'sizes', jsonb_object_agg(to_char(current_date - n, 'YYYY-MM-DD'), jsonb_build_object(
    'bytes', 1000000000 - n * 1000000, 'measured_at', now() - make_interval(days => n)))
from generate_series(1, 90) n on conflict do nothing;
"""
TOPICS = [
    "context", "capture", "index", "facts", "statistics", "lexicon", "associate", "request", "user_data", "situate", "dream",
]  # fmt: skip
PAST = """
insert into memoryd.activity (writer, number, began_at, topic, done, waiting)
select '00000000-0000-0000-0000-000000000001', m, date_trunc('minute', now()) - make_interval(mins => m), t, 50, 3
from generate_series(1, 2880) m, unnest($1::text[]) t
"""
# A third of them in lanes that rest.
BACKLOG = """
insert into memoryd.jobs (topic, lane)
select ($1::text[])[1 + n % 9], case when n % 3 = 0 then 'lane ' || n % 500 end from generate_series(1, $2::integer) n
"""


async def fill_tables(connection: asyncpg.Connection, there: int, count: int) -> None:
    """Fills each table that had `there` rows up to `count`, of which so many memories are there already."""
    await connection.execute("set session_replication_role = replica")
    for statement in TABLES.values():
        await connection.execute(statement, there, count)
    await connection.execute(LOG)
    if count > 1:
        await connection.execute(MEMORIES)
        await connection.execute(DAYS)
        await connection.execute(PAST, TOPICS)
        await connection.execute(BACKLOG, TOPICS, count)
    await connection.execute("set session_replication_role = origin")
