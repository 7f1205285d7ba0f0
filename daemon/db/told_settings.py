"""The settings that the database is told: those that its triggers and functions read."""

from __future__ import annotations

import json
from typing import Any

from daemon.db.migrator import WRITE_SETTINGS
from daemon.settings import Settings, split_list


async def write_settings(connection: Any, settings: Settings) -> None:
    """Tells the database what its triggers must know."""
    values: dict[str, object] = {
        "notification_user_ids": settings.notification_user_ids,
        "app_agent_id": settings.app_agent_id,
        "context_words": settings.context_words,
        "audit": settings.audit_days > 0,
        "broadcast": settings.broadcast,
        "erase_with_account": settings.erase_with_account,
        "metadata_schemas": settings.metadata_schemas,
        "facts": settings.read_in_messages,
        "languages": split_list(settings.languages),
        "secret_fields": "|".join(split_list(settings.secret_fields)),
        "ttl_hours.outcome": settings.outcome_ttl_hours,
        "ttl_hours.error": settings.outcome_ttl_hours,
        "ttl_hours.observation": settings.outcome_ttl_hours,
        "ttl_hours.task_memory": settings.task_memory_ttl_hours,
    }
    await connection.execute(WRITE_SETTINGS, list(values), [json.dumps(v) for v in values.values()])
