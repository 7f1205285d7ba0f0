"""Shared by the commands: settings, connections to the database, and the providers.

Promise: a setting that is wrong, or a database that is not there, ends the command with one sentence that says what to do.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, MutableMapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from uuid import UUID

import typer

from daemon.cli.failure import Misuse, sentences, show_sentence
from daemon.ids import id_of

if TYPE_CHECKING:
    from pathlib import Path

    from daemon.db.pool import Database
    from daemon.db.settings import Model
    from daemon.settings import Settings
    from daemon.settings.databases import NamedDatabase
    from handlers.shared.embedding import Questions
    from handlers.shared.ports import AnyConnection
    from providers.ports import Embedder, LanguageModel

Result = TypeVar("Result")

MOST_NAMES = 20
"""Databases that a sentence names."""
TIMES = ["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z"]
"""How a time may be written in an option."""
THIS_MACHINE = ("localhost", "127.0.0.1", "::1")


class Server(Protocol):
    """A Postgres of memoryd's own."""

    @property
    def socket_url(self) -> str:
        """Without a password, for its own user and root."""
        ...

    @property
    def tcp_url(self) -> str:
        """On 127.0.0.1, with its password."""
        ...

    @property
    def psql_path(self) -> Path: ...

    @property
    def free_bytes(self) -> int: ...

    def is_running(self) -> bool:
        """Whether it takes connections, or will soon."""
        ...


def uuid_or_name(given: str) -> UUID:
    """The parser of each argument and option that is the id of a user, a session or an organisation."""
    try:
        return id_of(given)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def id_option(*names: str, says: str) -> Any:
    """The option of such an id."""
    return typer.Option(None, *names, parser=uuid_or_name, metavar="NAME|UUID", help=says)


@contextmanager
def ended_by_ctrl_c() -> Iterator[None]:
    """While stdin is read: Python hears a signal that comes between two reads only when more input comes."""
    heard = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, heard)


def reach_this_machine_directly(environment: MutableMapping[str, str]) -> None:
    """Makes all libraries for HTTP use no proxy for addresses of this machine: a proxy would look for them on its own."""
    if not any(name.lower().endswith("_proxy") for name in environment):
        return
    told = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    if told.strip() != "*":
        told = ",".join([*filter(None, (name.strip() for name in told.split(","))), *THIS_MACHINE])
    environment["no_proxy"] = environment["NO_PROXY"] = told


def settings_or_exit(*, quiet: bool = False, tell: Callable[[str], None] = show_sentence) -> Settings:
    """The settings; a wrong one ends the program with its sentence, exit code 2.

    `quiet`: the command prints an answer, so only warnings are logged, unless a level was asked for.
    """
    from daemon.logs import configure_logs, get_logger
    from daemon.settings import (
        SettingsError,
        foreign_env_file,
        load_settings,
        outdated_settings,
        removed_settings,
        unknown_settings,
    )

    try:
        settings = load_settings()
        if settings.database is not None:
            settings = _chosen(settings, settings.database)
    except (SettingsError, ValueError) as error:
        tell(str(error))
        raise typer.Exit(2) from None
    level = "warning" if quiet and "log_level" not in settings.model_fields_set else settings.log_level
    configure_logs(level=level, style=settings.log_format)
    if (owner := foreign_env_file()) is not None:
        get_logger().warning("env_file_not_read", owner=owner, me=os.geteuid())
    for name, now in removed_settings().items():
        get_logger().warning("setting_gone", variable=name, now=now)
    for name, meant in unknown_settings().items():
        get_logger().warning("setting_unknown", variable=name, nearest=meant)
    for name, hint in outdated_settings().items():
        get_logger().warning("setting_outdated", variable=name, hint=hint)
    return settings


def _chosen(settings: Settings, name: str) -> Settings:
    """The settings of that one of several databases. Raises ValueError where there is none of this name."""
    if settings.database_urls is None:
        # Otherwise it would be done in the only database that there is.
        raise ValueError(
            f"--database {name} (MEMORYD_DATABASE) needs MEMORYD_DATABASE_URLS, which says where {name} is."
        )
    listed = listed_databases(settings)
    for one in listed:
        if one.name == name:
            return settings_of_database(settings, one)
    names = ", ".join(one.name for one in listed[:MOST_NAMES])
    raise ValueError(f"MEMORYD_DATABASE_URLS has no database named {name!r}. It has: {names}")


def listed_databases(settings: Settings) -> tuple[NamedDatabase, ...]:
    """Those of MEMORYD_DATABASE_URLS, as they are listed now. Raises ValueError with what to do."""
    from daemon.settings.databases import read_databases

    return () if settings.database_urls is None else read_databases(settings.database_urls.get_secret_value())


def settings_of_database(settings: Settings, named: NamedDatabase) -> Settings:
    """The settings as one of several databases has them: its URL, and folders of its own in those that are named.

    Raises ValueError where such a folder is one of Google Drive.
    """
    from pydantic import SecretStr

    from daemon.settings.values import FOLDER_OF_DATABASE

    update: dict[str, object] = {
        "database_url": SecretStr(named.url),
        "database_urls": None,
        "database": named.name,
    }
    for field, about in type(settings).model_fields.items():
        if FOLDER_OF_DATABASE not in about.metadata:
            continue
        folder: Path | None = getattr(settings, field)
        if folder is None:
            continue
        if str(folder).startswith("gdrive:"):
            raise ValueError(
                f"MEMORYD_{field.upper()} is a folder of Google Drive, which several databases cannot share: name a path. "
                "Each database has a folder of its name in it."
            )
        update[field] = folder / named.name
    return settings.model_copy(update=update)


def for_each_database(settings: Settings, work: Callable[[Settings], None], *, heading: bool = True) -> None:
    """Does the work of a command in each database, and says which one it is. A failure in one is no reason to leave out others.

    Ends the program with the worst exit code that the work ended with.
    """
    if settings.database_urls is None:
        with sentences():
            work(settings)
        return
    worst = 0
    with sentences():
        listed = listed_databases(settings)
    for nth, one in enumerate(listed):
        if heading:
            typer.secho(("\n" if nth else "") + f"== {one.name}", bold=True)
        try:
            with sentences(lambda sentence, name=one.name: show_sentence(f"{name}: {sentence}")):  # type: ignore[misc]
                work(settings_of_database(settings, one))
        except typer.Exit as ended:
            if ended.exit_code in (130, 143):
                raise
            worst = max(worst, ended.exit_code)
    if worst:
        raise typer.Exit(worst)


@contextmanager
def postgres(settings: Settings, *, existing: bool = False) -> Iterator[tuple[str, Server | None]]:
    """The database's URL; the embedded server runs meanwhile when there is no DATABASE_URL.

    It is stopped at the end by the last command that uses it. With `existing` a database that was never made is a Failure.
    """
    if settings.database_urls is not None:
        names = ", ".join(one.name for one in listed_databases(settings)[:MOST_NAMES])
        raise Misuse(
            f"These settings name several databases: say which one, with memoryd --database NAME ... ({names})"
        )
    if settings.database_url is not None:
        from daemon.settings.databases import readable

        yield readable(settings.database_url.get_secret_value(), "DATABASE_URL"), None
        return
    from daemon.plugins import required_service

    embedded = required_service("own_postgres", what="A Postgres of memoryd's own, without DATABASE_URL,")
    with embedded(settings, existing=existing) as server:
        yield server.socket_url, server


def own_server(settings: Settings, *, existing: bool = False) -> Server:
    """memoryd's own Postgres as it is, not started. With `existing` a database that was never made is a Failure."""
    from daemon.plugins import required_service

    found = required_service("own_server", what="A Postgres of memoryd's own")
    server: Server = found(settings, existing=existing)
    return server


def with_database(
    work: Callable[[Settings, Database], Awaitable[Result]], settings: Settings | None = None
) -> Result:
    """Runs the work of a command on a database that must be there; a failure ends with its sentence."""
    settings = settings_or_exit(quiet=True) if settings is None else settings

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
    from daemon.db.server import is_pooled
    from daemon.logs import get_logger

    # The embedded server has no pooler before it.
    own = settings.pooler == "auto" and settings.database_url is None
    pooled = not own and await is_pooled(settings, url)
    database = await Database.open(url, size=3, pooled=pooled, logger=get_logger(), application=application)
    try:
        yield database
    finally:
        await database.close()


def embedder_of(settings: Settings, model: Model | None = None) -> Embedder:
    """The embedder that the settings name, or that of another `model`. Raises ValueError with the setting to change."""
    from providers.build import build_embedder

    key = settings.openai_api_key
    return build_embedder(
        settings.embedder if model is None else model.embedder,
        dimensions=settings.embedding_dimensions if model is None else model.dimensions,
        base_url=settings.openai_base_url,
        api_key=None if key is None else key.get_secret_value(),
        timeout_seconds=settings.provider_timeout_seconds,
        told=(settings.query_instruction, settings.document_instruction)
        if model is None
        else (model.instructions.query, model.instructions.document),
    )


async def embedder_of_database(settings: Settings, connection: AnyConnection) -> Embedder:
    """The embedder that the database is embedded by. Raises MigrationError where the settings name one that it never had."""
    from daemon.db.settings import model_of, model_to_use, read_models
    from providers.ports import RejectionError, UnavailableError

    embedder = embedder_of(settings)
    asked = model_of(embedder)
    try:
        model = model_to_use(
            asked,
            await read_models(connection),
            chosen=settings.embedder_chosen,
            instructed=settings.embedder_instructed,
        )
    except BaseException:
        await embedder.close()
        raise
    if model != asked:
        await embedder.close()
        embedder = embedder_of(settings, model)
    if embedder.name.startswith("fastembed/"):
        # It is loaded here: a question has only two seconds. What is wrong with it is found again by who asks it.
        with suppress(UnavailableError, RejectionError):
            await embedder.embed(["memory"])
    return embedder


@asynccontextmanager
async def questions_of_database(settings: Settings, database: Database) -> AsyncIterator[Questions]:
    """Makes questions ready for recall, with the embedder that the database is embedded by."""
    from handlers.shared.embedding import Embedding, Questions
    from providers.build import build_word_embedder

    async with database.connection() as connection:
        embedder = await embedder_of_database(settings, connection)
    words = build_word_embedder(embedder)
    try:
        yield Questions(reader=database, embedding=Embedding(embedder, database), words=words)
    finally:
        await embedder.close()
        await words.close()


def language_model_of(settings: Settings) -> LanguageModel | None:
    """The language model that the settings name, if any. Raises ValueError with the setting to change."""
    from providers.build import build_language_model

    key = settings.openai_api_key
    return build_language_model(
        settings.language_model,
        base_url=settings.openai_base_url,
        api_key=None if key is None else key.get_secret_value(),
        timeout_seconds=settings.provider_timeout_seconds,
    )
