"""Builds the process of `memoryd run` for one database; a plugin serves those of MEMORYD_DATABASE_URLS."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from daemon.cli.common import Server, embedder_of, language_model_of
from daemon.cli.operations.migrate import log_upgrade, migrate_database

if TYPE_CHECKING:
    from daemon.db.models import Model
    from daemon.lifecycle import Daemon
    from daemon.measures import Measures
    from daemon.part import Part
    from daemon.settings import Settings
    from providers.ports import Embedder

EMBEDDING_AT_ONCE = 4
"""Calls to a remote embedder, of all databases."""


class DaemonFactory:
    """Makes the daemons of one process, with one embedder for each model, and one language model."""

    def __init__(self, settings: Settings, *, many: bool) -> None:
        """`many`: for several databases, which take turns. Raises ValueError with the setting to change."""
        from daemon.logs import get_logger
        from daemon.turns import SharedTurns

        self.log = get_logger()
        self.first = embedder_of(settings)
        self.language_model = language_model_of(settings)
        at_once = EMBEDDING_AT_ONCE if self.first.remote else 1
        self.shared = SharedTurns.of_many(embedding=at_once) if many else SharedTurns.of_one()
        self._settings = settings
        self._made: dict[Model, Embedder] = {}

    async def bring_up_to_date(self, settings: Settings, url: str) -> None:
        """Migrates a database, and says so."""
        from daemon.db.models import model_of

        upgrade = await migrate_database(settings, url, model=model_of(self.first))
        log_upgrade(upgrade, embedder=self.first.name, logger=self.log)

    def daemon(
        self,
        settings: Settings,
        url: str,
        *,
        name: str = "",
        measures: Measures | None = None,
        parts: Sequence[Part] = (),
    ) -> Daemon:
        """A daemon for one database. `parts`: see Daemon."""
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
            parts=parts,
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
async def making(settings: Settings, *, many: bool) -> AsyncIterator[DaemonFactory]:
    made = DaemonFactory(settings, many=many)
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
    from daemon.promotion import is_writable

    async with making(settings, many=False) as made:
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
