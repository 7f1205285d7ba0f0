"""The `memoryd` command: which commands there are, the core's and those of the plugins.

Promise: a command's modules are imported when it is called, or when its help is shown.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from io import TextIOWrapper
from typing import Any

import typer
from typer.core import TyperGroup

from daemon.cli.common import reach_this_machine_directly
from daemon.cli.failure import EXIT_CODES, show_sentence
from daemon.plugins import PANEL, Command, PluginError, imported, load_plugins

PANELS = (
    "Start", "Remember and ask", "Agents and people", "People's data", "Operate", "Prove", PANEL,
)  # fmt: skip
"""The panels of the help, by the users of their commands."""
OF_CORE = {
    "run": Command("daemon.cli.run:run", "Start"),
    "psql": Command("daemon.cli.database:psql", "Start"),
    "url": Command("daemon.cli.database:url", "Start"),
    "recall": Command("daemon.cli.recall:recall", "Remember and ask"),
    "context": Command("daemon.cli.recall:context", "Remember and ask"),
    "dream": Command("daemon.cli.upkeep:dream", "Remember and ask"),
    "erase": Command("daemon.cli.upkeep:erase", "People's data"),
    "migrate": Command("daemon.cli.database:migrate", "Operate"),
}
REMOVED = {
    "conflicts": "memoryd replica conflicts",
    "decisions": "memoryd know decisions",
    "replay": "memoryd import FILE --from commands",
    "undelete": "memoryd replica undelete",
}
"""Commands that are gone, each with what does it now."""


@cache
def _made(name: str, command: Command) -> Any:
    """The command as click has it, read from the signature of its function."""
    target = imported(command.target)
    alone = typer.Typer(callback=lambda: None, add_completion=False, rich_markup_mode="markdown")
    if isinstance(target, typer.Typer):
        alone.add_typer(target, rich_help_panel=command.panel)
    else:
        # What follows psql is its own: its options are not ours to read.
        settings = {"ignore_unknown_options": True} if name == "psql" else None
        alone.command(name, rich_help_panel=command.panel, context_settings=settings)(target)
    group = typer.main.get_group(alone)
    return group.commands[name]


class _LazyCommands(Mapping[str, Any]):
    """The commands by name, those of one panel together, each imported on access."""

    def __init__(self) -> None:
        of_plugins = {name: each for plugin in load_plugins() for name, each in plugin.commands.items()}
        if twice := OF_CORE.keys() & of_plugins:
            raise PluginError(f"A plugin brings the command {min(twice)}, which memoryd has: uninstall it.")
        found = (OF_CORE | of_plugins).items()
        self._found = dict(sorted(found, key=lambda each: (*PANELS, each[1].panel).index(each[1].panel)))

    def __getitem__(self, name: str) -> Any:
        return _made(name, self._found[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


class _Commands(TyperGroup):
    """The commands; one that is gone says what does it now."""

    commands: Any

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = _LazyCommands()

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
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
    """The commands, once a process."""
    return typer.main.get_command(app)


def main() -> None:
    # A script's background jobs begin with SIGINT ignored. Then asyncio would cancel nothing, at SIGTERM neither.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # What agents wrote may hold anything; a terminal that cannot show it is no reason to fail.
            stream.reconfigure(errors="replace")
    reach_this_machine_directly(os.environ)
    try:
        commands = command_tree()
    except PluginError as error:
        show_sentence(str(error))
        sys.exit(2)
    commands()
