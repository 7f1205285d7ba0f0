"""Which daemons run, by their rows in memoryd.daemons: the time of the last heartbeat, and the listener's server process.

Promise: a daemon that was killed counts as dead as soon as the server has closed its listener's connection. One that only
polls (behind a transaction pooler), or whose whole machine is gone, does after three heartbeats.
"""

from __future__ import annotations

HEARTBEAT_SECONDS = 30.0
"""Pause between two heartbeats."""
CLAIM_SECONDS = 30.0
"""How long a claim or a lease is valid without being renewed."""

LISTENS = """
(pg_is_in_recovery()
 or exists (select from pg_stat_get_activity(d.backend) a join pg_database b on b.oid = a.datid
            where b.datname = current_database() and coalesce(a.backend_start <= d.seen_at, true)))
"""
"""Of a row `d` with a backend. A process that is younger than the last heartbeat is another one with the same id, and one in
another database listens there: this database is a copy of that one. At a standby, whose primary has the process, only the
heartbeats tell."""

RESTS = "rest"
"""What `wake_up` says of a daemon that leaves the database alone until it is told of work: it has no heartbeat."""

ALIVE = f"""
((d.seen_at > now() - make_interval(secs => $1) or (d.wake_up = '{RESTS}' and d.backend is not null))
 and (d.backend is null or {LISTENS}))
"""
"""A condition on a row `d`; $1: `silence` of the heartbeat."""

GONE = 0
"""Instead of the backend of a daemon whose claims another one has ended. Should it run after all, it writes its own again."""


def silence() -> float:
    """Seconds without a heartbeat after which a daemon counts as dead: three heartbeats, and never less than 5 s."""
    return max(5.0, 3 * HEARTBEAT_SECONDS)
