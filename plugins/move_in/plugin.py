"""The plugin move_in: importers of other systems, and tables that are there adopted."""

from __future__ import annotations

from daemon.plugins import Command, Plugin


class MoveIn(Plugin):
    name = "move_in"
    commands = {"adopt": Command("plugins.move_in.cli.adopt:adopt", "Operate")}
    services = {
        "import_from": "plugins.move_in.cli.import_elsewhere:import_elsewhere",
        "import_systems": "plugins.move_in.importers.items:System",
    }


PLUGIN = MoveIn()
