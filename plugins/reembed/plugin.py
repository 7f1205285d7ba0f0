"""The plugin reembed: a change of the embedding model."""

from __future__ import annotations

from collections.abc import Iterable

from daemon.plugins import Command, Core, Plugin
from daemon.schedule import Tick

LOOK_EVERY_SECONDS = 3600.0


class Reembed(Plugin):
    name = "reembed"
    commands = {"reembed": Command("plugins.reembed.cli:reembed", "Operate")}

    def ticks(self, core: Core) -> Iterable[Tick]:
        """Deletes the embeddings of the model before, some time after the change."""
        from plugins.reembed.generations import drop_outdated

        yield Tick(
            "drop_previous_embeddings", LOOK_EVERY_SECONDS, lambda: drop_outdated(core.database, core.logger)
        )


PLUGIN = Reembed()
