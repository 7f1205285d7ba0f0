"""Every setting of memoryd, each with its meaning and its allowed values.

docs/settings.md and .env.example are written from this package by `python -m docs.describe_settings`.
"""

from daemon.settings.env_file import (
    DATABASES,
    NAMED_BY,
    foreign_env_file,
    heed_variables_of_file,
    no_folder_believed,
)
from daemon.settings.load import (
    PREFIX,
    Settings,
    SettingsError,
    all_settings,
    allowed_values,
    load_settings,
    outdated_settings,
    removed_settings,
    sections,
    unknown_settings,
)
from daemon.settings.values import LANGUAGES, roles_in, split_list

__all__ = [
    "DATABASES",
    "LANGUAGES",
    "NAMED_BY",
    "PREFIX",
    "Settings",
    "SettingsError",
    "all_settings",
    "allowed_values",
    "foreign_env_file",
    "heed_variables_of_file",
    "load_settings",
    "no_folder_believed",
    "outdated_settings",
    "removed_settings",
    "roles_in",
    "sections",
    "split_list",
    "unknown_settings",
]
