"""Every setting of memoryd, each with its meaning and its allowed values.

docs/settings.md and .env.example are written from this package by `python -m docs.describe_settings`.
"""

from daemon.settings.load import (
    PREFIX,
    SECTIONS,
    Settings,
    SettingsError,
    allowed_values,
    foreign_env_file,
    heed_variables_of_file,
    load_settings,
    unknown_settings,
)
from daemon.settings.values import LANGUAGES, roles_in, split_list

__all__ = [
    "LANGUAGES",
    "PREFIX",
    "SECTIONS",
    "Settings",
    "SettingsError",
    "allowed_values",
    "foreign_env_file",
    "heed_variables_of_file",
    "load_settings",
    "roles_in",
    "split_list",
    "unknown_settings",
]
