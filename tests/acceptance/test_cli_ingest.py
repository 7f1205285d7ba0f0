"""memoryd ingest: a person's files become documents that agents find."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.access.refusals import refused
from tests.support.processes.commands import Commands
from tests.support.processes.daemons import Daemons
from tests.support.rows import column, insert, one_row
from tests.support.waiting import IDLE, until

FOUND = "select metadata->>'title' from recall($1, match_count => 3)"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with files of several kinds."""
    folder = tmp_path / "papers"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "travel.md").write_text(
        "---\ntitle: Travel rules\n---\n# Travel\n\nFlights are booked by Ms Lindqvist.\n"
    )
    (folder / "deep" / "mugs.txt").write_text("The llama mug belongs to nobody.\n")
    (folder / "deep" / "er" / "prices.csv").write_text("fruit,price\nquince,3\nmedlar,4\n")
    (folder / "page.html").write_text("<title>Opening hours</title><h1>Hours</h1><p>Closed on Whit Monday.")
    return folder


async def counts(memoryd: Commands, *arguments: str, code: int = 0) -> dict[str, int]:
    """What became of the files."""
    done = await memoryd("ingest", *arguments, "--json")
    assert done.code == code, done.err
    return dict(done.json["counts"])


async def test_files_are_found_and_taken_in_once(
    memoryd: Commands, connection: asyncpg.Connection, daemons: Daemons, tree: Path
) -> None:
    assert await counts(memoryd, str(tree)) == {"added": 4}
    await daemons.start()
    await until(connection, IDLE)
    for question, title in (
        ("Who books flights?", "Travel rules"),
        ("llama mug", "mugs"),
        ("price of a quince", "prices"),
        ("Whit Monday", "Opening hours"),
    ):
        assert (await column(connection, FOUND, question))[0] == title
    assert await counts(memoryd, str(tree)) == {"unchanged": 4}
    # Touched, changed, moved, copied.
    os.utime(tree / "travel.md")
    (tree / "page.html").write_text("<title>Opening hours</title><p>Closed at Epiphany.")
    (tree / "deep" / "mugs.txt").rename(tree / "mugs.txt")
    (tree / "copy.md").write_bytes((tree / "travel.md").read_bytes())
    keys = "select id from documents order by id"
    before = await column(connection, keys)
    assert await counts(memoryd, str(tree)) == {"unchanged": 2, "changed": 1, "moved": 1, "duplicate": 1}
    await until(connection, IDLE)
    assert await column(connection, keys) == before
    assert (await column(connection, FOUND, "Epiphany"))[0] == "Opening hours"
    paths = await column(connection, "select drop_path from documents order by 1")
    assert str(tree / "mugs.txt") in paths
    changed = await one_row(connection, "select * from documents where title = 'Opening hours'")
    assert changed["last_modified_human"] is not None


async def test_whose_they_are_and_who_else_may_read_them(
    memoryd: Commands, connection: asyncpg.Connection, daemons: Daemons, tree: Path
) -> None:
    await daemons.start()
    await insert(
        connection, "user_memory_access", {"user_id": BOB, "access_level": 1, "allowed_tags": ["staff"]}
    )
    mine = (str(tree / "travel.md"), "--user", str(ANN))
    assert await counts(memoryd, *mine) == {"added": 1}
    # The same file is a document of its own for another owner.
    assert await counts(memoryd, str(tree / "travel.md")) == {"added": 1}
    assert await counts(
        memoryd, str(tree / "page.html"), "--user", str(ANN), "--level", "1", "--tag", "staff"
    ) == {"added": 1}
    await until(connection, IDLE)
    async with acting_as(connection, ANN):
        assert await column(connection, "select count(*) from documents") == [2]
    async with acting_as(connection, BOB):
        assert await column(connection, FOUND, "Whit Monday") == ["Opening hours"]
        assert await column(connection, FOUND, "Lindqvist") == []


async def test_a_file_that_limits_its_readers_is_not_shared_with_more(
    memoryd: Commands, connection: asyncpg.Connection, tree: Path
) -> None:
    shared = ("--level", "1", "--tag", "staff", "--json")
    (tree / "minutes.md").write_text("---\nconfidentiality: board\n---\n# Minutes\n\nThe llama is sold.")
    (tree / "agreed.md").write_text("---\nvisibility_tags: staff\n---\n# Feeding\n\nThe llama eats hay.")
    done = await memoryd("ingest", str(tree / "minutes.md"), str(tree / "agreed.md"), *shared)
    assert done.code == 1
    assert done.json["counts"] == {"added": 1, "rejected": 1}
    assert "metadata.confidentiality keeps nobody from reading a shared row" in done.out
    assert await column(connection, "select title from documents") == ["Feeding"]
    assert await counts(memoryd, str(tree / "minutes.md")) == {"added": 1}
    # What may only describe it is said.
    (tree / "rota.md").write_text("---\ndepartment: board\n---\n# Rota\n\nThe llama is fed twice.")
    done = await memoryd("ingest", str(tree / "rota.md"), *shared)
    assert (done.code, done.json["counts"]) == (0, {"added": 1})
    said = {
        "path": str(tree / "rota.md"),
        "reason": "It is shared, and its department keeps nobody from reading it.",
    }
    assert done.json["warnings"] == [said]
    (tree / "rota.md").write_text("---\ndepartment: board\n---\n# Rota\n\nThe llama is fed thrice.")
    assert said["reason"] in (await memoryd("ingest", str(tree / "rota.md"), *shared[:-1])).out
    (tree / "plan.md").write_text("---\ndepartment: board\n---\n# Plan\n\nTo buy a llama.")
    assert (await memoryd("ingest", str(tree / "plan.md"), "--json")).json["warnings"] == []


async def test_what_cannot_be_read_is_named_and_stops_nothing(
    memoryd: Commands, connection: asyncpg.Connection, tree: Path
) -> None:
    (tree / "broken.pdf").write_bytes(b"%PDF-1.7\nnothing of the kind")
    (tree / "empty.md").write_bytes(b"")
    (tree / "noise.bin").write_bytes(os.urandom(4096))
    (tree / ".hidden.md").write_text("secret")
    os.mkfifo(tree / "pipe.md")
    with (tree / "huge.txt").open("wb") as file:
        file.truncate(300_000_000)
    (tree / "away.md").symlink_to("/etc/hostname")
    (tree / "line\nbreak.md").write_text("# Odd name\n\nA name with a line break.")
    (tree / ("n" * 251 + ".md")).write_text("A very long name.")
    strange = Path(os.fsdecode(bytes(tree) + b"/\xff\xfe.md"))
    strange.write_text("A name that is no text.")  # noqa: ASYNC240 - quick, and nothing else goes on
    (tree / "---.txt").write_text("A name without letters.")
    done = await memoryd("ingest", str(tree), "--json")
    assert done.code == 1
    assert done.json["counts"] == {"added": 8, "rejected": 5}
    reasons = {Path(r["path"]).name: r["reason"] for r in done.json["rejected"]}
    assert set(reasons) == {"broken.pdf", "empty.md", "noise.bin", "pipe.md", "huge.txt"}
    assert all(reason.endswith(".") and len(reason) > 20 for reason in reasons.values())
    # There is no folder to drop anything into.
    assert "drop" not in str(reasons.values())
    said = await memoryd("ingest", str(tree))
    assert said.code == 1
    assert "broken.pdf" in said.out
    assert "secret" not in await column(connection, "select content from documents")


@pytest.mark.parametrize(
    "arguments",
    [("nowhere",), ("--user", "00000000-0000-0000-0000-00000000a11", "."), ("--level", "-1", "."), ()],
)
async def test_a_wrong_call_says_what_is_wrong(memoryd: Commands, arguments: tuple[str, ...]) -> None:
    done = await memoryd("ingest", *arguments)
    assert done.code != 0
    assert "Traceback" not in done.err
    assert done.sentences


async def test_two_at_once_take_each_file_in_once(
    memoryd: Commands, connection: asyncpg.Connection, tree: Path
) -> None:
    for n in range(150):
        (tree / f"{n}.md").write_text(f"# Note {n}\n\nSomething about number {n}.")
    both = await asyncio.gather(*(memoryd("ingest", str(tree), "--json") for _ in range(2)))
    assert [done.code for done in both] == [0, 0]
    assert await column(connection, "select count(*) from documents") == [154]


async def test_killed_half_way_it_goes_on(
    memoryd: Commands, connection: asyncpg.Connection, tree: Path
) -> None:
    for n in range(400):
        (tree / f"{n}.md").write_text(f"# Note {n}\n\n" + f"Something about number {n}. " * 200)
    process = await memoryd.start("ingest", str(tree))
    await until(connection, "select count(*) > 0 from documents")
    process.kill()
    await process.wait()
    there = await connection.fetchval("select count(*) from documents")
    result = await counts(memoryd, str(tree))
    assert result == {"added": 404 - there} | ({"unchanged": there} if there else {})
    assert await column(connection, "select count(*) from documents where content is null") == [0]


async def test_a_deleted_document_comes_back_when_its_file_is_named_again(
    memoryd: Commands, connection: asyncpg.Connection, daemons: Daemons, tree: Path
) -> None:
    await daemons.start()
    await counts(memoryd, str(tree))
    await until(connection, IDLE)
    await connection.execute("update documents set status = 'deleted'")
    assert await counts(memoryd, str(tree)) == {"changed": 4}
    await until(connection, IDLE)
    assert await column(connection, "select distinct status from documents") == ["active"]
    assert (await column(connection, FOUND, "llama mug"))[0] == "mugs"


async def test_a_user_whose_memory_is_off_gets_no_documents(
    memoryd: Commands, connection: asyncpg.Connection, tree: Path
) -> None:
    await connection.execute("insert into memory_settings (user_id, memory_enabled) values ($1, false)", ANN)
    done = await memoryd("ingest", str(tree), "--user", str(ANN), "--json")
    assert done.json["counts"] == {"unchanged": 4}
    assert await column(connection, "select count(*) from documents") == [0]


async def test_end_users_cannot_say_that_a_document_is_a_file(connection: asyncpg.Connection) -> None:
    async with acting_as(connection, ANN):
        sql = "insert into documents (title, content, user_id, drop_path, file_hash) values ('x', 'y', $1, '/etc/passwd', '')"
        assert (await refused(connection, sql, ANN))[0] == "42501"
