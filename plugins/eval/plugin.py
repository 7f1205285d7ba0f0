"""The plugin eval: how well recall answers the golden questions of a store."""

from __future__ import annotations

from daemon.plugins import Command, Plugin


class Eval(Plugin):
    name = "eval"
    commands = {"eval": Command("plugins.eval.cli:evaluate", "Operate")}


PLUGIN = Eval()
