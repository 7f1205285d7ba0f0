"""memoryd doctor: looks everything over and says what to do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from daemon.cli.common import (
    embedder_of,
    for_each_database,
    language_model_of,
    postgres,
    settings_or_exit,
)
from daemon.cli.failure import explain
from daemon.cli.output import as_json, number

if TYPE_CHECKING:
    from daemon.health.check import Check
    from daemon.settings import Settings

_MARKS = {"ok": ("ok", "green"), "warning": ("warning", "yellow"), "problem": ("PROBLEM", "red")}


def doctor(
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Check database, providers and daemons, and say what to do. Exit code 1: a problem; warnings do not count."""
    settings = settings_or_exit(quiet=True)
    for_each_database(settings, lambda one: _check(one, json=json), heading=not json)


def _check(settings: Settings, *, json: bool) -> None:
    checks = _collect(settings, tell=not json)
    if json:
        as_json(checks if settings.database is None else {"name": settings.database, "checks": checks})
    problems = sum(check.verdict == "problem" for check in checks)
    warnings = sum(check.verdict == "warning" for check in checks)
    if not json:
        typer.echo()
        typer.echo(_summary(problems, warnings))
    if problems:
        raise typer.Exit(1)


def _collect(settings: Settings, *, tell: bool) -> list[Check]:
    from daemon.health.check import Check, split_advice
    from daemon.health.checks import check_disk

    checks = []

    def take(check: Check) -> None:
        checks.append(check)
        if tell:
            _show(check)

    try:
        with postgres(settings, existing=True) as (url, server):
            if server is not None:
                take(check_disk(server.free_bytes))
            asyncio.run(_examine(settings, url, take, None if server is None else server.free_bytes))
    except Exception as error:
        sentence = explain(error)
        if sentence is None:
            raise
        take(Check("database", "problem", *split_advice(sentence)))
    return checks


async def _examine(
    settings: Settings, url: str, take: Callable[[Check], None], free_bytes: int | None
) -> None:
    from daemon.health.doctor import examine

    async for check in examine(
        settings,
        url,
        build_embedder=lambda model: embedder_of(settings, model),
        build_language_model=lambda: language_model_of(settings),
        free_bytes=free_bytes,
    ):
        take(check)


def _show(check: Check) -> None:
    mark, colour = _MARKS[check.verdict]
    typer.secho(f"{mark:<8}", fg=colour, nl=False)
    typer.echo(f" {check.name:<15} {check.found}")
    if check.advice is not None:
        # What is to copy stands on lines of its own, from their beginning.
        typer.echo(f"{'':25}{'-> ' + check.advice}")


def _summary(problems: int, warnings: int) -> str:
    if not problems and not warnings:
        return "All is well."
    told = [number(count, noun) for count, noun in ((problems, "problem"), (warnings, "warning")) if count]
    return " and ".join(told) + "."
