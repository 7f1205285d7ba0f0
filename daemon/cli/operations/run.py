"""memoryd run: the daemon, with the embedded Postgres when no DATABASE_URL is set."""

from __future__ import annotations

import asyncio
import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import typer

from daemon.cli.common import (
    postgres,
    settings_or_exit,
)
from daemon.cli.failure import Failure, Misuse, sentences, show_sentence
from daemon.cli.operations.serve import serve_one

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from daemon.settings import Settings


def run(
    migrate: bool = typer.Option(
        True, help="Bring the schema up to date first. --no-migrate: refuse to start when it is not."
    ),
    once: bool = typer.Option(
        False,
        "--once",
        help="Work until no job and no command is left that could be done now, then end: for cron and tests.",
    ),
) -> None:
    """Run the daemon until SIGTERM or Ctrl-C. Without DATABASE_URL it brings its own Postgres."""
    from daemon.plugins import required_service
    from daemon.refusal import PartFailed, StoppedAtOnce, capture_warnings, crash, refuse

    style: str | None = None

    def tell(sentence: str) -> None:
        refuse(sentence, show_sentence, style)

    capture_warnings()
    settings = settings_or_exit(tell=tell)
    style = settings.log_format
    try:
        with sentences(tell):
            _load_libraries(settings)
            _check_programs(settings)
        if settings.database_urls is not None:
            with sentences(tell):
                _check_once(once)
                serve_many = required_service("serve_many", what="MEMORYD_DATABASE_URLS")
                _until_stopped(serve_many(settings, migrate=migrate))
            return
        with sentences(tell), postgres(settings) as (url, server):
            if server is not None:
                typer.echo(_welcome(server.socket_url))
            _until_stopped(serve_one(settings, url, server, migrate=migrate, once=once))
    except StoppedAtOnce as told:
        os._exit(told.code)  # no waiting for threads
    except PartFailed:
        raise typer.Exit(1) from None  # the log has said it
    except (typer.Exit, BrokenPipeError):
        raise
    except Exception as error:  # noqa: BLE001 - the log's last line, where a traceback would show messages
        crash(error)
        raise typer.Exit(1) from None


def _check_once(once: bool) -> None:
    if once:
        raise Misuse("--once is for one database: memoryd --database NAME run --once")


def _until_stopped(main: Coroutine[Any, Any, None]) -> None:
    """As asyncio.run, but a second signal ends the process without waiting for its tasks."""
    from daemon.refusal import StoppedAtOnce

    with ExitStack() as stack:
        runner = stack.enter_context(asyncio.Runner())
        try:
            runner.run(main)
        except StoppedAtOnce:
            stack.pop_all()
            raise


def _load_libraries(settings: Settings) -> None:
    """Imports what may not run on this machine, or may print warnings about it. Raises Failure."""
    from daemon.refusal import foreign_lines_logged

    with foreign_lines_logged(settings.log_format):
        try:
            import numpy as np  # noqa: F401
        except Exception as error:  # noqa: BLE001 - it may raise anything
            # The message is long; one line of it is the reason.
            reason = str(error).rpartition("Original error was: ")[2].strip().partition("\n")[0]
            raise Failure(f"numpy does not run on this machine: {reason or type(error).__name__}") from None


def _check_programs(settings: Settings) -> None:
    """Checks that the programs of the settings exist, before a server is started. Raises ValueError."""
    from daemon.plugins import load_plugins
    from providers.build import check_names

    check_names(settings.embedder, settings.language_model)
    # Before the URL of a server of our own is known to this process.
    for plugin in load_plugins():
        plugin.prepare(settings)


def _welcome(url: str) -> str:
    return f"""
memoryd's own Postgres listens at

    {url}

In another terminal, open a prompt there:    make psql

and give an agent something to do:

    insert into agent_commands (agent_id, message) values ('alice', 'deploy the staging server');
    select * from claim_command('alice');
    select complete_command(id, 'deployed build 512', 0) from agent_commands where status = 'running';
    select kind, content from agent_memory;

Ctrl-C stops memoryd, and its Postgres if no other command uses it. What was remembered stays.
"""  # noqa: S608 - examples to read, not to run
