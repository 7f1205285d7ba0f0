"""The `memoryd` command: which commands there are."""

from __future__ import annotations

import typer

from daemon.cli.migrate import migrate
from daemon.cli.run import run

app = typer.Typer(
    name="memoryd",
    help="Memory for fleets of AI agents, beside the Postgres you already have.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (run, migrate):
    app.command()(command)


def main() -> None:
    """Entry point."""
    app()
