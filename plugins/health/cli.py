"""memoryd status: daemons, queue, memories, dreams and sizes, at a glance; memoryd doctor: what is wrong, and what to do."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import typer

from daemon.cli.common import for_each_database, postgres, settings_or_exit, with_database
from daemon.cli.failure import explain
from daemon.cli.output import age, as_json, megabytes, number, say, table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from daemon.db.pool import Database
    from daemon.plugins import Check
    from daemon.settings import Settings
    from plugins.health.status import LastDream, Status

MARKS = {"ok": ("ok", "green"), "warning": ("warning", "yellow"), "problem": ("PROBLEM", "red")}


def status(
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Show daemons, queue, memories, the last dream, what waits and sizes. Exit code 1: no daemon is alive."""
    settings = settings_or_exit(quiet=True)
    for_each_database(settings, lambda one: _report_status(one, json=json), heading=not json)


def _report_status(settings: Settings, *, json: bool) -> None:
    found = with_database(_read, settings)
    if json:
        as_json(found if settings.database is None else {"name": settings.database, "status": found})
    else:
        _show_status(found)
    if not any(one.alive for one in found.daemons):
        raise typer.Exit(1)


async def _read(settings: Settings, database: Database) -> Status:
    from dataclasses import replace

    from daemon.settings.databases import address_of
    from plugins.health.status import read_status

    found = await read_status(database)
    return replace(found, address=address_of(database.url))


def _show_status(found: Status) -> None:
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
        say(f"{number(sum(one.jobs for one in found.queue if one.served), 'job')}, {waits}")
        for one in found.queue:
            if not one.served:
                say(str(one))
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


def doctor(
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Check database, providers and daemons, and say what to do. Exit code 1: a problem; warnings do not count."""
    settings = settings_or_exit(quiet=True)
    for_each_database(settings, lambda one: _report_checks(one, json=json), heading=not json)


def _report_checks(settings: Settings, *, json: bool) -> None:
    checks = _collect(settings, shown=not json)
    problems = sum(check.verdict == "problem" for check in checks)
    warnings = sum(check.verdict == "warning" for check in checks)
    if json:
        as_json(checks if settings.database is None else {"name": settings.database, "checks": checks})
    else:
        counts = [number(n, noun) for n, noun in ((problems, "problem"), (warnings, "warning")) if n]
        say()
        say(f"{' and '.join(counts)}." if counts else "All is well.")
    if problems:
        raise typer.Exit(1)


def _collect(settings: Settings, *, shown: bool) -> list[Check]:
    from daemon.plugins import Check, split_advice
    from plugins.health.checks import check_disk
    from plugins.health.doctor import examine

    checks = []

    def add(check: Check) -> None:
        checks.append(check)
        if shown:
            _show_check(check)

    async def examine_all(url: str, free_bytes: int | None) -> None:
        async for check in examine(settings, url, free_bytes=free_bytes):
            add(check)

    try:
        with postgres(settings, existing=True) as (url, server):
            free_bytes = None if server is None else server.free_bytes
            if free_bytes is not None:
                add(check_disk(free_bytes))
            asyncio.run(examine_all(url, free_bytes))
    except Exception as error:
        sentence = explain(error)
        if sentence is None:
            raise
        add(Check("database", "problem", *split_advice(sentence)))
    return checks


def _show_check(check: Check) -> None:
    mark, colour = MARKS[check.verdict]
    typer.secho(f"{mark:<8}", fg=colour, nl=False)
    say(f" {check.name:<15} {check.found}")
    if check.advice is not None:
        # What is to copy stands on lines of its own, from their beginning.
        say(f"{'':25}-> {check.advice}")
