"""The one door for what stands apart from the core: what a plugin may bring, and which plugins there are.

Promise: the core imports no plugin, but for `memoryd hook`, which must start fast. `OURS` names memoryd's plugins; a missing
folder is skipped. Other packages name theirs in the entry points `memoryd.plugins`. One of them that cannot be loaded, or that
uses a name which is taken, ends the command with a sentence that says which one. docs/plugins.md shows how to write one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import cache
from importlib import import_module, metadata
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol
from uuid import UUID

from pydantic import BaseModel

from providers.ports import missing

if TYPE_CHECKING:
    import asyncpg
    from structlog.typing import FilteringBoundLogger

    from daemon.db.pool import Database
    from daemon.embedder import FollowingEmbedder
    from daemon.measures import Measures
    from daemon.part import Part
    from daemon.queue.topic import Topic
    from daemon.schedule import Tick
    from daemon.served import ServedDatabase
    from daemon.settings import Settings
    from handlers.shared.embedding import Embedding
    from handlers.shared.thinking import Thinker
    from providers.ports import LanguageModel

GROUP = "memoryd.plugins"
OURS = (
    "health", "reembed", "facts", "documents", "replica", "secrets", "trail", "executor", "supabase", "operate", "mcp", "web",
    "hooks", "move_in", "audit", "tenants", "embedded", "files", "eval",
)  # fmt: skip
"""This is also the order of their settings in docs/settings.md."""
EXTRAS = {
    "documents": ("Reading files", "documents"),
    "embedded": ("memoryd's own Postgres (DATABASE_URL names another)", "embedded"),
    "files": ("Reading files", "documents"),
    "operate": ("MEMORYD_HTTP", "metrics"),
    "replica": ("Reading files", "documents"),
}
"""Plugins that import packages of an extra: what needs them, and the extra."""
PANEL = "Plugins"
"""The default panel of the help."""


class PluginError(ValueError):
    """A plugin cannot be used; the message says which one, and what to do."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the CLI. `target`: module:function, or module:app of a typer.Typer; imported when it is called."""

    target: str
    panel: str = PANEL
    """The panel of the help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """The parts of the daemon that a plugin may use."""

    settings: Settings
    database: Database
    name: str
    """The name of the database, if the process serves several; else empty."""
    daemon_id: UUID
    version: str
    embedder: FollowingEmbedder
    embedding: Embedding
    language_model: LanguageModel | None
    thinker: Thinker | None
    """Asks the language model, within the hourly budget. None without a model."""
    measures: Measures
    once: bool
    """Whether the daemon ends as soon as nothing is left to do."""
    served: ServedDatabase
    """The state of the daemon, for metrics and probes."""
    is_stopping: Callable[[], bool]
    closing: AsyncExitStack
    """Callbacks for the end of the daemon's work, before its database is closed."""
    logger: FilteringBoundLogger


@dataclass(frozen=True, slots=True)
class Check:
    """One check of the doctor: its name, its finding, and its advice."""

    name: str
    verdict: Literal["ok", "warning", "problem"]
    found: str
    advice: str | None = None


def split_advice(text: str) -> tuple[str, str | None]:
    """Splits a failure's message into the fault and its last sentence, the advice."""
    wrong, dot, advice = text.rpartition(". ")
    return (wrong + ".", advice) if dot else (text, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """The context of a doctor's run. `connection`: None if the schema is not complete, or may not be read."""

    settings: Settings
    connection: asyncpg.Connection | None


class Plugin(Protocol):
    """The base of plugins. A plugin overrides the members that it provides."""

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()
    """Other plugins that its code imports."""
    settings: ClassVar[tuple[type[BaseModel], ...]] = ()
    """Sections of settings, read from the environment like all others.

    In a plugin of another package each field begins with the plugin's name and `_`.

    A section may have `outdated`: variables with a value that was allowed once, and what to do. They are logged at the start.
    """
    commands: ClassVar[Mapping[str, Command]] = {}
    """Commands of the CLI, by name."""
    services: ClassVar[Mapping[str, str]] = {}
    """What the core, or another plugin, asks for by name (see `service`): module:object, imported when it is asked for."""

    def topics(self, core: Core) -> Iterable[Topic]:
        """Kinds of jobs that the daemon's workers do."""
        return ()

    def ticks(self, core: Core) -> Iterable[Tick]:
        """Periodic work, done by one of all daemons."""
        return ()

    def parts(self, core: Core) -> Iterable[Part]:
        """Parts that run beside the workers as long as the daemon does."""
        return ()

    async def checks(self, examination: Examination) -> AsyncIterator[Check]:
        """The checks for `memoryd doctor`."""
        return
        yield

    def prepare(self, settings: Settings) -> None:
        """Called by `memoryd run`, before there is a database. Raises ValueError if a setting cannot work."""
        return

    def database_settings(self, settings: Settings) -> Mapping[str, object]:
        """Settings that triggers and functions read, by their name in memoryd.settings."""
        return {}

    def switches(self, settings: Settings) -> Mapping[str, object]:
        """Fields of the log line `daemon_started`: which features are on. No paths and no secrets."""
        return {}


@cache
def load_plugins() -> tuple[Plugin, ...]:
    """All plugins, ours first. Raises PluginError."""
    ours = (_ours(name) for name in OURS)
    plugins = [plugin for plugin in ours if plugin is not None]
    for entry in metadata.entry_points(group=GROUP):
        try:
            plugin = entry.load()()
            _check_foreign(plugin)
        except Exception as error:
            where = f"The plugin {entry.name} ({entry.value})"
            reason = str(error) or type(error).__name__
            raise PluginError(
                f"{where} cannot be loaded: {reason}. Update or uninstall its package."
            ) from error
        plugins.append(plugin)
    _check_apart(plugins)
    return tuple(plugins)


def service(name: str) -> Any | None:
    """The service of this name from a plugin; None if no plugin has it."""
    for plugin in load_plugins():
        if (target := plugin.services.get(name)) is not None:
            return imported(target)
    return None


def required_service(name: str, *, what: str) -> Any:
    """Like `service`, but raises PluginError if no plugin has it; `what` begins the message."""
    if (found := service(name)) is None:
        raise PluginError(f"{what} needs a plugin that is not installed here (it offers {name}).")
    return found


def lacking(error: ModuleNotFoundError) -> str | None:
    """What to install, if one of our plugins lacks a package of its extra; None for any other module."""
    importer = [frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__)][-1]
    folder = importer.removeprefix("plugins.").partition(".")[0]
    ours = (error.name or "").partition(".")[0] in ("daemon", "handlers", "memory", "plugins", "providers")
    return None if ours or folder not in EXTRAS else missing(*EXTRAS[folder])


def imported(target: str) -> Any:
    """The object that `module:object` names."""
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


def _ours(name: str) -> Plugin | None:
    module = f"plugins.{name}.plugin"
    try:
        found: Plugin = import_module(module).PLUGIN
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        return None
    return found


def _check_foreign(plugin: Plugin) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", plugin.name):
        raise PluginError(
            f"its name {plugin.name!r} is not a letter from a to z and then a to z, 0 to 9 and _"
        )
    for section in plugin.settings:
        for field in section.model_fields:
            if not field.startswith(f"{plugin.name}_"):
                raise PluginError(f"its setting {field} does not begin with {plugin.name}_")


def _check_apart(plugins: Iterable[Plugin]) -> None:
    """Refuses two plugins that bring something under the same name."""
    named: dict[str, list[str]] = {"plugin": [], "setting": [], "command": [], "service": []}
    for plugin in plugins:
        named["plugin"].append(plugin.name)
        named["setting"] += [field for section in plugin.settings for field in section.model_fields]
        named["command"] += plugin.commands
        named["service"] += plugin.services
    for kind, names in named.items():
        if twice := sorted(name for name, times in Counter(names).items() if times > 1):
            raise PluginError(
                f"Two plugins bring the {kind} {twice[0]}: uninstall one of them (memoryd.plugins)."
            )
