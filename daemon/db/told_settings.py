"""Writes the settings that triggers and functions read into the database."""

from __future__ import annotations

import json
from typing import Any

from daemon.db.migrator import WRITE_SETTINGS
from daemon.plugins import load_plugins
from daemon.settings import Settings, split_list


async def write_settings(connection: Any, settings: Settings) -> None:
    """Tells the database what its triggers must know."""
    values: dict[str, object] = {
        "notification_user_ids": settings.notification_user_ids,
        "context_words": settings.context_words,
        "audit": settings.audit_days > 0,
        "facts": "off",  # without the plugin that reads them
        "languages": split_list(settings.languages),
        "ttl_hours.outcome": settings.outcome_ttl_hours,
        "ttl_hours.error": settings.outcome_ttl_hours,
        "ttl_hours.observation": settings.outcome_ttl_hours,
        "ttl_hours.task_memory": settings.task_memory_ttl_hours,
    }
    for plugin in load_plugins():
        values |= plugin.database_settings(settings)
    await connection.execute(WRITE_SETTINGS, list(values), [json.dumps(v) for v in values.values()])
