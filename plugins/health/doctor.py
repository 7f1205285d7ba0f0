"""The doctor: examines one by one the faults that memoryd's surroundings may have.

Promise: it changes nothing, and one thing that is wrong does not keep it from looking at the others.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator

import asyncpg

from daemon.cli.common import embedder_of, language_model_of
from daemon.db.administrator import read_missing_rights
from daemon.db.catalog import changed_since
from daemon.db.foreign import (
    describe_obstacles,
    postgres_names,
    read_lookalikes,
    read_obstacles,
    read_overloads,
    read_pasted,
)
from daemon.db.migration_files import load_files, load_migrations, tables_of
from daemon.db.plan import read_applied, read_ledger, schema_trouble
from daemon.db.pool import MOST_CONNECTIONS, connected
from daemon.db.server import READ as READ_STANDBY
from daemon.db.server import SERVER, Standby, hears_notifications
from daemon.db.settings import Models, model_of, read_models
from daemon.plugins import Check, Examination, load_plugins, split_advice
from daemon.settings import Settings
from handlers.dream.dreamer import OVERDUE_HOURS, WINDOW_HOURS
from handlers.dream.lease import DUE, DreamTimes
from plugins.health import access_checks, checks
from plugins.health.access_checks import Facts
from plugins.health.status import Status, read_status
from providers.build import LOCAL
from providers.ports import RejectionError, UnavailableError

# It reads only the catalogs, so it works on any database, for any role.
READ_SERVER = f"""
select json_build_object(
    {SERVER},
    'standby', {READ_STANDBY},
    'vector_available', (select default_version from pg_available_extensions where name = 'vector'),
    'creates_roles', (select rolsuper or rolcreaterole from pg_roles where rolname = current_user),
    'role', current_user,
    'roles', (select coalesce(json_agg(rolname), '[]')
              from pg_roles where rolname in ('memoryd_service', 'memoryd_user', 'memoryd_admin')),
    'member', (select pg_has_role(current_user, oid, 'usage')
               from pg_roles where rolname = 'memoryd_service'),
    'owner', (select json_build_object('name', pg_get_userbyid(nspowner),
                                       'mine', pg_has_role(current_user, nspowner, 'usage'))
              from pg_namespace where nspname = 'memoryd'),
    'has_schema', exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
                          where n.nspname = 'memoryd' and c.relname = 'migrations'),
    'open_tables', (select coalesce(json_agg(t.name order by t.name), '[]') from unnest($1::text[]) as t(name)
                    where not exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
                                      where n.nspname = 'public' and c.relname = t.name
                                        and c.relrowsecurity and c.relforcerowsecurity)),
    'open_schemas', (select coalesce(json_agg(n.nspname order by n.nspname), '[]') from pg_namespace n
                     where (n.nspname = 'public'
                            or n.oid = (select extnamespace from pg_extension where extname = 'vector'))
                       and has_schema_privilege((select oid from pg_roles where rolname = 'memoryd_user'), n.oid, 'create')),
    'wide_rights', (select coalesce(json_agg(w order by w.role), '[]') from (
                        select case a.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end as role,
                               array_agg(distinct c.relname::text order by c.relname::text) as tables
                        from pg_class c
                        join pg_namespace n on n.oid = c.relnamespace
                        cross join lateral aclexplode(c.relacl) a
                        where n.nspname = 'public' and c.relname = any($1::text[]) and a.grantee <> c.relowner
                          and a.privilege_type in ('INSERT', 'UPDATE', 'DELETE', 'TRUNCATE')
                          and not exists (select from pg_roles r join pg_roles s on s.rolname = 'memoryd_service'
                                          where r.oid = a.grantee and (r.rolsuper or pg_has_role(r.oid, s.oid, 'member')))
                        group by 1) w),
    'maximum', current_setting('max_connections')::integer
            - current_setting('superuser_reserved_connections')::integer
            - coalesce(current_setting('reserved_connections', true)::integer, 0),
    'limit', {MOST_CONNECTIONS},
    'used', (select sum(numbackends) from pg_stat_database),
    -- Of other roles only pg_read_all_stats shows it.
    'idle', (select json_build_object('pid', a.pid, 'user', a.usename,
                                      'seconds', extract(epoch from clock_timestamp() - a.state_change))
             from pg_stat_activity a
             where a.datname = current_database() and a.state like 'idle in transaction%'
             order by a.state_change limit 1),
    'notifications', pg_notification_queue_usage(),
    'fsync', current_setting('fsync') = 'on' and current_setting('full_page_writes') = 'on',
    'synchronous_commit', current_setting('synchronous_commit'),
    'log_min_messages', current_setting('log_min_messages'),
    'log_min_error_statement', current_setting('log_min_error_statement')
)
"""  # noqa: S608 - a constant of ours

# Behind a gateway no login inherits memoryd_user: PostgREST's authenticator takes the role for a request.
READ_LOGINS = """
select coalesce(json_agg(r.rolname order by r.rolname), '[]')
from pg_roles r
where r.rolcanlogin and not r.rolsuper
  and has_database_privilege(r.oid, current_database(), 'connect')
  and pg_has_role(r.oid, 'memoryd_user', 'usage') and not pg_has_role(r.oid, 'memoryd_service', 'usage')
  and not exists (select from memoryd.logins l where l.login = r.rolname)
"""


A_CENTURY = 100 * 365 * 86400.0

READ_LEFT = "select part, statement from memoryd.parts_to_join()"

READ_SHARED = "select field, count(*) as rows from memoryd.shared_past_limits() group by field order by field"

READ_MEMORY = """
select json_build_object(
    'without_embedding', (select count(*) from memoryd.unindexed)
                         + (select count(distinct (e.scope, e.id)) from memoryd.entries e where e.code is null),
    'forgotten', (select count(*)
                  from (select u.id from memoryd.unindexed u
                        union
                        select e.id from memoryd.entries e where e.code is null) w
                  where not exists (select from memoryd.jobs j where j.topic = 'index' and j.ref = w.id)),
    -- Leased, or made to wait, for longer than any daemon does; or not leased, and not among those that may be.
    'stuck_lanes', (select count(*)
                    from (select j.topic, array_agg(distinct j.lane) as lanes
                          from memoryd.jobs j where j.lane is not null group by j.topic) t
                    cross join lateral unnest(t.lanes) as w(lane)
                    left join memoryd.lanes l on l.topic = t.topic and l.lane = w.lane
                    where greatest(l.leased_until, l.not_before) > now() + interval '1 day'
                       or coalesce(greatest(l.leased_until, l.not_before) <= now(), true)
                          and not exists (select from memoryd.jobs j
                                          where j.topic = t.topic and j.lane = w.lane and j.attempt >= j.snoozes
                                            and j.id = (select min(f.id) from memoryd.jobs f
                                                        where f.topic = t.topic and f.lane = w.lane))),
    'ready', (select count(*) from public.agent_commands c where c.status = 'ready'),
    'ready_seconds', (select extract(epoch from now() - min(c.created_at))
                      from public.agent_commands c where c.status = 'ready')
)
"""


# Overdue for a day by now: no daemon has begun the dream, or none has come to its end.
MISSED = DreamTimes(A_CENTURY, A_CENTURY, WINDOW_HOURS * 3600, (OVERDUE_HOURS + 24) * 3600)


async def examine(settings: Settings, url: str, *, free_bytes: int | None) -> AsyncIterator[Check]:
    """The checks, one by one. Raises OSError or asyncpg.PostgresError when the database cannot be reached."""
    # As behind a pooler: that works everywhere.
    async with connected(url, pooled=True) as connection:
        async with postgres_names(connection):
            found = await connection.fetchval(READ_SERVER, tables_of(load_migrations()))
        server: Facts = json.loads(found)
        yield checks.check_postgres(server)
        standby = None if server["standby"] is None else Standby(**server["standby"])
        if standby is not None:
            yield checks.check_standby(standby)
        lacking = await read_missing_rights(connection)
        server = {**server, "lacks": lacking.statements, "vector_mine": not lacking.has("create extension")}
        yield checks.check_vector(server)
        for check in access_checks.check_roles(server):
            yield check
        yield access_checks.check_administrator(server, lacking)
        status, memory, trouble = await _read_schema(connection, server)
        async for check in _check_schema(connection, server, status, trouble):
            yield check
        async with postgres_names(connection):
            models = Models() if memory is None else await read_models(connection)
        async for check in _check_embedder(settings, models):
            yield check
        if standby is None:
            # At a standby nobody can listen, and no daemon works.
            yield checks.check_wake_up(settings, heard=await hears_notifications(url))
        yield checks.check_connections(server, settings.pool_size)
        yield checks.check_transactions(server)
        yield checks.check_notifications(server)
        yield checks.check_durability(server)
        yield checks.check_log(server)
        yield checks.check_clock(await _clock_difference(connection))
        if status is not None and memory is not None:
            async for check in _check_work(connection, status, memory):
                yield checks.as_shown(check, standby)
            yield checks.check_size(status.size, free_bytes)
        examination = Examination(settings=settings, connection=None if memory is None else connection)
        async with postgres_names(connection):
            of_plugins = [check for plugin in load_plugins() async for check in plugin.checks(examination)]
        for check in of_plugins:
            yield checks.as_shown(check, standby)
        # A plugin that misses it says so instead.
        if all(check.name != LANGUAGE_MODEL for check in of_plugins):
            yield await _check_language_model(settings)


async def _check_schema(
    connection: asyncpg.Connection, server: Facts, status: Status | None, trouble: str | None
) -> AsyncIterator[Check]:
    """Who may do what in the schema, what of it is somebody else's, and whether it is whole."""
    if status is not None:
        yield access_checks.check_row_security(server)
        yield access_checks.check_schemas(server, await read_lookalikes(connection))
        yield access_checks.check_rights(server)
        async with postgres_names(connection):
            left = [dict(row) for row in await connection.fetch(READ_LEFT)]
            logins = json.loads(await connection.fetchval(READ_LOGINS))
            shared = await connection.fetch(READ_SHARED)
        yield access_checks.check_joined(left)
        yield access_checks.check_logins(logins)
        yield access_checks.check_shared({row["field"]: row["rows"] for row in shared})
    if server["has_schema"] and server["owner"]["mine"]:
        yield checks.check_overloads(await read_overloads(connection))
        yield checks.check_pasted(await read_pasted(connection))
    yield checks.check_schema(server, status, trouble)
    if status is not None:
        async with connection.transaction(readonly=True):
            changed = await changed_since(connection)
        yield checks.check_objects(changed)


async def _check_work(connection: asyncpg.Connection, status: Status, memory: Facts) -> AsyncIterator[Check]:
    yield checks.check_embeddings(memory)
    yield checks.check_daemons(status)
    yield checks.check_parts(status)
    yield checks.check_queue(status, memory)
    yield checks.check_commands(memory)
    async with postgres_names(connection):
        overdue = await connection.fetchval(DUE, *MISSED.arguments)
    yield checks.check_dreams(overdue=overdue)


async def _read_schema(
    connection: asyncpg.Connection, server: Facts
) -> tuple[Status | None, Facts | None, str | None]:
    """What only a whole schema tells to its owner; and what is wrong with it."""
    if not server["has_schema"]:
        found = await read_obstacles(connection, load_files())
        return None, None, describe_obstacles(found) if found else None
    if not server["owner"]["mine"]:
        return None, None, None
    async with postgres_names(connection):
        trouble = schema_trouble(await read_ledger(connection), await read_applied(connection))
    if trouble is not None:
        return None, None, trouble
    try:
        async with postgres_names(connection):
            status = await read_status(connection)
            return status, json.loads(await connection.fetchval(READ_MEMORY)), None
    except (
        asyncpg.UndefinedTableError,
        asyncpg.UndefinedColumnError,
        asyncpg.UndefinedFunctionError,
    ) as error:
        missing = f"Every migration was applied, and something is gone since: {error.args[0]}."
        return None, None, f"{missing} Restore it from a backup: memoryd migrate does not make it again"


async def _clock_difference(connection: asyncpg.Connection) -> float:
    """Seconds by which the database's clock is ahead of this machine's."""
    before = time.time()
    theirs = float(await connection.fetchval("select extract(epoch from clock_timestamp())"))
    return theirs - (before + time.time()) / 2


LANGUAGE_MODEL = "language model"
BY_WORDS = (
    "recall(), build_context() and match_memory(query => ...) go by words: the database cannot ask this model. By meaning: "
    "the clients, ask_memory(), memory_requests, memoryd recall, or query_embedding."
)


async def _check_embedder(settings: Settings, models: Models) -> AsyncIterator[Check]:
    """Whether the embedder suits the database, and the one that a daemon would use answers for one word."""
    try:
        embedder = embedder_of(settings)
        if models.used is not None:
            asked = model_of(embedder)
            check = checks.check_model(
                asked, models, chosen=settings.embedder_chosen, instructed=settings.embedder_instructed
            )
            yield check
            if check.verdict != "problem" and asked != models.used:
                await embedder.close()
                embedder = embedder_of(settings, models.used)
    except (ValueError, RuntimeError) as error:
        yield Check("embedder", "problem", *split_advice(str(error)))
        return
    began = time.perf_counter()
    try:
        await embedder.embed(["memory"])
    except (UnavailableError, RejectionError) as error:
        advice = "Until it answers, memories are found only by words, and embedded later. Check its settings."
        yield Check("embedder", "problem", f"{embedder.name} does not answer: {error}", advice)
    else:
        took = (time.perf_counter() - began) * 1000
        yield Check("embedder", "ok", f"{embedder.name} answers in {took:.0f} ms.")
        if embedder.name != LOCAL:
            yield Check("questions", "ok", BY_WORDS)
    finally:
        await embedder.close()


async def _check_language_model(settings: Settings) -> Check:
    """Whether there is one. It is not called: that would cost money."""
    try:
        model = language_model_of(settings)
    except ValueError as error:
        return Check(LANGUAGE_MODEL, "problem", *split_advice(str(error)))
    if model is None:
        return Check(LANGUAGE_MODEL, "ok", "None is set: rules write the insights.")
    await model.close()
    return Check(LANGUAGE_MODEL, "ok", f"{model.name} is to write the insights (not called now).")
