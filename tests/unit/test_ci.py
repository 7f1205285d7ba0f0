"""What a run of all tests says: on the oldest Python of the machine, too, and where no test can have its database."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.repository import ROOT

SUMMARY = "9 passed in 1.00s"
MAKE = f"""#!/bin/sh
echo "make $*" >> log
case "$*" in
    *oldest-python/pyvenv.cfg) [ -z "$NO_VENV" ] || exit 2 ;;
    *oldest-python/.ready-to-check) mkdir -p build/oldest-python/bin && cp bin/pytest build/oldest-python/bin/python ;;
    test) echo "{SUMMARY}" ;;
esac
"""
PYTEST = """#!/bin/sh
echo "pytest $*" >> log
exit "${OLD:-0}"
"""


class Machine:
    """A checkout with nothing but .ci/run, on a machine with these Pythons."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in (".ci", "bin", "venv/bin"):
            (folder / name).mkdir(parents=True)
        shutil.copy(ROOT / ".ci/run", folder / ".ci/run")
        self.program("bin/make", MAKE)
        self.program("bin/pytest", PYTEST)
        self.program("bin/chromedriver", "#!/bin/sh\n")
        self.python("venv/bin/python", "3.12.4")

    def program(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(0o755)

    def python(self, name: str, version: str) -> None:
        self.program(name, f"#!/bin/sh\necho {version}\n")

    def run(self, **environment: str) -> tuple[int, str, list[str]]:
        """The exit code, what was said, and what was called."""
        path = f"{self.folder}/bin:/usr/bin:/bin"
        done = subprocess.run(
            [self.folder / ".ci/run"],
            env={"PATH": path, "VENV": "venv", "HOME": os.devnull} | environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        log = (self.folder / "log").read_text().splitlines()
        return done.returncode, done.stdout, log


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """One whose python3.11 is a 3.11.0, older than any that the tests run on; python3.13 cannot be run."""
    made = Machine(tmp_path)
    made.python("bin/python3", "3.12.4")
    made.python("bin/python3.11", "3.11.0")
    made.program("bin/python3.13", "#!/bin/sh\necho 'command not found' >&2\nexit 127\n")
    return made


@pytest.mark.parametrize("failed", ["0", "1"])
def test_the_oldest_python_is_tried_too_and_its_failure_fails_the_run(machine: Machine, failed: str) -> None:
    code, said, log = machine.run(OLD=failed)
    assert (code, said.splitlines()[-1]) == (int(failed), SUMMARY)
    made = f"make VENV=build/oldest-python PYTHON={machine.folder}/bin/python3.11"
    assert {f"{made} build/oldest-python/.ready-to-check", "make venv/.ready-to-test"} <= set(log)
    [tests] = [line for line in log if line.startswith("pytest")]
    assert tests.endswith("tests/unit tests/acceptance/test_installation.py")
    assert log[-1] == "make test"


def test_an_oldest_python_of_the_same_series_does_everything_once(machine: Machine) -> None:
    machine.python("bin/python3", "3.11.7")
    machine.python("venv/bin/python", "3.11.0")
    code, said, log = machine.run()
    assert (code, said.splitlines()[-1]) == (0, SUMMARY)
    first = f"make PYTHON={machine.folder}/bin/python3.11 venv/pyvenv.cfg"
    assert log == [first, "make venv/pyvenv.cfg", "make venv/.ready-to-test", "make test"]


def test_an_oldest_python_that_makes_no_environment_is_told(machine: Machine) -> None:
    code, said, log = machine.run(NO_VENV="1")
    assert (code, said.splitlines()[-1]) == (0, SUMMARY)
    assert "Nothing is tried on Python 3.11.0" in said
    assert [line for line in log if line.startswith("pytest")] == []


@pytest.mark.parametrize("processes", [(), ("--numprocesses=2",)])
def test_a_server_that_does_not_start_is_told_once(processes: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *processes, "tests/integration/db/test_ownership.py"],
        cwd=ROOT, env=os.environ | {"MEMORYD_TEST_POSTGRES": "postgresql://nobody@127.0.0.1:9/nothing"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stdout.count("No test can have its database") == 1
    assert "ERROR" not in done.stdout
    assert "Traceback" not in done.stdout
