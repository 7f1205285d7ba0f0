"""The settings of the core, in the sections and the order of docs/settings.md."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, AliasChoices, BaseModel, Field, SecretStr

from daemon.settings.values import A_CENTURY, http_url, known_languages


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
        10,
        description="Maximum number of connections, not counting the one that listens. From four on a third of them makes "
        "contexts and answers and nothing else.",
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


class Models(BaseModel):
    heading: ClassVar = "Embedder and language model"

    embedder: str = Field(
        "local/wordllama-256",
        description="Model that embeds texts: local/wordllama-256, openai/<model> or fastembed/<model or folder> (extra onnx). "
        "A database is changed to another one by memoryd reembed.",
    )
    embedding_dimensions: Annotated[int, Field(ge=1, le=16000)] | None = Field(
        None, description="Dimensions, where the embedder offers several. Changed by memoryd reembed."
    )
    query_instruction: str | None = Field(
        None,
        description="What stands before a question that is embedded; none for nothing. Empty: known by the model's name "
        "(e5, bge, nomic, arctic, mxbai, Qwen3-Embedding, EmbeddingGemma), else nothing. Changed by memoryd reembed.",
    )
    document_instruction: str | None = Field(
        None, description="The same before a text that questions may find. Texts are stored without it."
    )
    languages: Annotated[str, AfterValidator(known_languages)] = Field(
        "",
        description="Languages of the texts, separated by commas, the usual one first, as in german,english. Their words are "
        "found in all their forms. Empty: recognised, text by text. docs/languages.md has the names.",
    )
    language_model: str | None = Field(
        None,
        description="Model that writes insights, says where chunks of documents stand, and reads conversations for facts "
        "(MEMORYD_FACTS): openai/<model>. Empty: rules write insights, and facts are what programs remember().",
    )
    language_model_calls_per_hour: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        120,
        description="Maximum number of calls of the language model in an hour, of all daemons. Empty: no limit.",
    )
    language_model_tokens_per_hour: Annotated[int, Field(ge=1, le=1_000_000_000)] | None = Field(
        500_000,
        description="Tokens after which the language model is not called for the rest of an hour. Empty: no limit.",
    )
    openai_api_key: SecretStr | None = Field(
        None,
        validation_alias=AliasChoices("MEMORYD_OPENAI_API_KEY", "OPENAI_API_KEY"),
        description="Key of the OpenAI or compatible server. Many local ones need none.",
    )
    openai_base_url: Annotated[str, AfterValidator(http_url)] | None = Field(
        None, description="Address of a server with OpenAI's protocol. Empty: OpenAI's own."
    )
    provider_timeout_seconds: Annotated[float, Field(gt=0, le=3600)] = Field(
        30.0, description="Time limit of one call to a provider."
    )

    @property
    def embedder_chosen(self) -> bool:
        """Whether somebody chose the embedder, and it is not only the default."""
        return bool(self.model_fields_set & {"embedder", "embedding_dimensions"})

    @property
    def embedder_instructed(self) -> bool:
        """Whether somebody chose what stands before the texts."""
        return self.query_instruction is not None or self.document_instruction is not None


class Limits(BaseModel):
    heading: ClassVar = "Limits, expiry and notifications"

    context_words: Annotated[int, Field(ge=100, le=10_000)] = Field(
        500, description="Number of words that a context may have. docs/context.md"
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
    notification_user_ids: bool = Field(
        False, description="Whether memory_updated names the user, to every login that listens."
    )


class Upkeep(BaseModel):
    heading: ClassVar = "Dreams, clean-up and audit trail"

    dream_idle_hours: Annotated[float, Field(gt=0, le=A_CENTURY)] = Field(
        6.0, description="Hours in which nobody asked or wrote anything before a dream begins. docs/dreams.md"
    )
    command_timeout_hours: Annotated[float, Field(gt=0, le=A_CENTURY)] = Field(
        24.0, description="A command that runs for longer than this has failed."
    )
    query_log_days: Annotated[float, Field(gt=0, le=36_500)] = Field(
        30.0, description="How long rows of memory_queries and memory_requests are kept."
    )
    history_days: Annotated[float, Field(gt=0, le=36_500)] = Field(
        365.0,
        description="How long finished commands, ended runs with their steps, and dreams are kept. "
        "A command stays as long as a memory of it does. docs/operations.md",
    )
    audit_days: Annotated[float, Field(ge=0, le=36_500)] = Field(
        90.0,
        description="How long agent_execution_logs keeps who read and wrote a user's memory. 0: only what support reads is "
        "logged, and kept for 90 days.",
    )


class Log(BaseModel):
    heading: ClassVar = "Log"

    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Events below this level are not logged."
    )
    log_format: Literal["auto", "console", "json"] = Field(
        "auto", description="auto: console on a terminal, else JSON."
    )
