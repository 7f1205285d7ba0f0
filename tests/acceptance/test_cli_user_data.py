"""memoryd export, import and erase: a user's memory as a file, and gone."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from memoryd_client import id_of

from tests.support.access.acting import ANN, BOB
from tests.support.access.users import found, kept_of, whole_user
from tests.support.processes.commands import Commands
from tests.support.rows import ask, insert, remember, say

LARGE = "select sum(length(content)) from agent_memory"


def text_of(file: Path) -> str:
    """The contents of a file; there must be no unfinished file beside it."""
    assert [f.name for f in file.parent.glob(f"{file.name}*")] == [file.name]
    return file.read_text("utf-8")


def is_private(file: Path) -> bool:
    """Whether only its owner may read a file."""
    return file.stat().st_mode & 0o777 == 0o600


async def exported(memoryd: Commands, file: Path, user: uuid.UUID = ANN) -> dict[str, Any]:
    """A user's export as a file, and parsed."""
    done = await memoryd("export", str(user), "-o", str(file))
    assert done.code == 0, done.err
    assert done.out == ""
    document: dict[str, Any] = json.loads(text_of(file))
    return document


async def test_export_erase_import_export(
    memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    await whole_user(connection, ANN, 'wombat ★ \\u0000 "quoted" 💾')
    await whole_user(connection, BOB, "numbat")
    await connection.execute(
        'update agent_memory set metadata = \'{"n": 1.10, "big": 12345678901234567890.123}\''
    )
    others = await kept_of(connection, BOB)
    before = await exported(memoryd, tmp_path / "one.json")
    assert (before["format"], before["version"], before["user_id"]) == ("memoryd-export", 1, str(ANN))
    assert is_private(tmp_path / "one.json")

    refused = await memoryd("erase", str(ANN))
    assert (refused.code, refused.out) == (2, "")
    assert "--yes" in refused.err
    erased = await memoryd("erase", str(ANN), "--yes")
    assert erased.code == 0
    assert ["2", "agent_memory"] in [line.split() for line in erased.out.splitlines()]
    assert "/replica/" in erased.err
    assert await found(connection, "wombat") == {}

    imported = await memoryd("import", str(tmp_path / "one.json"))
    assert imported.code == 0, imported.err
    assert ["2", "0", "agent_memory"] in [line.split() for line in imported.out.splitlines()]
    assert "user_memory_access" in imported.err
    after = await exported(memoryd, tmp_path / "two.json")
    assert after["tables"] == before["tables"]
    assert '"n": 1.10' in text_of(tmp_path / "two.json")
    assert '"big": 12345678901234567890.123' in text_of(tmp_path / "two.json")
    assert await kept_of(connection, BOB) == others

    again = (await memoryd("import", str(tmp_path / "one.json"), "--json")).json
    assert {c["imported"] for c in again["tables"].values()} == {0}
    assert again["tables"]["agent_memory"] == {"imported": 0, "skipped": 2}


async def test_a_user_is_named(memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path) -> None:
    """By the name that a chatbot gives to the Python client."""
    key = id_of("Zoë 🦩")
    await remember(connection, "wombat", user_id=key)
    await remember(connection, "numbat", user_id=ANN)
    file = tmp_path / "one.json"
    assert (await memoryd("export", "Zoë 🦩", "-o", str(file))).code == 0
    assert json.loads(text_of(file))["user_id"] == str(key)
    assert (await memoryd("erase", "Zoë 🦩", "--yes", "--json")).json["agent_memory"] == 1
    assert (await memoryd("import", str(file), "--user", "mia", "--json")).json["user_id"] == str(
        id_of("mia")
    )
    rows = await connection.fetch("select content, user_id from agent_memory order by content")
    assert [tuple(row) for row in rows] == [("numbat", ANN), ("wombat", id_of("mia"))]


@pytest.mark.parametrize("depth", [3, 64])
async def test_everything_that_the_database_accepts_survives_export_and_import(
    memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path, depth: int
) -> None:
    """As deep as it may be, and numbers of as many digits."""
    await remember(connection, "deep", user_id=ANN, metadata="[" * depth + '"wombat ]"' + "]" * depth)
    await remember(
        connection, "long", user_id=ANN, metadata=f'{{"n": {"7" * 1000}, "m": 1.{"3" * 1000}, "k": 12}}'
    )
    await ask(connection, "do it", user_id=ANN, status="cancelled", metadata='{"a": "\\\\u0000"}')
    rows = "select content, metadata::text from agent_memory order by 1"
    before = await connection.fetch(rows)
    file = tmp_path / "one.json"
    assert (await memoryd("export", str(ANN), "-o", str(file))).code == 0
    assert (await memoryd("erase", str(ANN), "--yes")).code == 0
    imported = await memoryd("import", str(file))
    assert (imported.code, imported.err) == (0, "")
    assert await connection.fetch(rows) == before
    assert await connection.fetchval("select metadata ->> 'a' from agent_commands") == "\\u0000"


BROKEN: list[tuple[Callable[[str], str], str]] = [
    (lambda text: text[:-3], "is no whole JSON document"),
    (lambda text: text.replace('"deep"', '"de\\u0000ep"'), "it holds a NUL character"),
    (lambda text: text.replace('"version": 1', '"version": 2'), "is an export of version 2"),
    (lambda text: text.replace("[[[", "[[", 1), "Nothing was imported"),
    (
        lambda text: text.replace("[[[", "[" * 6000, 1).replace("]]]", "]" * 6000, 1),
        "deeper than 64 levels",
    ),
    (lambda text: text.replace("[[[", "[" * 90_000, 1).replace("]]]", "]" * 90_000, 1), "nests deeper"),
]


async def test_a_deeply_nested_broken_file_is_refused_with_one_sentence(
    memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    await remember(connection, "deep", user_id=ANN, metadata="[" * 64 + "]" * 64)
    file = tmp_path / "one.json"
    await memoryd("export", str(ANN), "-o", str(file))
    await memoryd("erase", str(ANN), "--yes")
    whole = file.read_text("utf-8")
    for broken, said in BROKEN:
        file.write_text(broken(whole), "utf-8")
        refused = await memoryd("import", str(file))
        assert (refused.code, refused.out) == (1, ""), said
        assert said in refused.err
        assert "Traceback" not in refused.err
        assert await connection.fetchval("select count(*) from agent_memory") == 0, said


async def test_a_file_may_be_piped_and_imported_for_another_user(
    memoryd: Commands, connection: asyncpg.Connection
) -> None:
    await remember(connection, "ein Käfer auf dem Löwenzahn", user_id=ANN, kind="fact")
    piped = await memoryd("export", str(ANN))
    assert piped.code == 0
    await memoryd("erase", str(ANN), "--yes")
    taken = await memoryd("import", "-", "--user", str(BOB), stdin=piped.out.encode())
    assert taken.code == 0
    rows = await connection.fetch("select user_id, content from agent_memory")
    assert [tuple(r) for r in rows] == [(BOB, "ein Käfer auf dem Löwenzahn")]


async def test_megabytes_survive_export_and_import(
    memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    # Each longer than what is imported at once.
    for n in range(2):
        await remember(connection, f"{n} " + "Ωmega " * 400_000, user_id=ANN)
    await connection.execute(
        "insert into agent_memory (agent_id, user_id, content) "
        "select 'alice', $1, 'note ' || n from generate_series(1, 1200) n",
        ANN,
    )
    size = await connection.fetchval(LARGE)
    await exported(memoryd, tmp_path / "large.json")
    assert (await memoryd("erase", str(ANN), "--yes")).code == 0
    done = await memoryd("import", str(tmp_path / "large.json"), "--json")
    assert done.json["tables"]["agent_memory"] == {"imported": 1202, "skipped": 0}
    assert await connection.fetchval(LARGE) == size


async def test_an_erasure_tells_which_knowledge_of_others_names_the_user(
    memoryd: Commands, connection: asyncpg.Connection
) -> None:
    session = await insert(connection, "conversation_sessions", {"user_id": ANN})
    await say(connection, session, "I moved", user_id=ANN, speaker="Ottilie Qvist")
    entry: dict[str, object] = {"tier": "core", "category": "client", "created_by": "clerk"}
    told = {
        await insert(
            connection, "shared_knowledge", entry | {"title": title, "content": title, "status": status}
        ): marks
        for title, status, marks in (
            ("Door of OTTILIE Qvist", "active", ""),
            ("Qvist's key", "archived", " (a part) (archived)"),
            ("Shed of Ottilie Qvist", "archived", " (archived)"),
        )
    }
    other = entry | {"title": "The Qvistling bird", "content": "sings"}
    untold = await insert(connection, "shared_knowledge", other)
    done = await memoryd("erase", str(ANN), "--yes")
    for which, marks in told.items():
        assert f"  {which}{marks}\n" in done.err, marks
    assert str(untold) not in done.err
    assert "Qvist" not in done.out + done.err
    again = await memoryd("erase", str(ANN), "--yes")
    assert "knowledge" not in again.err


async def test_a_user_without_rows_exports_erases_and_imports_nothing(
    memoryd: Commands, tmp_path: Path
) -> None:
    document = await exported(memoryd, tmp_path / "nobody.json")
    assert "agent_memory" in document["tables"]
    assert not any(document["tables"].values())
    erased = await memoryd("erase", str(ANN), "--yes", "--json")
    assert erased.json.pop("replica_paths") == []
    assert "Nothing was kept" in (await memoryd("erase", str(ANN), "--yes")).out
    assert "holds no rows" in (await memoryd("import", str(tmp_path / "nobody.json"))).out


def changed(document: dict[str, Any], **values: Any) -> str:
    """The document with other values."""
    return json.dumps(document | values)


DAMAGED: list[tuple[Callable[[dict[str, Any]], str], str]] = [
    (lambda d: json.dumps(d)[:-40], "is no whole JSON document"),
    (lambda _: "", "is no whole JSON document"),
    (lambda d: changed(d, format="pg_dump"), '"format" is not "memoryd-export"'),
    (lambda _: "[]", '"format" is not "memoryd-export"'),
    (lambda d: changed(d, version=2), "version 2; this memoryd reads version 1"),
    (lambda d: changed(d, version="1"), 'version "1"; this memoryd reads'),
    (lambda d: changed(d, version=True), "version true; this memoryd reads"),
    (lambda d: changed(d, user_id="me"), '"user_id" is no uuid'),
    (lambda d: changed(d, user_id=None), '"user_id" is no uuid'),
    (lambda d: changed(d, user_id=str(BOB)), "rows of another user than the file"),
    (lambda d: changed(d, tables=None), 'no "tables" with rows'),
    (lambda d: changed(d, tables={"agent_memory": {}}), 'no "tables" with rows'),
    (lambda d: changed(d, tables={"pg_authid": []}), "does not know"),
    (lambda d: json.dumps(d).replace("the last one", "the \\u0000 one"), "NUL character (\\u0000)"),
    (lambda d: json.dumps(d).replace("the last one", "the \\ud800 one"), "lone surrogate"),
    (lambda d: json.dumps(d).replace('"strength": 0.5', '"strength": 1e400'), "out of range"),
    (lambda d: json.dumps(d).replace('"strength": 0.5', '"strength": NaN'), "is no whole JSON document"),
    (lambda d: json.dumps(d).replace('"strength": 0.5', '"strength": 7'), "strength is 7"),
    (lambda d: json.dumps(d).replace('"kind": "fact"', '"kind": "spell"'), "unknown kind 'spell'"),
    (lambda _: "[" * 100_000, "nests deeper"),
]


async def test_a_damaged_file_is_refused_whole(
    memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    one = await remember(connection, "the first one", user_id=ANN, kind="note")
    two = await remember(connection, "the last one", user_id=ANN, kind="fact")
    link = {"memory_id": two, "related_memory_id": one, "association_type": "related", "strength": 0.5}
    await insert(connection, "memory_associations", link)
    await ask(connection, "paint", user_id=ANN, status="cancelled")
    document = await exported(memoryd, tmp_path / "one.json")
    await memoryd("erase", str(ANN), "--yes")
    for spoil, said in DAMAGED:
        (tmp_path / "spoilt.json").write_text(spoil(document), "utf-8")
        ended = await memoryd("import", str(tmp_path / "spoilt.json"))
        assert (ended.code, ended.out, ended.err.count("\n")) == (1, "", 1), (said, ended.err)
        assert said in ended.err
        assert set((await kept_of(connection, ANN)).values()) == {0}, said
        jobs = "select count(*) from memoryd.jobs where topic in ('index', 'context', 'capture')"
        assert await connection.fetchval(jobs) == 0, said


async def test_unreadable_and_unwritable_files_are_reported_in_one_sentence(
    memoryd: Commands, tmp_path: Path
) -> None:
    missing = await memoryd("import", str(tmp_path / "missing.json"))
    assert (missing.code, missing.err.count("\n")) == (1, 1)
    assert "cannot be read: No such file" in missing.err
    (tmp_path / "latin.json").write_bytes(b'{"format": "\xe4"}')
    assert "is not UTF-8" in (await memoryd("import", str(tmp_path / "latin.json"))).err
    nowhere = await memoryd("export", str(ANN), "-o", str(tmp_path / "no" / "folder.json"))
    assert (nowhere.code, nowhere.err.count("\n")) == (1, 1)
    assert "cannot be written: No such file" in nowhere.err
    assert (await memoryd("export", str(ANN)[:-1])).code == 2
    assert (await memoryd("erase", "", "--yes")).code == 2


async def test_a_failing_export_leaves_the_existing_file(
    memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    (tmp_path / "one.json").write_text("the one before")
    await connection.execute("alter function memoryd.user_rows rename to gone")
    ended = await memoryd("export", str(ANN), "-o", str(tmp_path / "one.json"))
    assert ended.code == 1
    assert text_of(tmp_path / "one.json") == "the one before"


async def test_imports_and_erasures_are_audited_without_a_user(
    memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    await remember(connection, "wombat", user_id=ANN)
    await exported(memoryd, tmp_path / "one.json")
    await memoryd("erase", str(ANN), "--yes")
    await memoryd("import", str(tmp_path / "one.json"))
    rows = await connection.fetch(
        "select * from agent_execution_logs where user_id is null order by created_at"
    )
    assert [(r["step_name"], json.loads(r["output_data"])["agent_memory"]) for r in rows] == [
        ("erase", 1),
        ("import", 1),
    ]
    assert "wombat" not in str([dict(r) for r in rows])


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("export", "Embeddings are left out"),
        ("import", "import only what you trust"),
        ("erase", "The only way back"),
    ],
)
async def test_help_of_export_import_and_erase_says_what_they_do(
    tmp_path: Path, command: str, said: str
) -> None:
    shown = await Commands(None, tmp_path)(command, "--help")
    assert shown.code == 0
    assert said in " ".join(shown.out.split())
    assert f" {command} " in (await Commands(None, tmp_path)("--help")).out
