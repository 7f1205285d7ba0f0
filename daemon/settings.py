"""Every setting of memoryd, from the environment or a .env file, each with its meaning and its allowed values.

Promise: a wrong value stops the program with one sentence that names the variable, the value and what is allowed.
docs/settings.md and .env.example are written from this file by `python -m docs.describe_settings`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

from dotenv import dotenv_values
from pydantic import AfterValidator, AliasChoices, Field, SecretStr, ValidationError
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, SettingsConfigDict

PREFIX = "MEMORYD_"
NO_SETTINGS = frozenset(PREFIX + name for name in ("COMMAND_ID", "AGENT_ID", "SESSION_ID", "TEST_POSTGRES"))
"""Variables that the built-in executor sets for its programs, and one that the tests read."""
OF_KUBERNETES = (PREFIX + "SERVICE_", PREFIX + "PORT")
"""Prefixes of the variables that Kubernetes sets in every container when there is a service named memoryd."""
ENV_FILE, ENV_FILE_ENCODING = ".env", "utf-8-sig"
A_CENTURY = 876_000
"""In hours. Longer times would not fit into Postgres' timestamps."""

LANGUAGES = (
    "arabic", "armenian", "basque", "catalan", "danish", "dutch", "english", "estonian", "finnish", "french", "german",
    "greek", "hindi", "hungarian", "indonesian", "irish", "italian", "lithuanian", "nepali", "norwegian", "portuguese",
    "romanian", "russian", "serbian", "simple", "spanish", "swedish", "tamil", "turkish", "yiddish",
)  # fmt: skip
"""Those that Postgres can stem (Estonian from 18 on). 'simple' is every other one: its words are not stemmed."""

LEDGERS = ("witness", "rfc3161", "ipfs", "evm")

GROUPS: Mapping[str, str] = MappingProxyType(
    {
        "database_url": "Database",
        "wake_up": "Queue",
        "embedder": "Embedder and language model",
        "drop": "Documents",
        "replica": "Replica",
        "trail_key": "Memory trail",
        "executor_command": "Built-in executor",
        "pending_per_user": "Limits, expiry and notifications",
        "ledgers": "Ledgers",
        "heartbeat_seconds": "Dreams, clean-up and audit trail",
        "mcp_token": "MCP server",
        "log_level": "Log",
    }
)
"""The documents' headings, each by the first setting that stands under it."""


class SettingsError(Exception):
    """A setting has a value that is not allowed; the message is for the person who set it."""


def _known_languages(text: str) -> str:
    unknown = [name for name in split_list(text) if name not in LANGUAGES]
    if unknown:
        raise PydanticCustomError("languages", f"names separated by commas, of these: {', '.join(LANGUAGES)}")
    return text


def _known_ledgers(text: str) -> str:
    if any(name not in LEDGERS for name in split_list(text)):
        raise PydanticCustomError("ledgers", f"names separated by commas, of these: {', '.join(LEDGERS)}")
    return text


def _agent_of_users(text: str) -> str:
    if not 1 <= len(text) <= 200 or not text.isprintable() or not text.strip() or text == "_shared":
        raise PydanticCustomError("agent", "the name of an agent, of 1 to 200 characters, and not _shared")
    return text


def split_list(text: str) -> list[str]:
    """The names in a text that separates them by commas, each once."""
    return list(dict.fromkeys(name for part in text.split(",") if (name := part.strip().lower())))


class Settings(BaseSettings):
    """The settings of one process. Units are in the names."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_file=ENV_FILE,
        env_file_encoding=ENV_FILE_ENCODING,
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        populate_by_name=True,
    )

    database_url: SecretStr | None = Field(
        None,
        validation_alias=AliasChoices("MEMORYD_DATABASE_URL", "DATABASE_URL"),
        description="Postgres to use. Empty: the embedded one in the data folder.",
    )
    data_dir: Path = Field(Path(".memoryd"), description="Folder of the embedded Postgres.")
    postgres_port: Annotated[int, Field(ge=1024, le=65535)] | None = Field(
        None, description="Port of the embedded Postgres. Empty: 54329, or a free one."
    )
    pool: Literal["auto", "direct", "transaction"] = Field(
        "auto", description="Whether DATABASE_URL leads to a transaction pooler. auto: found out at start."
    )
    pool_size: Annotated[int, Field(ge=3, le=100)] = Field(
        10, description="Maximum number of connections, not counting the one that listens."
    )

    wake_up: Literal["auto", "listen", "poll"] = Field(
        "auto",
        description="How the daemon learns of work. poll works without LISTEN, behind a transaction pooler.",
    )
    poll_seconds: Annotated[float, Field(gt=0, le=3600)] = Field(
        5.0, description="Pause between two polls for work. They go on beside LISTEN too."
    )
    claim_seconds: Annotated[float, Field(ge=1, le=3600)] = Field(
        30.0, description="How long a claim is valid without being renewed."
    )
    max_attempts: Annotated[int, Field(ge=1, le=100)] = Field(
        15, description="Attempts before a job is discarded."
    )
    retry_max_seconds: Annotated[float, Field(ge=1, le=86_400)] = Field(
        300.0,
        description="Maximum pause between two attempts. The first pause is a second, each next one twice as long.",
    )
    start_seconds: Annotated[float, Field(ge=0, le=3600)] = Field(
        10.0, description="How long a start waits for a database that does not answer or is starting up."
    )
    shutdown_seconds: Annotated[float, Field(ge=0, le=3600)] = Field(
        10.0, description="How long running batches may take to finish after SIGTERM."
    )

    embedder: str = Field(
        "local/wordllama-256",
        description="Model that embeds texts: local/wordllama-256 or openai/<model>. A database is changed to another one by "
        "memoryd reembed.",
    )
    embedding_dimensions: Annotated[int, Field(ge=1, le=16000)] | None = Field(
        None, description="Dimensions, where the embedder offers several. Changed by memoryd reembed."
    )
    languages: Annotated[str, AfterValidator(_known_languages)] = Field(
        "",
        description="Languages of the texts, separated by commas, the usual one first, as in german,english. Their words are "
        "found in all their forms. Empty: recognised, text by text. docs/languages.md has the names.",
    )
    language_model: str | None = Field(
        None,
        description="Model that writes insights, says where chunks of documents stand, and finds facts if MEMORYD_FACTS is "
        "model: openai/<model>. Empty: rules do.",
    )
    language_model_calls: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        120,
        description="Maximum number of calls of the language model in an hour, of all daemons. Empty: no limit.",
    )
    language_model_tokens: Annotated[int, Field(ge=1, le=1_000_000_000)] | None = Field(
        500_000,
        description="Tokens after which the language model is not called for the rest of an hour. Empty: no limit.",
    )
    openai_api_key: SecretStr | None = Field(
        None,
        validation_alias=AliasChoices("MEMORYD_OPENAI_API_KEY", "OPENAI_API_KEY"),
        description="Key of the OpenAI or compatible server. Many local ones need none.",
    )
    openai_base_url: str | None = Field(
        None, description="Address of a server with OpenAI's protocol. Empty: OpenAI's own."
    )
    provider_timeout_seconds: Annotated[float, Field(gt=0, le=600)] = Field(
        30.0, description="Time limit of one call to a provider."
    )

    facts: Literal["rules", "model", "off"] = Field(
        "rules",
        description="What finds facts that users say of themselves in new messages, to remember them: rules (patterns, "
        "most of them English), or model (rules, and the language model, which then reads what users say of themselves). "
        "docs/facts.md",
    )

    drop: Path | None = Field(
        None,
        description="Drop folder: files that a person puts there become documents, and are moved to taken/ in it. A path, or "
        "gdrive: and the id of a folder in Google Drive. Empty: none. docs/documents.md",
    )
    drop_settle_seconds: Annotated[float, Field(ge=0, le=3600)] = Field(
        2.0, description="How long a file in the drop folder must be unchanged before it is taken."
    )
    drop_scan_seconds: Annotated[float, Field(ge=1, le=3600)] = Field(
        30.0,
        description="Pause between two scans of the drop folder. Events of the file system are acted on at once.",
    )

    replica: Path | None = Field(
        None,
        description="Folder with the documents and what is remembered as files, which people read and change: a path, or "
        "gdrive: and the id of a folder in Google Drive. Empty: none. docs/replica.md",
    )
    replica_scan_seconds: Annotated[float, Field(ge=1, le=86_400)] = Field(
        60.0,
        description="Pause between two scans of the whole replica; longer where events tell of all changes and a scan takes "
        "long. Events are acted on at once.",
    )
    gdrive_key_file: Path | None = Field(
        None,
        description="Key (JSON) of the service account for the replica, or the drop folder, in Google Drive.",
    )
    gdrive_poll_seconds: Annotated[float, Field(ge=1, le=86_400)] = Field(
        10.0, description="Pause between two questions to Google Drive for changes."
    )
    gdrive_url: str | None = Field(
        None, description="Address of a server that speaks Drive v3. Empty: Google's own."
    )

    trail_key: SecretStr | None = Field(
        None,
        description="Private key (PEM, Ed25519) that signs the checkpoints of the trail. Empty: that of "
        "MEMORYD_TRAIL_KEY_FILE. docs/trail.md",
    )
    trail_key_file: Path | None = Field(
        None,
        description="File of that key, which nobody else may read. memoryd anchors new-key FILE makes one. Empty: with the "
        "embedded Postgres trail.key in the data folder, made by itself; else no checkpoint is signed.",
    )
    trail_checkpoint_leaves: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        256, description="Number of new anchors after which a checkpoint is signed."
    )
    trail_checkpoint_minutes: Annotated[float, Field(gt=0, le=525_600)] = Field(
        5.0,
        description="Minutes between two checkpoints where fewer anchors are new. Without new ones none is signed.",
    )
    trail_seconds: Annotated[float, Field(ge=1, le=3600)] = Field(
        15.0, description="Pause between two looks for new anchors, and for what ledgers are to keep."
    )
    trail_payloads: bool = Field(
        False,
        description="Whether ledgers get what was anchored, and not only its hash: ipfs then keeps memories too, for everybody "
        "to read. What was published cannot be erased.",
    )
    anchor_incidents: str = Field(
        "incident, outage, breach, exploit, exploited, vulnerability, compromised, data loss, rollback, rolled back, downtime, "
        "postmortem",
        description="Words, separated by commas, of outcomes that are anchored as incidents. The word none: no outcome is.",
    )
    anchor_decisions: str = Field(
        "decided, decision, chose, agreed to, approved, rejected",
        description="The same for decisions.",
    )
    anchor_milestones: str = Field(
        "milestone, launched, released, deployed, shipped, went live",
        description="The same for milestones.",
    )

    executor_command: str | None = Field(
        None,
        description="Program that runs commands. It reads context and message from stdin. Empty: no built-in executor.",
    )
    executor_timeout_seconds: Annotated[float, Field(gt=0, le=31_536_000)] = Field(
        600.0, description="Time limit of one command."
    )
    executor_parallel: Annotated[int, Field(ge=1, le=1000)] = Field(
        2, description="Maximum number of commands that run at once for one agent."
    )
    executor_total: Annotated[int, Field(ge=1, le=10_000)] = Field(
        16, description="Maximum number of commands that run at once in this daemon, of all agents."
    )
    executor_output_bytes: Annotated[int, Field(ge=1000, le=200_000_000)] = Field(
        16_000_000,
        description="Maximum output that is kept of one command. Of longer output the middle is left out.",
    )
    executor_user: str | None = Field(
        None,
        description="System user that commands run as; needs root. Empty: the daemon's user, which then must not be root.",
    )
    executor_dir: Path | None = Field(
        None,
        description="Folder where commands run. Empty: a private one for each command, removed afterwards.",
    )
    executor_environment: str = Field(
        "", description="Names of variables that commands see beside the usual ones, separated by commas."
    )
    command_hours: Annotated[float, Field(gt=0, le=A_CENTURY)] = Field(
        24.0, description="A command that runs for longer than this has failed."
    )

    pending_per_user: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        100,
        description="Maximum number of requests and commands that an end user may have pending. Agents have no limit.",
    )
    outcome_ttl_hours: Annotated[int, Field(ge=1, le=A_CENTURY)] = Field(
        72, description="Default TTL of outcome, error, observation."
    )
    task_memory_ttl_hours: Annotated[int, Field(ge=1, le=A_CENTURY)] = Field(
        2160, description="Default TTL of memory_type task_memory."
    )
    conversation_retention_minutes: Annotated[int, Field(ge=1, le=60 * A_CENTURY)] | None = Field(
        None,
        description="How long conversations are kept, unless the user has set a time. Empty: for ever.",
    )
    public_notifications: bool = Field(
        True, description="Whether command_ready, request_done and memory_updated are sent."
    )
    notification_user_ids: bool = Field(
        False, description="Whether memory_updated names the user, to every login that listens."
    )

    app_agent_id: Annotated[str, AfterValidator(_agent_of_users)] = Field(
        "app", description="agent_id of the memories that agent-memory-write stores. docs/supabase.md"
    )
    metadata_schemas: Literal["off", "warn", "refuse"] = Field(
        "warn",
        description="What happens to a memory whose metadata are not as those of its memory_type. docs/supabase.md",
    )
    broadcast: Literal["private", "public", "off"] = Field(
        "private",
        description="Who may hear memory_updated on Supabase's topic agent-memory: signed-in users, everybody, or nobody. "
        "docs/supabase.md",
    )
    admin_roles: str = Field(
        "",
        description="Roles of the database that are granted memoryd_admin, separated by commas: support, who reads every row "
        "on record. docs/supabase.md",
    )
    erase_accounts: bool = Field(
        True, description="Whether the memory of an account that is deleted from auth.users is erased."
    )

    ledgers: Annotated[str, AfterValidator(_known_ledgers)] = Field(
        "",
        description="Who else keeps what the trail says, separated by commas: witness, rfc3161, ipfs, evm. Empty: nobody. "
        "docs/ledgers.md",
    )
    witness_url: str | None = Field(None, description="Address of a witness of C2SP tlog-witness.")
    witness_key: str | None = Field(
        None, description="Public key of the witness (a vkey): name, id and key with a plus between."
    )
    tsa_url: str | None = Field(None, description="Address of an authority for time stamps of RFC 3161.")
    tsa_certificate: Path | None = Field(
        None,
        description="Certificates (PEM) of that authority: its root, and those between that its answers do not have.",
    )
    ipfs_url: str | None = Field(
        None, description="Address of the RPC of a Kubo node, such as http://127.0.0.1:5001."
    )
    ipfs_token: SecretStr | None = Field(None, description="Token for that RPC, where it wants one.")
    ipfs_token_file: Path | None = Field(
        None, description="File with that token, instead of it. Its mode must be 0600."
    )
    pinata_jwt: SecretStr | None = Field(
        None, description="Key (JWT) of Pinata, to pin there instead of on a Kubo node."
    )
    pinata_jwt_file: Path | None = Field(
        None, description="File with that key, instead of it. Its mode must be 0600."
    )
    pinata_url: str | None = Field(
        None, description="Address of a server that speaks Pinata's protocol. Empty: Pinata's own."
    )
    evm_rpc_url: SecretStr | None = Field(None, description="Address of the JSON-RPC of a node of the chain.")
    evm_chain_id: Annotated[int, Field(ge=1, le=2**63 - 1)] | None = Field(
        None, description="Number of the chain, such as 8453 for Base. Nothing is sent to another one."
    )
    evm_contract: str | None = Field(None, description="Address of the contract AgentMemoryAnchor.")
    evm_agent_id: Annotated[int, Field(ge=0, le=2**63 - 1)] | None = Field(
        None, description="As which agent memoryd writes there, such as the agent's ERC-8004 id."
    )
    evm_key: SecretStr | None = Field(None, description="Private key that pays for the transactions, in hex.")
    evm_key_file: Path | None = Field(
        None, description="File with that key, instead of it. Its mode must be 0600."
    )
    evm_confirmations: Annotated[int, Field(ge=1, le=100)] = Field(
        12, description="Blocks until an anchor is final, counted from its own."
    )
    evm_max_fee_gwei: Annotated[float, Field(gt=0, le=1_000_000)] = Field(
        2.0, description="Maximum price of a unit of gas. While it costs more, nothing is sent."
    )
    evm_max_tip_gwei: Annotated[float, Field(ge=0, le=1_000_000)] = Field(
        0.1, description="Maximum part of that price for who makes the block."
    )

    heartbeat_seconds: Annotated[float, Field(ge=0.1, le=600)] = Field(
        30.0, description="Pause between two heartbeats. Each also checks whether a dream is due."
    )
    dream_idle_hours: Annotated[float, Field(gt=0, le=A_CENTURY)] = Field(
        6.0, description="Hours without a command, message, request, recall or context before a dream begins."
    )
    dream_every_hours: Annotated[float, Field(gt=0, le=A_CENTURY)] = Field(
        6.0, description="Minimum hours between two completed dreams."
    )
    dream_overdue_hours: Annotated[float, Field(gt=0, le=A_CENTURY)] = Field(
        24.0,
        description="Hours after the last completed dream when one begins although the fleet is not idle. Loads end it.",
    )
    dream_window_hours: Annotated[float, Field(gt=0, le=A_CENTURY)] = Field(
        48.0, description="A dream reads the memories of this many last hours."
    )
    cleanup_seconds: Annotated[float, Field(ge=1, le=604_800)] = Field(
        300.0, description="Pause between two clean-ups of expired memories, conversations and knowledge."
    )
    query_log_days: Annotated[float, Field(gt=0, le=36_500)] = Field(
        30.0, description="How long rows of memory_queries and memory_requests are kept."
    )
    audit: bool = Field(True, description="Whether reads and writes of a user's memory are logged.")
    audit_days: Annotated[float, Field(gt=0, le=36_500)] = Field(
        90.0, description="How long rows that memoryd wrote into agent_execution_logs are kept."
    )

    mcp_token: SecretStr | None = Field(
        None, description="Token of `memoryd mcp --http`, 32 characters or more. docs/mcp.md"
    )
    mcp_token_file: Path | None = Field(
        None, description="File that contains this token instead, readable by its owner only (mode 0600)."
    )

    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Events below this level are not logged."
    )
    log_format: Literal["auto", "console", "json"] = Field(
        "auto", description="auto: console on a terminal, else JSON."
    )


def load_settings(**overrides: object) -> Settings:
    """Reads the environment and .env; `overrides` by field name win.

    Raises SettingsError: one line per wrong variable.
    """
    try:
        given = {k: v for k, v in overrides.items() if v is not None}
        return Settings(**{"_env_file": _env_file(), **given})  # type: ignore[arg-type]
    except ValidationError as error:
        raise SettingsError("\n".join(_sentence(dict(e)) for e in error.errors())) from None
    except UnicodeDecodeError:
        raise SettingsError("The file .env is not UTF-8. Save it as UTF-8.") from None
    except OSError as error:
        raise SettingsError(f"The file .env cannot be read: {error.strerror}.") from None


def foreign_env_file() -> int | None:
    """The user id that .env, or the link of that name, belongs to, if that is neither this process's nor root's.

    Such a file is not read: any user who may put a file into the working directory could name a program for memoryd to run.
    """
    ours = (os.geteuid(), 0)
    for look in (os.lstat, os.stat):
        with suppress(OSError):
            owner = look(ENV_FILE).st_uid
            if owner not in ours:
                return owner
    return None


def _env_file() -> str | None:
    return ENV_FILE if foreign_env_file() is None else None


def _variables_of_file() -> dict[str, str | None]:
    path = _env_file()
    return {} if path is None else dotenv_values(path, encoding=ENV_FILE_ENCODING)


def unknown_settings() -> dict[str, str | None]:
    """Variables named like settings that are none, most likely misspelt; each with the setting of the nearest name."""
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    # Upper and lower case are one to us, as they are to Settings.
    given = {name.upper() for name in (*os.environ, *_variables_of_file())}
    unknown = sorted(
        name
        for name in given - known - NO_SETTINGS
        if name.startswith(PREFIX) and not name.startswith(OF_KUBERNETES)
    )
    return {
        name: next(iter(get_close_matches(name, sorted(known), n=1, cutoff=0.9)), None) for name in unknown
    }


def _sentence(error: dict[str, object]) -> str:
    location = error["loc"]
    name = str(location[0]) if isinstance(location, tuple) and location else "?"
    variable = name if name.isupper() else PREFIX + name.upper()
    shown = (
        "a secret value"
        if any(word in name.lower() for word in ("key", "url", "jwt", "token"))
        else repr(error.get("input"))
    )
    field = Settings.model_fields.get(name)
    about = f" {field.description}" if field is not None and field.description else ""
    return f"{variable} is {shown}; it must be {allowed_values(name) or error['msg']}.{about}"


def allowed_values(name: str) -> str | None:
    """What the setting of this field name may be, in words; None where any text is allowed."""
    schema = Settings.model_json_schema(by_alias=False)["properties"].get(name, {})
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
