"""What the commands share: settings, the way to the database, and how a failure ends in one sentence.

Promise: no command shows a traceback for something that its user can mend.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from daemon.logs import configure_logs, get_logger
from daemon.settings import Settings, SettingsError, load_settings

if TYPE_CHECKING:
    from daemon.database import Database
    from daemon.embedded_postgres import EmbeddedPostgres
    from providers.ports import Embedder, LanguageModel

Result = TypeVar("Result")


class Failure(Exception):  # noqa: N818 - the end of a command, told to its user
    """Ends the command with this sentence and exit code 1."""


def settings_or_exit(**overrides: object) -> Settings:
    """The settings; a wrong one ends the program with its sentence, exit code 2."""
    try:
        settings = load_settings(**overrides)
    except SettingsError as error:
        typer.secho(str(error), err=True, fg="red")
        raise typer.Exit(2) from None
    configure_logs(level=settings.log_level, style=settings.log_format)
    return settings


def run_async(main: Coroutine[Any, Any, Result]) -> Result:
    """Runs a command's coroutine; failures that have a sentence end with it, exit code 1."""
    with sentences():
        return asyncio.run(main)


@contextmanager
def sentences() -> Iterator[None]:
    """Turns known failures into one sentence on stderr and exit code 1."""
    import asyncpg

    from daemon.migrator import MigrationError

    try:
        yield
    except (Failure, MigrationError, ValueError) as error:
        _leave(str(error))
    except asyncpg.InvalidPasswordError:
        _leave("The database refused the password. Check DATABASE_URL.")
    except asyncpg.InvalidCatalogNameError as error:
        _leave(f"{error}. Create it, or correct DATABASE_URL.")
    except asyncpg.UndefinedTableError:
        _leave("This database has no memoryd schema yet. Run: memoryd migrate")
    except asyncpg.UndefinedObjectError as error:
        _leave(f"{error}. Run: memoryd migrate")
    except asyncpg.PostgresError as error:
        hint = getattr(error, "hint", None)
        _leave(f"The database said: {error}" + (f" ({hint})" if hint else ""))
    except OSError as error:
        _leave(f"The database cannot be reached: {error}. Is it running, and is DATABASE_URL right?")
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def _leave(sentence: str) -> None:
    typer.secho(sentence, err=True, fg="red")
    raise typer.Exit(1)


@contextmanager
def postgres(settings: Settings, *, keep: bool = False) -> Iterator[tuple[str, EmbeddedPostgres | None]]:
    """The database's URL; the embedded server runs meanwhile when there is no DATABASE_URL.

    It is stopped at the end if it was started here, unless `keep`.
    """
    if settings.database_url is not None:
        yield settings.database_url.get_secret_value(), None
        return
    from daemon.embedded_postgres import EmbeddedPostgres

    server = EmbeddedPostgres(settings.data_dir, port=settings.postgres_port)
    started = server.start()
    try:
        yield server.socket_url, server
    finally:
        if started and not keep:
            server.stop()


@asynccontextmanager
async def open_database(settings: Settings, url: str, *, application: str = "memoryd cli") -> AsyncIterator[Database]:
    """A small pool for one command."""
    from daemon.database import Database

    database = await Database.open(
        url, size=3, pooled=settings.pool == "transaction", logger=get_logger(), application=application
    )
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


def quiet_exit() -> None:
    """Ends at once when the reader of a pipe has gone."""
    with contextlib.suppress(OSError):
        os.close(1)
