"""The wheel beside packages of others with the names of memoryd's folders: each finds its own, and loses none by the other."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

import pytest

from memoryd.__main__ import PACKAGES
from tests.acceptance.test_installation import PROJECT, linked
from tests.support.processes.daemons import environment
from tests.support.repository import ROOT, build

ASK = f"import {', '.join(PACKAGES)}; print({' + '.join(f'{name}.WHOSE' for name in PACKAGES)})"
PIP = ("--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--no-compile")


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment that sees what memoryd needs."""

    folder: Path

    def pip(self, *arguments: str | Path) -> None:
        """Installs or uninstalls here."""
        program = [sys.executable, "-m", "pip", "--python", self.folder / "bin/python", *arguments]
        ended = subprocess.run(program, check=False, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr

    def run(self, program: str, *arguments: str, url: str = "", **variables: str) -> tuple[int, str]:
        """The exit code, and all that was said."""
        ended = subprocess.run(
            [self.folder / "bin" / program, *arguments],
            env=environment(url, {}) | {"PYTHONPATH": ""} | variables,
            cwd=self.folder,
            check=False,
            capture_output=True,
            text=True,
        )
        return ended.returncode, ended.stdout + ended.stderr

    def works(self, url: str, **variables: str) -> None:
        """memoryd runs here until nothing is left to do, whichever way it is started."""
        assert self.run("memoryd", "migrate", url=url, **variables)[0] == 0
        code, said = self.run("python", "-P", "-m", "memoryd", "run", "--once", url=url, **variables)
        assert (code, "daemon_stopped" in said) == (0, True), said
        at_home = variables | {"HOME": str(self.folder)}
        assert self.run("memoryd", "hook", "Stop", url=url, **at_home) == (0, "")


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What it needs."""
    return linked(tmp_path_factory.mktemp("needed") / "packages", PROJECT["dependencies"])


@pytest.fixture
def alone(tmp_path: Path, packages: Path) -> Environment:
    """An environment without memoryd."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    [site] = (tmp_path / "venv/lib").glob("python*/site-packages")
    (site / "needed.pth").write_text(str(packages))
    return Environment(tmp_path / "venv")


@pytest.fixture
def neighbour(tmp_path: Path) -> Path:
    """The wheel of an application, with a package of each name. One of them is loaded whenever a Python starts."""
    path = tmp_path / "neighbour-1.0-py3-none-any.whl"
    info = "neighbour-1.0.dist-info"
    files = {f"{name}/__init__.py": "WHOSE = 'n'\n" for name in PACKAGES} | {
        "daemon/part.py": "raise SystemExit('this is of another program')\n",
        "neighbour.pth": "import plugins\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: neighbour\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with ZipFile(path, "w") as made:
        for name, text in files.items():
            made.writestr(name, text)
        made.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"]))
    return path


@pytest.mark.parametrize("memoryd_first", [True, False])
def test_neither_hides_or_takes_away_a_package_of_the_other(
    alone: Environment, wheel: Path, neighbour: Path, database_url: str, memoryd_first: bool
) -> None:
    order = (wheel, neighbour) if memoryd_first else (neighbour, wheel)
    for each in order:
        alone.pip("install", *PIP, each)
    assert alone.run("python", "-c", ASK) == (0, "nnnnnn\n")
    alone.works(database_url)
    alone.pip("uninstall", "--yes", "--quiet", "neighbour" if memoryd_first else "memoryd")
    if memoryd_first:
        alone.works(database_url)
    else:
        assert alone.run("python", "-c", ASK) == (0, "nnnnnn\n")


def test_folders_on_the_path_of_modules_hide_none_of_its_packages(
    alone: Environment, wheel: Path, tmp_path: Path, database_url: str
) -> None:
    for name in PACKAGES:
        (tmp_path / "path" / name).mkdir(parents=True)
        (tmp_path / "path" / name / "__init__.py").write_text(
            "raise SystemExit('this is of another program')"
        )
    alone.pip("install", *PIP, wheel)
    [site] = alone.folder.glob("lib/python*/site-packages")
    assert {each.name.partition("-")[0] for each in site.iterdir()} == {"memoryd", "needed.pth"}
    alone.works(database_url, PYTHONPATH=str(tmp_path / "path"))
    (site / "a.pth").write_text(f"import sys; sys.path.insert(0, {str(tmp_path / 'path')!r})")
    alone.works(database_url)


def test_a_plugin_is_loaded_and_its_author_imports_and_checks_it(
    alone: Environment, wheel: Path, tmp_path: Path
) -> None:
    """As docs/plugins.md says."""
    example = ROOT / "examples/plugin"
    alone.pip("install", *PIP, wheel)
    alone.pip("install", *PIP, build(example, tmp_path))
    assert "Ring the bell once." in alone.run("memoryd", "--help")[1]
    _, folder = alone.run("python", "-c", "import memoryd; print(memoryd.FOLDER)")
    path = {"PYTHONPATH": folder.strip()}
    assert alone.run("python", "-c", "import memoryd_bell", **path) == (0, "")
    quick = ("--follow-imports=skip", "--allow-subclassing-any", "--cache-dir=/dev/null")
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", *quick, "--python-executable", alone.folder / "bin/python",
         example / "memoryd_bell.py"],
        env=os.environ | path, cwd=alone.folder, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stdout
