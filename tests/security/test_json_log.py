"""Where the log is JSON, every line on stderr is a JSON object: refusals, warnings, what libraries print, crashes."""

from __future__ import annotations

import sys
from typing import Any

import asyncpg
import pytest

from daemon.logs import describe
from tests.support.processes.daemons import DaemonProcess, Daemons

SECRET = "hunter2"
LOST = (
    asyncpg.ConnectionDoesNotExistError,
    ConnectionResetError,
    asyncpg.InternalClientError,
    asyncpg.InterfaceError,
)


async def ended(daemon: DaemonProcess) -> int:
    """Its exit code, once every line has been read."""
    await daemon.process.wait()
    return await daemon.stop()


@pytest.mark.parametrize(
    ("settings", "code", "words"),
    [
        ({"pool_size": 1}, 2, "MEMORYD_POOL_SIZE is '1'"),
        ({"embedder": "word2vec"}, 1, "MEMORYD_EMBEDDER"),
        ({"embedding_dimensions": 128}, 1, "256 dimensions"),
    ],
)
async def test_a_refused_start_is_a_json_event(
    daemons: Daemons, settings: dict[str, Any], code: int, words: str
) -> None:
    daemon = await daemons.start(wait=False, **settings)
    assert await ended(daemon) == code
    assert daemon.events("not_json") == []
    (line,) = daemon.events("start_refused")
    assert words in line["reason"]
    assert line["level"] == "error"


@pytest.mark.skipif(sys.platform == "darwin", reason="numpy asks Apple's library there, which says nothing")
async def test_output_of_libraries_while_they_are_loaded_is_a_json_event(
    daemons: Daemons, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENBLAS_VERBOSE", "2")
    daemon = await daemons.start(whole=True)
    assert await daemon.stop() == 0
    assert daemon.events("not_json") == []
    assert daemon.events("library_warning")[0]["said"].startswith("Core: ")


async def test_a_library_that_does_not_run_on_this_machine_is_a_json_event(
    daemons: Daemons, monkeypatch: pytest.MonkeyPatch
) -> None:
    """numpy does when a part of the processor that it cannot do without is missing, or turned off."""
    monkeypatch.setenv("NPY_ENABLE_CPU_FEATURES", "AVX2")
    monkeypatch.setenv("NPY_DISABLE_CPU_FEATURES", "AVX2")
    daemon = await daemons.start(whole=True, wait=False)
    assert await ended(daemon) == 1
    assert daemon.events("not_json") == []
    (line,) = daemon.events("start_refused")
    assert "numpy does not run on this machine" in line["reason"]


async def test_a_python_warning_is_a_json_event(daemons: Daemons, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONWARNINGS", "always")
    monkeypatch.setenv("NPY_DISABLE_CPU_FEATURES", "NO_SUCH_FEATURE")
    daemon = await daemons.start(whole=True)
    assert await daemon.stop() == 0
    assert daemon.events("not_json") == []
    assert "NO_SUCH_FEATURE" in str(daemon.events("python_warning"))


def test_an_error_says_that_the_connection_was_lost() -> None:
    assert [describe(error(SECRET)) for error in LOST] == [
        "ConnectionDoesNotExistError [08003]: connection lost",
        "ConnectionResetError: connection lost",
        "InternalClientError: connection lost",
        "InterfaceError: connection lost",
    ]
    assert describe(asyncpg.UniqueViolationError(SECRET)) == "UniqueViolationError [23505]"
    assert describe(asyncpg.exceptions.DataError(SECRET)) == "DataError [22000]"
