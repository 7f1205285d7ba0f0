"""The project of a folder, without running git."""

from __future__ import annotations

import os
import re

from plugins.hooks.regular import read_text

SECTION = r"\s*\[([^\]]*)\]"
URL = r"\s*url\s*=\s*\"?([^\s\"]+)"
LONGEST = 200


def root_of(folder: str) -> str:
    """The root of a folder's checkout; without one, the folder."""
    here = os.path.abspath(folder)
    while True:
        if os.path.exists(os.path.join(here, ".git")):
            return here
        above = os.path.dirname(here)
        if above == here:
            return os.path.abspath(folder)
        here = above


def project_of(root: str) -> str:
    """The repository of a checkout as host/path, the same on every machine; without one, the path of the folder."""
    section = url = ""
    for line in _git_config(root).splitlines():
        if found := re.match(SECTION, line):
            section = found[1]
        elif section == 'remote "origin"' and not url and (found := re.match(URL, line)):
            url = found[1][:1000]
    return repository_of(url) if url else root[-LONGEST:]


def repository_of(url: str) -> str:
    """The repository at the address of a remote, as host/path."""
    schemed = "://" in url
    address = url.split("://", 1)[-1].split("?", 1)[0].split("#", 1)[0]
    host, _, path = address.partition("/") if schemed else address.rpartition("@")[2].partition(":")
    host = host.rpartition("@")[2]  # without the login and its password
    host = host.partition(":")[0] if schemed else host
    return re.sub(r"\.git/?$", "", f"{host}/{path}".strip("/")).strip("/").lower()[-LONGEST:]


def _git_config(root: str) -> str:
    git = os.path.join(root, ".git")
    if os.path.isfile(git):  # of a further worktree: gitdir: .../.git/worktrees/name
        line = read_text(git, 5000).partition("gitdir:")[2].strip()
        git = os.path.join(root, line)
        common = read_text(os.path.join(git, "commondir"), 5000).strip()
        git = os.path.join(git, common) if common else git
    return read_text(os.path.join(git, "config"), 100_000)
