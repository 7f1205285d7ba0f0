"""memoryd run with MEMORYD_DATABASE_URLS: what the process that serves many databases is made of."""

from __future__ import annotations

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
    from daemon.lifecycle import Daemon
    from daemon.measures import Measures
    from daemon.settings import Settings
    from daemon.settings.databases import NamedDatabase
    from providers.ports import Embedder

EMBEDDING_AT_ONCE = 4
"""Calls to a remote embedder, of all databases."""
BATCHES_AT_ONCE = 2
"""Of jobs for which nobody waits. More would only make those wait that somebody waits for: they share one thread."""
DREAMS_AT_ONCE = 1
BUILDS_AT_ONCE = 1


class Embedders:
    """One embedder for each model, for all databases."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._made: dict[Model, Embedder] = {}
        self.first = embedder_of(settings)

    def of(self, model: Model) -> Embedder:
        """That of this model. Raises ValueError with the setting to change."""
        from daemon.db.models import model_of

        if model == model_of(self.first):
            return self.first
        if model not in self._made:
            self._made[model] = embedder_of(self._settings, model)
        return self._made[model]

    async def close(self) -> None:
        """Closes them all."""
        for one in (self.first, *self._made.values()):
            await one.close()


async def serve_many(settings: Settings, *, migrate: bool) -> None:
    """Serves all of MEMORYD_DATABASE_URLS until SIGTERM or SIGINT. Raises ValueError where the list is wrong."""
    from daemon.databases.process import Process
    from daemon.databases.serving import STARTS_AT_ONCE, Means
    from daemon.db.models import model_of
    from daemon.embedder import FollowingEmbedder
    from daemon.lifecycle import Daemon, OneOfMany
    from daemon.logs import get_logger
    from daemon.parts import build_http_of_many
    from daemon.turns import Room, Shared, Turns

    log = get_logger()
    listed_databases(settings)  # wrong at once, before anything is loaded
    embedders, model = Embedders(settings), language_model_of(settings)
    embedding = Turns(EMBEDDING_AT_ONCE if embedders.first.remote else 1)
    shared = Shared(
        batches=Turns(BATCHES_AT_ONCE),
        embedding=embedding,
        dreams=Turns(DREAMS_AT_ONCE),
        builds=Turns(BUILDS_AT_ONCE),
        commands=Room(settings.executor_total),
    )

    async def bring_up_to_date(own: Settings, url: str) -> None:
        if migrate:
            upgrade = await migrate_database(own, url, model=model_of(embedders.first))
            tell_upgrade(upgrade, embedder=embedders.first.name, logger=log)

    def build(own: Settings, named: NamedDatabase, measures: Measures) -> Daemon:
        embedder = FollowingEmbedder(
            embedders.first, build=embedders.of, turn=lambda: embedding.turn(named.name), logger=log
        )
        return Daemon(
            own,
            named.url,
            embedder=embedder,
            language_model=model,
            logger=log,
            one_of_many=OneOfMany(named.name, shared, measures),
        )

    means = Means(
        migrate=bring_up_to_date,
        build=build,
        explain=explain,
        turns=Turns(settings.databases_at_once),
        starts=Turns(STARTS_AT_ONCE),
        known={},
    )
    process = Process(
        lambda: listed_databases(settings),
        means,
        # One that is away waits outside of its turn.
        settings_of=lambda named: settings_of_database(settings, named).model_copy(
            update={"start_seconds": 0.0}
        ),
        grace_seconds=settings.shutdown_seconds,
        logger=log,
    )
    try:
        await process.run(
            build_http_of_many(
                settings,
                process.servings,
                providers={"embedder": embedders.first, "language_model": model},
                is_stopping=process.is_stopping,
                logger=log,
            )
        )
    finally:
        await embedders.close()
