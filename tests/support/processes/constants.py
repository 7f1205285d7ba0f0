"""Constants of memoryd that a process of a test may have other values for, so that the test does not wait for minutes.

They are no settings: a process reads them from this variable alone, and only where a test started it.

    python -m tests.support.processes.constants run      as `python -m daemon run`, with these values
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Mapping

from daemon.plugins import load_plugins
from daemon.settings import all_settings

VARIABLE = "CONSTANTS_OF_TEST"
CONSTANTS = {
    "claim_again_seconds": "daemon.queue.failures.CLAIM_MAX_SECONDS",
    "claim_seconds": "daemon.presence.CLAIM_SECONDS",
    "cleanup_seconds": "daemon.upkeep.CLEANUP_SECONDS",
    "dream_every_hours": "daemon.topics.DREAM_EVERY_HOURS",
    "databases_at_once": "plugins.tenants.databases.process.AT_ONCE",
    "drive_young_seconds": "plugins.replica.location.YOUNG_SECONDS",
    "drop_scan_seconds": "plugins.documents.plugin.DROP_SCAN_SECONDS",
    "drop_settle_seconds": "plugins.documents.plugin.DROP_SETTLE_SECONDS",
    "executor_output_bytes": "plugins.executor.executor.OUTPUT_BYTES",
    "heartbeat_seconds": "daemon.presence.HEARTBEAT_SECONDS",
    "page_seconds": "plugins.web.app.SECONDS",
    "ping_seconds": "daemon.queue.listener.PING_SECONDS",
    "plugins": "daemon.plugins.OURS",
    "max_attempts": "daemon.topics.MAX_ATTEMPTS",
    "ready_lag_seconds": "daemon.queue.backlog.LAG_SECONDS",
    "replica_scan_seconds": "plugins.replica.keeper.SCAN_SECONDS",
    "rest_seconds": "plugins.tenants.databases.serving.REST_SECONDS",
    "retry_max_seconds": "daemon.topics.RETRY_MAX_SECONDS",
    "summary_seconds": "daemon.activity.SUMMARY_SECONDS",
}
"""By the name that a test gives them beside settings."""


def variable_of(given: Mapping[str, object]) -> dict[str, str]:
    """The variable with those of the given names that are constants; empty where none is."""
    values = {CONSTANTS[name]: value for name, value in given.items() if name in CONSTANTS}
    return {VARIABLE: json.dumps(values)} if values else {}


def change_constants() -> None:
    """Gives the constants of this process the values of the variable."""
    for path, value in json.loads(os.environ.get(VARIABLE, "{}")).items():
        module, _, name = path.rpartition(".")
        imported = importlib.import_module(module)
        setattr(imported, name, type(getattr(imported, name))(value))
    # A forked process has loaded all plugins.
    load_plugins.cache_clear()
    all_settings.cache_clear()


if __name__ == "__main__":
    from daemon.__main__ import main

    change_constants()
    main()
