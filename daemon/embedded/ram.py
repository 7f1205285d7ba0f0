"""How much of this machine's memory the embedded Postgres takes for itself."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

MEGABYTE = 1 << 20
MIN_MB, MAX_MB = 128, 1024
SHARE = 8
"""It takes an eighth of the memory, since the agents use the same machine. Alone on a machine it would take a quarter."""
# A container's limit, of control groups 2 and 1; where there is none they say "max", or more than any machine has.
LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def memory_settings(limits: Iterable[Path] = LIMITS) -> dict[str, str]:
    """The settings of Postgres that depend on memory, in its own units."""
    usable = _usable_bytes(limits) // MEGABYTE
    return {
        "shared_buffers": f"{min(MAX_MB, max(MIN_MB, usable // SHARE))}MB",
        # Postgres plans with this number; it reserves no memory.
        "effective_cache_size": f"{max(MIN_MB, usable // 2)}MB",
    }


def _usable_bytes(limits: Iterable[Path]) -> int:
    usable = int(psutil.virtual_memory().total)
    for path in limits:
        with suppress(OSError, ValueError):
            usable = min(usable, int(path.read_text()))
    return usable
