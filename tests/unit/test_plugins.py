"""The one door: plugins import no others than those that they name, and what cannot be used says so."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import metadata
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest
from pydantic import BaseModel

from daemon.plugins import OURS, Command, Plugin, PluginError, load_plugins
from daemon.queue.topic import Topic
from daemon.settings import all_settings
from daemon.topics import build_workers
from handlers.shared.ports import Handler
from tests.support.repository import ROOT

PLUGINS = ROOT / "plugins"


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """What the entry points of other packages name: fill it before the plugins are loaded."""
    given: list[object] = []
    monkeypatch.setattr(metadata, "entry_points", lambda group: given if group == "memoryd.plugins" else [])
    load_plugins.cache_clear()
    all_settings.cache_clear()
    yield given
    load_plugins.cache_clear()
    all_settings.cache_clear()


def entry(plugin: type[Plugin] | None) -> object:
    """An entry point; one that cannot be imported where there is no plugin."""

    def load() -> type[Plugin]:
        if plugin is None:
            raise ModuleNotFoundError("No module named 'elsewhere'")
        return plugin

    return SimpleNamespace(name="theirs", value="elsewhere:Theirs", load=load)


@pytest.mark.parametrize("name", OURS)
def test_a_plugin_imports_no_other_than_those_that_it_names(name: str) -> None:
    [plugin] = [each for each in load_plugins() if each.name == name]
    imported = set()
    for path in (PLUGINS / name).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            imported |= {module.split(".")[1] for module in modules if module.startswith("plugins.")}
    assert imported - {name} == set(plugin.needs)


def test_every_folder_is_a_plugin_that_is_loaded() -> None:
    assert sorted(folder.name for folder in PLUGINS.iterdir() if (folder / "__init__.py").exists()) == sorted(
        OURS
    )
    assert [plugin.name for plugin in load_plugins()] == list(OURS)


class Theirs(Plugin):
    name = "theirs"


class OfTheirs(BaseModel):
    their_url: str | None = None


class Named(Theirs):
    name = "Their plugin"


class Setting(Theirs):
    settings = (OfTheirs,)


class Twice(Theirs):
    commands: ClassVar = {"audit": Command("elsewhere:audit")}


class Served(Theirs):
    services: ClassVar = {"http_port": "elsewhere:port"}


class OfCore(BaseModel):
    pool_size: int = 1


class Pool(Theirs):
    name = "pool"
    settings = (OfCore,)


class Ours(Theirs):
    name = "audit"


@pytest.mark.parametrize(
    ("plugin", "said"),
    [
        (
            None,
            "The plugin theirs (elsewhere:Theirs) cannot be loaded: No module named 'elsewhere'. Update or uninstall",
        ),
        (Named, "its name 'Their plugin' is not a letter from a to z"),
        (Setting, "its setting their_url does not begin with theirs_"),
        (Twice, "Two plugins bring the command audit: uninstall one of them"),
        (Served, "Two plugins bring the service http_port: uninstall one of them"),
        (Ours, "Two plugins bring the plugin audit: uninstall one of them"),
    ],
)
def test_a_plugin_that_cannot_be_used_is_named(
    entries: list[object], plugin: type[Plugin] | None, said: str
) -> None:
    entries.append(entry(plugin))
    with pytest.raises(PluginError) as refused:
        load_plugins()
    assert said in str(refused.value)


def test_a_plugin_of_another_package_comes_after_ours(entries: list[object]) -> None:
    entries.append(entry(Theirs))
    assert [plugin.name for plugin in load_plugins()] == [*OURS, "theirs"]


def test_two_plugins_with_one_topic_are_refused() -> None:
    topic = Topic("bell", cast("Handler", None), batch=1)
    unused: Any = None
    with pytest.raises(PluginError, match="Two plugins bring the topic bell"):
        build_workers(
            [topic, topic], unused, daemon=1, measures=unused, wake_others=unused, turn=unused, logger=unused
        )


def test_a_plugin_does_not_replace_a_setting_of_the_core(entries: list[object]) -> None:
    entries.append(entry(Pool))
    with pytest.raises(PluginError, match="A plugin brings the setting pool_size, which memoryd has"):
        all_settings()
