"""The plugin supabase: memoryd in a Supabase project.

Its SQL is migrations/functions/supabase/; it stays in migrations/, where all SQL has one order.
"""

from __future__ import annotations

from collections.abc import Mapping

from daemon.plugins import Plugin
from daemon.settings import Settings
from plugins.supabase.settings import Supabase


class SupabaseProject(Plugin):
    name = "supabase"
    settings = (Supabase,)
    services = {"join_platform": "plugins.supabase.joining:join"}

    def database_settings(self, settings: Settings) -> Mapping[str, object]:
        """What its triggers and its topic are told."""
        own = settings.section(Supabase)
        return {
            "app_agent_id": own.app_agent_id,
            "broadcast": own.broadcast,
            "erase_with_account": own.erase_with_account,
            "metadata_schemas": own.metadata_schemas,
        }


PLUGIN = SupabaseProject()
