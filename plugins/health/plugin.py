"""The plugin health: how memoryd is doing."""

from __future__ import annotations

from daemon.plugins import Command, Plugin


class Health(Plugin):
    name = "health"
    commands = {
        "status": Command("plugins.health.cli:status", "Start"),
        "doctor": Command("plugins.health.cli:doctor", "Start"),
        "dead": Command("plugins.health.dead:dead", "Operate"),
    }


PLUGIN = Health()
