"""The `memoryd` command: which commands there are."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from functools import cache
from io import TextIOWrapper

import typer

from daemon.cli.audit.command import audit
from daemon.cli.demo.command import demo
from daemon.cli.failure import EXIT_CODES
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
from daemon.cli.replay.command import replay
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

app = typer.Typer(
    name="memoryd",
    help="Memory for fleets of AI agents, beside the Postgres you already have.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
for command in (
    run,
    demo,
    status,
    doctor,
    health,
    recall,
    context,
    dream,
    decisions,
    ingest,
    mcp,
    web,
    hook,
    replay,
    export,
    erase,
    replica,
    conflicts,
    undelete,
    prove,
    verify,
    migrate,
    adopt,
    reembed,
    backup,
    restore,
    url,
):
    app.command()(command)
# What follows is psql's own: its options are not ours to read.
app.command(context_settings={"ignore_unknown_options": True})(psql)
app.command("import")(import_)
app.add_typer(anchors, name="anchors")
app.add_typer(audit, name="audit")
app.add_typer(dead, name="dead")
app.add_typer(hooks, name="hooks")
app.add_typer(know, name="know")
app.add_typer(secrets, name="secrets")
app.add_typer(tenant, name="tenant")


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
