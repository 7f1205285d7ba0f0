"""The `memoryd` command: which commands there are."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from functools import cache
from io import TextIOWrapper
from typing import Any

import typer
from typer.core import TyperGroup

from daemon.cli.audit.command import audit
from daemon.cli.demo.command import demo
from daemon.cli.failure import EXIT_CODES, show_sentence
from daemon.cli.hooks.command import hook, hooks
from daemon.cli.memories.context import context
from daemon.cli.memories.decisions import decisions
from daemon.cli.memories.dream import dream
from daemon.cli.memories.ingest import ingest
from daemon.cli.memories.know import know
from daemon.cli.memories.recall import recall
from daemon.cli.operations.adopt import adopt
from daemon.cli.operations.backup import backup
from daemon.cli.operations.dead import dead
from daemon.cli.operations.doctor import doctor
from daemon.cli.operations.health import health
from daemon.cli.operations.mcp import mcp
from daemon.cli.operations.migrate import migrate
from daemon.cli.operations.psql import psql
from daemon.cli.operations.reembed import reembed
from daemon.cli.operations.restore import restore
from daemon.cli.operations.run import run
from daemon.cli.operations.status import status
from daemon.cli.operations.url import url
from daemon.cli.operations.web import web
from daemon.cli.proxies import reach_this_machine_directly
from daemon.cli.replica.command import replica
from daemon.cli.replica.conflicts import conflicts
from daemon.cli.replica.undelete import undelete
from daemon.cli.tenants.command import tenant
from daemon.cli.trail.anchors import anchors
from daemon.cli.trail.prove import prove
from daemon.cli.trail.verify import verify
from daemon.cli.user_data.erase import erase
from daemon.cli.user_data.export import export
from daemon.cli.user_data.import_ import import_
from daemon.cli.user_data.secrets import secrets

REMOVED = {
    "conflicts": "memoryd replica conflicts",
    "decisions": "memoryd know decisions",
    "replay": "memoryd import FILE --from commands",
    "undelete": "memoryd replica undelete",
}
"""Commands that are gone, each with what does it now."""


class _Commands(TyperGroup):
    """The commands; one that is gone says what does it now."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """See click."""
        if args[0] not in self.commands and (now := REMOVED.get(args[0])) is not None:
            show_sentence(f"There is no command {args[0]} any more. Instead: {now}")
            raise typer.Exit(2)
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="memoryd",
    cls=_Commands,
    help="Memory for fleets of AI agents, beside the Postgres you already have.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
COMMANDS: dict[str, tuple[Callable[..., None] | typer.Typer, ...]] = {
    "Start": (run, demo, status, doctor, psql, url),
    "Remember and ask": (recall, context, know, ingest, dream),
    "Agents and people": (hooks, hook, mcp, web),
    "People's data": (export, import_, erase, secrets, audit),
    "Operate": (migrate, backup, restore, reembed, replica, dead, health, adopt, tenant),
    "Prove": (anchors, prove, verify),
}
"""By the panel of the help in which they stand: by who needs them, and in which order."""
know.command()(decisions)
replica.command()(conflicts)
replica.command()(undelete)
for panel, commands in COMMANDS.items():
    for command in commands:
        if isinstance(command, typer.Typer):
            app.add_typer(command, rich_help_panel=panel)
        else:
            # What follows psql is its own: its options are not ours to read.
            app.command(
                command.__name__.strip("_"),
                rich_help_panel=panel,
                context_settings={"ignore_unknown_options": True} if command is psql else None,
            )(command)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib import metadata

        typer.echo(f"memoryd {metadata.version('memoryd')}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and end."
    ),
    database: str | None = typer.Option(
        None, metavar="NAME", help="Which of MEMORYD_DATABASE_URLS the command means, instead of all."
    ),
) -> None:
    del version  # told by its callback
    if database is not None:
        os.environ["MEMORYD_DATABASE"] = database


@cache
def command_tree() -> Callable[[], object]:
    """All commands, read from the signatures of their functions once a process."""
    return typer.main.get_command(app)


def main() -> None:
    """Entry point."""
    # A script's background jobs begin with SIGINT ignored. Then asyncio would cancel nothing, at SIGTERM neither: embedded.py.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # What agents wrote may hold anything; a terminal that cannot show it is no reason to fail.
            stream.reconfigure(errors="replace")
    reach_this_machine_directly(os.environ)
    command_tree()()
