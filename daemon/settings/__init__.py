"""The settings of one process, from the environment or the file beside it (env_file.py); each stands in sections.py.

Promise: a wrong value stops the program with one sentence that names the variable, the value and the allowed values.
docs/settings.md and .env.example are written from this package by `python -m docs.describe_settings`.
"""

from __future__ import annotations

import os
from difflib import get_close_matches
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError, create_model
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from daemon.plugins import PluginError, load_plugins
from daemon.settings.env_file import DATABASES as DATABASES
from daemon.settings.env_file import (
    ENCODING,
    OF_FOLDER,
    astray,
    env_file,
    outranked,
    unreadable,
    variables_of_file,
)
from daemon.settings.env_file import NAMED_BY as NAMED_BY
from daemon.settings.env_file import foreign_env_file as foreign_env_file
from daemon.settings.env_file import heed_variables_of_file as heed_variables_of_file
from daemon.settings.env_file import no_folder_believed as no_folder_believed
from daemon.settings.sections import Database, Limits, Log, Models, Queue, Upkeep
from daemon.settings.values import FILE
from daemon.settings.values import LANGUAGES as LANGUAGES
from daemon.settings.values import roles_in as roles_in
from daemon.settings.values import split_list as split_list

PREFIX = "MEMORYD_"
NO_SETTINGS = frozenset(
    PREFIX + name for name in ("COMMAND_ID", "AGENT_ID", "SESSION_ID", "TEST_POSTGRES", "ENV_FILE")
)
"""Variables that the executor sets for its programs, one that the tests read, and the one that names a file of them."""
OF_KUBERNETES = (PREFIX + "SERVICE_", PREFIX + "PORT")
"""Prefixes of the variables that Kubernetes sets in every container when there is a service named memoryd."""

OF_FILES = ("TRAIL_KEY", "MCP_TOKEN", "IPFS_TOKEN", "PINATA_JWT", "EVM_KEY")
"""Secrets that had a setting of their own for a file, whose name ended with _FILE. It goes on counting."""

REMOVED = {
    "ANCHOR_DECISIONS": "the words are in docs/trail.md; anchor other memories with memoryd.anchor()",
    "ANCHOR_INCIDENTS": "the words are in docs/trail.md; anchor other memories with memoryd.anchor()",
    "ANCHOR_MILESTONES": "the words are in docs/trail.md; anchor other memories with memoryd.anchor()",
    "AUDIT": "reads and writes are logged, but with MEMORYD_AUDIT_DAYS=0",
    "CLAIM_SECONDS": "30 seconds",
    "CLEANUP_SECONDS": "300 seconds",
    "DATABASES_AT_ONCE": "8 databases",
    "DREAM_EVERY_HOURS": "6 hours",
    "DROP_SCAN_SECONDS": "30 seconds",
    "DROP_SETTLE_SECONDS": "2 seconds",
    "EMBEDDER_CORES": "half of the machine's cores, two at least",
    "EVM_CONFIRMATIONS": "12 blocks",
    "EXECUTOR_OUTPUT_BYTES": "16 MB",
    "HEARTBEAT_SECONDS": "30 seconds",
    "MAX_ATTEMPTS": "15 attempts",
    "PENDING_PER_USER": "100 requests and commands",
    "PINATA_URL": "Pinata's own address",
    "PREVIOUS_EMBEDDINGS_DAYS": "30 days",
    "PUBLIC_NOTIFICATIONS": "they are sent",
    "READY_LAG_SECONDS": "60 seconds",
    "REPLICA_SCAN_SECONDS": "60 seconds",
    "REST_DISCONNECTED": "MEMORYD_SUSPEND_MINUTES says for how long there is no connection",
    "REST_MINUTES": "60 minutes; without a connection MEMORYD_SUSPEND_MINUTES",
    "REST_SECONDS": "60 seconds",
    "RETRY_MAX_SECONDS": "300 seconds",
    "SUMMARY_SECONDS": "60 seconds",
    "TRAIL_CHECKPOINT_LEAVES": "256 anchors",
    "TRAIL_SECONDS": "a twentieth of MEMORYD_TRAIL_CHECKPOINT_MINUTES",
    "WITNESS_KEY": "time stamps (rfc3161) stand in the place of witnesses",
    "WITNESS_URL": "time stamps (rfc3161) stand in the place of witnesses",
}
"""Settings that are gone, by name without the prefix, each with what holds now. Each start names those that are still set."""


class SettingsError(Exception):
    """A setting has a value that is not allowed; the message is for the person who set it."""


Section = TypeVar("Section", bound=BaseModel)


class Settings(Log, Upkeep, Limits, Models, Queue, Database, BaseSettings):
    """The settings of the core, of one process; `all_settings` adds those of the plugins. Units are in the names."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_file=OF_FOLDER,
        env_file_encoding=ENCODING,
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        populate_by_name=True,
    )

    def section(self, kind: type[Section]) -> Section:
        """The same settings, as the plugin sees them whose section this is."""
        if not isinstance(self, kind):
            raise TypeError(f"{kind.__name__} is a section of a plugin that is not loaded")
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        *sources: PydanticBaseSettingsSource,
        **named: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Of a file what counts; without one no source for it, which would look for each setting in nothing."""
        given = super().settings_customise_sources(settings_cls, *sources, **named)
        for one in given:
            if isinstance(one, DotEnvSettingsSource) and one.env_vars:
                without = outranked()
                one.env_vars = {k: v for k, v in one.env_vars.items() if k.upper() not in without}
        return tuple(one for one in given if not isinstance(one, DotEnvSettingsSource) or one.env_vars)


def sections() -> tuple[type[BaseModel], ...]:
    """In the order of the documents. Raises PluginError."""
    of_plugins = (section for plugin in load_plugins() for section in plugin.settings)
    return (Database, Queue, Models, *of_plugins, Limits, Upkeep, Log)


@cache
def all_settings() -> type[Settings]:
    """The settings of the core and of all plugins. Raises PluginError."""
    of_plugins = tuple(section for plugin in load_plugins() for section in plugin.settings)
    for section in of_plugins:
        if taken := section.model_fields.keys() & Settings.model_fields.keys():
            raise PluginError(f"A plugin brings the setting {min(taken)}, which memoryd has: uninstall it.")
    bases: tuple[Any, ...] = (*of_plugins, Settings)
    made: type[Settings] = create_model("Settings", __base__=bases)
    return made


def load_settings(**overrides: object) -> Settings:
    """Reads the environment and the file; `overrides` by field name win.

    Raises SettingsError: one line per wrong variable.
    """
    file = env_file()
    try:
        if (fault := astray(variables_of_file())) is not None:
            raise SettingsError(fault)
        given = {k: v for k, v in overrides.items() if v is not None}
        return all_settings()(**{"_env_file": file, **_secret_files(), **given})  # type: ignore[arg-type]
    except ValidationError as error:
        raise SettingsError("\n".join(_sentence(dict(e)) for e in error.errors())) from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(unreadable(file, error)) from None


def _secret_files() -> dict[str, str]:
    """The secrets of earlier versions' settings for files, by field name. Raises SettingsError."""
    named = variables_of_file() | {name.upper(): value for name, value in os.environ.items() if value}
    found = {}
    for secret in OF_FILES:
        variable = PREFIX + secret
        if path := named.get(f"{variable}_FILE"):
            if variable in named:
                raise SettingsError(f"both {variable} and {variable}_FILE are set: unset one of them")
            found[secret.lower()] = FILE + path
    return found


def unknown_settings() -> dict[str, str | None]:
    """Variables named like settings that are none, most likely misspelt; each with the setting of the nearest name."""
    known = {PREFIX + name.upper() for name in all_settings().model_fields}
    known |= {f"{PREFIX}{name}_FILE" for name in OF_FILES}
    unknown = sorted(
        name
        for name in _given() - known - NO_SETTINGS - removed_settings().keys()
        if not name.startswith(OF_KUBERNETES)
    )
    return {
        name: next(iter(get_close_matches(name, sorted(known), n=1, cutoff=0.9)), None) for name in unknown
    }


def outdated_settings() -> dict[str, str]:
    """Variables with a value that was allowed once, each with what to do."""
    given = {name.upper(): value for name, value in (variables_of_file() | dict(os.environ)).items()}
    outdated = (one for section in sections() for one in getattr(section, "outdated", {}).items())
    return {
        variable: hint
        for variable, (value, hint) in outdated
        if (given.get(variable) or "").strip().lower() == value
    }


def removed_settings() -> dict[str, str]:
    """Variables of settings that are gone; each with what holds now."""
    return {name: now for name in sorted(_given()) if (now := REMOVED.get(name.removeprefix(PREFIX)))}


def _given() -> set[str]:
    """The variables with our prefix that the environment or the file sets, in upper case: Settings takes both for one."""
    names = {name.upper() for name, value in os.environ.items() if value} | variables_of_file().keys()
    return {name for name in names if name.startswith(PREFIX)}


def _sentence(error: dict[str, object]) -> str:
    location = error["loc"]
    name = str(location[0]) if isinstance(location, tuple) and location else "?"
    variable = name if name.isupper() else PREFIX + name.upper()
    shown = (
        "a secret value"
        if any(word in name.lower() for word in ("key", "url", "jwt", "token"))
        else repr(str(error.get("input"))[:200])
    )
    field = all_settings().model_fields.get(name)
    about = f" {field.description}" if field is not None and field.description else ""
    return f"{variable} is {shown}; it must be {allowed_values(name) or error['msg']}.{about}"


@cache
def _schemas() -> dict[str, dict[str, Any]]:
    schemas: dict[str, dict[str, Any]] = all_settings().model_json_schema(by_alias=False)["properties"]
    return schemas


def allowed_values(name: str) -> str | None:
    """The allowed values of this field in words; None if any text is allowed."""
    schema = _schemas().get(name, {})
    schema = next((one for one in schema.get("anyOf", ()) if one["type"] != "null"), schema)
    if values := schema.get("enum"):
        return f"{', '.join(values[:-1])} or {values[-1]}"
    kind = {"boolean": "true or false", "integer": "a whole number", "number": "a number"}.get(
        schema.get("type", "")
    )
    if kind is None or "maximum" not in schema:
        return kind
    if "minimum" in schema:
        return f"{kind} from {schema['minimum']} to {schema['maximum']}"
    return f"{kind} above {schema['exclusiveMinimum']} and up to {schema['maximum']}"
