"""The plugin files: how files of others are found and read, for the plugins that take them in."""

from __future__ import annotations

from daemon.plugins import Plugin


class Files(Plugin):
    name = "files"


PLUGIN = Files()
