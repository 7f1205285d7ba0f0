"""What one process is: the database that it uses, its queue, its executor, its log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, AliasChoices, BaseModel, Field, SecretStr

from daemon.settings.values import A_CENTURY, http_address


class Database(BaseModel):
    heading: ClassVar = "Database"

    database_url: SecretStr | None = Field(
        None,
        validation_alias=AliasChoices("MEMORYD_DATABASE_URL", "DATABASE_URL"),
        description="Postgres to use. Empty: the embedded one in the data folder.",
    )
    database_urls: SecretStr | None = Field(
        None,
        description="Several databases for one process, instead of DATABASE_URL: NAME=URL each, separated by spaces; or the "
        "path of a file with one a line, which is read again on SIGHUP. docs/many-databases.md",
    )
    database: str | None = Field(
        None, description="Which of MEMORYD_DATABASE_URLS a command means, as --database does. Empty: all."
    )
    suspend_minutes: Annotated[float, Field(gt=0, le=720)] | None = Field(
        None,
        description="For servers that suspend themselves: one of MEMORYD_DATABASE_URLS without work has no connection for this "
        "time, and new rows wait for its end. Empty: one connection waits for them.",
    )
    data_dir: Path = Field(Path(".memoryd"), description="Folder of the embedded Postgres.")
    postgres_port: Annotated[int, Field(ge=1024, le=65535)] | None = Field(
        None, description="Port of the embedded Postgres. Empty: 54329, or a free one."
    )
    pooler: Literal["auto", "direct", "transaction"] = Field(
        "auto",
        description="Whether DATABASE_URL leads to a transaction pooler, where LISTEN does not work and memoryd polls. "
        "auto: found out at start.",
    )
    pool_size: Annotated[int, Field(ge=3, le=100)] = Field(
        10, description="Maximum number of connections, not counting the one that listens."
    )


class Queue(BaseModel):
    heading: ClassVar = "Queue"

    poll_seconds: Annotated[float, Field(gt=0, le=3600)] = Field(
        5.0, description="Pause between two polls for work. They go on beside LISTEN too."
    )
    start_seconds: Annotated[float, Field(ge=0, le=3600)] = Field(
        10.0, description="How long a start waits for a database that does not answer or is starting up."
    )
    shutdown_seconds: Annotated[float, Field(ge=0, le=3600)] = Field(
        10.0, description="How long running batches may take to finish after SIGTERM."
    )


class Executor(BaseModel):
    heading: ClassVar = "Built-in executor"

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
    command_timeout_hours: Annotated[float, Field(gt=0, le=A_CENTURY)] = Field(
        24.0, description="A command that runs for longer than this has failed."
    )


class Mcp(BaseModel):
    heading: ClassVar = "MCP server"

    mcp_token: SecretStr | None = Field(
        None,
        description="Token of `memoryd mcp --http`, 32 characters or more, or file: and the path of a file with it, of mode "
        "0600. docs/mcp.md",
    )


class Http(BaseModel):
    heading: ClassVar = "Health and metrics"

    http: Annotated[str, AfterValidator(http_address)] | None = Field(
        None,
        description="Port, or IP address and port, at which the daemon answers probes and Prometheus, without a token. A port "
        "alone is one of 127.0.0.1; to be reached from other machines name the address, such as 0.0.0.0:9470. Empty: none. "
        "docs/monitoring.md",
    )


class Log(BaseModel):
    heading: ClassVar = "Log"

    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Events below this level are not logged."
    )
    log_format: Literal["auto", "console", "json"] = Field(
        "auto", description="auto: console on a terminal, else JSON."
    )
