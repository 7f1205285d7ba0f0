"""Variables of the environment that name a proxy."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon.cli.common import reach_this_machine_directly
from tests.support.processes.daemons import Daemons
from tests.support.rows import remember
from tests.support.services.remote import Remote
from tests.support.waiting import IDLE, until

DEAD = "http://127.0.0.1:9"
NAMES = ("http_proxy", "https_proxy", "all_proxy")


async def test_a_server_on_this_machine_is_asked_without_the_proxy(
    remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in NAMES:
        monkeypatch.setenv(name, DEAD)
        monkeypatch.setenv(name.upper(), DEAD)
    daemon = await remote.daemons.start(**remote.settings)
    await remember(remote.connection, "The heron built a nest.")
    await until(remote.connection, IDLE)
    assert remote.server.paid == ["The heron built a nest."]
    assert daemon.events("provider_lost") == []


async def test_a_proxy_that_does_not_speak_http_is_told_without_its_password(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemons = Daemons(database_url, tmp_path)
    for proxy in (
        "socks5://me:secret@127.0.0.1:9", "gopher://me:secret@127.0.0.1:9", "http://me:secret#x@127.0.0.1:9",
        "http://me:secret/x@127.0.0.1:9",
    ):  # fmt: skip
        monkeypatch.setenv("ALL_PROXY", proxy)
        daemon = await daemons.start(
            wait=False, embedder="openai/test", embedding_dimensions=8, openai_base_url=DEAD
        )
        refused = await daemon.event("start_refused")
        assert "ALL_PROXY" in refused["reason"]
        assert "secret" not in daemon.text()
        assert "Traceback" not in daemon.text()
        await daemon.stop()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"HTTP_PROXY": DEAD}, "localhost,127.0.0.1,::1"),
        ({"all_proxy": DEAD, "NO_PROXY": "db.internal, .corp"}, "db.internal,.corp,localhost,127.0.0.1,::1"),
        ({"https_proxy": DEAD, "no_proxy": "a", "NO_PROXY": "b"}, "a,localhost,127.0.0.1,::1"),
        ({"HTTPS_PROXY": DEAD, "NO_PROXY": "*"}, "*"),
    ],
)
def test_whom_the_caller_names_is_reached_directly_too(given: dict[str, str], told: str) -> None:
    environment = dict(given)
    reach_this_machine_directly(environment)
    assert environment == given | {"no_proxy": told, "NO_PROXY": told}


def test_without_a_proxy_nothing_is_changed() -> None:
    environment = {"PATH": "/bin"}
    reach_this_machine_directly(environment)
    assert environment == {"PATH": "/bin"}
