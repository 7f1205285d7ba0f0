"""The Postgres that memoryd brings along: its own server in a data folder, for users without one.

Promise: after `start` a server accepts connections, whatever a crash, a power cut or another process that starts at the same
moment left behind. Nothing here ever trades durability for speed.

    <data folder>/pg/           the database cluster
    <data folder>/run/          the unix socket: without a password, but only for the server's own user and root
    <data folder>/password      for TCP on 127.0.0.1, mode 0600
    <data folder>/port          the port, kept for the next start
    <data folder>/postgres.log  the server's log, without memories
    <data folder>/pg/memoryd.conf  its settings, written at each start
"""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from plugins.embedded.account import Account, account_for
from plugins.embedded.causes import EmbeddedPostgresError, failure, free_bytes
from plugins.embedded.cluster import CLUSTER, check_cluster, make_or_adopt_cluster
from plugins.embedded.configuration import SETTINGS, write_configuration
from plugins.embedded.files import Folder, open_folder, read_in
from plugins.embedded.ports import USUAL_PORT, ports_to_try, remember_port, remembered_port, socket_folder
from plugins.embedded.process import Postmaster, clear_leftovers, find_postmaster
from plugins.embedded.programs import Programs, find_programs

if sys.platform != "win32":
    import fcntl

DATABASE = "memoryd"
LOG = "postgres.log"
LOG_BYTES = 16_000_000
"""A bigger log becomes postgres.log.1 at the next start."""
_WAIT_SECONDS = 600  # recovery after a crash replays up to max_wal_size

# From template0, which nobody connects to: template1 cannot be copied while a session, or autovacuum, uses it.
_CREATE_DATABASE = """
select 'create database memoryd template template0'
where not exists (select from pg_database where datname = 'memoryd')
\\gexec
"""


class EmbeddedPostgres:
    """One server in one data folder. Makes nothing before `start`; several processes may use it at once."""

    def __init__(
        self,
        data_dir: Path,
        *,
        port: int | None = None,
        options: Mapping[str, str] | None = None,
        programs: Programs | None = None,
        started: Callable[[int | None], None] = lambda _pid: None,
    ) -> None:
        """`port` None: the last one, else 54329, else any free one. `options` override `SETTINGS`. `programs` None: the newest
        version that memoryd brings along. `started` is called with the process id of a server that this object started.

        Raises EmbeddedPostgresError if there are no programs here.
        """
        self._settings = {**SETTINGS, **(options or {})}
        self._programs = programs or find_programs()
        self._given = data_dir.expanduser().absolute()
        self._folder = self._given.resolve()
        self._cluster = self._folder / CLUSTER
        self._wanted_port = port
        self._started = started

    # --- What it is called.

    @property
    def psql_path(self) -> Path:
        return self._programs.bin / "psql"

    @property
    def log_path(self) -> Path:
        return self._folder / LOG

    @property
    def socket_url(self) -> str:
        """For the server's own user and root, without a password.

        Raises EmbeddedPostgresError before the first start.
        """
        folder, port = self._address()
        return f"postgresql://postgres@/{DATABASE}?host={quote(str(folder))}&port={port}"

    @property
    def tcp_url(self) -> str:
        """For any user of this machine; it contains the password.

        Raises EmbeddedPostgresError before the first start.
        """
        _, port = self._address()
        password = (read_in(self._folder, "password") or "").strip()
        return f"postgresql://postgres:{password}@127.0.0.1:{port}/{DATABASE}"

    # --- What it does.

    def is_running(self) -> bool:
        """Whether a server of this folder runs, ready for connections or not yet."""
        return find_postmaster(self._cluster) is not None

    def postmaster_pid(self) -> int | None:
        """The process id of the server; None if there is none."""
        running = find_postmaster(self._cluster)
        return running.pid if running is not None else None

    @property
    def free_bytes(self) -> int:
        """The free room on the disk of the data folder. Raises OSError."""
        return free_bytes(self._folder)

    def start(self, *, same_port: bool = False) -> bool:
        """Starts the server, and makes the cluster, the password and the database if they are missing.

        Returns when the server accepts connections: True if this call started it, False if it ran already. `same_port`: only on
        the port of the last start. Raises EmbeddedPostgresError with the cause and what to do.
        """
        with self._exclusively() as folder:
            return self._start(folder, same_port=same_port)

    def stop(self, mode: Literal["smart", "fast", "immediate"] = "fast") -> None:
        """Shuts the server down and returns when it has ended; does nothing if none runs.

        `immediate` is like a crash: the next start recovers. Raises EmbeddedPostgresError.
        """
        if self._cluster.exists():
            with self._exclusively():
                self._stop(mode)
                # Within the data folder it stays; among temporary files nothing does.
                if (sockets := socket_folder(self._folder)).parent != self._folder:
                    with suppress(OSError):
                        sockets.rmdir()

    def restart(self) -> None:
        """Stops the server if it runs, and starts it with this object's port and options."""
        with self._exclusively() as folder:
            self._stop("fast")
            self._start(folder)

    # --- How.

    @contextmanager
    def _exclusively(self) -> Iterator[Folder]:
        """Locks the folder, so that no other process starts or stops its server."""
        try:
            with self._open() as folder:
                fcntl.flock(folder.handle, fcntl.LOCK_EX)
                yield folder
        except OSError as error:
            raise failure(
                f"The embedded Postgres cannot use {self._folder} ({error})",
                [str(error)],
                self._folder.parent,
                otherwise="Make it writable, or choose another data folder.",
            ) from error

    @contextmanager
    def _open(self) -> Iterator[Folder]:
        given = self._given
        if given.is_symlink() and given.lstat().st_uid not in (os.geteuid(), 0):
            raise EmbeddedPostgresError(
                f"{given} is a link that another user made (user id {given.lstat().st_uid}): "
                "name the folder itself, or choose another data folder (MEMORYD_DATA_DIR)."
            )
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open_folder(self._folder, server=account_for(self._cluster).uid) as folder:
            yield folder

    def _start(self, folder: Folder, *, same_port: bool = False) -> bool:
        account = account_for(self._cluster)
        check_cluster(folder, self._programs)
        account.let_through(self._folder)
        self._programs.open_to(account)
        running = self._wait_while_changing()
        if running is None:
            make_or_adopt_cluster(folder, account, self._programs)
            self._launch(folder, account, ports_to_try(self._folder, self._wanted_port, same=same_port))
            self._started(self.postmaster_pid())
        self._set_owners(folder, account)
        return running is None

    def _stop(self, mode: str) -> None:
        if find_postmaster(self._cluster) is None:
            return
        done = self._programs.run(
            "pg_ctl",
            *("stop", "--silent", f"--mode={mode}", f"--timeout={_WAIT_SECONDS}"),
            account=account_for(self._cluster),
            cluster=self._cluster,
        )
        if done.returncode != 0:
            raise EmbeddedPostgresError(f"Postgres did not stop: {done.stderr.strip()} See {self.log_path}.")

    def _wait_while_changing(self) -> Postmaster | None:
        """The running server, once it is ready; None once it is certain that none runs."""
        deadline = time.monotonic() + _WAIT_SECONDS
        while (running := find_postmaster(self._cluster)) is not None and not running.ready:
            if time.monotonic() > deadline:
                raise EmbeddedPostgresError(f"Postgres is still not ready: {self.log_path} says why.")
            time.sleep(0.02)
        return running

    def _launch(self, folder: Folder, account: Account, ports: Iterable[int]) -> None:
        """Starts the server; on the next port if another program takes the port at the last moment."""
        sockets = socket_folder(self._folder)
        sockets.mkdir(mode=0o700, exist_ok=True)
        with open_folder(sockets, server=account.uid) as opened, folder.within(CLUSTER) as cluster:
            if opened.owner[0] not in (os.geteuid(), account.uid):
                raise EmbeddedPostgresError(
                    f"{sockets} belongs to another user: remove it, or choose another data folder."
                )
            if account.switch:
                opened.give(account.uid, account.gid)
            clear_leftovers(cluster, opened)
        with suppress(OSError):
            if os.stat(LOG, dir_fd=folder.handle, follow_symlinks=False).st_size > LOG_BYTES:
                folder.rename(LOG, f"{LOG}.1")
        for port in ports:
            with folder.within(CLUSTER) as cluster:
                write_configuration(cluster, self._settings, sockets=sockets, port=port, owner=account.owner)
            with os.fdopen(folder.open_own(LOG, append=True), "a+b") as log:
                before = log.seek(0, os.SEEK_END)
                done = self._programs.run(
                    "pg_ctl",
                    *("start", "--silent", "--wait", f"--timeout={_WAIT_SECONDS}"),
                    account=account,
                    cluster=self._cluster,
                    output=log,
                )
                log.seek(before)
                said = log.read().decode("utf-8", "replace").splitlines()
            if done.returncode == 0:
                remember_port(folder, port)
                return
            if self._wait_while_changing() is not None:
                return  # the pg_ctl of another process was quicker
            if not any("could not create any TCP/IP sockets" in line for line in said):
                reasons = " ".join([line for line in said if not line.startswith("pg_ctl:")][-3:])
                raise failure(f"Postgres did not start: {reasons} (from {self.log_path})", said, self._folder)
        taken = self._wanted_port or remembered_port(self._folder) or USUAL_PORT
        raise EmbeddedPostgresError(
            f"Port {taken} of 127.0.0.1 is taken by another program: "
            "end that program, or choose another port."
        )

    def _set_owners(self, folder: Folder, account: Account) -> None:
        """Makes the database, and a password if there is none, since it may have been lost."""
        sockets, port = self._address()
        fresh = None if folder.read("password") else secrets.token_urlsafe(24)
        statement = f"alter role postgres password '{fresh}';" if fresh is not None else ""
        done = self._programs.run(
            "psql",
            *("--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--username=postgres", "--dbname=postgres"),
            *(f"--host={sockets}", f"--port={port}"),
            account=account,
            cluster=self._cluster,
            stdin=statement + _CREATE_DATABASE,
        )
        if done.returncode != 0:
            trouble = f"Postgres runs but cannot be set up: {done.stderr.strip()}"
            raise failure(trouble, done.stderr.splitlines(), self._folder)
        if fresh is not None:
            folder.write("password", f"{fresh}\n")

    def _address(self) -> tuple[Path, int]:
        """The socket's folder and the port: of the running server, else of the last one."""
        running = find_postmaster(self._cluster)
        if running is not None and running.socket_folder is not None:
            return running.socket_folder, running.port
        port = remembered_port(self._folder)
        if port is None:
            raise EmbeddedPostgresError(f"No Postgres was started in {self._folder} yet: run memoryd once.")
        return socket_folder(self._folder), port
