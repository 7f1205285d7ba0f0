"""A virtual environment for each peer, made once in a cache folder: the versions that are compared, and what comes along."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parents[2]
READY = ".ready"
LIST = "import importlib.metadata as m; print(len({d.name.lower() for d in m.distributions()} - {'pip', 'setuptools'}))"


class CannotInstall(Exception):
    """Says why."""


@dataclass(frozen=True, slots=True)
class Environment:
    """What is installed."""

    python: Path
    packages: int
    """Distributions, without pip and setuptools."""
    megabytes: float
    """On disk, without pip, setuptools and what Python compiles at the first start."""


def default_cache() -> Path:
    """Where environments are kept from one run to the next."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "memoryd-peers"


async def prepare(cache: Path, name: str, requirements: tuple[str, ...]) -> Environment:
    """The environment with these requirements, made unless it is there. Raises CannotInstall."""
    wanted = hashlib.sha256(json.dumps([requirements, sys.version]).encode()).hexdigest()[:12]
    folder = cache / f"{name}-{wanted}"
    python = folder / "bin" / "python"
    # memoryd is installed again each time: its source may have changed.
    if not (folder / READY).exists() or str(SOURCE) in requirements:
        shutil.rmtree(folder, ignore_errors=True)
        await _run(sys.executable, "-m", "venv", str(folder))
        await _run(
            *(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
            *("--no-compile", *requirements),
        )
        (folder / READY).touch()
    packages = int(await _run(str(python), "-c", LIST))
    return Environment(python, packages, size_of(folder.rglob("*")) / 1e6)


def size_of(files: Iterable[Path]) -> int:
    """Bytes of the files, each once, that come with the packages."""
    tools = {"pip", "setuptools", "__pycache__"}
    seen: dict[tuple[int, int], int] = {}
    for file in files:
        parts = {part.partition("-")[0] for part in file.parts}
        if not tools & parts and file.is_file() and not file.is_symlink():
            found = file.stat()
            seen[found.st_dev, found.st_ino] = found.st_size
    return sum(seen.values())


async def _run(*command: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    if process.returncode:
        lines = [line for line in err.decode().splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR")] or lines
        raise CannotInstall(errors[-1] if errors else f"pip ended with {process.returncode}")
    return out.decode()
