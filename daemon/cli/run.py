"""memoryd run: the daemon, with the embedded Postgres when no DATABASE_URL is set."""

from __future__ import annotations

import asyncio
import os
from contextlib import ExitStack, asynccontextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from daemon.cli.common import Server, embedder_of, language_model_of, postgres, settings_or_exit
from daemon.cli.database import log_upgrade, migrate_database
from daemon.cli.failure import Failure, Misuse, sentences, show_sentence

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
    from contextlib import AbstractAsyncContextManager

    from daemon.db.settings import Model
    from daemon.lifecycle import Daemon
    from daemon.measures import Measures
    from daemon.part import Part
    from daemon.settings import Settings
    from providers.ports import Embedder


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
    from daemon.logs import capture_warnings, crash, refuse
    from daemon.part import ImmediateStop, PartError
    from daemon.plugins import required_service

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
    except ImmediateStop as told:
        os._exit(told.code)  # no waiting for threads
    except PartError:
        raise typer.Exit(1) from None  # the log has said it
    except (typer.Exit, BrokenPipeError, ModuleNotFoundError):
        raise  # a missing folder of plugins/ is named by daemon/__main__.py
    except Exception as error:  # noqa: BLE001 - the log's last line, where a traceback would show messages
        crash(error)
        raise typer.Exit(1) from None


def _check_once(once: bool) -> None:
    if once:
        raise Misuse("--once is for one database: memoryd --database NAME run --once")


def _until_stopped(main: Coroutine[Any, Any, None]) -> None:
    """As asyncio.run, but a second signal ends the process without waiting for its tasks."""
    from daemon.part import ImmediateStop

    with ExitStack() as stack:
        runner = stack.enter_context(asyncio.Runner())
        try:
            runner.run(main)
        except ImmediateStop:
            stack.pop_all()
            raise


def _load_libraries(settings: Settings) -> None:
    """Imports what may not run on this machine, or may print warnings about it. Raises Failure."""
    from daemon.logs import foreign_lines_logged

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


class DaemonFactory:
    """Makes the daemons of one process, with one embedder for each model, and one language model."""

    def __init__(self, settings: Settings) -> None:
        """Raises ValueError with the setting to change."""
        from daemon.logs import get_logger

        self.log = get_logger()
        self.first = embedder_of(settings)
        self.language_model = language_model_of(settings)
        self._settings = settings
        self._made: dict[Model, Embedder] = {}

    async def bring_up_to_date(self, settings: Settings, url: str) -> None:
        from daemon.db.settings import model_of

        upgrade = await migrate_database(settings, url, model=model_of(self.first))
        log_upgrade(upgrade, embedder=self.first.name, logger=self.log)

    def daemon(
        self,
        settings: Settings,
        url: str,
        *,
        name: str = "",
        turns: Callable[[str], AbstractAsyncContextManager[None]] = lambda _kind: nullcontext(),
        measures: Measures | None = None,
        parts: Sequence[Part] = (),
    ) -> Daemon:
        """A daemon for one database. `turns`, `parts`: see Daemon; calls of the embedder are a kind of work, too."""
        from daemon.embedder import FollowingEmbedder
        from daemon.lifecycle import Daemon

        embedder = FollowingEmbedder(
            self.first, build=self._embedder, turn=partial(turns, "embedding"), logger=self.log
        )
        return Daemon(
            settings,
            url,
            embedder=embedder,
            language_model=self.language_model,
            logger=self.log,
            name=name,
            turns=turns,
            measures=measures,
            parts=parts,
        )

    async def close(self) -> None:
        """Closes all embedders: calls to an earlier one may still have been running."""
        for one in (self.first, *self._made.values()):
            await one.close()

    def _embedder(self, model: Model) -> Embedder:
        from daemon.db.settings import model_of

        if model == model_of(self.first):
            return self.first
        if model not in self._made:
            self._made[model] = embedder_of(self._settings, model)
        return self._made[model]


@asynccontextmanager
async def making(settings: Settings) -> AsyncIterator[DaemonFactory]:
    made = DaemonFactory(settings)
    try:
        yield made
    finally:
        await made.close()


async def serve_one(
    settings: Settings, url: str, server: Server | None, *, migrate: bool, once: bool
) -> None:
    """Serves one database until SIGTERM or SIGINT; with `once` until nothing is left to do."""
    from daemon.db.pool import patiently
    from daemon.plugins import service
    from daemon.served import is_writable

    async with making(settings) as made:
        watching = None if server is None else service("own_postgres_part")
        parts = [watching(server, made.log)] if watching is not None else []
        # Again when its primary has become a standby. False: a signal came while it was one.
        while await is_writable(settings, url, once=once, logger=made.log):
            if migrate:
                await patiently(
                    lambda: made.bring_up_to_date(settings, url),
                    seconds=settings.start_seconds,
                    logger=made.log,
                )
            daemon = made.daemon(settings, url, parts=parts)
            await daemon.run(once=once)
            if not daemon.demoted:
                return
