"""Runs memoryd's tests with the oldest releases that pyproject.toml allows, or with the newest that there are.

    python -m tests.upstream.releases oldest
    python -m tests.upstream.releases newest                 # pre-releases, too
    python -m tests.upstream.releases oldest tests/unit -x   # other tests, and options of pytest

In a virtual environment of its own, build/oldest or build/newest, by this Python; minutes. A lower bound in pyproject.toml is
the release that passed here; an upper one stands only where a test fails above it. The extras named below take part.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterable

from packaging.requirements import Requirement

from tests.support.repository import ROOT

EXTRAS = ("audit", "documents", "embedded", "metrics", "otel", "web")
LATER = ("mcp",)
"""The extras whose packages need newer releases of the others: with them come tests of their own."""
TOOLS = (
    "hatchling",
    "httpx2",
    "hypothesis",
    "pypdf",
    "pytest",
    "pytest-asyncio",
    "pytest-xdist",
    "reportlab",
    "selenium",
)
TESTS = (
    "tests/unit", "tests/integration/providers", "tests/integration/embedded",
    "tests/acceptance/test_cli_help.py", "tests/acceptance/test_cli_demo.py", "tests/acceptance/test_cli_secrets.py",
    "tests/acceptance/test_cli_trail.py", "tests/acceptance/test_daemon_log.py", "tests/acceptance/test_drop_folder.py",
    "tests/acceptance/test_http.py", "tests/acceptance/test_lifecycle.py", "tests/acceptance/test_replica.py",
    "tests/acceptance/test_run_once.py", "tests/acceptance/test_traces.py", "tests/web",
    # What these compare is the same with all releases, or needs packages that are not here.
    *(f"--ignore=tests/unit/{name}.py" for name in ("test_budgets", "test_packaging", "test_mcp_arguments")),
    "--ignore=tests/integration/providers/test_onnx_embedder.py",
)  # fmt: skip
LATER_TESTS = (
    "tests/unit/test_mcp_arguments.py",
    "tests/acceptance/test_mcp.py",
    "tests/acceptance/test_mcp_http.py",
    "tests/acceptance/test_mcp_ends.py",
)
OPTIONS = ("--numprocesses=2", "--override-ini=filterwarnings=", "-p", "no:cacheprovider")


def main(kind: str, *tests: str) -> int:
    """The exit code."""
    folder = ROOT / "build" / kind
    python = folder / "bin" / "python"
    pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    pins = folder / "pins.txt"

    def pytest(*given: str) -> int:
        return subprocess.run([python, "-m", "pytest", *OPTIONS, *given], cwd=ROOT, check=False).returncode

    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    if kind == "newest":
        pins.touch()
        every = ",".join((*EXTRAS, *LATER))
        subprocess.run([*pip, "--pre", "--upgrade", *TOOLS, "-e", f"{ROOT}[{every}]"], check=True)
        return pytest(*(tests or (*TESTS, *LATER_TESTS)))
    asked = [*project["dependencies"], *(r for e in EXTRAS for r in extras[e])]
    pins.write_text("\n".join(oldest(asked)))
    subprocess.run([*pip, "-c", pins, *TOOLS, "-e", f"{ROOT}[{','.join(EXTRAS)}]"], check=True)
    if failed := pytest(*(tests or TESTS)):
        return failed
    if tests:
        return 0
    subprocess.run([*pip, *oldest(r for e in LATER for r in extras[e])], check=True)
    return pytest(*LATER_TESTS)


def oldest(requirements: Iterable[str]) -> list[str]:
    """The oldest release that each allows."""
    found = {}
    for one in map(Requirement, requirements):
        lower = [bound.version for bound in one.specifier if bound.operator == ">="]
        found[one.name] = f"{one.name}=={lower[0]}"
    return list(found.values())


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
