"""Builds the site of the documents into build/site, without network: `make docs`.

Promise: a link to a page or a heading that does not exist ends the build. Pages keep their places in the repository, and what
they link to is copied with them: the same links lead on here and there. zensical.toml names the pages.

    python -m docs.build_site
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CONFIGURATION = ROOT / "zensical.toml"
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")


def pages(navigation: Any) -> Iterator[str]:
    """The paths of the pages, in the order of the navigation."""
    if isinstance(navigation, str):
        yield navigation
        return
    for part in navigation.values() if isinstance(navigation, dict) else navigation:
        yield from pages(part)


def build() -> None:
    """Copies the pages, and builds the site from these copies. Raises CalledProcessError."""
    project = tomllib.loads(CONFIGURATION.read_text("utf-8"))["project"]
    copies = ROOT / project["docs_dir"]
    shutil.rmtree(copies, ignore_errors=True)
    named = [ROOT / page for page in pages(project["nav"])]
    linked = {
        (page.parent / link).resolve() for page in named for link in LINK.findall(page.read_text("utf-8"))
    }
    folders = {
        path: sorted(file for file in path.iterdir() if file.is_file()) for path in linked if path.is_dir()
    }
    for file in {
        *named,
        *(path for path in linked if path.is_file()),
        *(f for held in folders.values() for f in held),
    }:
        copy = copies / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    for folder, held in folders.items():
        place = folder.relative_to(ROOT)
        lines = [f"# {place}", "", *(f"- [{file.name}]({file.name})" for file in held)]
        (copies / place / "index.md").write_text("\n".join(lines), "utf-8")
    program = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    subprocess.run(program, cwd=ROOT, check=True, env={**os.environ, "NO_COLOR": "1"})


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    build()
