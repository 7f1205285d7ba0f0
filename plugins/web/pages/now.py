"""Now: the state of memoryd, read again every five seconds while the page is open.

The page is for the operator: an end user begins with their memories.

Promise: a few milliseconds, also with a million memories and a million jobs: no growing table is read whole. Numbers of rows
are estimates from the server's statistics. The doctor runs in a process of its own, so that no model is loaded here and no page
waits; for all readers together at most once in `PAUSE_SECONDS`.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from datetime import datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from daemon.activity import BYTES_A_DAY
from daemon.presence import ALIVE, silence
from daemon.queue.backlog import ESTIMATED_ROWS
from daemon.queue.queue import requeue
from plugins.operate.metrics.reading import QUEUE
from plugins.web.background import Background
from plugins.web.forms import BadValueError, text_in
from plugins.web.render import page
from plugins.web.viewer import Viewer, reading, rows_found
from plugins.web.web import Web, viewer_of, web_of

PAUSE_SECONDS = 30.0
STALE_SECONDS = 600.0
"""After this time an open page starts the doctor again: some checks read whole tables."""
PATIENCE_SECONDS = 120.0
# -P: the working folder may have a folder `memoryd` that is not ours.
COMMAND = (sys.executable, "-P", "-m", "memoryd", "doctor", "--json")
STEPS, STEP_MINUTES = 96, 15
"""Of the plot: one day."""
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
        from memoryd.daemons d),{QUEUE.replace("$1", "$2")},
    'dream', (
        select json_build_object('id', d.id, 'status', d.status, 'started_by', d.started_by, 'started_at', d.started_at,
                                 'memories_scanned', d.memories_scanned, 'insights_generated', d.insights_generated)
        from (select * from public.dream_sessions r where r.status = 'running'
              union all
              (select * from public.dream_sessions c where c.status = 'completed' order by c.finished_at desc limit 1)) d
        order by d.started_at desc limit 1),
    'bytes', pg_database_size(current_database()),
    'bytes_a_day', ({BYTES_A_DAY}),
    'largest', (
        select json_agg(json_build_array(t.name, t.bytes) order by t.bytes desc)
        from (select c.relname as name, pg_total_relation_size(c.oid) as bytes from pg_class c
              where c.relkind = 'r' and c.relnamespace in ('public'::regnamespace, 'memoryd'::regnamespace)
              order by 2 desc limit {LARGEST}) t),
    'rows', (select json_agg(json_build_array(s.name, {ESTIMATED_ROWS}) order by s.name)
             from (select s.name, s.table_name from memoryd.sources() s union all select 'task', 'agent_commands') s
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
# The last day in steps of a quarter of an hour; `waiting` is the maximum of each step.
ACTIVITY = f"""
select coalesce(json_agg(json_build_array(s.step, s.done, s.failed, s.waiting)), '[]')
from (
    select floor(extract(epoch from m.began_at - $1) / 60 / {STEP_MINUTES})::integer as step,
           sum(m.done) as done, sum(m.failed) as failed, max(m.waiting) as waiting
    from (select a.began_at, sum(a.done) as done, sum(a.failed) as failed, sum(a.waiting) as waiting
          from memoryd.activity a where a.began_at >= $1 and a.began_at < now() group by a.began_at) m
    group by 1) s
"""  # noqa: S608 - a constant of ours
SINCE = f"""
select date_bin('{STEP_MINUTES} minutes', now(), 'epoch') - interval '{STEP_MINUTES} minutes' * {STEPS - 1}
"""
COUNTED = 2000
"""Rows of the last day that are counted of each table: the newest."""
LATELY = " union all ".join(
    f"select '{what}' as what, n.how, count(*) as rows, max(n.time) as newest from (select {how} as how, r.{time} as time "  # noqa: S608
    f"from {table} r where r.{time}{zone} > (now() - interval '1 day'){zone} order by r.{time}{zone} desc "
    f"limit {COUNTED}) n group by n.how"
    for what, table, time, how, zone in (
        ("memory", "public.agent_memory", "created_at", "r.kind", " at time zone 'utc'"),
        ("conversation", "public.conversation_messages", "created_at", "r.role", ""),
        ("document", "public.documents", "updated_at", "r.status", ""),
        (
            "knowledge",
            "(select * from public.shared_knowledge k where k.status <> 'archived')",
            "updated_at",
            "r.tier",
            "",
        ),
        ("insight", "public.dream_insights", "generated_at", "r.category", ""),
        ("task", "public.agent_commands", "created_at", "r.status", ""),
    )
)
# Tasks that wait for who does them, and those that somebody does; until then a task is a job of memoryd.
TASKS = f"""
select count(*) filter (where t.status = 'ready') as ready,
       extract(epoch from now() - min(t.asked_at)) as waits, count(*) filter (where t.status = 'running') as running,
       extract(epoch from now() - min(t.started_at)) as longest
from ((select c.status, null::timestamptz as started_at, c.created_at as asked_at
       from public.agent_commands c where c.status = 'ready' limit {COUNTED})
      union all
      (select c.status, c.started_at, null from public.agent_commands c where c.status = 'running'
       order by c.started_at limit {COUNTED})) t
"""  # noqa: S608
SHOWN = (
    ("memory", "Memories", "/memories"),
    ("conversation", "Messages", "/conversations"),
    ("document", "Passages of documents", "/documents"),
    ("knowledge", "Knowledge", "/knowledge"),
    ("insight", "Insights", "/dreams/insights"),
    ("task", "Tasks", "/tasks"),
    ("anchors", "Anchors", "/trail"),
)
"""What the page counts, its name, and the page that shows it."""
JUDGED_AT_MOST = 2000
JUDGED = f"""
select count(*) as asked, count(q.useful) as judged, count(*) filter (where q.useful) as useful
from (select r.useful from public.memory_queries r where r.reason is null
      order by r.query_time desc limit {JUDGED_AT_MOST}) q
"""  # noqa: S608


async def overview(request: Request) -> Response:
    web = web_of(request)
    if web.user is not None:
        return RedirectResponse("/memories", status_code=303)
    return await _shown(request, web, "now/page.html")


async def live_part(request: Request) -> Response:
    return await _shown(request, _of_support(request), "now/live.html")


async def examine_again(request: Request) -> Response:
    refresh(_of_support(request), older_than=PAUSE_SECONDS)
    return RedirectResponse("/#doctor", status_code=303)


async def put_back(request: Request) -> Response:
    """Requeues dead letters: one, those of a topic, or all."""
    web, form = _of_support(request), request.state.form
    given, topic = form.get("id", ""), text_in(form, "topic", longest=200)
    if given and not (given.isascii() and given.isdigit() and len(given) < 19):
        raise BadValueError("id is the number of a dead letter: memoryd dead lists them.")
    if not given and topic is None and form.get("all") != "yes":
        raise BadValueError("Say which dead letters: one, those of a topic, or all.")
    back = await requeue(web.database, ids=[int(given)] if given else None, topic=topic)
    web.log.info("web_requeued", jobs=back)
    return RedirectResponse("/#dead", status_code=303)


def _of_support(request: Request) -> Web:
    web = web_of(request)
    if web.user is not None:
        raise BadValueError("This page is for the operator of memoryd.")
    return web


async def _shown(request: Request, web: Web, template: str) -> Response:
    refresh(web, older_than=STALE_SECONDS)
    now = await _read(web, viewer_of(request))
    for one in now["daemons"]:
        one["started_at"], one["seen_at"] = _time(one["started_at"]), _time(one["seen_at"])
    for one in now["letters"]:
        one["died_at"] = _time(one["died_at"])
    if now["dream"] is not None:
        now["dream"]["started_at"] = _time(now["dream"]["started_at"])
    return page(
        request,
        template,
        here=now,
        doctor=doctor_of(web),
        free=_free(web),
        minutes=STEP_MINUTES,
        steps=STEPS,
        shown=SHOWN,
        counted_most=COUNTED,
    )


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _free(web: Web) -> int | None:
    """Free bytes on the disk of the embedded server."""
    if web.settings.database_url is not None:
        return None
    try:
        return shutil.disk_usage(web.settings.data_dir).free
    except OSError:
        return None


async def _read(web: Web, viewer: Viewer) -> dict[str, Any]:
    """This moment, and the day before it; `queue`: the states of topics with jobs or dead letters, by name."""
    async with web.database.connection() as connection:
        topics = sorted(row["topic"] for row in await connection.fetch(TOPICS))
        said: dict[str, Any] = json.loads(await connection.fetchval(READ, silence(), topics))
        since = await connection.fetchval(SINCE)
        steps = json.loads(await connection.fetchval(ACTIVITY, since))
        said["judged"] = await connection.fetchrow(JUDGED)
    async with reading(web.database, viewer) as connection:
        lately = await rows_found(connection, viewer, LATELY)
        [said["tasks"]] = await rows_found(connection, viewer, TASKS)
    said["lately"] = {what: [row for row in lately if row["what"] == what] for what, _, _ in SHOWN}
    said["rows"] = {**dict(said["rows"] or ()), "anchors": said["anchors"]}
    states: dict[str, dict[str, int]] = {topic: {} for topic in topics}
    for topic, state, jobs in said.pop("jobs"):
        states[topic][state] = int(jobs)
    by_step = {step: counts for step, *counts in steps}
    day = [by_step.get(step, (0, 0, 0)) for step in range(STEPS)]
    series = zip(("jobs done", "attempts failed", "jobs waiting"), zip(*day, strict=True), strict=True)
    said["day"] = {"since": since, "series": [(name, [n or 0 for n in counts]) for name, counts in series]}
    said["queue"] = states
    return said


class NoAnswerError(Exception):
    """The doctor gave no output that can be shown; the message says why."""


def doctor_of(web: Web) -> Background[list[dict[str, Any]]]:
    """The doctor's work, with its last checks."""
    return Background.of(web.kept, "doctor", web.log)


def refresh(web: Web, *, older_than: float) -> None:
    """Starts the doctor, unless it began less than `older_than` seconds ago."""
    doctor = doctor_of(web)
    if doctor.age_seconds >= older_than:
        doctor.start(
            lambda: _examine(web.settings.database),
            lambda error: str(error) if isinstance(error, NoAnswerError) else None,
        )


async def _examine(database: str | None) -> list[dict[str, Any]]:
    environment = os.environ | ({} if database is None else {"MEMORYD_DATABASE": database})
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=environment,
    )
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            out, _ = await process.communicate()
    except TimeoutError:
        raise NoAnswerError(
            f"memoryd doctor has not ended within {PATIENCE_SECONDS:.0f} s. Run it in a terminal: it says where it is."
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    try:
        said = json.loads(out)
    except ValueError:
        raise NoAnswerError(
            f"memoryd doctor has ended with {process.returncode} and no output. Run it in a terminal."
        ) from None
    checks: list[dict[str, Any]] = said if isinstance(said, list) else said["checks"]
    order = {"problem": 0, "warning": 1}
    return sorted(checks, key=lambda check: order.get(check["verdict"], 2))


routes: list[Route] = [
    Route("/", overview),
    Route("/now/live", live_part),
    Route("/now/doctor", examine_again, methods=["POST"]),
    Route("/now/dead", put_back, methods=["POST"]),
]
