"""Whether a server of a database cluster is alive, and the removal of what a dead server left.

Promise: a live server is never taken for a dead one. A dead server never prevents a start, also if another program has its
process id now (usual in containers, where Postgres itself cannot tell the two apart).
"""

from __future__ import annotations

import signal
import socket
import stat
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from plugins.embedded.causes import EmbeddedPostgresError
from plugins.embedded.files import Folder, read_in

_GRACE_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Postmaster:
    """The main process of a running server, from its postmaster.pid."""

    pid: int
    port: int
    socket_folder: Path | None
    ready: bool
    """Whether it accepts connections: not while it starts, recovers or stops."""


def find_postmaster(cluster: Path) -> Postmaster | None:
    """The live server of `cluster`; None if there is none.

    Raises EmbeddedPostgresError if the cluster belongs to another user.
    """
    try:
        text = read_in(cluster, "postmaster.pid")
    except PermissionError:
        raise EmbeddedPostgresError(
            f"{cluster} belongs to another user: run memoryd as that user, or choose another data folder."
        ) from None
    if text is None:
        return None
    lines = text.splitlines()
    # 1 process id, 4 port, 5 folder of the socket, 8 state; a starting server adds them one by one.
    fields = [line.strip() for line in lines] + [""] * 8
    if not fields[0].isdigit():
        return None
    found = Postmaster(
        pid=int(fields[0]),
        port=int(fields[3]) if fields[3].isdigit() else 0,
        socket_folder=Path(fields[4]) if fields[4] else None,
        ready=fields[7] == "ready",
    )
    alive = False
    with suppress(psutil.NoSuchProcess):
        alive = _works_in(cluster, psutil.Process(found.pid)) is not False
    return found if alive or _answers(found, cluster) else None


def clear_leftovers(cluster: Folder, sockets: Folder) -> None:
    """Ends processes that a dead server of `cluster` left, and removes its locks. Call only if no server runs.

    The processes of a server whose main process was killed end by themselves, except in the middle of long work. Until they
    have ended, no new server may use the files. Raises EmbeddedPostgresError if one does not end.
    """
    if "postmaster.pid" in cluster.names():
        orphans = _still_there(cluster.path, list(psutil.process_iter()))
        for ending in (signal.SIGQUIT, signal.SIGKILL):
            for process in orphans:
                with suppress(psutil.NoSuchProcess):
                    process.send_signal(ending)
            orphans = _still_there(cluster.path, orphans)
        if orphans:
            raise EmbeddedPostgresError(
                f"Processes of an earlier Postgres still use {cluster.path} and cannot be ended "
                f"({', '.join(str(process.pid) for process in orphans)}): end them, then start again."
            )
        cluster.remove("postmaster.pid")
    for name in sockets.names():
        if name.startswith(".s.PGSQL."):
            sockets.remove(name)


def _still_there(cluster: Path, processes: list[psutil.Process]) -> list[psutil.Process]:
    """The `processes` that have not ended by themselves after a grace time. A zombie counts as ended."""
    deadline = time.monotonic() + _GRACE_SECONDS
    while processes := [process for process in processes if _works_in(cluster, process)]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.02)
    return processes


def _works_in(cluster: Path, process: psutil.Process) -> bool | None:
    """Whether this is a Postgres of `cluster`, in whose folder all its processes work. None: unknown."""
    try:
        if process.name() != "postgres" or process.uids().effective != cluster.stat().st_uid:
            return False
        return Path(process.cwd()) == cluster
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return None


def _answers(found: Postmaster, cluster: Path) -> bool:
    """Whether a server listens on the socket: it may run in another container, where we cannot see its process.

    The socket must belong to the cluster's owner, so a forged postmaster.pid or a link leads to no server of another user.
    """
    if found.socket_folder is None or not found.socket_folder.is_absolute():
        return False
    path = found.socket_folder / f".s.PGSQL.{found.port}"
    try:
        status = path.lstat()
    except OSError:
        return False
    if not stat.S_ISSOCK(status.st_mode) or status.st_uid != cluster.stat().st_uid:
        return False
    with closing(socket.socket(socket.AF_UNIX)) as probe:
        probe.settimeout(_GRACE_SECONDS)
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True
