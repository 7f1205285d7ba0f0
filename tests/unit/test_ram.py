"""The embedded Postgres takes what the machine, or its container, has to give."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from daemon.embedded.ram import memory_settings

GIGABYTE = 1 << 30


@pytest.mark.parametrize(
    ("gigabytes", "shared", "expected"),
    [(0.25, "128MB", "128MB"), (2, "256MB", "1024MB"), (6, "768MB", "3072MB"), (64, "1024MB", "32768MB")],
)
def test_postgres_gets_an_eighth_of_the_machines_memory_within_bounds(
    monkeypatch: pytest.MonkeyPatch, gigabytes: float, shared: str, expected: str
) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=gigabytes * GIGABYTE))
    assert memory_settings([]) == {"shared_buffers": shared, "effective_cache_size": expected}


@pytest.mark.parametrize(
    ("limit", "shared"),
    [("2147483648\n", "256MB"), ("max\n", "1024MB"), ("9223372036854771712", "1024MB"), (None, "1024MB")],
)
def test_postgres_gets_an_eighth_of_a_containers_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, limit: str | None, shared: str
) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=64 * GIGABYTE))
    file = tmp_path / "memory.max"
    if limit is not None:
        file.write_text(limit)
    assert memory_settings([file])["shared_buffers"] == shared
