"""What is installed: each package of pyproject.toml, from a checkout and in the image."""

from __future__ import annotations

import json
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


def test_the_lock_file_of_the_typescript_client_names_no_registry() -> None:
    folder = ROOT / "clients/typescript"
    assert "omit-lockfile-registry-resolved=true" in (folder / ".npmrc").read_text().splitlines()
    locked = json.loads((folder / "package-lock.json").read_text())["packages"]
    assert len(locked) > 10
    assert [name for name, package in locked.items() if "resolved" in package] == []
    # Whoever changes a package may check it: each has the hash of its file.
    assert [name for name, package in locked.items() if name and "integrity" not in package] == []
    asked = json.loads((folder / "package.json").read_text())
    for kind in ("version", "devDependencies", "peerDependencies"):
        assert locked[""][kind] == asked[kind], "run `npm install --package-lock-only` in clients/typescript"
