"""Brings the scripts that are others', for web pages and their tests: each file, with its licence, from its package of npm.

    python -m docs.vendor_scripts          # look: are the files those that are listed here?
    python -m docs.vendor_scripts --fetch  # bring them again, for a new version; needs npm

The package is refused if it is not the one whose checksum (of npm: sha512) stands here, and so is a file.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
STATIC = ROOT / "plugins" / "web" / "static"
FOR_TESTS = ROOT / "tests" / "data"


@dataclass(frozen=True, slots=True)
class Script:
    """A file of a package. `integrity`: of the package, as npm says it; `sha256`: of the file; `folder`: where it is kept."""

    package: str
    file: str
    integrity: str
    sha256: str
    licence: str
    folder: Path = STATIC

    @property
    def name(self) -> str:
        """Of the file here."""
        return Path(self.file).name

    @property
    def licence_name(self) -> str:
        """Of the file with its licence."""
        return f"{self.name}.LICENSE"


SCRIPTS = (
    Script(
        "htmx.org@2.0.11",
        "dist/htmx.min.js",
        "sha512-Thx/WtpeOQqSrqBCw/A1cwGJGg4UrVa3+sW0GmrM3p4gJgO89ecH4qtbnyzDDWFvBTqjnIMCgELTNt636dtamA==",
        "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717",
        "LICENSE",
    ),
    Script(
        "d3-force@3.0.1",
        "dist/d3-force.min.js",
        "sha512-kAaaHLFebBYwgi5cYBXAI8vKrQFMCD2MEswj2QuPKKbdU1wYLc8WXtS7O8F/b6POCIe3gJjY6hkDstHi1yMETQ==",
        "ed05b52ecfe280d753ebab954e4e1f24097952480a9d277be55b6ba297bf4a9b",
        "LICENSE",
    ),
    # What d3-force needs.
    Script(
        "d3-dispatch@3.0.2",
        "dist/d3-dispatch.min.js",
        "sha512-sAzH4Y4nsLo8eSqw5jKiZt+LU2wZmL/qS+OkxQGjhwazB/D7TY34R/QK1eshfGr7cZEKymKZ/Haem7m+lu98Sg==",
        "5afe071dad74c14cd580f540c9ec85b0755eed78b7f9ed3e9f63b989fc41aa4b",
        "LICENSE",
    ),
    Script(
        "d3-quadtree@3.0.2",
        "dist/d3-quadtree.min.js",
        "sha512-9Lu9mqJKRbIk0d6mKDjpvPURaPdwHVK5CYbcdd0/4vBgz4ldz/7TIOse3kNERsByGNfld58KEco507AztJWyTQ==",
        "6bd9974b3efdf9c22942a6fb9a5a027ee39f81a6c27b09a3444c9e911796f439",
        "LICENSE",
    ),
    Script(
        "d3-timer@3.0.2",
        "dist/d3-timer.min.js",
        "sha512-1Il1aliroVSErrv5aulRBxAY+7+DnaoLIWGd1C6SsBTWDeobWiP/V69vwb8vT6abR1kKwaNe1196pmaQ1fK90A==",
        "f6b80ed73b21d01658db60d1c04adb88adc70f885346ae07d59ed69ba0348849",
        "LICENSE",
    ),
    Script(
        "axe-core@4.14.1",
        "axe.min.js",
        "sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==",
        "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c",
        "LICENSE",
        FOR_TESTS,
    ),
)


def wrong(script: Script) -> str | None:
    """Why the file here is not the one that is listed; None: it is."""
    try:
        found = hashlib.sha256((script.folder / script.name).read_bytes()).hexdigest()
    except FileNotFoundError:
        return "it is missing"
    if found != script.sha256:
        return f"its checksum is {found}"
    return None if (script.folder / script.licence_name).is_file() else "its licence is missing"


def fetch(script: Script) -> None:
    """Brings one file and its licence. Raises ValueError where the package or the file is another one."""
    npm = shutil.which("npm")
    if npm is None:
        raise ValueError("npm is needed to fetch packages: install Node.js")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [npm, "pack", "--silent", script.package], cwd=folder, check=True, stdout=subprocess.DEVNULL
        )
        packed = next(Path(folder).glob("*.tgz")).read_bytes()
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(packed).digest()).decode()
    if integrity != script.integrity:
        raise ValueError(f"{script.package} is not the package that is listed: {integrity}")
    with tarfile.open(fileobj=io.BytesIO(packed)) as package:
        for inside, name in ((script.file, script.name), (script.licence, script.licence_name)):
            member = package.extractfile(f"package/{inside}")
            if member is None:
                raise ValueError(f"{script.package} has no {inside}")
            (script.folder / name).write_bytes(member.read())
    if (reason := wrong(script)) is not None:
        raise ValueError(f"{script.name}: {reason}")


def main() -> int:
    """0: all files are as listed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--fetch", action="store_true")
    try:
        for script in SCRIPTS:
            if parser.parse_args().fetch:
                fetch(script)
            if (reason := wrong(script)) is not None:
                print(f"{script.name}: {reason}. Run: python -m docs.vendor_scripts --fetch", file=sys.stderr)  # noqa: T201 - a program
                return 1
    except ValueError as error:
        print(error, file=sys.stderr)  # noqa: T201 - a program
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
