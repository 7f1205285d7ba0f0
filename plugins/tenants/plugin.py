"""The plugin tenants: several databases in one process, and memoryd tenant."""

from __future__ import annotations

from daemon.plugins import Command, Plugin


class Tenants(Plugin):
    name = "tenants"
    needs = ("executor",)
    commands = {"tenant": Command("plugins.tenants.cli:tenant", "Operate")}
    services = {"serve_many": "plugins.tenants.serve:serve_many"}


PLUGIN = Tenants()
