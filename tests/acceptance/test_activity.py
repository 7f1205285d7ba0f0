"""The history of what was done: of real daemons, and as the picture of memoryd status --plot."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from xml.etree.ElementTree import fromstring

import asyncpg

from tests.support.processes.commands import Commands
from tests.support.processes.daemons import Daemons
from tests.support.rows import ask, column
from tests.support.waiting import IDLE, READY, until

DONE = "select coalesce(sum(done), 0)::integer from memoryd.activity where topic = 'context'"
CLAIMED = (
    "select coalesce(sum(n), 0)::integer from memoryd.activity a, unnest(a.waited) n where topic = 'context'"
)
SVG = "{http://www.w3.org/2000/svg}"


def names_in(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


async def test_what_daemons_do_is_counted_once_across_restarts_in_a_minute(
    daemons: Daemons, connection: asyncpg.Connection
) -> None:
    for messages in (1, 3):
        daemon = await daemons.start()
        for n in range(messages):
            await until(connection, READY, await ask(connection, f"deploy {messages}.{n}"))
        await until(connection, IDLE)
        assert await daemon.stop() == 0
    one, other = await daemons.start(), await daemons.start()
    for n in range(4):
        await until(connection, READY, await ask(connection, f"deploy again {n}"))
    assert (await one.stop(), await other.stop()) == (0, 0)
    assert (await connection.fetchval(DONE), await connection.fetchval(CLAIMED)) == (8, 8)
    writers = await column(connection, "select number from memoryd.activity_writers")
    assert len(writers) in {3, 4}  # one of the last two may have done nothing


async def test_a_daemon_that_is_killed_takes_only_its_minute_along(
    daemons: Daemons, connection: asyncpg.Connection
) -> None:
    daemon = await daemons.start()
    await until(connection, READY, await ask(connection, "deploy"))
    await daemon.stop()
    killed = await daemons.start()
    await until(connection, READY, await ask(connection, "deploy again"))
    await killed.kill()
    # 2 where its minute ended just before.
    assert await connection.fetchval(DONE) in {1, 2}


async def test_run_once_leaves_its_history(memoryd: Commands, connection: asyncpg.Connection) -> None:
    await ask(connection, "deploy")
    assert (await memoryd("run", "--once")).code == 0
    assert await connection.fetchval(DONE) == 1
    assert (
        await connection.fetchval("select count(*) from memoryd.daily_sizes where source_rows ? 'memory'")
        == 1
    )
    # What waited before it began its work.
    assert await connection.fetchval(
        "select waiting from memoryd.activity where topic = 'context' limit 1"
    ) in {1, None}


async def test_the_picture_is_written_and_replaces_a_file(
    memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    file = tmp_path / "memory.svg"
    empty = await memoryd("status", "--plot", str(file))
    assert (empty.code, empty.out) == (0, "")
    assert file.read_text("utf-8").count("No history yet") == 12
    await connection.execute(
        "insert into memoryd.activity (seconds, began_at, topic, done) "
        "values (60, date_trunc('minute', now()) - interval '5 minutes', 'a <b>', 41);"
        "insert into memoryd.daily_sizes (day, bytes, source_rows) values (current_date, 5000000, '{\"memory\": 12}')"
    )
    link = tmp_path / "link.svg"
    link.symlink_to(file)
    assert (await memoryd("status", "--plot", str(link))).code == 0
    assert link.is_symlink()
    text = file.read_text("utf-8")
    assert "memory: maximum 12, last 12." in text
    assert "size: maximum 5 MB" in text
    assert names_in(tmp_path) == ["link.svg", "memory.svg"]
    shown = await memoryd("status", "--plot", "-")
    assert fromstring(shown.out).tag == f"{SVG}svg"
    assert "style" not in shown.out


async def test_what_is_no_file_is_refused_before_anything_is_done(memoryd: Commands, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    wrong = {
        str(tmp_path): "is a folder: name a file in it",
        str(tmp_path / "pipe"): "no file that could be replaced",
        str(tmp_path / "missing" / "a.svg"): "make it first",
        str(tmp_path / ("x" * 300)): "cannot be written",
        "/proc/memory.svg": "cannot be written",
    }
    before = names_in(tmp_path)
    for file, says in wrong.items():
        told = await memoryd("status", "--plot", file)
        assert (told.code, told.out) in {(1, ""), (2, "")}
        [sentence] = told.sentences
        assert says in sentence
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert names_in(tmp_path) == before
    told = await memoryd("status", "--plot", "-", "--json")
    assert told.code == 2
    assert "leave one of them away" in told.sentences[0]


async def test_of_several_databases_one_must_be_named(database_url: str, tmp_path: Path) -> None:
    several = Commands(None, tmp_path)
    told = await several("status", "--plot", "-", database_urls=f"a={database_url} b={database_url}x")
    assert (told.code, told.out) == (2, "")
    assert "say which one" in told.sentences[0]
    told = await several(
        "--database", "a", "status", "--plot", "-", database_urls=f"a={database_url} b={database_url}x"
    )
    assert told.code == 0
    assert "memoryd: a<" in told.out
