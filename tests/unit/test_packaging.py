"""What is installed: each package of pyproject.toml, from a checkout and in the image."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"][
    "packages"
]


def test_the_image_is_built_from_every_package() -> None:
    copied = re.findall(r"^COPY (\w+) \1$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert sorted(copied) == sorted(PACKAGES)


def test_every_package_that_is_installed_is_there() -> None:
    assert [name for name in PACKAGES if not (ROOT / name / "__init__.py").exists()] == []
