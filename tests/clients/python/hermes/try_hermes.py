"""Tries clients/hermes with the Hermes Agent that is installed: its own loader, its own memory manager.

    pip install hermes-agent ./clients/python      # in an environment of its own
    python tests/clients/python/hermes/try_hermes.py postgresql://...

Needs a database with memoryd's schema, and nothing else of memoryd. What it stores there is deleted at the end.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

PLUGIN = Path(__file__).parents[4] / "clients/hermes"
NOWHERE = "postgresql://nobody@127.0.0.1:1/nothing"


def manager(url: str, session: str, person: str) -> Any:
    """Hermes' memory manager with the provider, as an agent of Hermes begins."""
    from agent.memory_manager import MemoryManager  # noqa: PLC0415 - reads HERMES_HOME when it is imported
    from plugins.memory import load_memory_provider  # noqa: PLC0415

    os.environ["MEMORYD_DATABASE_URL"] = url
    provider = load_memory_provider("memoryd")
    assert provider is not None, "Hermes' loader does not find the plugin"
    assert provider.is_available()
    made = MemoryManager()
    made.add_provider(provider)
    made.initialize_all(session_id=session, platform="telegram", user_id=person, agent_identity="try")
    return made


def call(of: Any, tool: str, **arguments: Any) -> Any:
    """A tool's answer."""
    return json.loads(of.handle_tool_call(f"memoryd_{tool}", arguments))


def try_provider(url: str) -> None:
    """A day of two users."""
    from hermes_cli.backup import _collect_memory_provider_external_paths  # noqa: PLC0415
    from plugins.memory import discover_memory_providers  # noqa: PLC0415

    os.environ["MEMORYD_DATABASE_URL"] = url
    assert ("memoryd", True) in [(name, there) for name, _, there in discover_memory_providers()]
    assert _collect_memory_provider_external_paths() == []

    mia, noah = uuid4().hex, uuid4().hex
    first = manager(url, "one", mia)
    assert "memoryd_recall" in first.build_system_prompt()
    assert first.prefetch_all("Which instrument does my sister Dora play?") == ""
    first.sync_all(
        "My sister Dora plays the tuba in Lisbon", "A fine instrument.", session_id="one", messages=[]
    )
    assert first.flush_pending(timeout=20)
    assert first.on_pre_compress([{"role": "user", "content": "Hello"}]) == ""
    fact = call(first, "remember", text="Mia's dentist is Dr. Okafor")
    assert call(first, "remember", text="Mia's dentist is Dr. Okafor") == {**fact, "known": True}
    # What this conversation has said is before the model already; once it is compressed, it no longer is.
    assert "tuba" not in first.prefetch_all("Which instrument does my sister Dora play?")
    first.on_session_switch("one", parent_session_id="one", reason="compression")
    first.sync_all("What time is it?", "Noon.", session_id="one", messages=[])
    assert first.flush_pending(timeout=20)
    assert "tuba" in first.prefetch_all("Which instrument does my sister Dora play?")
    first.on_session_end([])
    first.shutdown_all()

    second, other = manager(url, "two", mia), manager(url, "three", noah)
    assert "tuba" in second.prefetch_all("Which instrument does my sister Dora play?")
    assert other.prefetch_all("Which instrument does my sister Dora play?") == ""
    assert call(other, "recall", query="Dora's tuba")["results"] == []
    assert call(other, "forget", ids=[fact["id"]]) == {"deleted": 0}
    assert fact["id"] in [
        found["id"] for found in call(second, "recall", query="Who is Mia's dentist?")["results"]
    ]
    assert call(second, "forget", ids=[fact["id"]]) == {"deleted": 1}
    assert "error" in call(second, "recall", query=7)
    assert "error" in call(second, "forget", ids="all")

    away = manager(NOWHERE, "four", mia)
    away.sync_all("Dora's cat is called Biscuit", "Noted.", session_id="four", messages=[])
    assert away.prefetch_all("What is Dora's cat called?") == ""
    away.shutdown_all()
    second.sync_all("Thank you", "You are welcome.", session_id="two", messages=[])
    assert second.flush_pending(timeout=20)
    assert "Biscuit" in second.prefetch_all("What is Dora's cat called?")
    for each in (second, other):
        each.shutdown_all()
        assert each.shutdown_drain_state["status"] == "drained"
    erase(url, mia, noah)


def erase(url: str, *people: str) -> None:
    """Leaves nothing behind."""
    from memoryd_client.sync import ChatMemory  # noqa: PLC0415 - of Hermes' environment

    for person in people:
        with ChatMemory(url, user=f"telegram:{person}") as chat:
            for session in ("one", "two", "three", "four"):
                chat.reset(f"hermes:telegram:{person}:{session}")


def main() -> None:
    """Exits with an AssertionError if a promise is broken."""
    with tempfile.TemporaryDirectory() as home:
        os.environ["HERMES_HOME"] = home
        shutil.copytree(PLUGIN, Path(home) / "plugins/memoryd", ignore=shutil.ignore_patterns("__pycache__"))
        (Path(home) / "config.yaml").write_text("memory:\n  provider: memoryd\n", "utf-8")
        try_provider(sys.argv[1])
    sys.stdout.write(f"hermes-agent {version('hermes-agent')} and memoryd: all is well\n")


if __name__ == "__main__":
    main()
