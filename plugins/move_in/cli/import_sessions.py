"""memoryd import --from claude-code|codex: past sessions become the memories that hooks would have kept of them.

Promise: files are read line by line, and stored by the batch. Ids are made from the sessions, so the same import again, or one
after a kill, adds only what is missing. What hooks have kept of a session themselves is not taken again.
"""

from __future__ import annotations

import json as json_module
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.cli.common import with_database
from daemon.cli.failure import Failure, Misuse
from daemon.cli.output import progress
from plugins.files.local import UnreadableFileError, opened, walk
from plugins.hooks.differing import replaced
from plugins.hooks.files import State, read_config, state_folder
from plugins.hooks.memory import CLOSE, END, LIST, STORE
from plugins.hooks.past import FOLDERS, Past, lines_of
from plugins.move_in.cli.import_elsewhere import report
from plugins.move_in.importers.items import time_of
from plugins.move_in.importers.spool import Reason
from plugins.move_in.importers.writer import RELATIONS, SECONDS, THERE, WriteResult

if TYPE_CHECKING:
    from daemon.db.pool import Database
    from daemon.settings import Settings
    from plugins.hooks.turns import Entry

MOST_BYTES = 1_000_000_000_000
"""Of a file. It is read line by line."""
BATCH = 500
"""Memories that are stored at once, in a transaction."""
KINDS = {"outcome": "turns", "fact": "repairs", "error": "failures"}
# Of each session when the hooks' own memories of it begin.
KEPT = """
select m.metadata ->> 'session' as session, min(m.created_at) as began
from public.agent_memory m
where m.agent_id = $1 and m.source = $2 and m.metadata ? 'session' and not m.metadata ?| '{rule,imported_from}'
group by 1
"""
STORED = f"{STORE} returning (xmax = 0) as new"
NEVER = "9999"
IN_TIME = timedelta(seconds=10)
"""A host may write a prompt into its own record a moment after it has called the hook."""


def import_sessions(
    host: str, source: str | None, *, agent: str | None, since: str | None, dry_run: bool, json: bool
) -> None:
    """Reads, writes, reports. `host`: one of FOLDERS. Raises Failure and Misuse."""
    begin = time_of(since) if since is not None else None
    if since is not None and begin is None:
        raise Misuse("--since takes a day or a time, such as 2026-03-01.")
    left_out: Counter[Reason] = Counter()
    files = _files(_folder(host) if source is None else Path(source), begin, left_out)
    writer = _Writer(host, agent or str(read_config().get("agent") or "coding"), dry_run=dry_run)

    async def take(_settings: Settings, database: Database) -> dict[str, WriteResult]:
        past = Past(host, writer.agent, kept=await writer.kept(database), left_out=left_out)
        with _bar(files, quiet=json) as told:
            for memory in _memories(past, files, told, left_out):
                if begin is not None and memory["created_at"] < _written(begin):
                    left_out["memory", "it is older than --since"] += 1
                else:
                    await writer.add(database, memory)
            await writer.end(database)
        return writer.counts

    report(host, with_database(take), left_out=left_out, dry_run=dry_run, json=json)


@contextmanager
def _bar(files: list[tuple[Path, int]], *, quiet: bool) -> Iterator[Callable[[int], None]]:
    """A progress bar in megabytes; it is told how many bytes were read."""
    read = 0
    with progress(quiet=quiet) as shown:
        bar = shown.add_task("MB", total=sum(size for _, size in files) // 1_000_000)

        def told(count: int) -> None:
            nonlocal read
            before, read = read, read + count
            if before // 1_000_000 < read // 1_000_000:
                shown.update(bar, completed=read // 1_000_000)

        yield told


def _folder(host: str) -> Path:
    """Where the host keeps its sessions. Raises Failure for a link, which may lead into another person's home."""
    home = Path(os.environ["CODEX_HOME"]) if host == "codex" and os.environ.get("CODEX_HOME") else None
    folder = home / "sessions" if home else Path.home() / FOLDERS[host]
    for step in (folder.parent, folder):
        if step.is_symlink():
            raise Failure(f"{step} is a link. If these sessions are yours, name the folder that it leads to.")
    return folder


def _files(source: Path, begin: datetime | None, left_out: Counter[Reason]) -> list[tuple[Path, int]]:
    """The files with their sizes, in order. No link is followed. Raises Failure."""
    if source.is_symlink():
        raise Failure(f"{source} is a link. If these sessions are yours, name what it leads to.")
    if not source.exists():
        raise Failure(f"{source} does not exist. Name the folder of the sessions, or a file.")
    for inside, folders, names in os.walk(source):
        links = sum(Path(inside, name).is_symlink() for name in (*folders, *names))
        if links:
            left_out["file or folder", "links are not followed"] += links
    whole = Path(os.path.realpath(source))
    found = []
    for path in walk([source]):
        if path == whole or path.suffix == ".jsonl":
            status = path.stat()
            if begin is None or status.st_mtime >= begin.timestamp():
                found.append((path, status.st_size))
    return found


def _memories(
    past: Past,
    files: list[tuple[Path, int]],
    told: Callable[[int], None],
    left_out: Counter[Reason],
) -> Iterator[Entry]:
    for path, _ in files:
        try:
            with opened(path, most=MOST_BYTES) as (file, _status):
                yield from past.memories(lines_of(file, told, left_out), path.stem)
        except UnreadableFileError as error:
            left_out["file", str(error).partition(":")[0]] += 1


class _Writer:
    """Stores memories of an agent, by the batch."""

    def __init__(self, host: str, agent: str, *, dry_run: bool) -> None:
        self.agent = agent
        self.counts = {name: WriteResult() for name in (*KINDS.values(), "rules")}
        self._host, self._dry_run = host, dry_run
        self._batch: dict[str, Entry] = {}
        self._rules: dict[str, set[str]] = {}
        """The ids of a project's rules, by the beginning of their keys."""
        self._passed: dict[tuple[str, str], Entry] = {}
        """By project and command the last turn in which it passed."""

    async def kept(self, database: Database) -> dict[str, str]:
        """By session, when hooks began to keep it themselves: what they have stored, and what they note now."""
        async with database.transaction() as connection:
            rows = await connection.fetch(KEPT, self.agent, self._host, timeout=SECONDS)
        kept = {row["session"]: _written(row["began"]) for row in rows}
        for session, at in State(state_folder()).begun().items():
            if (began := time_of(at)) is not None:
                kept[session] = min(kept.get(session, NEVER), _written(began + IN_TIME))
        return kept

    async def add(self, database: Database, memory: Entry) -> None:
        """Adds a memory. Of two with the same id, a rule that was stated twice, the later one counts."""
        before = self._batch.get(memory["id"])
        if before is None or before["created_at"] < memory["created_at"]:
            memory["metadata"]["imported_from"] = self._host
            self._batch[memory["id"]] = memory
        project = memory["metadata"]["project"]
        if "rule" in memory["metadata"]:
            self._rules.setdefault(project, set()).add(memory["id"])
        for command, ran in memory.pop("passed", {}).items():
            last = self._passed.get((project, command))
            if last is None or last["created_at"] < memory["created_at"]:
                turn = {name: memory[name] for name in ("id", "created_at", "metadata")}
                self._passed[project, command] = turn | {"passed": {command: ran}}
        if len(self._batch) >= BATCH:
            await self._store(database)

    async def end(self, database: Database) -> None:
        """Stores the rest. Then of two rules about the same thing the later one holds, and what passed later has not failed."""
        await self._store(database)
        if self._dry_run:
            return
        passed = json_module.dumps(list(self._passed.values()))
        async with database.transaction() as connection:
            await connection.execute(CLOSE, self.agent, passed, timeout=SECONDS)
        for project, stated in sorted(self._rules.items()):
            async with database.transaction() as connection:
                rows = await connection.fetch(LIST, self.agent, project, timeout=SECONDS)
            for old, new in replaced([(str(one), text) for one, _, text in reversed(rows)], stated):
                async with database.transaction() as connection:
                    await connection.execute(END, old, new, timeout=SECONDS)

    async def _store(self, database: Database) -> None:
        kinds: dict[str, list[Entry]] = {}
        # In the order of their ids: of two imports at once neither waits for a row of the other that waits for it.
        for _, memory in sorted(self._batch.items()):
            name = "rules" if "rule" in memory["metadata"] else KINDS[memory["kind"]]
            kinds.setdefault(name, []).append(memory)
        self._batch = {}
        async with database.transaction() as connection:
            for name, memories in sorted(kinds.items()):
                rows = json_module.dumps(memories)
                there = await connection.fetchval(
                    THERE.format(table=RELATIONS["memories"]), rows, timeout=SECONDS
                )
                new = len(memories) - there
                if not self._dry_run:
                    stored = await connection.fetch(STORED, rows, self.agent, timeout=SECONDS)
                    new = sum(row["new"] for row in stored)
                self.counts[name].taken += new
                self.counts[name].there += len(memories) - new


def _written(time: datetime) -> str:
    """A time as hooks write it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
