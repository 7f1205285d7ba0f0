"""The drop folder of a running daemon: what a person puts there is known to the agents, and the folder is empty again."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import asyncpg
import pytest

from tests.support.processes.commands import Commands
from tests.support.processes.daemons import DaemonProcess, Daemons
from tests.support.rows import column
from tests.support.waiting import IDLE, until

FOUND = "select metadata->>'title' from recall($1, match_count => 3)"


@pytest.fixture
def drop(tmp_path: Path) -> Path:
    """A drop folder that does not exist yet."""
    return tmp_path / "drop"


def names(folder: Path) -> list[str]:
    """What a person sees in the folder."""
    return sorted(
        p.name for p in folder.iterdir() if not p.name.startswith(".") and p.name not in ("taken", "rejected")
    )


async def emptied(folder: Path) -> None:
    """Returns when nothing is left in it."""
    async with asyncio.timeout(90):
        while names(folder):
            await asyncio.sleep(0.05)


async def documents(connection: asyncpg.Connection, count: int) -> None:
    """Returns when there are so many, all of them cut and indexed."""
    await until(connection, "select count(*) >= $1 from documents", count)
    await until(connection, IDLE)


async def start(daemons: Daemons, drop: Path) -> DaemonProcess:
    """A daemon with the drop folder."""
    return await daemons.start(drop_folder=drop, drop_settle_seconds=0.2, drop_scan_seconds=1)


async def working(daemons: Daemons, drop: Path) -> DaemonProcess:
    """The same, working on the folder already."""
    daemon = await start(daemons, drop)
    await daemon.event("drop_folder_watched")
    return daemon


async def test_a_dropped_file_is_found_and_the_folder_is_empty(
    connection: asyncpg.Connection, daemons: Daemons, drop: Path
) -> None:
    daemon = await working(daemons, drop)
    (drop / "travel.md").write_text("# Travel\n\nFlights are booked by Ms Lindqvist.")
    (drop / "minutes").mkdir()
    (drop / "minutes" / "may.txt").write_text("In May we bought a llama mug.")
    await documents(connection, 2)
    await emptied(drop)
    assert (await column(connection, FOUND, "flights"))[0] == "Travel"
    assert (await column(connection, FOUND, "llama mug"))[0] == "may"
    assert names(drop / "taken") == ["may.txt", "travel.md"]
    places = "select metadata ->> 'file_name', metadata ->> 'folder' from documents order by title"
    assert [tuple(row) for row in await connection.fetch(places)] == [
        ("travel.md", None),
        ("may.txt", "minutes"),
    ]
    # A new edition under the same name is the same document.
    (drop / "travel.md").write_text("# Travel\n\nFlights are booked by Mr Zaugg.")
    await until(connection, "select content like '%Zaugg%' from documents where title = 'Travel'")
    await until(connection, IDLE)
    await emptied(drop)
    assert await column(connection, "select count(*) from documents") == [2]
    # The same bytes under another name are nothing new.
    shutil.copy(drop / "taken" / "may.txt", drop / "copy.txt")
    await emptied(drop)
    assert await column(connection, "select count(*) from documents") == [2]
    assert "Lindqvist" not in daemon.text()
    assert "travel" not in daemon.text()
    assert await daemon.stop() == 0


async def test_what_cannot_be_read_is_put_aside_with_its_reason_and_links_and_hidden_files_are_left_alone(
    connection: asyncpg.Connection, daemons: Daemons, drop: Path, tmp_path: Path
) -> None:
    await working(daemons, drop)
    mine = tmp_path / "mine"
    mine.write_text("mine")
    (tmp_path / "secret.md").write_text("a secret about wombats")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "more.md").write_text("another secret about wombats")
    (drop / "link.md").symlink_to(tmp_path / "secret.md")
    (drop / "folder").symlink_to(tmp_path / "outside")
    (drop / ".half.md").write_text("hidden")
    (drop / "rejected").mkdir(exist_ok=True)
    (drop / "rejected" / "broken.pdf.why.txt").symlink_to(mine)
    (drop / "broken.pdf").write_bytes(b"%PDF-1.7 nothing of the kind")
    (drop / "empty.md").write_bytes(b"")
    (drop / "good.md").write_text("Owls hunt at night.")
    os.mkfifo(drop / "pipe.md")
    await documents(connection, 1)
    async with asyncio.timeout(90):
        while len(names(drop / "rejected")) < 6 or names(drop) != ["folder", "link.md"]:
            await asyncio.sleep(0.05)
    assert names(drop / "taken") == ["good.md"]
    assert names(drop / "rejected") == [
        "broken.pdf", "broken.pdf.why.txt", "empty.md", "empty.md.why.txt", "pipe.md", "pipe.md.why.txt",
    ]  # fmt: skip
    assert "damaged" in (drop / "rejected" / "broken.pdf.why.txt").read_text()
    assert mine.read_text() == "mine"
    assert await column(connection, "select title from documents") == ["good"]
    assert (tmp_path / "secret.md").read_text() == "a secret about wombats"
    assert (drop / ".half.md").exists()


async def test_a_file_is_taken_when_it_is_whole(
    connection: asyncpg.Connection, daemons: Daemons, drop: Path
) -> None:
    daemon = await working(daemons, drop)
    with (drop / "slow.txt").open("w") as file:
        for n in range(4):
            file.write(f"Line {n} of a slow writer. ")
            file.flush()
            # Longer than a file must be unchanged: that it is still open is what counts.
            (drop / f"other{n}.txt").write_text(f"Another file, number {n}.")
            await documents(connection, n + 1)
        assert await column(connection, "select count(*) from documents where title = 'slow'") == [0]
    await documents(connection, 5)
    assert "Line 3" in str(await column(connection, "select content from documents where title = 'slow'"))
    assert await daemon.stop() == 0


async def test_files_that_came_while_no_daemon_ran_are_taken(
    connection: asyncpg.Connection, daemons: Daemons, drop: Path
) -> None:
    drop.mkdir()  # noqa: ASYNC240 - quick, and nothing else goes on
    for n in range(8):
        (drop / f"{n}.md").write_text(f"# Note {n}\n\nSomething about number {n}.")
    await start(daemons, drop)
    await documents(connection, 8)
    await emptied(drop)


async def test_daemons_killed_at_any_moment_lose_no_file_and_take_none_twice(
    connection: asyncpg.Connection, daemons: Daemons, drop: Path
) -> None:
    drop.mkdir()  # noqa: ASYNC240 - quick, and nothing else goes on
    for n in range(20):
        (drop / f"{n}.md").write_text(f"# Note {n}\n\n" + f"Something about number {n}. " * 100)
    for n in range(4):
        daemon = await start(daemons, drop)
        # The moment is the point: no event marks it.
        await asyncio.sleep(0.1 * n)
        await daemon.kill()
    await start(daemons, drop)
    await emptied(drop)
    await documents(connection, 20)
    assert await column(connection, "select count(*) from documents") == [20]
    assert len(names(drop / "taken")) == 20


async def test_two_daemons_on_one_folder_take_each_file_once(
    connection: asyncpg.Connection, daemons: Daemons, drop: Path
) -> None:
    first = await working(daemons, drop)
    second = await start(daemons, drop)
    await second.event("drop_folder_busy")
    for n in range(15):
        (drop / f"{n}.md").write_text(f"# Note {n}\n\nSomething about number {n}.")
    await documents(connection, 15)
    await emptied(drop)
    await first.kill()
    # The other one goes on.
    (drop / "last.md").write_text("Owls hunt at night.")
    await documents(connection, 16)
    await emptied(drop)
    assert await column(connection, "select count(*) from documents") == [16]


async def test_a_folder_that_goes_away_and_comes_back(
    connection: asyncpg.Connection, daemons: Daemons, drop: Path
) -> None:
    daemon = await working(daemons, drop)
    shutil.rmtree(drop)
    await until_there(drop / "taken")
    (drop / "good.md").write_text("Owls hunt at night.")
    await documents(connection, 1)
    assert await daemon.stop() == 0


async def until_there(path: Path) -> None:
    """Returns when the path exists."""
    async with asyncio.timeout(90):
        while not path.exists():  # noqa: ASYNC240 - a folder tells nobody that it is there
            await asyncio.sleep(0.05)


async def test_a_link_in_the_place_of_a_folder_is_told_and_nothing_is_moved_through_it(
    connection: asyncpg.Connection, daemons: Daemons, drop: Path, tmp_path: Path
) -> None:
    drop.mkdir()  # noqa: ASYNC240 - quick, and nothing else goes on
    outside = tmp_path / "outside"
    outside.mkdir()
    (drop / "taken").symlink_to(outside)
    (drop / "good.md").write_text("Owls hunt at night.")
    daemon = await start(daemons, drop)
    assert (await daemon.event("drop_folder_unavailable"))["error"] == "ELOOP"
    assert list(outside.iterdir()) == []
    assert (drop / "good.md").exists()


async def test_a_folder_that_cannot_be_made_is_told_and_stops_nothing(
    connection: asyncpg.Connection, daemons: Daemons, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("not a folder")
    daemon = await start(daemons, tmp_path / "file" / "drop")
    told = await daemon.event("drop_folder_unavailable")
    assert told["error"] == "ENOTDIR"
    await connection.execute(
        "insert into agent_memory (agent_id, content) values ('alice', 'Owls hunt at night.')"
    )
    await until(connection, IDLE)
    assert await daemon.stop() == 0


NO_TEXT = os.fsdecode(b"\xff\xfe.md")


async def test_names_that_are_no_text_stop_nothing_in_drop_folder_and_replica(
    connection: asyncpg.Connection, daemons: Daemons, memoryd: Commands, drop: Path, tmp_path: Path
) -> None:
    root = tmp_path / "replica"
    (drop / os.fsdecode(b"inside \xff")).mkdir(parents=True)
    (drop / os.fsdecode(b"inside \xff") / "before.md").write_text("Put there before the start.")
    (drop / ("ä" * 125 + ".md")).write_bytes(b"")
    daemon = await daemons.start(
        drop_folder=drop, drop_settle_seconds=0.1, drop_scan_seconds=1, replica=root, replica_scan_seconds=1
    )
    await daemon.event("drop_folder_watched")
    await until_there(root / "README.md")
    for number in range(3):
        (drop / os.fsdecode(b"\xff%d.md" % number)).write_text(f"Text {number} of a name that is no text.")
        (drop / f"good {number}.md").write_text(f"Text {number} of a good name.")
        (root / os.fsdecode(b"\xff%d.md" % number)).write_text("Left as it is.")
        (root / f"note {number}.md").write_text(f"Text {number} of the replica.")
        await until(
            connection,
            "select count(*) = 3 from documents where content like 'Text ' || $1 || ' %'",
            str(number),
        )
    (drop / ".hidden.md").write_text("Renamed.")
    (drop / ".hidden.md").rename(drop / NO_TEXT)
    (root / "note 0.md").rename(root / NO_TEXT)
    (root / os.fsdecode(b"folder \xff")).mkdir()
    (root / os.fsdecode(b"folder \xff") / "in it.md").write_text("Left as it is.")
    assert await until(
        connection,
        r"select array_agg(path order by path) = '{\\xff0.md,\\xff1.md,\\xff2.md,\\xff\\xfe.md,folder \\xff/in it.md}'"
        " from memoryd.replica_left_out",
    )
    shown = (await memoryd("replica", replica=root)).out
    assert r"folder \xff/in it.md" in shown
    await emptied(drop)
    assert await column(connection, "select count(*) from documents where drop_path like '%\\\\xff%'") == [5]
    assert daemon.events("part_failed") == []
    assert await daemon.stop() == 0


async def test_what_was_taken_and_rejected_is_deleted_after_the_days_of_the_setting(
    connection: asyncpg.Connection, daemons: Daemons, drop: Path, tmp_path: Path
) -> None:
    (tmp_path / "kept.md").write_text("Kept.")
    (drop / "taken" / "old").mkdir(parents=True)
    (drop / "taken" / "link.md").symlink_to(tmp_path / "kept.md")
    (drop / "taken" / "old" / "folder").symlink_to(tmp_path)
    daemon = await daemons.start(
        drop_folder=drop, drop_settle_seconds=0, drop_scan_seconds=1, drop_keep_days=1e-5
    )
    for name, content in (("good.md", "Owls hunt at night."), ("empty.md", "")):
        await until_there(drop / "taken")
        (drop / name).write_text(content)
    await documents(connection, 1)
    await emptied(drop)
    async with asyncio.timeout(90):
        while names(drop / "taken") != ["old"] or names(drop / "rejected"):
            await asyncio.sleep(0.05)
    await daemon.event("dropped_files_deleted")
    assert (tmp_path / "kept.md").exists()
    assert await column(connection, "select count(*) from documents where status = 'active'") == [1]


def replace(folder: Path, away: Path, link: Path | None) -> None:
    """Puts a link, or else a file, in the place of a folder."""
    folder.rename(away)
    if link is None:
        folder.write_text("a file")
    else:
        folder.symlink_to(link)


def put_back(folder: Path, away: Path) -> None:
    """Puts the folder back."""
    folder.unlink()
    away.rename(folder)


async def test_a_folder_replaced_while_it_is_watched_takes_files_again_and_nothing_from_elsewhere(
    connection: asyncpg.Connection, daemons: Daemons, drop: Path, tmp_path: Path
) -> None:
    outside, away = tmp_path / "outside", tmp_path / "away"
    (outside / "taken").mkdir(parents=True)
    (outside / "secret.md").write_text("A secret of wombats.")
    daemon = await working(daemons, drop)
    (drop / "first.md").write_text("Owls hunt at night.")
    await documents(connection, 1)
    await emptied(drop)
    for number, link in enumerate((outside, None)):
        seen = len(daemon.lines)
        replace(drop, away, link)
        await daemon.event("drop_folder_unavailable", after=seen)
        put_back(drop, away)
        (drop / f"back {number}.md").write_text(f"Text {number} of a folder that is back.")
        await documents(connection, 2 + number)
        await emptied(drop)
    # Another folder at once in its place, and without what memoryd put there.
    shutil.rmtree(drop)
    drop.mkdir()  # noqa: ASYNC240 - quick, and nothing else goes on
    (drop / "new.md").write_text("Bees dance.")
    await documents(connection, 4)
    await emptied(drop)
    assert names(drop / "taken") == ["new.md"]
    # The same of the folders in it.
    shutil.rmtree(drop / "taken")
    (drop / "again.md").write_text("Ants carry.")
    await documents(connection, 5)
    await emptied(drop)
    assert names(drop / "taken") == ["again.md"]
    shutil.rmtree(drop / "taken")
    (drop / "taken").symlink_to(outside)
    (drop / "last.md").write_text("Wasps sting.")
    await daemon.event("drop_folder_unavailable", error="ELOOP")
    assert sorted(one.name for one in outside.iterdir()) == ["secret.md", "taken"]
    assert await column(connection, "select count(*) from documents where status <> 'active'") == [0]
    assert await daemon.stop() == 0
