"""install.py asks for the releases that were tested, and goes on without those that cannot be had."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from zipfile import ZipFile

import pytest

from tests.support.repository import ROOT

EXTENSION = "cp27-cp27m-manylinux1_x86_64"


class Quiet(SimpleHTTPRequestHandler):
    """Tells the terminal nothing."""

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@dataclass
class Index:
    """A package index, and what was installed from it."""

    folder: Path
    url: str
    installed: Mapping[str, str] = field(default_factory=dict)

    def publish(
        self, name: str, version: str, *needs: str, tag: str = "py3-none-any", python: str = ">=3"
    ) -> None:
        """A wheel without any file of its own."""
        files = self.folder / "simple" / name
        files.mkdir(parents=True, exist_ok=True)
        metadata = [
            "Metadata-Version: 2.1",
            f"Name: {name}",
            f"Version: {version}",
            f"Requires-Python: {python}",
        ]
        info = f"{name}-{version}.dist-info"
        with ZipFile(files / f"{name}-{version}-{tag}.whl", "w") as wheel:
            wheel.writestr(
                f"{info}/METADATA", "\n".join([*metadata, *(f"Requires-Dist: {need}" for need in needs)])
            )
            wheel.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n")
            wheel.writestr(f"{info}/RECORD", "")

    def install(self, *pins: str) -> str:
        """Installs `tree`; returns what was said."""
        file = self.folder / "pins.txt"
        file.write_text("\n".join(pins))
        target = self.folder / "installed"
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
        done = subprocess.run(
            [sys.executable, ROOT / "install.py", file, "tree>=1", f"--target={target}", "--no-cache-dir"],
            env=clean
            | {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": f"{self.url}/simple", "PIP_RETRIES": "0"},
            capture_output=True,
            text=True,
            check=False,
        )
        names = [path.name.removesuffix(".dist-info") for path in target.glob("*.dist-info")]
        self.installed = dict(name.split("-") for name in names)
        assert done.returncode == (0 if names else 1), done.stderr
        return done.stderr


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    """With a tree, its twig and the leaf of that: two releases each."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=tmp_path)) as server:
        Thread(target=server.serve_forever).start()
        index = Index(tmp_path, f"http://127.0.0.1:{server.server_port}")
        for version in ("1.0", "1.1"):
            index.publish("tree", version, "twig>=1,<2", "bark>=1,<2")
            index.publish("twig", version, "leaf<2")
            index.publish("leaf", version)
            index.publish("bark", version)
        index.publish("leaf", "2.0")
        yield index
        server.shutdown()


def gone(said: str) -> list[str]:
    """The releases that are told not to be had."""
    [line] = [line for line in said.splitlines() if line.startswith("The package index does not have")]
    return line.partition(": ")[2].partition(". ")[0].split(", ")


def test_what_can_be_had_is_installed_and_nothing_said(index: Index) -> None:
    assert index.install("bark==1.0", "leaf==1.0", "tree==1.0", "twig==1.0") == ""
    assert index.installed == {"bark": "1.0", "leaf": "1.0", "tree": "1.0", "twig": "1.0"}


def test_of_releases_that_are_gone_or_none_for_this_python_all_are_told_and_others_within_the_ranges_taken(
    index: Index,
) -> None:
    """Also those that pip names later."""
    index.publish("leaf", "1.2", python=">=3.99")
    index.publish("bark", "1.2", tag=EXTENSION)
    said = index.install("bark==1.2", "leaf==1.2", "tree==1.8", "twig==1.0", "unneeded==1.9")
    assert gone(said) == ["bark==1.2", "leaf==1.2", "tree==1.8", "unneeded==1.9"]
    assert index.installed == {"bark": "1.1", "leaf": "1.1", "tree": "1.1", "twig": "1.0"}


def test_what_needs_the_very_release_that_is_gone_is_replaced_too(index: Index) -> None:
    index.publish("twig", "1.2", "leaf==1.2")
    said = index.install("bark==1.0", "leaf==1.2", "tree==1.0", "twig==1.2")
    assert gone(said) == ["leaf==1.2"]
    assert "twig==1.2" in said
    assert index.installed == {"bark": "1.0", "leaf": "1.1", "tree": "1.0", "twig": "1.1"}


def test_an_index_that_does_not_answer_is_told_in_a_sentence(index: Index) -> None:
    index.url = "http://127.0.0.1:9"
    said = index.install("tree==1.0").splitlines()
    assert said[1:] == [line for line in said if "The package index does not answer" in line]
    assert index.installed == {}
