"""The plugin replica: documents, memories and knowledge as files that people read and change."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping

from daemon.part import Part
from daemon.plugins import Check, Command, Core, Examination, Plugin
from daemon.settings import Settings
from plugins.replica.settings import Replica


class ReplicaFolder(Plugin):
    name = "replica"
    needs = ("files",)
    settings = (Replica,)
    commands = {"replica": Command("plugins.replica.cli:replica", "Operate")}

    def parts(self, core: Core) -> Iterable[Part]:
        from plugins.replica.keeper import Keeper
        from plugins.replica.location import open_location

        def build() -> Keeper | None:
            folder = open_location(core.settings)
            if folder is None:
                return None
            return Keeper(folder, database=core.database, daemon_id=core.daemon_id, logger=core.logger)

        yield Part("replica", build, topic="replica")

    async def checks(self, examination: Examination) -> AsyncIterator[Check]:
        from plugins.replica.check import check_replica

        if examination.connection is not None:
            yield await check_replica(examination.connection, examination.settings)

    def prepare(self, settings: Settings) -> None:
        import plugins.replica.keeper  # noqa: F401 - is the plugin files there?
        from plugins.replica.location import open_location

        open_location(settings)

    def switches(self, settings: Settings) -> Mapping[str, object]:
        return {"replica": settings.section(Replica).replica is not None}


PLUGIN = ReplicaFolder()
