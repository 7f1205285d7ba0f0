"""What the database says of this moment, for the page Now.

Promise: a few milliseconds, also with a million memories and a million jobs: no table that grows is read whole. Rows of sources
are the estimates of the server's statistics.
"""

from __future__ import annotations

import json
from typing import Any

from daemon.db.depth import DEPTH, ESTIMATED_ROWS, EXACT
from daemon.db.lag import LAG
from daemon.db.pool import Database
from daemon.db.presence import ALIVE, silence

LARGEST = 6
LETTERS = 8
# From one topic to the next by the two indexes of the queue.
_NEXT = """least(
    (select j.topic from memoryd.jobs j where j.lane is null and j.topic > {0} order by j.topic limit 1),
    (select j.topic from memoryd.jobs j where j.lane is not null and j.topic > {0} order by j.topic limit 1))"""
TOPICS = f"""
with recursive named(topic) as (
    select {_NEXT.format("''")}
    union all
    select {_NEXT.format("n.topic")} from named n where n.topic is not null
), dead(topic) as (
    (select d.topic from memoryd.dead_letters d order by d.topic limit 1)
    union all
    select (select d.topic from memoryd.dead_letters d where d.topic > n.topic order by d.topic limit 1)
    from dead n
    where n.topic is not null
)
select topic from named where topic is not null
union
select topic from dead where topic is not null
"""  # noqa: S608 - a constant of ours
READ = f"""
select json_build_object(
    'name', current_database(),
    'postgres', current_setting('server_version'),
    'connections', (select sum(numbackends) from pg_stat_database),
    'connections_most', current_setting('max_connections')::integer,
    'daemons', (
        select coalesce(json_agg(json_build_object(
            'host', d.host, 'pid', d.pid, 'version', d.version, 'wake_up', d.wake_up,
            'started_at', d.started_at, 'seen_at', d.seen_at, 'failing', d.failing, 'alive', {ALIVE})
            order by d.started_at, d.id), '[]')
        from memoryd.daemons d),
    'jobs', (select coalesce(json_agg(json_build_array(d.topic, d.state, d.jobs)), '[]')
             from ({DEPTH.replace("$1", "$2")}) d),
    'lag', (select coalesce(json_object_agg(l.topic, l.seconds), '{{}}') from ({LAG.replace("$1", "$2")}) l),
    'dead', (select coalesce(json_object_agg(t.topic, d.letters), '{{}}')
             from unnest($2::text[]) as t(topic)
             cross join lateral (
                 select count(*) as letters
                 from (select from memoryd.dead_letters d where d.topic = t.topic limit {EXACT}) d) d
             where d.letters > 0),
    'dream', (
        select json_build_object('id', d.id, 'status', d.status, 'started_by', d.started_by, 'started_at', d.started_at,
                                 'memories_scanned', d.memories_scanned, 'insights_generated', d.insights_generated)
        from (select * from public.dream_sessions r where r.status = 'running'
              union all
              (select * from public.dream_sessions c where c.status = 'completed' order by c.finished_at desc limit 1)) d
        order by d.started_at desc limit 1),
    'bytes', pg_database_size(current_database()),
    'bytes_a_day', (
        select (pg_database_size(current_database()) - s.bytes) / (extract(epoch from now() - s.measured_at) / 86400)
        from memoryd.daily_sizes s
        where s.measured_at between now() - interval '30 days' and now() - interval '1 day'
        order by s.day limit 1),
    'largest', (
        select json_agg(json_build_array(t.name, t.bytes) order by t.bytes desc)
        from (select c.relname as name, pg_total_relation_size(c.oid) as bytes from pg_class c
              where c.relkind = 'r' and c.relnamespace in ('public'::regnamespace, 'memoryd'::regnamespace)
              order by 2 desc limit {LARGEST}) t),
    'rows', (select json_agg(json_build_array(s.name, {ESTIMATED_ROWS}) order by s.name)
             from memoryd.sources() s
             join pg_class c on c.oid = to_regclass('public.' || quote_ident(s.table_name))),
    'anchors', (select t.size from memoryd.trail t),
    'letters', (
        select coalesce(json_agg(json_build_object(
            'id', l.id, 'topic', l.topic, 'attempts', l.attempts, 'died_at', l.died_at, 'error', left(l.error, 600))), '[]')
        from (select * from unnest($2::text[]) as t(topic)
              cross join lateral (
                  select d.id, d.attempts, d.died_at, d.error from memoryd.dead_letters d
                  where d.topic = t.topic order by d.died_at desc limit {LETTERS}) d
              order by d.died_at desc, d.id limit {LETTERS}) l)
)
"""  # noqa: S608 - a constant of ours
# Of one user: each source up to so many rows.
MOST_COUNTED = 1000
OWN = """
select source, rows
from (values
    ('memory', (select count(*) from (select from public.agent_memory t where t.user_id = $1 limit $2) t)),
    ('conversation', (select count(*) from (select from public.conversation_sessions t where t.user_id = $1 limit $2) t)),
    ('message', (select count(*) from (select from public.conversation_messages t where t.user_id = $1 limit $2) t)),
    ('document', (select count(*) from (select from public.documents t where t.user_id = $1 limit $2) t)),
    ('insight', (select count(*) from (select from public.dream_insights t where t.user_id = $1 limit $2) t))
) as counted(source, rows)
"""


async def read_now(database: Database, heartbeat_seconds: float) -> dict[str, Any]:
    """This moment; `topics`: those with jobs or dead letters, by name."""
    async with database.connection() as connection:
        topics = [row["topic"] for row in await connection.fetch(TOPICS)]
        said: dict[str, Any] = json.loads(
            await connection.fetchval(READ, silence(heartbeat_seconds), sorted(topics))
        )
    states: dict[str, dict[str, int]] = {topic: {} for topic in sorted(topics)}
    for topic, state, jobs in said.pop("jobs"):
        states[topic][state] = int(jobs)
    said["queue"] = states
    return said
