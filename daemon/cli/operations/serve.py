"""What the process of `memoryd run` is made of: for one database, or for those of MEMORYD_DATABASE_URLS."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from daemon.cli.common import (
    embedder_of,
    language_model_of,
    listed_databases,
    settings_of_database,
)
from daemon.cli.failure import explain
from daemon.cli.operations.migrate import migrate_database, tell_upgrade

if TYPE_CHECKING:
    from daemon.db.models import Model
    from daemon.embedded.server import EmbeddedPostgres
    from daemon.lifecycle import Daemon
    from daemon.measures import Measures
    from daemon.settings import Settings
    from daemon.settings.databases import NamedDatabase
    from providers.ports import Embedder

EMBEDDING_AT_ONCE = 4
"""Calls to a remote embedder, of all databases."""


class Making:
    """How the daemons of one process are made: with one embedder for each model, and one language model."""

    def __init__(self, settings: Settings, *, many: bool) -> None:
        """`many`: for several databases, which share what there is by turns. Raises ValueError with the setting to change."""
        from daemon.logs import get_logger
        from daemon.turns import Shared

        self.log = get_logger()
        self.first = embedder_of(settings)
        self.language_model = language_model_of(settings)
        at_once = EMBEDDING_AT_ONCE if self.first.remote else 1
        self.shared = (
            Shared.of_many(settings.executor_total, embedding=at_once)
            if many
            else Shared.of_one(settings.executor_total)
        )
        self._settings = settings
        self._made: dict[Model, Embedder] = {}

    async def bring_up_to_date(self, settings: Settings, url: str) -> None:
        """Migrates a database, and says so."""
        from daemon.db.models import model_of

        upgrade = await migrate_database(settings, url, model=model_of(self.first))
        tell_upgrade(upgrade, embedder=self.first.name, logger=self.log)

    def daemon(
        self,
        settings: Settings,
        url: str,
        *,
        name: str = "",
        measures: Measures | None = None,
        server: EmbeddedPostgres | None = None,
    ) -> Daemon:
        """A daemon for one database. `server`: the embedded Postgres that it is in."""
        from daemon.embedded.supervisor import Supervisor
        from daemon.embedder import FollowingEmbedder
        from daemon.lifecycle import Daemon

        embedder = FollowingEmbedder(
            self.first, build=self._embedder, turn=lambda: self.shared.embedding.turn(name), logger=self.log
        )
        return Daemon(
            settings,
            url,
            embedder=embedder,
            language_model=self.language_model,
            logger=self.log,
            shared=self.shared,
            name=name,
            measures=measures,
            supervisor=None if server is None else Supervisor(server, logger=self.log),
        )

    async def close(self) -> None:
        """Closes all embedders: calls to an earlier one may still have been running."""
        for one in (self.first, *self._made.values()):
            await one.close()

    def _embedder(self, model: Model) -> Embedder:
        from daemon.db.models import model_of

        if model == model_of(self.first):
            return self.first
        if model not in self._made:
            self._made[model] = embedder_of(self._settings, model)
        return self._made[model]


@asynccontextmanager
async def _making(settings: Settings, *, many: bool) -> AsyncIterator[Making]:
    made = Making(settings, many=many)
    try:
        yield made
    finally:
        await made.close()


async def serve_one(
    settings: Settings, url: str, server: EmbeddedPostgres | None, *, migrate: bool, once: bool
) -> None:
    """Serves one database until SIGTERM or SIGINT; with `once` until nothing is left to do."""
    from daemon.db.pool import patiently
    from daemon.promotion import is_writable

    if once:
        # It ends before anybody could watch it, and the daemon beside it may have the port.
        settings = settings.model_copy(update={"http": None})
    async with _making(settings, many=False) as made:
        # Again when its primary has become a standby. False: a signal came while it was one.
        while await is_writable(settings, url, once=once, logger=made.log):
            if migrate:
                await patiently(
                    lambda: made.bring_up_to_date(settings, url),
                    seconds=settings.start_seconds,
                    logger=made.log,
                )
            daemon = made.daemon(settings, url, server=server)
            await daemon.run(once=once)
            if not daemon.demoted:
                return


async def serve_many(settings: Settings, *, migrate: bool) -> None:
    """Serves all of MEMORYD_DATABASE_URLS until SIGTERM or SIGINT. Raises ValueError where the list is wrong."""
    from daemon.databases import process
    from daemon.databases.serving import STARTS_AT_ONCE, Means
    from daemon.parts import build_http
    from daemon.turns import Turns

    listed_databases(settings)  # wrong at once, before anything is loaded
    async with _making(settings, many=True) as made:

        async def up_to_date(own: Settings, url: str) -> None:
            if migrate:
                await made.bring_up_to_date(own, url)

        def build(own: Settings, named: NamedDatabase, measures: Measures) -> Daemon:
            return made.daemon(own, named.url, name=named.name, measures=measures)

        all_of_them = process.Process(
            lambda: listed_databases(settings),
            Means(
                migrate=up_to_date,
                build=build,
                explain=explain,
                turns=Turns(process.AT_ONCE),
                starts=Turns(STARTS_AT_ONCE),
            ),
            # One that is away waits outside of its turn.
            settings_of=lambda named: settings_of_database(settings, named).model_copy(
                update={"start_seconds": 0.0}
            ),
            grace_seconds=settings.shutdown_seconds,
            logger=made.log,
        )
        port = build_http(
            settings,
            all_of_them.servings,
            providers={"embedder": made.first, "language_model": made.language_model},
            is_stopping=all_of_them.is_stopping,
            logger=made.log,
        )
        await all_of_them.run(port)
