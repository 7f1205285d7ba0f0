"""What the commands share: settings, the way to the database, and how a failure ends in one sentence.

Promise: no command shows a traceback for something that its user can mend.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import typer

if TYPE_CHECKING:
    from daemon.db.pool import Database
    from daemon.embedded.server import EmbeddedPostgres
    from daemon.settings import Settings
    from providers.ports import Embedder, LanguageModel

Result = TypeVar("Result")


class Failure(Exception):  # noqa: N818 - the end of a command, told to its user
    """Ends the command with this sentence and exit code 1."""


def show_sentence(sentence: str) -> None:
    """To a person."""
    typer.secho(sentence, err=True, fg="red")


def settings_or_exit(
    *, quiet: bool = False, tell: Callable[[str], None] = show_sentence, **overrides: object
) -> Settings:
    """The settings; a wrong one ends the program with its sentence, exit code 2.

    `quiet`: the command prints an answer, so only warnings are logged, unless a level was asked for.
    """
    from daemon.logs import configure_logs, get_logger
    from daemon.settings import SettingsError, foreign_env_file, load_settings, unknown_settings

    try:
        settings = load_settings(**overrides)
    except SettingsError as error:
        tell(str(error))
        raise typer.Exit(2) from None
    level = "warning" if quiet and "log_level" not in settings.model_fields_set else settings.log_level
    configure_logs(level=level, style=settings.log_format)
    if (owner := foreign_env_file()) is not None:
        get_logger().warning("env_file_not_read", owner=owner, me=os.geteuid())
    for name, meant in unknown_settings().items():
        get_logger().warning("setting_unknown", variable=name, nearest=meant)
    return settings


def run_async(main: Coroutine[Any, Any, Result], *, tell: Callable[[str], None] = show_sentence) -> Result:
    """Runs a command's coroutine; failures that have a sentence end with it, exit code 1."""
    with sentences(tell):
        return asyncio.run(main)


@contextmanager
def sentences(tell: Callable[[str], None] = show_sentence) -> Iterator[None]:
    """Turns known failures into one sentence on stderr and exit code 1."""
    try:
        yield
    except BrokenPipeError:
        raise  # the reader of our output has gone: nobody is left to be told
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    except Exception as error:
        sentence = explain(error)
        if sentence is None:
            raise
        tell(sentence)
        raise typer.Exit(1) from None


def explain(error: Exception) -> str | None:
    """What went wrong and what to do, for a failure that the user can mend; None for a bug."""
    if isinstance(error, Failure):
        return str(error)  # without a look at libraries, one of which may be the reason
    import asyncpg

    from daemon.db.migrator import MigrationError
    from daemon.embedded.account import EmbeddedPostgresError
    from providers.ports import Rejected, Unavailable

    # Of a PostgresError only the message: details and hints stand on lines of their own, and may hold rows.
    said = str(error.args[0]) if isinstance(error, asyncpg.PostgresError) and error.args else str(error)
    match error:
        case MigrationError() | EmbeddedPostgresError() | Unavailable() | Rejected() | ValueError():
            return said
        case asyncpg.InvalidPasswordError() | asyncpg.InvalidAuthorizationSpecificationError():
            return f"The database refused to let us in: {said}. Check user and password in DATABASE_URL."
        case asyncpg.InvalidCatalogNameError():
            return f"{said}. Create it, or correct DATABASE_URL."
        case (
            asyncpg.UndefinedTableError()
            | asyncpg.InvalidSchemaNameError()
            | asyncpg.UndefinedFunctionError()
        ):
            return f"This database has no memoryd schema yet ({said}). Run: memoryd migrate"
        case asyncpg.UndefinedObjectError():
            return f"{said}. Run: memoryd migrate"
        case asyncpg.InsufficientPrivilegeError():
            return f"{said}. Connect as the role that ran memoryd migrate, or as a superuser."
        case asyncpg.PostgresError():
            hint = getattr(error, "hint", None)
            return f"The database said: {said}." + (f" {hint}" if hint else "")
        case OSError() | asyncpg.InterfaceError() | asyncpg.InternalClientError():
            reason = said or type(error).__name__
            return f"The database cannot be reached: {reason}. Is it running, and is DATABASE_URL right?"
    return None


@contextmanager
def postgres(
    settings: Settings, *, keep: bool = False, existing: bool = False
) -> Iterator[tuple[str, EmbeddedPostgres | None]]:
    """The database's URL; the embedded server runs meanwhile when there is no DATABASE_URL.

    It is stopped at the end by the last command that uses it, unless `keep`. With `existing` a database that
    was never made is a Failure.
    """
    if settings.database_url is not None:
        yield settings.database_url.get_secret_value(), None
        return
    from daemon.cli.embedded import embedded

    with embedded(settings, keep=keep, existing=existing) as server:
        yield server.socket_url, server


def with_database(work: Callable[[Settings, Database], Awaitable[Result]]) -> Result:
    """Runs the work of a command on a database that must be there; a failure ends with its sentence."""
    settings = settings_or_exit(quiet=True)

    async def main(url: str) -> Result:
        async with open_database(settings, url) as database:
            return await work(settings, database)

    with sentences(), postgres(settings, existing=True) as (url, _server):
        return asyncio.run(main(url))


@asynccontextmanager
async def open_database(
    settings: Settings, url: str, *, application: str = "memoryd cli"
) -> AsyncIterator[Database]:
    """A small pool for one command."""
    from daemon.db.pool import Database
    from daemon.db.pooler import is_pooled
    from daemon.logs import get_logger

    # The embedded server has no pooler before it.
    own = settings.pool == "auto" and settings.database_url is None
    pooled = not own and await is_pooled(settings, url)
    database = await Database.open(url, size=3, pooled=pooled, logger=get_logger(), application=application)
    try:
        yield database
    finally:
        await database.close()


def embedder_of(settings: Settings) -> Embedder:
    """The embedder that the settings name. Raises ValueError with the setting to change."""
    from providers.build import build_embedder
    from providers.circuit import log_change

    key = settings.openai_api_key
    return build_embedder(
        settings.embedder,
        dimensions=settings.embedding_dimensions,
        base_url=settings.openai_base_url,
        api_key=None if key is None else key.get_secret_value(),
        timeout_seconds=settings.provider_timeout_seconds,
        on_circuit_change=log_change,
    )


def language_model_of(settings: Settings) -> LanguageModel | None:
    """The language model that the settings name, if any. Raises ValueError with the setting to change."""
    from providers.build import build_language_model
    from providers.circuit import log_change

    key = settings.openai_api_key
    return build_language_model(
        settings.language_model,
        base_url=settings.openai_base_url,
        api_key=None if key is None else key.get_secret_value(),
        timeout_seconds=settings.provider_timeout_seconds,
        on_circuit_change=log_change,
    )
