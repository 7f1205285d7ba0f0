"""The plugin tenants: several databases in one process."""

from __future__ import annotations

from daemon.plugins import Plugin


class Tenants(Plugin):
    name = "tenants"
    needs = ("executor",)
    services = {"serve_many": "plugins.tenants.serve:serve_many"}


PLUGIN = Tenants()
