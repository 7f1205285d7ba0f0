"""memoryd run: the daemon, with the embedded Postgres when no DATABASE_URL is set."""

from __future__ import annotations

import asyncio
import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import typer

from daemon.cli.common import (
    check_facts,
    postgres,
    settings_or_exit,
)
from daemon.cli.failure import Failure, Misuse, sentences, show_sentence
from daemon.cli.operations.serve import serve_many, serve_one

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
            _seal(settings)
        if settings.database_urls is not None:
            with sentences(tell):
                _check_once(once)
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
    """As asyncio.run, but after a second signal nothing waits for the tasks to end."""
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
    """What the settings name must exist, before a server is started for it. Raises ValueError."""
    from daemon.executor.program import words_of
    from daemon.replica.location import drive_id_of, open_drive, open_location
    from providers.build import check_names

    check_names(settings.embedder, settings.language_model)
    check_facts(settings)
    open_location(settings)
    if (
        settings.drop_folder is not None
        and drive_id_of(settings.drop_folder, name="MEMORYD_DROP_FOLDER") is not None
    ):
        open_drive(settings)
    if settings.executor_command:
        from daemon.parts import confinement_of

        words_of(settings.executor_command)
        confinement_of(settings)


def _seal(settings: Settings) -> None:
    """Closes the daemon to the programs that it is going to run. Before the URL of its own server is known to it."""
    from daemon.executor.confinement import is_root, seal

    if settings.executor_command:
        seal(privileges=settings.executor_user is not None and is_root(settings.executor_user))


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
