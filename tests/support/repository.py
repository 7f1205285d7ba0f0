"""Where the repository is, and how its wheels are made."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
"""The folder of pyproject.toml."""


def build(project: Path, folder: Path) -> Path:
    """The wheel that the sdist makes."""

    def run(*arguments: str | Path, cwd: Path) -> None:
        ended = subprocess.run([sys.executable, "-m", *arguments], cwd=cwd, check=False, capture_output=True)
        assert ended.returncode == 0, ended.stderr.decode()

    run("hatchling", "build", "-t", "sdist", "-d", folder, cwd=project)
    [sdist] = folder.glob("*.tar.gz")
    quick = ("--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--no-build-isolation")
    run("pip", "wheel", *quick, "--wheel-dir", folder, sdist, cwd=folder)
    [wheel] = folder.glob("*.whl")
    return wheel
