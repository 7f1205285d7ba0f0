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

import errno
import hashlib
import os
import re
import secrets
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NoReturn
from urllib.parse import quote

from daemon.embedded.account import Account, account_for
from daemon.embedded.causes import ADVICE, Cause, EmbeddedPostgresError, cause_of, cause_of_end, free_bytes
from daemon.embedded.files import Folder, give_all, open_folder, read_in
from daemon.embedded.process import Postmaster, clear_leftovers, find_postmaster
from daemon.embedded.programs import Programs, find_programs
from daemon.embedded.ram import memory_settings

if sys.platform != "win32":
    import fcntl

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
        # Errors quote values even in their message, statements and details hold what agents remember: none of it belongs in a
        # log. What tells why a server does not start or was ended is logged as LOG, FATAL or PANIC; so is memoryd's own audit.
        "log_min_messages": "log",
        "log_min_error_statement": "panic",
        "log_error_verbosity": "terse",
    }
)
"""For a small machine, whose memory `daemon.embedded.ram` shares out. fsync, full_page_writes and synchronous_commit keep
their default: on."""

_OURS = ("port", "unix_socket_directories")
_CHARACTER_TYPES = ("C.UTF-8", "en_US.UTF-8", "C")  # the first one the system knows; text search reads by it
_SOCKET_PATH_BYTES = 103  # macOS has the least room: 104, with the closing zero
_SHARED_MEMORY_BYTES = 512_000_000
_LOG = "postgres.log"
LOG_BYTES = 16_000_000
"""What the log grows to before it is turned over; it and its predecessor take twice as much."""
_TAIL_BYTES = 64_000
_WAIT_SECONDS = 600  # recovery after a crash replays up to max_wal_size

# From template0, into which nobody connects: of template1 no copy is made while somebody, or autovacuum, is in it.
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
        """`port`: None is the last one, else 54329, else any free one. `options`: go over `SETTINGS`.
        `programs`: None is the newest version that is brought along. `started`: told the process id of a server that this
        object started.

        Raises EmbeddedPostgresError when there is none here, ValueError for what cannot be an option.
        """
        for name in options or {}:
            if name in _OURS or not re.fullmatch(r"[a-z_][a-z0-9_.]*", name):
                raise ValueError(f"{name!r} cannot be given as an option of the embedded Postgres")
        self._programs = programs or find_programs()
        self._given = data_dir.expanduser().absolute()
        self._folder = self._given.resolve()
        self._cluster = self._folder / "pg"
        self._wanted_port = port
        self._started = started
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
        return self._folder / _LOG

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
        password = (read_in(self._folder, "password") or "").strip()
        return f"postgresql://postgres:{password}@127.0.0.1:{port}/{DATABASE}"

    # --- What it does.

    def is_running(self) -> bool:
        """Whether a server of this folder lives, ready for connections or not yet."""
        return find_postmaster(self._cluster) is not None

    def postmaster_pid(self) -> int | None:
        """The process id of the server, None when there is none."""
        running = find_postmaster(self._cluster)
        return running.pid if running is not None else None

    def why_gone(self) -> Cause:
        """Why the last server of this folder ended, as far as its log and the disk tell."""
        with suppress(OSError, EmbeddedPostgresError):
            return cause_of_end(self._said(), self._folder)
        return "other"

    @property
    def free_bytes(self) -> int:
        """Room on the disk of the data folder. Raises OSError."""
        return free_bytes(self._folder)

    def start(self, *, same_port: bool = False) -> bool:
        """Brings the server up, and makes the cluster, the password and the database where they are missing.

        Returns when connections are taken: True when this call started it, False when it was running already. `same_port`:
        never on another port than the last time. Raises EmbeddedPostgresError with its cause and what to do.
        """
        with self._exclusively() as place:
            return self._start(place, same_port=same_port)

    def stop(self, mode: Literal["smart", "fast", "immediate"] = "fast") -> None:
        """Shuts the server down and returns when it is gone; does nothing when none runs.

        `immediate` is a crash in all but name: the next start recovers. Raises EmbeddedPostgresError.
        """
        if self._cluster.exists():
            with self._exclusively():
                self._stop(mode)

    def restart(self) -> None:
        """Stops the server, if one runs, and starts it with this object's port and options."""
        with self._exclusively() as place:
            self._stop("fast")
            self._start(place)

    def kill(self) -> None:
        """Immediate shutdown, as a crash would: for tests of recovery."""
        self.stop("immediate")

    def turn_log(self) -> None:
        """Moves the log's newest lines to postgres.log.1 when it has grown to 16 MB, while the server goes on writing.

        Raises OSError when the disk takes no copy; then the log is emptied all the same, which makes room.
        """
        with self._open() as place, os.fdopen(place.open_own(_LOG, append=True), "rb") as log:
            size = os.fstat(log.fileno()).st_size
            if size <= LOG_BYTES:
                return
            try:
                log.seek(size - LOG_BYTES)
                place.write(f"{_LOG}.1", log.read(LOG_BYTES).decode("utf-8", "replace"))
            finally:
                # The server appends wherever the end is now. What it wrote since the copy is lost.
                os.truncate(log.fileno(), 0)

    # --- How.

    @contextmanager
    def _exclusively(self) -> Iterator[Folder]:
        """Holds the folder against other processes that start or stop its server."""
        try:
            with self._open() as place:
                fcntl.flock(place.handle, fcntl.LOCK_EX)
                yield place
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise EmbeddedPostgresError(
                    f"The embedded Postgres cannot write to {self._folder}. {ADVICE['disk_full']}",
                    "disk_full",
                ) from error
            if error.errno in (errno.ENOMEM, errno.EAGAIN):
                raise EmbeddedPostgresError(
                    f"The embedded Postgres could not be started ({error}). {ADVICE['out_of_memory']}",
                    "out_of_memory",
                ) from error
            raise EmbeddedPostgresError(
                f"The embedded Postgres cannot use {self._folder} ({error}): "
                "make it writable, or choose another data folder."
            ) from error

    @contextmanager
    def _open(self) -> Iterator[Folder]:
        given = self._given
        if given.is_symlink() and given.lstat().st_uid not in (os.geteuid(), 0):
            raise EmbeddedPostgresError(
                f"{given} is a link that somebody else made (user id {given.lstat().st_uid}): "
                "name the folder itself, or choose another data folder (MEMORYD_DATA_DIR)."
            )
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open_folder(self._folder, server=account_for(self._cluster).uid) as place:
            yield place

    def _start(self, place: Folder, *, same_port: bool = False) -> bool:
        account = account_for(self._cluster)
        self._check_cluster(place)
        account.let_through(self._folder)
        self._programs.open_to(account)
        running = self._wait_while_changing()
        if running is None:
            if "pg" in place.names() and (self._cluster / "PG_VERSION").exists():
                self._adopt(place, account)
            else:
                self._initialise(place, account)
            self._launch(place, account, self._ports(same=same_port))
            self._started(self.postmaster_pid())
        self._settle(place, account)
        with suppress(OSError):
            self.turn_log()
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

    def _check_cluster(self, place: Folder) -> None:
        """Refuses a folder that holds something else than a cluster of our version."""
        ours = self._programs.version
        try:
            with _any_owner(place).within("pg") as cluster:
                version, filled = cluster.read("PG_VERSION"), bool(cluster.names())
        except FileNotFoundError:
            return
        if version is None:
            if filled:
                raise EmbeddedPostgresError(
                    f"{self._cluster} is not empty and holds no database: choose another data folder."
                )
            return
        found = version.strip()
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

    def _adopt(self, place: Folder, account: Account) -> None:
        """Gives the cluster to its account: it may have come back from a backup."""
        if account.switch:
            with _any_owner(place).within("pg") as cluster:
                if cluster.owner[0] != account.uid:
                    give_all(cluster, account.uid, account.gid)

    def _initialise(self, place: Folder, account: Account) -> None:
        """Makes the cluster beside its place, then moves it there: a crash leaves no half of one behind."""
        for abandoned in self._folder.glob("pg.new-*"):
            shutil.rmtree(abandoned, ignore_errors=True)
        new = Path(tempfile.mkdtemp(prefix="pg.new-", dir=self._folder))
        if account.switch:
            with place.within(new.name) as made:
                made.give(account.uid, account.gid)
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
                trouble = f"Postgres could not make its data folder: {done.stderr.strip()}"
                self._fail(trouble, done.stderr.splitlines())
        with place.within(new.name) as made:
            handle = made.open_own("postgresql.conf", owner=account.owner, append=True)
            with os.fdopen(handle, "a", encoding="utf-8") as configuration:
                configuration.write(
                    "\ninclude_if_exists = 'memoryd.conf'  # written by memoryd at each start\n"
                )
                configuration.flush()
                os.fsync(handle)
        with suppress(FileNotFoundError):
            os.rmdir("pg", dir_fd=place.handle)
        place.rename(new.name, "pg")

    def _launch(self, place: Folder, account: Account, ports: Iterable[int]) -> None:
        """Starts the server, on the next port if another program takes ours at the last moment."""
        sockets = self._socket_folder()
        sockets.mkdir(mode=0o700, exist_ok=True)
        with open_folder(sockets, server=account.uid) as opened, place.within("pg") as cluster:
            if opened.owner[0] not in (os.geteuid(), account.uid):
                raise EmbeddedPostgresError(
                    f"{sockets} is somebody else's: remove it, or choose another data folder."
                )
            if account.switch:
                opened.give(account.uid, account.gid)
            clear_leftovers(cluster, opened)
        for port in ports:
            self._configure(place, account, sockets, port)
            with os.fdopen(place.open_own(_LOG, append=True), "a+b") as log:
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
                place.write("port", f"{port}\n")
                return
            if self._wait_while_changing() is not None:
                return  # somebody else's pg_ctl was quicker
            if not any("could not create any TCP/IP sockets" in line for line in said):
                reasons = " ".join([line for line in said if not line.startswith("pg_ctl:")][-3:])
                self._fail(f"Postgres did not start: {reasons} (from {self.log_path})", said)
        raise EmbeddedPostgresError(
            f"Port {self._wanted_port or self._remembered_port() or USUAL_PORT} of 127.0.0.1 is taken by another program: "
            "end that program, or choose another port.",
            "port_taken",
        )

    def _fail(self, trouble: str, said: Sequence[str]) -> NoReturn:
        """Raises the error, with what to do where the cause is known."""
        cause = cause_of(said, self._folder)
        raise EmbeddedPostgresError(trouble if cause == "other" else f"{trouble}. {ADVICE[cause]}", cause)

    def _said(self) -> str:
        """The end of the server's log."""
        with self._open() as place, os.fdopen(place.open_own(_LOG, append=True), "rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(0, size - _TAIL_BYTES))
            return log.read().decode("utf-8", "replace")

    def _configure(self, place: Folder, account: Account, sockets: Path, port: int) -> None:
        settings = {**self._options, "port": str(port), "unix_socket_directories": str(sockets)}
        with suppress(OSError):
            shared = os.statvfs("/dev/shm")  # noqa: S108 - only its size: containers often give it 64 MB
            if shared.f_frsize * shared.f_blocks < _SHARED_MEMORY_BYTES:
                settings.setdefault("dynamic_shared_memory_type", "sysv")
        lines = [f"{name} = '{_escape(value)}'\n" for name, value in settings.items()]
        text = "".join(["# Written by memoryd at each start; ALTER SYSTEM wins over it.\n", *lines])
        with place.within("pg") as cluster:
            cluster.write("memoryd.conf", text, owner=account.owner)

    def _settle(self, place: Folder, account: Account) -> None:
        """Makes the database, and a password where there is none: it may also have been lost."""
        folder, port = self._address()
        fresh = None if place.read("password") else secrets.token_urlsafe(24)
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
            self._fail(f"Postgres runs but cannot be set up: {done.stderr.strip()}", done.stderr.splitlines())
        if fresh is not None:
            place.write("password", f"{fresh}\n")

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
        with suppress(ValueError):
            return int(read_in(self._folder, "port") or "")
        return None

    def _ports(self, *, same: bool) -> Iterator[int]:
        """The ports to try, each of them free when it is handed out; `same`: only that of the last time."""
        last = self._remembered_port()
        only = last if same and last is not None else self._wanted_port
        for port in (last, USUAL_PORT) if only is None else (only,):
            if port is not None and _is_free(port):
                yield port
        for _ in range(3 if only is None else 0):
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            yield port


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "''")


def _any_owner(place: Folder) -> Folder:
    """For a cluster that came back from a backup: whoever owned it where it was made, may be nobody here."""
    with suppress(FileNotFoundError):
        status = os.stat("pg", dir_fd=place.handle, follow_symlinks=False)
        return replace(place, owners=place.owners | {status.st_uid})
    return place
