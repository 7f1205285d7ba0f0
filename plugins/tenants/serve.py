"""Builds the process of `memoryd run` for the databases of MEMORYD_DATABASE_URLS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.cli.common import listed_databases, settings_of_database
from daemon.cli.failure import explain
from daemon.cli.run import making

if TYPE_CHECKING:
    from daemon.lifecycle import Daemon
    from daemon.measures import Measures
    from daemon.settings import Settings
    from daemon.settings.databases import NamedDatabase

EMBEDDING_AT_ONCE = 4
"""Calls to a remote embedder, of all databases."""


async def serve_many(settings: Settings, *, migrate: bool) -> None:
    """Serves all of MEMORYD_DATABASE_URLS until SIGTERM or SIGINT. Raises ValueError if the list is wrong."""
    from daemon.plugins import service
    from plugins.tenants.databases import process
    from plugins.tenants.databases.serving import STARTS_AT_ONCE, ServingMeans
    from plugins.tenants.turns import SharedTurns, Turns

    listed_databases(settings)  # raises before anything is loaded
    async with making(settings) as made:
        shared = SharedTurns(embedding=EMBEDDING_AT_ONCE if made.first.remote else 1)

        async def up_to_date(own: Settings, url: str) -> None:
            if migrate:
                await made.bring_up_to_date(own, url)

        def build(own: Settings, named: NamedDatabase, measures: Measures) -> Daemon:
            return made.daemon(
                own, named.url, name=named.name, turns=shared.turns_of(named.name), measures=measures
            )

        all_of_them = process.Process(
            lambda: listed_databases(settings),
            ServingMeans(
                migrate=up_to_date,
                build=build,
                explain=explain,
                turns=Turns(process.AT_ONCE),
                starts=Turns(STARTS_AT_ONCE),
            ),
            # An unreachable database waits outside of its turn.
            settings_of=lambda named: settings_of_database(settings, named).model_copy(
                update={"start_seconds": 0.0}
            ),
            grace_seconds=settings.shutdown_seconds,
            logger=made.log,
        )
        build_http = service("http_port")
        port = build_http and build_http(
            settings,
            all_of_them.servings,
            providers={"embedder": made.first, "language_model": made.language_model},
            is_stopping=all_of_them.is_stopping,
            logger=made.log,
        )
        await all_of_them.run(port)
