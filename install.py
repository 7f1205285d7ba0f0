"""Installs by pip the releases that were tested, as far as the package index has them for this Python.

    python install.py constraints.txt '.[documents]' --first-block --editable

Any release can be withdrawn on any day. Promise: those that cannot be had are named, and others are installed within the ranges
of pyproject.toml; of all other packages the tested release is kept. Options that this program does not know are pip's.
"""

from __future__ import annotations

import argparse
import platform
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

PIP = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile")
LOOK = ("--dry-run", "--ignore-installed", "--no-deps", "--only-binary=:all:")
NO_INDEX = (
    "The package index does not answer, or does not have {}: check the network, and the proxy and the index that the variables "
    "(HTTPS_PROXY, PIP_INDEX_URL) and `pip config list` name. Then run the same command again."
)


def main() -> int:
    """Installs, and returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pins", type=Path, help="the file that has the tested releases")
    parser.add_argument("requirement", help="what is installed")
    parser.add_argument("--first-block", action="store_true", help="only the pins above the first empty line")
    given, options = parser.parse_known_args()
    text = given.pins.read_text("utf-8")
    pins = [
        line
        for line in (text.partition("\n\n")[0] if given.first_block else text).splitlines()
        if "==" in line
    ]
    wanted = [*options, given.requirement]

    fault = _pip(wanted, pins)
    if fault is None or ("due to an OSError" in fault and "Max retries" not in fault):
        return _end(fault)
    _say("Not all of the tested releases can be installed: looking up which ...")
    options = [option for option in options if option != "--editable"]
    first = _build_requirements() if given.requirement.startswith(".") else [given.requirement]
    if _pip([*LOOK, *options, *first]) is not None:
        return _end(NO_INDEX.format(" ".join(first)))
    gone = _gone(pins, options)
    if gone:
        python = platform.python_version()
        _say(
            f"The package index does not have for Python {python}: {', '.join(gone)}. Other releases are taken."
        )
    else:
        gone = _named(fault, pins)
    while gone and fault is not None:
        pins = [pin for pin in pins if pin not in gone]
        fault = _pip(["--prefer-binary", *wanted], pins)
        gone = _named(fault or "", pins)
        if gone:
            _say(f"They do not go together with {', '.join(gone)}: other releases are taken.")
    if fault is not None and pins:
        _say("The other tested releases do not go together: none is asked for.")
        fault = _pip(["--prefer-binary", *wanted])
    return _end(fault)


def _pip(arguments: Sequence[str], pins: Sequence[str] = ()) -> str | None:
    """What pip says where it fails; None where it does not."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".txt") as file:
        file.write("\n".join(pins))
        file.flush()
        command = [*PIP, "--constraint", file.name, *arguments]
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return None if done.returncode == 0 else done.stdout.decode("utf-8", "replace")


def _build_requirements() -> list[str]:
    built: list[str] = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["build-system"]["requires"]
    return built


def _gone(pins: Sequence[str], options: Sequence[str]) -> list[str]:
    """The pins that the index does not have. pip names one of them at a time, and not always the first."""
    gone: list[str] = []
    left = list(pins)
    while fault := _pip([*LOOK, *options, *left]):
        found = re.search(
            r"(?:distribution found for|not install requirement|ERROR: Package) '?([\w.-]+)", fault
        )
        named = [pin for pin in left if found is not None and _name(pin) == _name(found[1])]
        if not named:
            break
        gone += named
        left = [pin for pin in left if pin not in named]
    return [pin for pin in pins if pin in gone]


def _named(fault: str, pins: Sequence[str]) -> list[str]:
    """The pins of the packages that pip names as those that cannot be installed together, or need what cannot be had."""
    found = re.findall(r"Cannot install (.+) because|satisfies the requirement \S+ \(from ([\w.-]+)", fault)
    names = {_name(one) for pair in found for words in pair for one in re.split(r",? and |, ", words)}
    return [pin for pin in pins if _name(pin) in names]


def _name(pin: str) -> str:
    """Of a package, as the index spells it."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\[=]", pin)[0]).lower()


def _end(fault: str | None) -> int:
    """Says what is wrong, if anything is; returns the exit code."""
    if fault is not None:
        _say("\n".join(line for line in fault.splitlines() if not line.startswith("WARNING")))
    return int(fault is not None)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
