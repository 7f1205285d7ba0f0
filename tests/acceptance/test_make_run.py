"""`make run` in a copy of the checkout, for real: on a machine that has little, and on a day when releases are gone."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memoryd.__main__ import PACKAGES
from plugins.embedded.server import EmbeddedPostgres
from tests.support.folders import quiet_port
from tests.support.processes.daemons import DaemonProcess
from tests.support.repository import ROOT

COPIED = (
    "Makefile", "constraints.txt", "install.py", "pyproject.toml", "README.md", "LICENSE", "docs/glossary.md",
)  # fmt: skip
GONE = {"anyio": "4.999", "ruff": "0.17.999"}
"""What a package that memoryd needs needs, and what its development needs: each look takes seconds, so there are no more, and
pip meets this one early."""
BARE_PATH = "/usr/bin:/bin"
SUITABLE = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))"
MAKE_SECONDS = 600.0


def python() -> str:
    """The system's, which is older than others where there are several; else the one of this test."""
    suits = subprocess.run(["/usr/bin/python3", "-c", SUITABLE], check=False, capture_output=True)
    return "/usr/bin/python3" if suits.returncode == 0 else sys.executable


class Checkout:
    """A copy in a folder with an odd name, and `make` there: a bare PATH, a home that nobody can write to, a closing umask."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "docs").mkdir(parents=True)
        for name in COPIED:
            shutil.copy(ROOT / name, folder / name)
        for name in (*PACKAGES, "memoryd"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        kept = ("pip_", "http_proxy", "https_proxy", "all_proxy", "no_proxy", "ssl_cert")
        given = {name: value for name, value in os.environ.items() if name.lower().startswith(kept)}
        cache = subprocess.run(
            [sys.executable, "-m", "pip", "cache", "dir"], capture_output=True, text=True, check=False
        )
        self.environment = {
            "PIP_CACHE_DIR": cache.stdout.strip() or "/proc/none", **given, "PATH": BARE_PATH, "HOME": "/proc",
            "PYTHON": python(), "MEMORYD_POSTGRES_PORT": str(quiet_port()), "MEMORYD_LOG_FORMAT": "json",
        }  # fmt: skip

    def pin(self, releases: dict[str, str]) -> None:
        """Names other releases in constraints.txt."""
        lines = (self.folder / "constraints.txt").read_text().splitlines()
        named = [line.partition("==")[0] for line in lines]
        assert releases.keys() <= {name.lower() for name in named}
        lines = [
            f"{name}=={releases[name.lower()]}" if name.lower() in releases else line
            for name, line in zip(named, lines, strict=True)
        ]
        (self.folder / "constraints.txt").write_text("\n".join(lines))

    async def make(self, target: str, **environment: str) -> tuple[int, list[str]]:
        """The exit code, and what was said."""
        process = await self.start(target, **environment)
        _, said = await asyncio.wait_for(process.communicate(), MAKE_SECONDS)
        assert process.returncode is not None
        return process.returncode, said.decode().splitlines()

    async def start(
        self, target: str, stdout: int = asyncio.subprocess.DEVNULL, /, **environment: str
    ) -> asyncio.subprocess.Process:
        """Starts make, in a group of its own, as a terminal does."""
        return await asyncio.create_subprocess_exec(
            "make", target, cwd=self.folder, env=self.environment | environment, umask=0o077, start_new_session=True,
            stdin=asyncio.subprocess.DEVNULL, stdout=stdout, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip


@pytest.fixture
def checkout(folder: Path) -> Iterator[Checkout]:
    """Its Postgres has ended at the end."""
    made = Checkout(folder / "hier, schön")
    yield made
    EmbeddedPostgres(made.folder / ".memoryd").stop("immediate")


async def test_it_runs_without_releases_that_are_gone_and_says_what_a_machine_lacks(
    checkout: Checkout,
) -> None:
    checkout.pin(GONE)
    code, said = await checkout.make(".venv/.ready-to-run")
    assert code == 0, said
    [gone] = [line for line in said if "does not have" in line]
    assert "anyio==4.999. Other releases are taken." in gone

    dead = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:9")
    process = await checkout.start("run", **dead)
    daemon = DaemonProcess(process)
    await daemon.event("daemon_started", timeout=120)
    code, said = await checkout.make("clean")
    assert code != 0
    assert re.search(r"so nothing was removed: stop it \(Ctrl-C, or kill( \d+)+\)", said[0])
    os.killpg(process.pid, signal.SIGINT)
    await daemon.event("daemon_stopped", timeout=60)
    await process.wait()

    demo = await checkout.start("demo", asyncio.subprocess.PIPE, **dead)
    assert demo.stdout is not None
    while (line := await demo.stdout.readline()) and not line.startswith(b"2. "):
        pass
    os.killpg(demo.pid, signal.SIGINT)
    _, fault = await demo.communicate()
    assert line, fault.decode()

    # Nobody uses a copy of it.
    shutil.copytree(checkout.folder / ".venv", checkout.folder / "copy", symlinks=True)
    code, said = await checkout.make("clean", VENV="copy")
    assert (code, (checkout.folder / "copy").exists(), said) == (0, False, [])

    # A virtual environment does not move with its folder, and nothing can be installed here without the index.
    checkout.folder = checkout.folder.rename(checkout.folder.with_name("there"))
    alone = {"PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": "", "PIP_RETRIES": "0"}
    code, said = await checkout.make("run", **dead, **alone)
    assert code != 0
    assert said[-2].startswith("The package index does not answer"), said
    assert [line for line in said if "Traceback" in line] == []


async def test_a_place_where_no_environment_can_be_made_is_told(checkout: Checkout) -> None:
    code, said = await checkout.make("/dev/null/venv/.ready-to-run", VENV="/dev/null/venv")
    assert code != 0
    assert len(said) == 2, said
    assert "Not a directory" in said[0]
    assert "make VENV=" in said[0]
    code, said = await checkout.make("run", VENV=f"{checkout.folder}/an environment")
    assert code != 0
    assert len(said) == 1, said
    assert "with blanks" in said[0]
