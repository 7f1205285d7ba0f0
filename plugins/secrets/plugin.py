"""The plugin secrets: fields of metadata that the database keeps encrypted.

Its SQL is migrations/functions/memories/secrets.sql. It stays in migrations/, where all SQL has one order.
"""

from __future__ import annotations

from collections.abc import Mapping

from daemon.plugins import Command, Plugin
from daemon.settings import Settings, split_list
from plugins.secrets.settings import SecretFields


class Secrets(Plugin):
    name = "secrets"
    settings = (SecretFields,)
    commands = {"secrets": Command("plugins.secrets.cli:secrets", "People's data")}

    def database_settings(self, settings: Settings) -> Mapping[str, object]:
        """The fields that rows may have only encrypted."""
        return {"secret_fields": "|".join(split_list(settings.section(SecretFields).secret_fields))}


PLUGIN = Secrets()
