"""A database whose every text would run a script, if a page took it for anything but a text.

Each payload breaks out of a place where a page could put a text (an element, an attribute, a script, a comment), then runs.
Rows of payload `n` have ids that can be told: see `id_of`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from uuid import UUID

import asyncpg

MARK = "window.__xss=1"
BREAKS = (
    "",
    '">',
    "'>",
    "</textarea>",
    "</title></script>",
    "--></pre>",
    "]]></style></svg>",
    "`}}",
    '" ',
    "' ",
)
RUNS = (
    f"<script>{MARK}</script>",
    f"<img src=x onerror={MARK}>",
    f"<svg/onload={MARK}>",
    f"<svg><script href=data:,{MARK} />",
    "<iframe srcdoc='<script>parent.__xss=1</script>'>",
    f"<a href=javascript:{MARK}>go</a>",
    f"<form action=javascript:{MARK}><button>go</button>",
    f"<input autofocus onfocus={MARK} x=",
    f"<details open ontoggle={MARK}>",
    f"<body onpageshow={MARK}>",
    f"<object data='data:text/html,<script>{MARK}</script>'>",
    "<meta http-equiv=refresh content='0;url=http://evil.example/'>",
    "<base href='http://evil.example/'>",
    "<link rel=stylesheet href='http://evil.example/a.css'>",
    "<style>*{background:url(http://evil.example/)}</style>",
    f"<div hx-get=/memories hx-trigger=load hx-on::load={MARK} hx-vals='js:{{x:{MARK}}}'>",
    "{{ 7777*7777 }}{% for x in ().__class__.__base__.__subclasses__() %}{{ x }}{% endfor %}",
    f"onfocus={MARK} autofocus style=animation:x onanimationstart={MARK} x=",
    f"&lt;img src=x onerror={MARK}&gt;&#60;script&#62;{MARK}",
    f"javascript:{MARK}//%0a%3Cscript%3E${{{MARK}}}",
)  # fmt: skip
PAYLOADS = tuple(before + run for before in BREAKS for run in RUNS)
FEW = (*PAYLOADS[:5], *PAYLOADS[-3:])
"""For a database in which each page has a row, and none has many."""
USER = UUID("00000000-0000-4000-8000-0000000005e0")

# t: the payload, n: its number from 0; name: as much of it as the name of an agent may have.
SEED = """
create temporary view hostile as
select n - 1 as n, t, left(t, 200) as name,
       jsonb_build_object(t, t, 'tags', array[t], 'title', t, 'url', t, 'project', t) as json,
       now() - make_interval(mins => n::int) as at
from json_array_elements_text($j$%(payloads)s$j$) with ordinality as p(t, n);

create function pg_temp.id(what text, n bigint) returns uuid immutable return md5(what || ' ' || n)::uuid;

insert into agents (agent_id, identity, disabled_reason) select name, t, t from hostile on conflict do nothing;
insert into chat_groups (id, platform, group_name, group_metadata) select pg_temp.id('group', n), t, t, json from hostile;
insert into chat_group_members (chat_id, user_id) select pg_temp.id('group', n), '%(user)s' from hostile;

insert into conversation_sessions (id, user_id, agent_id, chat_id, title, channel, created_at)
select pg_temp.id('session', n), '%(user)s', name, pg_temp.id('group', n), t, t, at from hostile;
insert into conversation_messages (id, session_id, user_id, agent_id, role, speaker, content, visibility_tags,
                                   metadata, created_at)
select pg_temp.id('message', n), pg_temp.id('session', n), '%(user)s', name, 'user', name, t, array[t], json, at
from hostile;

insert into agent_commands (id, agent_id, user_id, message, metadata, context, status, output, error, exit_code,
                            created_at, finished_at)
select pg_temp.id('command', n), name, '%(user)s', t, json, t, 'failed', t, t, 1, at, at from hostile;

insert into agent_memory (id, agent_id, user_id, kind, key, content, metadata, source, command_id, created_at)
select pg_temp.id('memory', n), name, '%(user)s', 'fact', name, t,
       json || jsonb_build_object('message_ids', array[pg_temp.id('message', n)]), t, pg_temp.id('command', n), at
from hostile;
update agent_memory set superseded_by = pg_temp.id('memory', 0), valid_to = now() where id = pg_temp.id('memory', 1);
insert into memory_associations (memory_id, related_memory_id, association_type, strength)
select pg_temp.id('memory', 0), pg_temp.id('memory', n), 'related', 0.5 from hostile where n between 1 and 30;

insert into documents (id, user_id, title, source, document_type, content, metadata, drop_path, replica_path,
                       visibility_tags, status)
select pg_temp.id('document', n), '%(user)s', t, t, t, t, json, t, t, array[t], 'active' from hostile;
insert into memory_chunks (id, document_id, user_id, chunk_index, chunk_text, context, metadata, visibility_tags,
                           headings, situation)
select pg_temp.id('chunk', n), pg_temp.id('document', n), '%(user)s', 1000, t, t, json, array[t], array[t], t
from hostile;

insert into shared_knowledge (id, tier, category, title, content, created_by, created_by_name, source, tags,
                              decision_context, outcome)
select pg_temp.id('knowledge', n), 'core', t, t, t, t, t, t, array[t],
       jsonb_build_object('reasoning', t, 'alternatives', array[t], 'assumptions', array[t], 'kill_criteria', t),
       jsonb_build_object('result', t, 'notes', t, 'success', true)
from hostile;

insert into dream_sessions (id, started_by, status, started_at, finished_at)
select pg_temp.id('dream', n), 'manual', 'completed', at - interval '1 minute', at from hostile;
insert into dream_insights (id, dream_id, agent_id, user_id, generated_at, insight, source_memories, category, confidence,
                            topic, written_by)
select pg_temp.id('insight', n), pg_temp.id('dream', n), name, '%(user)s', at, t, array[pg_temp.id('memory', n)], 'pattern',
       0.5, array[t], t
from hostile;

insert into memory_anchors (id, memory_id, agent_id, category, payload)
select pg_temp.id('anchor', n), pg_temp.id('memory', n), name, 'decision', json from hostile;

insert into memory_queries (id, agent_id, user_id, command_id, task_keywords, retrieved_memory_ids, relevance_scores,
                            patterns, reason)
select pg_temp.id('query', n), name, '%(user)s', pg_temp.id('command', n), array[t], array[pg_temp.id('memory', n)],
       array[0.5], array[t], name
from hostile;
insert into memory_requests (id, kind, agent_id, user_id, query, status, error)
select pg_temp.id('request', n), 'context', name, '%(user)s', t, 'failed', t from hostile;

insert into agent_sessions (id, user_id, agent_id, current_step, completed_steps, error_message, session_data)
select pg_temp.id('run', n), '%(user)s', name, t, array[t], t, json from hostile;
insert into agent_execution_logs (id, session_id, user_id, agent_id, step_name, tool_name, action_type, input_data, output_data,
                                  reasoning, error_message)
select pg_temp.id('step', n), pg_temp.id('run', n), '%(user)s', name, t, t, 'error', json, json, t, t from hostile;
"""

PLAIN = """
insert into agent_memory (agent_id, kind, content, created_at)
select 'plain', 'note', 'plain ' || n, now() - make_interval(days => n) from generate_series(1, 50) n
"""


def id_of(what: str, n: int = 0) -> UUID:
    """The id of the row of payload `n` in a table: memory, session, message, document, chunk, knowledge, dream and so on."""
    return UUID(hashlib.md5(f"{what} {n}".encode(), usedforsecurity=False).hexdigest())


async def write_hostile_rows(connection: asyncpg.Connection, payloads: Sequence[str] = PAYLOADS) -> None:
    """A row for each payload in each table that people see, with the payload in each of its texts."""
    await connection.execute(SEED % {"payloads": json.dumps(payloads), "user": USER})


async def write_few_rows(connection: asyncpg.Connection) -> None:
    """Hostile rows, few of them, and plain ones by which the list of memories goes on to a second page."""
    await write_hostile_rows(connection, FEW)
    await connection.execute(PLAIN)
