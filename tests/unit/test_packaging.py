"""What is installed: each package of pyproject.toml, from a checkout and in the image, and the releases of others."""

from __future__ import annotations

import json
import re
import tomllib
from importlib.metadata import distribution

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from memoryd.__main__ import PACKAGES
from tests.support.brought import brought_by
from tests.support.repository import ROOT

DESCRIBED = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = DESCRIBED["project"]
WHEEL = DESCRIBED["tool"]["hatch"]["build"]["targets"]["wheel"]
TOLD = re.compile(r'(?:\bVersion |^ *"?version"? ?[:=] ?"?|/memoryd-[a-z]+-)(\d+\.\d+\.\d+)', re.MULTILINE)
"""Where a version of memoryd is told: in a sentence, in a manifest, in the name of a packed client."""


def pins(text: str) -> dict[str, str]:
    """The pinned releases, by package."""
    lines = [line.split("==") for line in text.splitlines() if "==" in line]
    return {canonicalize_name(name): version for name, version in lines}


def test_the_image_is_built_from_every_package() -> None:
    copied = re.findall(r"^COPY (\w+) \1$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert sorted(copied) == sorted(WHEEL["only-include"])


def test_every_package_that_is_installed_is_there() -> None:
    assert [name for name in WHEEL["only-include"] if not (ROOT / name / "__init__.py").exists()] == []
    assert sorted([*PACKAGES, "memoryd"]) == sorted(WHEEL["only-include"])
    assert WHEEL["sources"] == {name: f"memoryd/{name}" for name in PACKAGES}


def test_no_release_of_what_it_needs_is_refused_that_no_test_fails_with() -> None:
    given = [*PROJECT["dependencies"]]
    given += [
        one for name, extra in PROJECT["optional-dependencies"].items() if name != "dev" for one in extra
    ]
    asked = [one for one in map(Requirement, given) if one.name != PROJECT["name"]]
    bounds = {(one.name, bound.operator) for one in asked for bound in one.specifier}
    assert {name for name, operator in bounds if operator != ">="} == {"apscheduler"}
    assert {name for name, operator in bounds if operator == ">="} == {one.name for one in asked}


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


def test_the_version_is_the_one_of_pyproject_wherever_it_is_told() -> None:
    clients = [
        path
        for path in (ROOT / "clients").glob("*/**/*")
        if path.suffix in {".json", ".md", ".toml", ".yaml"}
    ]
    files = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *clients]
    told = {
        str(file.relative_to(ROOT)): set(found)
        for file in files
        if not {"node_modules", "package-lock.json"} & set(file.parts)
        and (found := TOLD.findall(file.read_text("utf-8")))
    }
    told["CHANGELOG.md"] = set(
        re.findall(r"^## (\S+), ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[:1]
    )
    assert {file: versions for file, versions in told.items() if versions != {PROJECT["version"]}} == {}
    assert {"README.md", "clients/python/pyproject.toml", "clients/typescript/package.json"} <= told.keys()
    assert {
        f"clients/openclaw/{name}" for name in ("README.md", "package.json", "openclaw.plugin.json")
    } <= told.keys()
    assert {"clients/claude-code/.claude-plugin/plugin.json", "clients/hermes/plugin.yaml"} <= told.keys()


def test_what_make_run_installs_is_pinned_first_and_nothing_else_with_it() -> None:
    main, _, others = (ROOT / "constraints.txt").read_text().partition("\n\n")
    needed = brought_by(["memoryd[documents,embedded,metrics]"]) - {"memoryd"}
    assert (sorted(needed - pins(main).keys()), sorted(pins(main).keys() - needed)) == ([], [])
    assert sorted(brought_by(["memoryd[dev]"]) - {"memoryd"} - pins(main).keys() - pins(others).keys()) == []


def test_every_tested_release_is_one_for_the_oldest_python() -> None:
    oldest = PROJECT["requires-python"].removeprefix(">=") + ".0"
    refused = []
    for name, version in pins((ROOT / "constraints.txt").read_text()).items():
        installed = distribution(name)
        if installed.version == version:
            [needs] = installed.metadata.get_all("Requires-Python") or [""]
            refused += [f"{name}=={version}: Python {needs}"] * (oldest not in SpecifierSet(needs))
    assert refused == []
