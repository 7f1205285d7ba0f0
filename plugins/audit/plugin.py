"""The plugin audit: what is wrong with what is remembered.

Its SQL is migrations/functions/audit/; it stays in migrations/, where all SQL has one order.
"""

from __future__ import annotations

from daemon.plugins import Command, Plugin


class Audit(Plugin):
    name = "audit"
    commands = {"audit": Command("plugins.audit.cli.command:audit", "People's data")}


PLUGIN = Audit()
