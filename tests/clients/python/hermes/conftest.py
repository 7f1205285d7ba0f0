"""The plugin of Hermes, loaded as Hermes' loader does it, on the database that the tests of the Python client share."""

from __future__ import annotations

import importlib.util
import sys
from abc import ABC
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

import pytest

from tests.support.repository import ROOT

NAME = "_hermes_user_memory.memoryd"
"""As which Hermes imports it."""


class MemoryProvider(ABC):  # noqa: B024 - its abstract methods are Hermes' own
    """Stands for Hermes' base class. tests/clients/python/hermes/try_hermes.py tries the provider with the real one."""


class Collector:
    """What Hermes gives `register`."""

    provider: Any = None

    def register_memory_provider(self, provider: Any) -> None:
        """Keeps it."""
        self.provider = provider


@pytest.fixture(scope="session")
def plugin() -> Iterator[ModuleType]:
    """The plugin's module."""
    agent, interface = ModuleType("agent"), ModuleType("agent.memory_provider")
    interface.MemoryProvider = MemoryProvider  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "agent", agent)
        patch.setitem(sys.modules, "agent.memory_provider", interface)
        spec = importlib.util.spec_from_file_location(NAME, ROOT / "clients/hermes/__init__.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        patch.setitem(sys.modules, NAME, module)
        spec.loader.exec_module(module)
        yield module


Begin = Callable[..., Any]


@pytest.fixture
def person() -> str:
    """A user of the test's own."""
    return uuid4().hex


@pytest.fixture
def begin(plugin: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Begin]:
    """Begins a session: `begin(url, session, user_id=..., ...)`. All have the same folder."""
    begun: list[Any] = []

    def start(url: str, session: str, **kwargs: Any) -> Any:
        monkeypatch.setenv("MEMORYD_DATABASE_URL", url)
        collector = Collector()
        plugin.register(collector)
        provider = collector.provider
        given = {"platform": "telegram", "agent_context": "primary", "agent_identity": "default", **kwargs}
        provider.initialize(session_id=session, hermes_home=str(tmp_path), **given)
        begun.append(provider)
        return provider

    yield start
    for provider in begun:
        provider.shutdown()
