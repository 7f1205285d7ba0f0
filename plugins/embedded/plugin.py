"""The plugin embedded: memoryd's own Postgres, for users without one; and memoryd demo."""

from __future__ import annotations

from daemon.plugins import Command, Plugin


class Embedded(Plugin):
    name = "embedded"
    commands = {"demo": Command("plugins.embedded.demo.command:demo", "Start")}
    services = {
        "own_postgres": "plugins.embedded.sharing:embedded",
        "own_postgres_part": "plugins.embedded.supervisor:watching",
        "own_server": "plugins.embedded.sharing:server_of",
    }


PLUGIN = Embedded()
