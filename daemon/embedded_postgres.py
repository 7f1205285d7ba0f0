"""The Postgres that memoryd brings along: a server of its own in a data folder, for those who have none.

Promise: `start` gives a server that takes connections, whatever a crash, a power cut or another process
starting at the same moment left behind; and nothing here ever trades durability for speed.

    <data folder>/pg/           the database cluster
    <data folder>/run/          the unix socket: no password, but only the server's own user and root get in
    <data folder>/password      for TCP on 127.0.0.1, mode 0600
    <data folder>/port          remembered from one start to the next
    <data folder>/postgres.log  what the server says, never what memories say
    <data folder>/pg/memoryd.conf  its settings, written at each start
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Literal
from urllib.parse import quote

from daemon.embedded_account import Account, EmbeddedPostgresError, account_for
from daemon.embedded_memory import memory_settings
from daemon.embedded_process import Postmaster, clear_leftovers, find_postmaster
from daemon.embedded_programs import Programs, find_programs

if sys.platform != "win32":
    import fcntl

__all__ = ["EmbeddedPostgres", "EmbeddedPostgresError"]

DATABASE = "memoryd"
USUAL_PORT = 54329
SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "listen_addresses": "127.0.0.1",
        "unix_socket_permissions": "0700",
        "max_connections": "100",
        "work_mem": "16MB",
        "maintenance_work_mem": "256MB",
        "max_wal_size": "2GB",
        "checkpoint_timeout": "15min",
        "random_page_cost": "1.1",
        "jit": "off",
        "autovacuum_naptime": "10s",
        "timezone": "UTC",
        "log_timezone": "UTC",
        "log_checkpoints": "off",
        # Statements and details hold what agents remember, and that does not belong in a log.
        "log_min_error_statement": "panic",
        "log_error_verbosity": "terse",
    }
)
"""For a small machine, whose memory `daemon.embedded_memory` shares out. fsync, full_page_writes and synchronous_commit keep
their default: on."""

_OURS = ("port", "unix_socket_directories")
_CHARACTER_TYPES = ("C.UTF-8", "en_US.UTF-8", "C")  # the first one the system knows; text search reads by it
_SOCKET_PATH_BYTES = 103  # macOS has the least room: 104, with the closing zero
_SHARED_MEMORY_BYTES = 512_000_000
_LOG_BYTES = 16_000_000
_WAIT_SECONDS = 600  # recovery after a crash replays up to max_wal_size

_CREATE_DATABASE = """
select 'create database memoryd'
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
    ) -> None:
        """`port`: None is the last one, else 54329, else any free one. `options`: go over `SETTINGS`.
        `programs`: None is the newest version that is brought along.

        Raises EmbeddedPostgresError when there is none here, ValueError for what cannot be an option.
        """
        for name in options or {}:
            if name in _OURS or not re.fullmatch(r"[a-z_][a-z0-9_.]*", name):
                raise ValueError(f"{name!r} cannot be given as an option of the embedded Postgres")
        self._programs = programs or find_programs()
        self._folder = data_dir.expanduser().resolve()
        self._cluster = self._folder / "pg"
        self._wanted_port = port
        self._options = {**SETTINGS, **memory_settings(), **(options or {})}

    # --- What it is called.

    @property
    def bin_dir(self) -> Path:
        """Where the server's programs are: psql, pg_dump, pg_isready ..."""
        return self._programs.bin

    @property
    def psql_path(self) -> Path:
        return self._programs.bin / "psql"

    @property
    def log_path(self) -> Path:
        return self._folder / "postgres.log"

    @property
    def socket_url(self) -> str:
        """For the server's own user and root, without a password.

        Raises EmbeddedPostgresError before the first start.
        """
        folder, port = self._address()
        return f"postgresql://postgres@/{DATABASE}?host={quote(str(folder))}&port={port}"

    @property
    def tcp_url(self) -> str:
        """For any user of this machine who may know the password in it.

        Raises EmbeddedPostgresError before the first start.
        """
        _, port = self._address()
        password = (self._folder / "password").read_text("ascii").strip()
        return f"postgresql://postgres:{password}@127.0.0.1:{port}/{DATABASE}"

    # --- What it does.

    def is_running(self) -> bool:
        """Whether a server of this folder lives, ready for connections or not yet."""
        return find_postmaster(self._cluster) is not None

    def postmaster_pid(self) -> int | None:
        """The process id of the server, None when there is none."""
        running = find_postmaster(self._cluster)
        return running.pid if running is not None else None

    def start(self) -> bool:
        """Brings the server up, and makes the cluster, the password and the database where they are missing.

        Returns when connections are taken: True when this call started it, False when it was running already.
        Raises EmbeddedPostgresError with what to do.
        """
        with self._exclusively():
            return self._start()

    def stop(self, mode: Literal["smart", "fast", "immediate"] = "fast") -> None:
        """Shuts the server down and returns when it is gone; does nothing when none runs.

        `immediate` is a crash in all but name: the next start recovers. Raises EmbeddedPostgresError.
        """
        if self._cluster.exists():
            with self._exclusively():
                self._stop(mode)

    def restart(self) -> None:
        """Stops the server, if one runs, and starts it with this object's port and options."""
        with self._exclusively():
            self._stop("fast")
            self._start()

    def kill(self) -> None:
        """Immediate shutdown, as a crash would: for tests of recovery."""
        self.stop("immediate")

    # --- How.

    @contextmanager
    def _exclusively(self) -> Iterator[None]:
        """Holds the folder against other processes that start or stop its server."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(self._folder, os.O_RDONLY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                yield
            finally:
                os.close(handle)
        except OSError as error:
            raise EmbeddedPostgresError(
                f"The embedded Postgres cannot use {self._folder} ({error}): "
                "make it writable, or choose another data folder."
            ) from error

    def _start(self) -> bool:
        account = account_for(self._cluster)
        self._check_cluster()
        account.let_through(self._folder)
        self._programs.open_to(account)
        running = self._wait_while_changing()
        if running is None:
            if (self._cluster / "PG_VERSION").exists():
                account.give_all(self._cluster)  # it may have come back from a backup
            else:
                self._initialise(account)
            self._launch(account)
        self._settle(account)
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

    def _check_cluster(self) -> None:
        """Refuses a folder that holds something else than a cluster of our version."""
        ours = self._programs.version
        try:
            found = (self._cluster / "PG_VERSION").read_text("ascii").strip()
        except FileNotFoundError:
            if self._cluster.exists() and any(self._cluster.iterdir()):
                raise EmbeddedPostgresError(
                    f"{self._cluster} is not empty and holds no database: choose another data folder."
                ) from None
            return
        if found != str(ours):
            raise EmbeddedPostgresError(
                f"{self._cluster} holds the data of PostgreSQL {found}, which PostgreSQL {ours} cannot read: "
                f"start version {found} on it and move the data with pg_dump, or choose another data folder."
            )

    def _wait_while_changing(self) -> Postmaster | None:
        """The server that runs, once it is ready; None once it is certain that none does."""
        deadline = time.monotonic() + _WAIT_SECONDS
        while (running := find_postmaster(self._cluster)) is not None and not running.ready:
            if time.monotonic() > deadline:
                raise EmbeddedPostgresError(f"Postgres is still not ready: {self.log_path} says why.")
            time.sleep(0.02)
        return running

    def _initialise(self, account: Account) -> None:
        """Makes the cluster beside its place, then moves it there: a crash leaves no half of one behind."""
        for abandoned in self._folder.glob("pg.new-*"):
            shutil.rmtree(abandoned, ignore_errors=True)
        new = Path(tempfile.mkdtemp(prefix="pg.new-", dir=self._folder))
        account.give(new)
        builtin = ("--locale-provider=builtin", "--builtin-locale=C.UTF-8")
        for character_type in _CHARACTER_TYPES:
            done = self._programs.run(
                "initdb",
                *("--username=postgres", "--auth-local=trust", "--auth-host=scram-sha-256"),
                *(
                    "--encoding=UTF8",
                    "--locale=C",
                    f"--lc-ctype={character_type}",
                    "--text-search-config=english",
                ),
                *(builtin if self._programs.version > 16 else ()),
                "--data-checksums",
                account=account,
                cluster=new,
            )
            if done.returncode == 0:
                break
            if "invalid locale name" not in done.stderr or character_type == _CHARACTER_TYPES[-1]:
                raise EmbeddedPostgresError(f"Postgres could not make its data folder: {done.stderr.strip()}")
        with (new / "postgresql.conf").open("a", encoding="utf-8") as configuration:
            configuration.write("\ninclude_if_exists = 'memoryd.conf'  # written by memoryd at each start\n")
            configuration.flush()
            os.fsync(configuration.fileno())
        if self._cluster.exists():
            self._cluster.rmdir()
        new.rename(self._cluster)
        _sync(self._folder)

    def _launch(self, account: Account) -> None:
        """Starts the server, on the next port if another program takes ours at the last moment."""
        sockets = self._socket_folder()
        sockets.mkdir(mode=0o700, exist_ok=True)
        if sockets.is_symlink() or sockets.stat().st_uid not in (os.geteuid(), account.uid):
            raise EmbeddedPostgresError(
                f"{sockets} is somebody else's: remove it, or choose another data folder."
            )
        account.give(sockets)
        clear_leftovers(self._cluster, sockets)
        self._turn_log()
        for port in self._ports():
            self._configure(account, sockets, port)
            with self.log_path.open("a+b") as log:
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
                self._write(self._folder / "port", f"{port}\n")
                return
            if self._wait_while_changing() is not None:
                return  # somebody else's pg_ctl was quicker
            if not any("could not create any TCP/IP sockets" in line for line in said):
                reasons = " ".join([line for line in said if not line.startswith("pg_ctl:")][-3:])
                raise EmbeddedPostgresError(f"Postgres did not start: {reasons} (from {self.log_path})")
        raise EmbeddedPostgresError(
            f"Port {self._wanted_port or USUAL_PORT} of 127.0.0.1 is taken by another program: "
            "end that program, or choose another port."
        )

    def _configure(self, account: Account, sockets: Path, port: int) -> None:
        settings = {**self._options, "port": str(port), "unix_socket_directories": str(sockets)}
        with suppress(OSError):
            shared = os.statvfs("/dev/shm")  # noqa: S108 - only its size: containers often give it 64 MB
            if shared.f_frsize * shared.f_blocks < _SHARED_MEMORY_BYTES:
                settings.setdefault("dynamic_shared_memory_type", "sysv")
        lines = [f"{name} = '{_escape(value)}'\n" for name, value in settings.items()]
        path = self._cluster / "memoryd.conf"
        self._write(
            path, "".join(["# Written by memoryd at each start; ALTER SYSTEM wins over it.\n", *lines])
        )
        account.give(path)

    def _settle(self, account: Account) -> None:
        """Makes the database, and a password where there is none: it may also have been lost."""
        folder, port = self._address()
        password = self._folder / "password"
        fresh = None if password.exists() else secrets.token_urlsafe(24)
        statement = f"alter role postgres password '{fresh}';" if fresh is not None else ""
        done = self._programs.run(
            "psql",
            *("--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--username=postgres", "--dbname=postgres"),
            *(f"--host={folder}", f"--port={port}"),
            account=account,
            cluster=self._cluster,
            stdin=statement + _CREATE_DATABASE,
        )
        if done.returncode != 0:
            raise EmbeddedPostgresError(f"Postgres runs but cannot be set up: {done.stderr.strip()}")
        if fresh is not None:
            self._write(password, f"{fresh}\n")

    def _address(self) -> tuple[Path, int]:
        """Folder of the socket, and port: of the server that runs, else of the one that ran last."""
        running = find_postmaster(self._cluster)
        if running is not None and running.socket_folder is not None:
            return running.socket_folder, running.port
        port = self._remembered_port()
        if port is None:
            raise EmbeddedPostgresError(f"No Postgres was started in {self._folder} yet: run memoryd once.")
        return self._socket_folder(), port

    def _socket_folder(self) -> Path:
        inside = self._folder / "run"
        path = str(inside / ".s.PGSQL.65535")
        if len(path) <= _SOCKET_PATH_BYTES and re.fullmatch(r"[^,\"'\\\x00-\x1f\x7f-\U0010ffff]+", path):
            return inside
        name = f"memoryd-{hashlib.sha256(os.fsencode(self._folder)).hexdigest()[:12]}"
        return Path(tempfile.gettempdir()).resolve() / name

    def _remembered_port(self) -> int | None:
        with suppress(FileNotFoundError, ValueError):
            return int((self._folder / "port").read_text("ascii"))
        return None

    def _ports(self) -> Iterator[int]:
        """The ports to try, each of them free when it is handed out."""
        usual = (self._remembered_port(), USUAL_PORT)
        for port in usual if self._wanted_port is None else (self._wanted_port,):
            if port is not None and _is_free(port):
                yield port
        for _ in range(3 if self._wanted_port is None else 0):
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            yield port

    def _turn_log(self) -> None:
        with suppress(FileNotFoundError):
            if self.log_path.stat().st_size > _LOG_BYTES:
                self.log_path.replace(self.log_path.with_suffix(".log.1"))
        self.log_path.touch(mode=0o600)
        self._give_to_owner(self.log_path)

    def _write(self, path: Path, text: str) -> None:
        """Replaces a file whole, readable by its owner alone, and on disk when this returns."""
        new = path.with_name(f"{path.name}.new")
        new.unlink(missing_ok=True)
        new.touch(mode=0o600, exist_ok=False)
        with new.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        self._give_to_owner(new)
        new.replace(path)
        _sync(path.parent)

    def _give_to_owner(self, path: Path) -> None:
        """Files that root makes in somebody's folder are that somebody's."""
        if os.geteuid() == 0:
            owner = self._folder.stat()
            os.chown(path, owner.st_uid, owner.st_gid)


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "''")


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
