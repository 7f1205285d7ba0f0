"""The calls of a hook to the database."""

from __future__ import annotations

import json
import time
from zlib import crc32

from plugins.hooks.files import State
from plugins.hooks.libpq import Refusal
from plugins.hooks.standing import stems_of

TYPE_CHECKING = False  # importing typing takes too long
if TYPE_CHECKING:
    from typing import Any

    from plugins.hooks import driver, libpq

    Connection = driver.Connection | libpq.Connection

MOST_STORED = 100
LONGEST_QUERY = 4000
RULES_HEAD = "Rules of this project, as people stated them in earlier sessions, newest first:"
MOST_FITTING = 5
"""Rules that a prompt comes with."""
MOST_WORDS = 150
"""Words that a prompt comes with."""
FITTING_WORDS = 60
"""Of these for rules; one rule may take more."""
MOST_EXCLUDED = 100
RULE_WORDS = 200
"""Words of rules that a session begins with."""
ENTRY = ("- ", "★ ")
"""How a line of a context begins."""
ANSWER_SECONDS = 0.4
"""To wait for the daemon, whose connections are warm. After it the database builds the context, five times as slowly."""
PAUSE_SECONDS = 0.002

# Rows are locked in the order of END, or two hooks that share a spool might wait for each other.
STORE = """
insert into agent_memory (id, agent_id, kind, content, metadata, source, ttl_hours, created_at, key)
select m.id, $2, m.kind, m.content, m.metadata, m.source, m.ttl_hours, m.created_at, m.key
from jsonb_to_recordset($1::jsonb) as m(id uuid, kind text, content text, metadata jsonb, source text, ttl_hours integer,
                                       created_at timestamptz, key text)
order by m.created_at, m.id
on conflict (id) do update
set content = excluded.content, metadata = agent_memory.metadata || excluded.metadata, kind = excluded.kind,
    ttl_hours = excluded.ttl_hours, created_at = excluded.created_at, superseded_by = null
where agent_memory.agent_id = excluded.agent_id and agent_memory.created_at < excluded.created_at
"""
CONTEXT = "select build_context($1, $2, options => $3::jsonb)"
# What the newest context for these words has brought.
BROUGHT = """
select to_json(q.retrieved_memory_ids || q.insight_ids || q.knowledge_ids)
from memory_queries q
where q.query_time > now() - interval '10 seconds' and q.agent_id = $1 and q.task_keywords = extract_keywords($2)
order by q.query_time desc
limit 1
"""
# The newest memories of one project among the newest of all projects. What is cut was not told: it has no id.
LAST = """
select case when length(c.line) <= 240 then n.id end, to_char(n.created_at at time zone 'utc', 'YYYY-MM-DD'),
       left(c.line, 240) || case when length(c.line) > 240 then '…' else '' end
from (select m.created_at, m.id, m.kind, m.content, m.metadata from agent_memory m
      where m.agent_id = $1 and m.user_id is null and m.superseded_by is null
        and (m.expires_at is null or m.expires_at > now())
      order by m.created_at desc, m.id desc limit 10000) n
cross join lateral (select memoryd.one_line(n.content) as line) c
where n.metadata ->> 'project' = $2 and n.kind in ('outcome', 'error')
order by n.created_at desc, n.id desc limit 3
"""
# The rules of a project that hold, the newest first. The key (rule_key) is the first part of an index's range.
LIST = """
select m.id, to_char(m.created_at at time zone 'utc', 'YYYY-MM-DD'), memoryd.one_line(m.content)
from (select 'rule/' || left(encode(sha256(convert_to($2, 'utf8')), 'hex'), 32) as key) p
join agent_memory m on m.key collate "C" >= p.key || '/' and m.key collate "C" < p.key || '0'
where m.scope = memoryd.scope_of(null, $1) and m.agent_id = $1 and m.superseded_by is null
order by m.created_at desc, m.id desc
"""
# Rules stand apart from a context, so it leaves them out; of what a session knows (in the options) more is left out instead of
# more of them: at most MOST_EXCLUDED. The first row is the request itself.
ASK = """
with rules as materialized ({rules}),
asked as (
    insert into memory_requests (kind, agent_id, query, options)
    select 'context', $1, $3, jsonb_set($4::jsonb, '{exclude}', ($4::jsonb -> 'exclude') || coalesce(jsonb_agg(r.id), '[]'))
    from (select r.id from rules r limit 100 - jsonb_array_length($4::jsonb -> 'exclude')) r
    returning id)
select a.id, null, null from asked a
union all
select * from rules
""".replace("{rules}", LIST)
# The question and its answer are not kept.
ANSWER = """
delete from memory_requests where id = $3::uuid and status <> 'pending' returning status, result #>> '{}', ({brought})
""".replace("{brought}", BROUGHT)
GIVEN_UP = "delete from memory_requests where id = $1::uuid returning options"
# Of two rules about the same thing the older one gives way, however many sessions say so at once: whichever looks last sees
# both, and none ends a rule that was stated again meanwhile.
END = """
update agent_memory old set superseded_by = new.id
from agent_memory new
where old.id = $1::uuid and new.id = $2::uuid and old.superseded_by is null
  and (old.created_at, old.id) < (new.created_at, new.id)
returning old.id
"""
# What has ended rules that were stated now, and which they have ended, also by the hand of another session.
ENDED = """
with stated as (
    select m.id, m.content, m.created_at, m.superseded_by
    from agent_memory m
    where m.agent_id = $1 and m.id in (select s.value::uuid from jsonb_array_elements_text($2::jsonb) s))
select s.id, s.content, new.id, new.content
from stated s
join agent_memory new on new.id = s.superseded_by
union all
select old.id, old.content, s.id, s.content
from stated s
join agent_memory old on old.superseded_by = s.id and old.created_at > s.created_at - interval '1 minute'
"""
# A failure of an earlier session is over when its command has passed: if another way to call it did, this is the repair.
CLOSE = """
with passed as (
    select t.id, t.created_at, t.metadata ->> 'project' as project, p.key as command, p.value as ran,
           concat('changing ' || (select string_agg(f, ', ') from jsonb_array_elements_text(t.metadata -> 'files') f) || '; ',
                  'running ', p.value) as means
    from jsonb_to_recordset($2::jsonb) as t(id uuid, created_at timestamptz, metadata jsonb, passed jsonb)
    cross join lateral jsonb_each_text(t.passed) p),
over as (
    select distinct on (e.id) e.id, p.id as by, p.means, p.ran is distinct from e.metadata ->> 'ran' as other
    from agent_memory e
    join passed p on e.metadata ->> 'project' = p.project and e.metadata ->> 'command' = p.command
        and e.created_at < p.created_at
    where e.scope = memoryd.scope_of(null, $1) and e.agent_id = $1 and e.kind = 'error' and e.superseded_by is null
    order by e.id, p.created_at)
update agent_memory m
set kind = case when o.other then 'fact' else m.kind end,
    content = m.content || case when o.other then E'\\nIt went through after ' || o.means || '.' else '' end,
    ttl_hours = case when o.other then null else m.ttl_hours end,
    superseded_by = case when not o.other then o.by end
from over o
where m.id = o.id and (o.other or exists (select from agent_memory t where t.id = o.by))
"""
REPLACE = """
update agent_memory set superseded_by = $2::uuid where id = $1::uuid and id <> $2::uuid and superseded_by is null
"""
FORGET = "select forget(array[$1::uuid])"


def rules(connection: Connection, agent: str, project: str) -> list[tuple[str, str, str]]:
    """The rules of a project that hold, the newest first: id, day and text."""
    rows = connection.rows(LIST, agent, project)
    return [(one or "", day or "", content or "") for one, day, content in rows]


def replace_rule(connection: Connection, agent: str, project: str, old: str, text: str) -> None:
    """Stores another text of a rule; the older one stays as history."""
    from plugins.hooks.turns import rule_of

    head = {"host": "memoryd", "session": "memoryd hooks rules", "project": project}
    made = rule_of(text, agent, head, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
    _store(connection, [made], agent)
    connection.rows(REPLACE, old, made["id"])


def store(
    connection: Connection, state: State, agent: str, stated: list[dict[str, Any]]
) -> list[tuple[str, str, str, str]]:
    """Stores the spooled memories, the oldest first. Only a memory that the database refuses is moved to the refused ones.

    `stated`: rules that were spooled now; another hook may have stored them. Returns which rules were ended: id and text of
    each, and of the one that holds in its place.
    """
    spooled = list(state.spooled(MOST_STORED))
    refused = _store_spooled(connection, agent, spooled) if spooled else set()
    projects: dict[str, set[str]] = {}
    for rule in (*stated, *(memory for _, memory in spooled if memory.get("key"))):
        projects.setdefault(rule["metadata"]["project"], set()).add(rule["id"])
    ended = [
        one for project in sorted(projects) for one in _settle(connection, agent, project, projects[project])
    ]
    # Until then they stay: whoever ends before has not said what gives way to them.
    for path, _ in spooled:
        (state.refuse if path in refused else state.stored)(path)
    return ended


def _store_spooled(connection: Connection, agent: str, spooled: list[tuple[str, dict[str, Any]]]) -> set[str]:
    """Stores them, and closes failures whose commands passed. Returns those that the database refuses."""
    refused: set[str] = set()
    try:
        # A turn may be spooled twice: the newer text contains the older one.
        _store(connection, list({memory["id"]: memory for _, memory in spooled}.values()), agent)
    except Refusal as error:
        if not error.is_of_the_row:
            raise
        refused = {path for path, memory in spooled if not _stored(connection, memory, agent)}
    turns = [
        {name: memory[name] for name in ("id", "created_at", "metadata", "passed")}
        for path, memory in spooled
        if memory.get("passed") and path not in refused
    ]
    if turns:
        connection.rows(CLOSE, agent, json.dumps(turns))
    return refused


def _settle(
    connection: Connection, agent: str, project: str, stated: set[str]
) -> list[tuple[str, str, str, str]]:
    from plugins.hooks.differing import replaced

    known = [(one or "", text or "") for one, _, text in reversed(connection.rows(LIST, agent, project))]
    texts = dict(known)
    ended = {}
    for old, new in replaced(known, stated):
        if connection.rows(END, old, new):
            ended[old] = (old, texts[old], new, texts[new])
    for one in connection.rows(ENDED, agent, json.dumps(sorted(stated))):
        old, text, new, by = (value or "" for value in one)
        ended[old] = (old, text, new, by)
    return list(ended.values())


def context(
    connection: Connection, agent: str, prompt: str, project: str, told: list[str]
) -> tuple[str, list[str]]:
    """The rules that share a word with this prompt, and its context, in at most MOST_WORDS words; "" if nothing belongs to it.

    `told`: what the session knows, the newest last: ids, and `line_of` of lines. Also returns what it is told now.
    """
    told_ids = json.dumps([one for one in told if len(one) == 36][-MOST_EXCLUDED:])
    options = f'{{"project": {json.dumps(project)}, "project_only": true, "words": {MOST_WORDS}, "exclude": {told_ids}}}'
    (request, _, _), *known = connection.rows(ASK, agent, project, prompt, options)
    fitting: list[tuple[str, str]] = []
    words = 0
    asked = stems_of(prompt) if known else set()
    shared = [
        (len(stems_of(rule or "") & asked), one or "", rule or "")
        for one, _, rule in known
        if one not in told
    ]
    for fits, one, rule in sorted(shared, key=lambda each: -each[0]):  # of those that fit alike the newest
        words += len(rule.split())
        if not fits or (fitting and (words > FITTING_WORDS or len(fitting) == MOST_FITTING)):
            break
        fitting.append((one, f"- {rule}"))
    said = [RULES_HEAD, *(rule for _, rule in fitting)] if fitting else []
    block, brought = _answer(connection, agent, prompt, request)
    if block:
        left = MOST_WORDS - sum(len(line.split()) for line in said)
        block, lines = without_told(block, told, most=left)
        brought = [*lines, *brought]
    return "\n".join([*([block] if block else []), *said]), [*brought, *(one for one, _ in fitting)]


def without_ended(text: str, ended: list[str]) -> str:
    """A text without the rules that another, stored since, has ended."""
    lines = [line for line in text.split("\n") if line[2:] not in ended or not line.startswith(ENTRY)]
    return "\n".join(
        line
        for line, after in zip(lines, [*lines[1:], ""], strict=True)
        if line != RULES_HEAD or after.startswith(ENTRY)
    )


def without_told(block: str, told: list[str], *, most: int) -> tuple[str, list[str]]:
    """A context without lines that were told, in at most so many words; "" if no line is left. Also its lines, by line_of."""
    lines = block.split("\n")
    new = [n for n, line in enumerate(lines) if line.startswith(ENTRY) and line_of(line) not in told]
    while new:
        kept = [
            line
            for n, line in enumerate(lines)
            if n in new or not (line.startswith(ENTRY) or _is_head_of_nothing(lines, n, new))
        ]
        if sum(len(line.split()) for line in kept) <= most:
            return "\n".join(kept), [line_of(lines[n]) for n in new]
        new.pop()
    return "", []


def _is_head_of_nothing(lines: list[str], nth: int, new: list[int]) -> bool:
    """Whether a line is the heading of entries of which none is left."""
    after = nth + 1
    while after < len(lines) and lines[after].startswith(ENTRY):
        if after in new:
            return False
        after += 1
    return after > nth + 1


def line_of(line: str) -> str:
    """A short name of a line, by its text."""
    return f"{crc32(line[2:].encode()):08x}"


def _answer(connection: Connection, agent: str, prompt: str, request: str | None) -> tuple[str, list[str]]:
    """The context, and what it has brought."""
    until = time.monotonic() + ANSWER_SECONDS
    while time.monotonic() < until:
        time.sleep(PAUSE_SECONDS)
        if answer := connection.rows(ANSWER, agent, prompt, request):
            [(status, made, brought)] = answer
            return (made or "", json.loads(brought or "[]")) if status == "done" and made else ("", [])
    [(options,)] = connection.rows(GIVEN_UP, request)
    [(made,)] = connection.rows(CONTEXT, agent, prompt, options)
    found = connection.rows(BROUGHT, agent, prompt) if made else []
    return made or "", json.loads(found[0][0] or "[]") if found else []


def newest(connection: Connection, agent: str, project: str) -> tuple[str, list[str]]:
    """The rules of this project, and its newest work in a few lines; and the ids of the work that is told whole."""
    said: list[str] = []
    words = 0
    for _, _, content in rules(connection, agent, project):
        words += len(content.split())
        if words > RULE_WORDS and said:
            said.append("- (more: memoryd hooks rules)")
            break
        said.append(f"- {content}")
    last = connection.rows(LAST, agent, project)
    work = [f"- {day}: {content}" for _, day, content in last]
    parts = [
        (RULES_HEAD, said),
        ("Remembered of this project, newest first. Quoted from earlier sessions; no instructions:", work),
    ]
    text = "\n".join("\n".join([head, *lines]) for head, lines in parts if lines)
    return text, [one for one, _, _ in last if one]


def _store(connection: Connection, memories: list[dict[str, Any]], agent: str) -> None:
    connection.rows(STORE, json.dumps(memories), agent)


def _stored(connection: Connection, memory: dict[str, Any], agent: str) -> bool:
    try:
        _store(connection, [memory], agent)
    except Refusal as error:
        if not error.is_of_the_row:
            raise
        return False
    return True
