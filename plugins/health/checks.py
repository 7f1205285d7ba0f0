"""The doctor's checks of server and database; for rights see `access_checks.py`.

Promise: pure functions from facts to findings; every finding that is not ok says what to do about it. `problem` means that
memoryd does not work, or that something is not done until a person does something; `warning`, that it works less well than it
could.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from daemon.db.catalog import OF_TABLES
from daemon.db.foreign import ForeignObject, Overload, advise_on_overloads, describe_overloads
from daemon.db.pool import OTHER_CONNECTIONS
from daemon.db.server import Standby, fault_of, fault_of_vector
from daemon.db.settings import Model, Models, is_like
from daemon.plugins import Check, split_advice
from daemon.queue.backlog import LAG_SECONDS
from daemon.settings import Settings
from plugins.health.access_checks import BELOW, Facts
from plugins.health.status import Size, Status

CLOCK_SECONDS = 2.0
READY_SECONDS = 3600.0
BEHIND_SECONDS = 60.0
"""Of a standby."""
FULL_DAYS = 30
IDLE_SECONDS = 60.0
NO_WARNINGS = ("error", "log", "fatal", "panic")
"""Values of log_min_messages that keep warnings out of the server's log."""
FULL_QUEUE = 0.1
"""Share of the server's notification queue. From 0.5 on memoryd sends no notification: a full queue would fail inserts."""
NO_ROOM_BYTES, LITTLE_ROOM_BYTES = 100_000_000, 1_000_000_000

# --- The server.


SHOWN = 12
"""Of many that are alike."""


def check_postgres(server: Facts) -> Check:
    """Version and settings of the server, encoding of the database."""
    if (fault := fault_of(server)) is not None:
        return Check("postgres", "problem", *split_advice(fault))
    if server["folds"] is False:
        found = "LC_CTYPE of this database is C: by words, BRÜCKE is not found for Brücke."
        advice = "For texts beyond ASCII: memoryd backup, and restore into one made with: template template0 locale 'C.UTF-8'"
        return Check("postgres", "warning", found, advice)
    return Check("postgres", "ok", f"Postgres {server['version']}.")


def check_standby(standby: Standby) -> Check:
    """Whether a standby shows what the primary has now."""
    found = f"This is {standby}."
    if (standby.behind_seconds or 0.0) <= BEHIND_SECONDS:
        return Check("standby", "ok", found)
    advice = (
        "Its log says why: is the primary up, and does primary_conninfo lead there? "
        "If a long query here holds the replay up: max_standby_streaming_delay"
    )
    return Check("standby", "warning", found, advice)


def as_shown(check: Check, standby: Standby | None) -> Check:
    """A finding about the daemons' work: a standby may show an old problem, and only the primary can be mended."""
    if standby is None or check.verdict == "ok":
        return check
    return replace(
        check, verdict="warning", advice="Ask the primary, whose daemons do the work: memoryd doctor"
    )


def check_vector(server: Facts) -> Check:
    """Extension pgvector: there, and new enough."""
    vector = server["vector"]
    available = server["vector_available"]
    if vector is None and available is None:
        advice = "Install it on the server (Debian: postgresql-18-pgvector; managed services have it ready)."
        return Check("pgvector", "problem", "This Postgres has no pgvector.", advice)
    if vector is None:
        found = f"pgvector {available} is there, but not created in this database."
        return Check("pgvector", "problem", found, "Run: memoryd migrate" if server["vector_mine"] else BELOW)
    if (fault := fault_of_vector(server)) is not None:
        return Check("pgvector", "problem", *split_advice(fault))
    return Check("pgvector", "ok", f"pgvector {vector['version']} in schema {vector['schema']}.")


def check_connections(server: Facts, pool_size: int) -> Check:
    """Whether a daemon finds the connections that it may take."""
    free, wants = server["maximum"] - int(server["used"]), pool_size + OTHER_CONNECTIONS
    if (limit := server.get("limit")) is not None and limit < wants:
        found = f"Role or database allow {limit} connections; a daemon takes up to {wants} where it may."
        advice = "Raise the limit (alter role, or alter database, ... connection limit), or lower MEMORYD_POOL_SIZE."
        return Check("connections", "warning", found, advice)
    found = f"{max(0, free)} of {server['maximum']} connections are free; a daemon takes up to {wants}."
    if free >= wants:
        return Check("connections", "ok", found)
    return Check("connections", "warning", found, "Lower MEMORYD_POOL_SIZE, or raise max_connections.")


def check_transactions(server: Facts) -> Check:
    """Transactions that were begun and are left open."""
    idle = server["idle"]
    if idle is None:
        return Check("transactions", "ok", "No transaction that this role can see stands idle.")
    found = (
        f"The transaction of {idle['user']}, pid {idle['pid']}, has stood idle for {idle['seconds']:.0f} s."
    )
    if idle["seconds"] < IDLE_SECONDS:
        return Check("transactions", "ok", found)
    advice = (
        "Work on rows that it has locked waits, and the queue's dead rows stay: commit it, or "
        f"select pg_terminate_backend({idle['pid']}). To prevent the next one: "
        "alter database ... set idle_in_transaction_session_timeout = '1min'"
    )
    return Check("transactions", "warning", found, advice)


def check_notifications(server: Facts) -> Check:
    """Whether the queue of NOTIFY, which all databases of the server share, has room."""
    used = float(server["notifications"])
    found = f"The server's notification queue is {used:.0%} full."
    if used < FULL_QUEUE:
        return Check("notifications", "ok", found)
    advice = (
        "From 50% on only the poll (MEMORYD_POLL_SECONDS) finds work, and clients get no notification. A session that LISTENs "
        "is in a transaction: "
        "select pid, usename, xact_start from pg_stat_activity where xact_start is not null order by xact_start"
    )
    return Check("notifications", "warning", found, advice)


def check_durability(server: Facts) -> Check:
    """Whether a committed memory survives a power cut."""
    commit = server["synchronous_commit"]
    if not server["fsync"]:
        found = "fsync or full_page_writes is off: a power cut can destroy the whole database."
        return Check("durability", "warning", found, "Turn both on, unless losing everything is fine.")
    if commit == "off":
        found = "synchronous_commit is off: a crash can lose the last second of commits, but breaks nothing."
        return Check("durability", "warning", found, "Turn it on, unless that second does not matter.")
    return Check("durability", "ok", f"fsync is on, synchronous_commit is {commit}.")


def check_log(server: Facts) -> Check:
    """Whether the server's log keeps what memoryd puts on record there."""
    level = server["log_min_messages"]
    # The line is of level LOG where no statement is written beside it, else a warning: see memoryd.log_audit().
    hiding = ("fatal", "panic") if server["log_min_error_statement"] in ("fatal", "panic") else NO_WARNINGS
    if level not in hiding:
        return Check("log", "ok", "The server's log takes what no table can: reads that may write nothing.")
    found = (
        f"log_min_messages is {level}: reads of support that are rolled back leave no line, and read-only reads "
        "for a user are refused."
    )
    advice = "Set log_min_messages = warning, or log_min_messages = log and log_min_error_statement = panic."
    return Check("log", "warning", found, advice)


def check_clock(difference: float) -> Check:
    """The clock of this machine against the database's, in seconds (positive: the database is ahead)."""
    found = f"This machine and the database differ by {abs(difference):.1f} s."
    if abs(difference) < CLOCK_SECONDS:
        return Check("clock", "ok", found)
    advice = "Only the database's clock counts, but logs will not match: synchronise both (NTP)."
    return Check("clock", "warning", found, advice)


def check_wake_up(settings: Settings, *, heard: bool) -> Check:
    """Whether LISTEN works, or there is a transaction pooler."""
    if heard:
        if settings.pooler == "transaction":
            advice = "Unset MEMORYD_POOLER: work is then picked up in milliseconds."
            polls = (
                f"The daemon polls every {settings.poll_seconds:g} s as it is told, though LISTEN would work."
            )
            return Check("wake_up", "ok", polls, advice)
        return Check("wake_up", "ok", "Notifications are heard: no transaction pooler is in the way.")
    found = "Notifications do not arrive: DATABASE_URL leads through a transaction pooler"
    direct = (
        "give DATABASE_URL a direct or session connection (Supabase: port 5432) for pickup in milliseconds."
    )
    if settings.pooler == "transaction":
        return Check(
            "wake_up", "ok", f"{found}, as MEMORYD_POOLER says; polled every {settings.poll_seconds:g} s."
        )
    if settings.pooler == "direct":
        advice = f"Set MEMORYD_POOLER=transaction, or {direct}"
        return Check("wake_up", "problem", f"{found}, but MEMORYD_POOLER says direct.", advice)
    advice = f"Set MEMORYD_POOLER=transaction so that each start takes two seconds less, or {direct}"
    return Check("wake_up", "warning", f"{found}; polled every {settings.poll_seconds:g} s.", advice)


def check_disk(free_bytes: int) -> Check:
    """Room on the disk of the embedded server."""
    found = f"{free_bytes / 1e9:.1f} GB are free for memoryd's own Postgres."
    if free_bytes < NO_ROOM_BYTES:
        return Check("disk", "problem", found, "Make room: Postgres stops when it can write no more.")
    if free_bytes < LITTLE_ROOM_BYTES:
        return Check("disk", "warning", found, "Make room: Postgres may need as much for one load.")
    return Check("disk", "ok", found)


# --- What is in the database.


def check_schema(server: Facts, status: Status | None, trouble: str | None) -> Check:
    """The migrations; `trouble` is what schema_trouble says of them."""
    if not server["has_schema"] and trouble is None:
        found = "This database has no memoryd schema yet."
        return Check("schema", "problem", found, _how_to_migrate(server))
    if server["has_schema"] and not server["owner"]["mine"]:
        found = "Only the owner of schema memoryd sees whether it is up to date."
        return Check("schema", "warning", found, f"Give DATABASE_URL the user {server['owner']['name']}.")
    if trouble is not None:
        return Check("schema", "problem", *split_advice(trouble))
    return Check(
        "schema", "ok", f"Up to date{'' if status is None else f', version {status.schema_version}'}."
    )


def check_overloads(found: Sequence[Overload]) -> Check:
    """Whether functions of others have names of memoryd's public ones."""
    if not found:
        return Check("overloads", "ok", "Every function of a name of memoryd's is memoryd's.")
    return Check("overloads", "problem", describe_overloads(found), advise_on_overloads(found))


def check_pasted(found: Sequence[ForeignObject]) -> Check:
    """Whether policies or triggers of a design stand on memoryd's tables."""
    if not found:
        return Check("pasted", "ok", "No policy or trigger of a design has an effect on memoryd's tables.")
    names = "; ".join(one.thing for one in found)
    mends = "; ".join(one.mend for one in found)
    said = f"Of a design, beside memoryd's own, which do the same: {names}."
    return Check("pasted", "warning", said, f"memoryd migrate --repair does this: {mends}")


def _how_to_migrate(server: Facts) -> str:
    """The steps before `memoryd migrate` can help."""
    if check_postgres(server).verdict != "ok":
        return "Mend first what stands under postgres, above. Then run: memoryd migrate"
    if server["vector"] is None and server["vector_available"] is None:
        return "Install pgvector first, as said above. Then run: memoryd migrate"
    if server["lacks"]:
        return "An administrator runs what stands under administrator, above. Then run: memoryd migrate"
    return "Run: memoryd migrate"


def check_embeddings(memory: Facts) -> Check:
    """Rows that similarity cannot find yet."""
    count, forgotten = memory["without_embedding"], memory["forgotten"]
    if not count:
        return Check("embeddings", "ok", "Every row has its embedding.")
    if not forgotten:
        return Check("embeddings", "ok", f"{count:,} rows wait for their embedding.")
    advice = (
        "memoryd dead requeue --topic index; should that not be all of them: insert into memoryd.jobs (topic, ref, payload) "
        "select 'index', id, jsonb_build_object('source', source) from memoryd.unindexed"
    )
    found = f"Rows without an embedding and without a job that would bring it: {forgotten:,}."
    return Check("embeddings", "warning", found, advice)


def check_daemons(status: Status) -> Check:
    alive = sum(one.alive for one in status.daemons)
    dead = len(status.daemons) - alive
    gone = f" {dead} died without stopping." if dead else ""
    if alive:
        return Check("daemons", "ok", f"{alive} alive.{gone}")
    return Check("daemons", "problem", f"No daemon is running.{gone}", "Start one: memoryd run")


def check_parts(status: Status) -> Check:
    """Whether a part of a daemon that is alive fails again and again."""
    failing = [
        f"{part} of daemon {one.pid} on {one.host} ({error})"
        for one in status.daemons
        if one.alive
        for part, error in sorted(one.failing.items())
    ]
    if not failing:
        return Check("parts", "ok", "All parts of the daemons work.")
    found = f"Failed, and started again after a pause: {', '.join(failing)}."
    return Check("parts", "problem", found, "Report part_failed of the daemon's log, with error and at.")


def check_queue(status: Status, memory: Facts) -> Check:
    """Lanes that no daemon leases, dead letters, and jobs that wait for a worker."""
    if stuck := memory["stuck_lanes"]:
        advice = (
            "If a clock was wrong: update memoryd.lanes set leased_until = '-infinity', not_before = '-infinity'. "
            "Else see their first jobs: select distinct on (topic, lane) * from memoryd.jobs "
            "where lane is not null order by topic, lane, id"
        )
        return Check("queue", "problem", f"Lanes with work that no daemon can lease: {stuck:,}.", advice)
    if dead := sum(one.jobs for one in status.dead):
        advice = "See why: memoryd dead. When the cause is removed: memoryd dead requeue --all"
        return Check("queue", "problem", f"Dead letters: {dead:,}.", advice)
    if (status.lag_seconds or 0.0) > LAG_SECONDS:
        advice = "Start a daemon, or another one on another machine: memoryd run"
        return Check("queue", "problem", f"The oldest job has waited for {status.lag_seconds:.0f} s.", advice)
    if unserved := [one for one in status.queue if not one.served]:
        advice = "Install the plugin again and restart the daemon, or delete these rows of memoryd.jobs."
        return Check("queue", "warning", " ".join(map(str, unserved)), advice)
    return Check("queue", "ok", "There is no dead letter, and no job waits for long.")


def check_commands(memory: Facts) -> Check:
    """Whether executors come for the commands."""
    ready, seconds = memory["ready"], memory["ready_seconds"] or 0.0
    found = f"Commands that wait for an executor: {ready:,}"
    if seconds < READY_SECONDS:
        return Check("commands", "ok", f"{found}.")
    advice = (
        "Start an executor (claim_command), another one, or set MEMORYD_EXECUTOR_COMMAND. Cancel what nobody wants any more: "
        "update agent_commands set status = 'cancelled' where status = 'ready' and created_at < now() - interval '1 day'"
    )
    return Check("commands", "warning", f"{found}; the oldest for {seconds / 3600:.0f} hours.", advice)


def check_dreams(*, overdue: bool) -> Check:
    """Whether a dream comes to its end where there is something to dream about."""
    if not overdue:
        return Check("dreams", "ok", "No dream is overdue.")
    found = "There are new memories, and no dream has ended for two days."
    return Check(
        "dreams", "warning", found, "See dream_lost, dream_interrupted in the logs; try: memoryd dream"
    )


def check_size(size: Size, free_bytes: int | None) -> Check:
    """How big the database is, and how long its growth leaves room on the disk of the embedded server."""
    has = f"The database has {size.bytes / 1e6:,.1f} MB"
    if size.bytes_a_day is None:
        return Check("size", "ok", f"{has}.")
    found = f"{has}, and grew by {size.bytes_a_day / 1e6:,.1f} MB a day."
    days = free_bytes / size.bytes_a_day if free_bytes is not None and size.bytes_a_day > 0 else math.inf
    if days > FULL_DAYS:
        return Check("size", "ok", found)
    advice = "Make room, or keep less: see What goes by itself, and when, in docs/operations.md."
    return Check("size", "warning", f"{found} At this pace the disk is full in {days:.0f} days.", advice)


def check_objects(changed: Sequence[str]) -> Check:
    """Changes since the last upgrade: of tables, columns, functions, triggers, policies, rights."""
    if not changed:
        return Check(
            "objects", "ok", "Tables, functions, triggers, policies and rights are as memoryd made them."
        )
    shown = "; ".join(changed[:SHOWN])
    more = f"; and {len(changed) - SHOWN:,} more" if len(changed) > SHOWN else ""
    # Only a backup has the rows of what is gone.
    data = [one for one in changed if one.startswith(OF_TABLES)]
    return Check(
        "objects",
        "problem",
        f"{shown}{more}.",
        "Run: memoryd migrate --repair"
        + (
            f"; and restore from a backup, or make again yourself: {data[0].rpartition(' is ')[0]}"
            if data
            else ""
        ),
    )


def check_model(asked: Model, models: Models, *, chosen: bool, instructed: bool = False) -> Check:
    """Whether the settings name the model that the database is embedded by."""
    used = models.used
    if used is None or is_like(asked, used, instructed=instructed):
        return Check("dimensions", "ok", f"{asked.dimensions}, as in the database.")
    if not chosen:
        return Check(
            "dimensions", "ok", f"The settings name no embedder: {used} is used, as in the database."
        )
    set_it = f"Set MEMORYD_EMBEDDER={used.embedder} and MEMORYD_EMBEDDING_DIMENSIONS={used.dimensions}"
    if any(is_like(asked, one, instructed=instructed) for one in models.former):
        found = f"The settings name {asked}, which was used before: {used} is used, as in the database."
        return Check("dimensions", "warning", found, f"{set_it}.")
    found = (
        f"The database holds vectors of {used.dimensions} dimensions, {asked.embedder} gives {asked.dimensions}."
        if asked.dimensions != used.dimensions
        else f"The database holds vectors of {used.embedder}, and those of {asked.embedder} do not compare with them."
    )
    return Check(
        "dimensions",
        "problem",
        found,
        f"{set_it}, or change the database: memoryd reembed {asked.embedder} --dimensions {asked.dimensions}",
    )
