"""Settings of one process: its database, its queue, its log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import AliasChoices, BaseModel, Field, SecretStr


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
    admin_roles: str = Field(
        "",
        description="Roles of the database that are granted memoryd_admin, separated by commas: support, who reads every row "
        "on record. docs/supabase.md",
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


class Log(BaseModel):
    heading: ClassVar = "Log"

    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Events below this level are not logged."
    )
    log_format: Literal["auto", "console", "json"] = Field(
        "auto", description="auto: console on a terminal, else JSON."
    )
