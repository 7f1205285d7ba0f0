"""memoryd status: daemons, queue, memories, dreams and sizes, at a glance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from daemon.cli.common import for_each_database, settings_or_exit, with_database
from daemon.cli.output import age, as_json, megabytes, number, say, table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from daemon.db.pool import Database
    from daemon.health.status import LastDream, Status
    from daemon.settings import Settings


def status(
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Show daemons, queue, memories, the last dream, what waits and sizes. Exit code 1: no daemon is alive."""
    settings = settings_or_exit(quiet=True)
    for_each_database(settings, lambda one: _report(one, json=json), heading=not json)


def _report(settings: Settings, *, json: bool) -> None:
    found = with_database(_read, settings)
    if json:
        as_json(found if settings.database is None else {"name": settings.database, "status": found})
    else:
        _show(found)
    if not any(one.alive for one in found.daemons):
        raise typer.Exit(1)


async def _read(settings: Settings, database: Database) -> Status:
    from dataclasses import replace

    from daemon.health.status import read_status
    from daemon.settings.databases import address_of

    found = await read_status(database)
    return replace(found, address=address_of(database.url))


def _show(found: Status) -> None:
    server = found.address.rpartition("/")[0]
    say(
        f"Database {found.database} at {server}, Postgres {found.postgres}, schema version {found.schema_version}"
    )
    if found.standby is not None:
        say(f"This is {found.standby}. The figures below are its copy.")
    if found.schema_trouble is not None:
        say(found.schema_trouble)
    say()
    if found.daemons:
        table(
            ["host", "pid>", "version", "wake_up", "up>", "last seen>", "alive"],
            [
                [
                    one.host,
                    str(one.pid),
                    one.version,
                    one.wake_up,
                    age(one.up_seconds),
                    f"{age(one.silent_seconds)} ago",
                    "yes" if one.alive else "no",
                ]
                for one in found.daemons
            ],
            title="Daemons",
        )
        for daemon in found.daemons:
            for part, error in sorted(daemon.failing.items()) if daemon.alive else ():
                say(f"The {part} of {daemon.pid} has failed ({error}), and is started again after a pause.")
    if not any(one.alive for one in found.daemons):
        where = "" if found.standby is None else " at the primary"
        say(f"No daemon is running. Start one{where}: memoryd run")
    say()
    _show_queue(found)
    say(f"Memories   {_counts(found.memories)}")
    say(
        f"           {number(found.agents, 'agent')}, {number(found.associations, 'association')},"
        f" {number(found.insights, 'insight')}"
    )
    say(f"Commands   {_counts(found.commands)}")
    say(f"Trail      {number(found.anchors, 'anchor')}, {found.anchors_signed:,} of them signed")
    say(f"Last dream {_dream(found.dream)}")
    say(f"To index   {_counts(found.unindexed)}")
    say(f"To embed   {_counts(found.unembedded)}")
    size = found.size
    grows = "" if size.bytes_a_day is None else f", {megabytes(size.bytes_a_day)} a day"
    largest = ", ".join(f"{megabytes(n)} {name}" for name, n in size.largest.items())
    say(f"Size       {megabytes(size.bytes)}{grows}: {largest}")


def _show_queue(found: Status) -> None:
    if found.queue:
        table(
            ["topic", "jobs>", "claimable>", "oldest>"],
            [
                [one.topic, f"{one.jobs:,}", f"{one.claimable:,}", age(one.oldest_seconds)]
                for one in found.queue
            ],
            title="Queue",
        )
        waits = "none waits to be claimed" if found.lag_seconds is None else f"lag {age(found.lag_seconds)}"
        say(f"{number(sum(one.jobs for one in found.queue), 'job')}, {waits}")
    else:
        say("The queue is empty.")
    if found.dead:
        say()
        table(
            ["topic", "jobs>", "newest>"],
            [[one.topic, f"{one.jobs:,}", f"{age(one.newest_seconds)} ago"] for one in found.dead],
            title="Dead letters (memoryd dead lists them, memoryd dead requeue makes jobs of them again)",
        )
    say()


def _counts(counts: Mapping[str, int]) -> str:
    if not counts:
        return "none"
    return f"{sum(counts.values()):,}: " + ", ".join(f"{n:,} {name}" for name, n in counts.items())


def _dream(dream: LastDream | None) -> str:
    if dream is None:
        return "none yet"
    head = f"{dream.status}, {dream.started_by}, began {age(dream.started_seconds)} ago"
    if dream.status == "running":
        return head
    wrote = ", ".join(f"{n} {name}" for name, n in dream.categories.items())
    return (
        f"{head} and took {age(dream.took_seconds)}: {number(dream.memories_scanned, 'memory', 'memories')},"
        f" {number(dream.clusters_found, 'cluster')}, {number(dream.insights_generated, 'insight')}"
        + (f" ({wrote})" if wrote else "")
        + f", {number(dream.associations_pruned, 'association')} pruned"
    )
