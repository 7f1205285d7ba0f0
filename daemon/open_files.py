"""Whether a program has a file open for writing.

The kernel tells it by a lease: a read lease is refused while anybody has the file open for writing. It knows only the programs
of this machine, and gives leases only on files of one's own.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import signal
from pathlib import Path

_LOCAL = frozenset(
    "bcachefs btrfs exfat ext2 ext3 ext4 f2fs jfs overlay ramfs reiserfs tmpfs vfat xfs zfs".split()  # noqa: SIM905
)
"""File systems that no other machine writes to."""
_MOUNTS = Path("/proc/self/mountinfo")
_ESCAPED = re.compile(r"\\([0-7]{3})")


def is_open_for_writing(file: int) -> bool | None:
    """Whether anybody has a file open for writing, by its descriptor; None if the system does not say."""
    if not hasattr(fcntl, "F_SETLEASE"):
        return None
    try:
        # Who opens the file while the lease is held makes the kernel send a signal. Its usual one would end this process.
        fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        return True if error.errno == errno.EAGAIN else None
    return False


def is_local(folder: Path) -> bool:
    """Whether only this machine writes to the file system that a folder is on. False where that is not known."""
    try:
        lines = _MOUNTS.read_text("utf-8", "replace").splitlines()
    except OSError:
        return False
    real, kind = Path(os.path.realpath(folder)), ""
    longest = -1
    for line in lines:
        left, _, right = line.partition(" - ")
        mounted = Path(_ESCAPED.sub(lambda found: chr(int(found[1], 8)), left.split(" ")[4]))
        # Of two file systems at one path, the later one is seen.
        if (mounted == real or mounted in real.parents) and len(mounted.parts) >= longest:
            longest, kind = len(mounted.parts), right.split(" ")[0]
    return kind in _LOCAL
