"""The plugin move_in: importers of other systems, the adoption of existing tables, exports and their import, seeds."""

from __future__ import annotations

from daemon.plugins import Command, Plugin


class MoveIn(Plugin):
    name = "move_in"
    needs = ("files", "hooks")
    commands = {
        "know": Command("plugins.move_in.cli.decisions:know", "Remember and ask"),
        "export": Command("plugins.move_in.cli.export:export", "People's data"),
        "import": Command("plugins.move_in.cli.import_:import_", "People's data"),
        "adopt": Command("plugins.move_in.cli.adopt:adopt", "Operate"),
    }


PLUGIN = MoveIn()
