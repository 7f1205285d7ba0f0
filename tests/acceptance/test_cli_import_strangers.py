"""memoryd import --from with files of strangers: what is made to do harm is refused, and nothing else is read or filled."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import asyncpg
import psutil
import pytest

from plugins.move_in.importers import reading
from plugins.move_in.importers.items import System
from plugins.move_in.importers.records import ExportError
from tests.support.processes.commands import Commands

COLUMNS = "created_at_epoch integer, project text, memory_session_id text"
OBSERVATIONS = f"create table observations (id integer primary key, narrative text, {COLUMNS});"
PROMPTS = """
create table user_prompts (
    id integer, content_session_id text, prompt_number integer, prompt_text text, created_at_epoch integer);
create table sdk_sessions (content_session_id text, project text);
insert into user_prompts values (1, 'c', 1, 'Why six herons?', 1740823200000);
"""
ROW = "insert into observations (narrative, created_at_epoch, memory_session_id) values ('herons', 1740823200000, 's');"
ENDLESS_VIEW = """
create view observations as with recursive r(n) as (select 1 union all select n + 1 from r)
select n as id, 'x' || n as narrative, n as created_at_epoch, 'p' as project, 's' as memory_session_id from r
"""
PAGE = 512


def _made(file: Path, *script: str) -> Path:
    with closing(sqlite3.connect(file)) as made:
        for part in script:
            made.executescript(part)
    return file


def _forged(file: Path) -> Path:
    """A view in whose place the schema says that there is a table."""
    return _made(
        file,
        OBSERVATIONS + "create table other (id integer);" + PROMPTS,
        f"pragma writable_schema = on; update sqlite_master set sql = '{ENDLESS_VIEW.strip().replace(chr(39), chr(39) * 2)}'"
        " where name = 'other'; update sqlite_master set sql = 'CREATE TABLE other (id integer)' where name = 'observations';",
    )


def _endless(file: Path) -> Path:
    """A table whose pages lead sixteen times over each other: it has as many rows as there are atoms."""
    _made(file, f"pragma page_size = {PAGE};" + OBSERVATIONS + PROMPTS)
    with closing(sqlite3.connect(file)) as made:
        rows = ((f"{n} {'x' * 150}",) for n in range(3000))
        made.executemany("insert into observations (narrative) values (?)", rows)
        made.commit()
        ((root,),) = made.execute("select rootpage from sqlite_master where name = 'observations'")
    pages = bytearray(file.read_bytes())
    kinds = {n: pages[(n - 1) * PAGE] for n in range(2, len(pages) // PAGE + 1)}
    inner = [root, *(n for n, kind in kinds.items() if kind == 5 and n != root)][:16]
    leaf = max(n for n, kind in kinds.items() if kind == 13)
    for page, to in zip(inner, [*inner[1:], leaf], strict=True):
        at = (page - 1) * PAGE
        cells = int.from_bytes(pages[at + 3 : at + 5], "big")
        places = [int.from_bytes(pages[at + 12 + 2 * n : at + 14 + 2 * n], "big") for n in range(cells)]
        for place in (8, *places):
            pages[at + place : at + place + 4] = to.to_bytes(4, "big")
    file.write_bytes(pages)
    return file


async def taken(system: System, source: Path) -> list[str]:
    """The kinds of what is read."""
    items = [type(item).__name__ async for item in reading.read(system, str(source))]
    assert items.pop() == "FileEnd"
    return items


@pytest.mark.parametrize(
    "make",
    [
        lambda file: _made(file, ENDLESS_VIEW, PROMPTS),
        lambda file: _made(
            file,
            f"create table observations (id integer, {COLUMNS}, narrative text as (hex(zeroblob(4500000))));",
            "insert into observations (id) values (1);" + PROMPTS,
        ),
        lambda file: _made(
            file, f"create virtual table observations using fts5(narrative, created_at_epoch);{PROMPTS}"
        ),
    ],
    ids=["view", "computed column", "virtual table"],
)
async def test_of_sqlite_only_tables_are_read(make: Callable[[Path], Path], tmp_path: Path) -> None:
    assert sorted(await taken(System.CLAUDE_MEM, make(tmp_path / "a.db"))) == ["Message", "Omission"]


async def test_an_sqlite_file_that_is_cut_off_is_no_empty_one(tmp_path: Path) -> None:
    whole = _made(tmp_path / "a.db", OBSERVATIONS + ROW).read_bytes()
    for length in (len(whole) // 2, len(whole) - 100, len(whole) - 1):
        (tmp_path / "b.db").write_bytes(whole[:length])
        with pytest.raises(ExportError, match="cut off"):
            await taken(System.CLAUDE_MEM, tmp_path / "b.db")


async def test_a_view_that_the_schema_calls_a_table_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="cannot be read as SQLite"):
        await taken(System.CLAUDE_MEM, _forged(tmp_path / "a.db"))


async def test_a_table_without_end_takes_neither_memory_nor_disk_nor_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = tmp_path / "notes.md"
    notes.write_text(f"---\ntitle: {'t' * 5000}\n---\n" + "\n".join(f"- {n}" for n in range(1000)))
    monkeypatch.setattr(reading, "ROOM", 1_000_000)
    with pytest.raises(ExportError, match="has more content than a file of its size can have"):
        await taken(System.MARKDOWN, notes)
    file = _endless(tmp_path / "claude-mem.db")
    monkeypatch.setattr(reading, "MEMORY", 50_000_000)
    with pytest.raises(ExportError, match="takes more than"):
        await taken(System.CLAUDE_MEM, file)
    monkeypatch.setattr(reading, "MEMORY", 2**30)
    monkeypatch.setattr(reading, "SECONDS", 0.01)
    monkeypatch.setattr(reading, "BYTES_A_SECOND", 1e9)
    with pytest.raises(ExportError, match="took longer than"):
        await taken(System.CLAUDE_MEM, file)


def _with_changes_beside(file: Path, *, left: bool) -> Path:
    """`left`: they stand there, as after the end of its program by force."""
    copy = file.with_name("copy.db")
    with closing(sqlite3.connect(file)) as made:
        made.execute("pragma journal_mode = wal")
        made.executescript(OBSERVATIONS + ROW)
        if left:
            for ending in ("", "-wal"):
                Path(f"{copy}{ending}").write_bytes(Path(f"{file}{ending}").read_bytes())
    return copy if left else file


@pytest.mark.parametrize("left", [False, True])
async def test_changes_that_stand_beside_an_sqlite_file_are_read(left: bool, tmp_path: Path) -> None:
    file = _with_changes_beside(tmp_path / "a.db", left=left)
    assert await taken(System.CLAUDE_MEM, file) == ["Memory"]


async def _halted_child_of(pid: int) -> psutil.Process:
    """The one that reads, stopped, so that it answers nothing any more."""
    while True:
        for child in psutil.Process(pid).children():
            if "plugins.move_in.importers.child" in child.cmdline():
                child.suspend()
                return child
        await asyncio.sleep(0.02)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)])
async def test_a_signal_ends_an_import_and_its_child(
    number: signal.Signals, code: int, memoryd: Commands, tmp_path: Path
) -> None:
    file = _endless(tmp_path / "claude-mem.db")
    importing = await memoryd.start("import", str(file), "--from", "claude-mem", "--agent", "a")
    child = await _halted_child_of(importing.pid)
    os.kill(importing.pid, number)
    assert await importing.wait() == code
    with suppress(psutil.NoSuchProcess):
        child.resume()
    child.wait(timeout=20)


async def test_no_link_of_a_folder_is_followed_and_nothing_but_files_is_opened(
    memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    vault, other = tmp_path / "vault", tmp_path / "other"
    (vault / "deep").mkdir(parents=True)
    other.mkdir()
    (tmp_path / "private.txt").write_text("the operator's secret")
    (other / "x.md").write_text("- the secret of another folder")
    (vault / "deep/good.md").write_text("- herons nest here")
    (vault / "note.md").symlink_to(tmp_path / "private.txt")
    (vault / "sub").symlink_to(other)
    (vault / "deep/sub").symlink_to(other)
    (vault / "null.md").symlink_to("/dev/zero")
    os.mkfifo(vault / "pipe.md")
    os.mkfifo(vault / "deep/pipe.md")
    done = await memoryd("import", str(vault), "--from", "markdown", "--agent", "a")
    assert done.code == 0, done.err
    found = await connection.fetch("select content, metadata #>> '{original,file}' as file from agent_memory")
    assert [tuple(row) for row in found] == [("herons nest here", "deep/good.md")]
    for odd in (vault / "pipe.md", Path("/dev/zero")):
        refused = await memoryd("import", str(odd), "--from", "markdown", "--agent", "a")
        assert (refused.code, refused.out) == (1, "")
        assert "It is not a file" in refused.err
