"""memoryd import --from: records without a time have that of what stands beside them, and the rest are counted."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg

from tests.acceptance.test_cli_import_elsewhere import MEMORIES, rows, run
from tests.acceptance.test_cli_import_odd import SAID, claude, written
from tests.support.processes.commands import Commands

CHANGED = "neither it nor what stands beside it has a time: it has that of the import, and no facts are read from it"


def changed(report: Any) -> dict[tuple[str, str], int]:
    """What was changed and why, how often."""
    return {(each["what"], each["reason"]): each["count"] for each in report["changed"]}


async def test_a_missing_time_is_that_of_the_nearest_message_or_of_the_conversation(
    memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    await connection.execute(
        "insert into memoryd.settings (key, value) values ('facts', '\"model\"') "
        "on conflict (key) do update set value = excluded.value"
    )
    nine, ten = "2025-03-01T09:00:00Z", "2025-03-01T10:00:00Z"
    between = claude(
        {"text": "first"}, {"text": "second", "created_at": nine}, {"text": "third", "created_at": None},
        {"text": "fourth", "created_at": ten}, {"text": "fifth", "created_at": "soon"}, created_at="2025-02-01",
    )  # fmt: skip
    report = await run(memoryd, "claude", written(tmp_path / "c.json", [between]), "--user", "mia")
    assert rows(report)["messages"] == (5, 0)
    found = await connection.fetch(SAID)
    assert [(r["content"], r["at"].hour) for r in found] == [
        ("first", 9), ("second", 9), ("third", 9), ("fourth", 10), ("fifth", 10)
    ]  # fmt: skip
    await connection.execute("delete from conversation_sessions")
    only = claude({"text": "I live in Porto"}, created_at="2025-02-01")
    await run(memoryd, "claude", written(tmp_path / "c.json", [only]), "--user", "mia")
    (row,) = await connection.fetch(SAID)
    assert row["at"].month == 2
    await connection.execute("delete from conversation_sessions")
    assert await connection.fetchval("select count(*) from memoryd.unread") == 0
    none = [claude({"text": "I live in Lagos"}), claude({"text": "In Faro", "created_at": nine}, uuid="d")]
    dry = await run(memoryd, "claude", written(tmp_path / "c.json", none), "--user", "mia", "--dry-run")
    report = await run(memoryd, "claude", tmp_path / "c.json", "--user", "mia")
    for one in (dry, report):
        assert changed(one) == {("conversation", CHANGED): 1, ("message", CHANGED): 1}
    read = "select m.content from memoryd.unread u join conversation_messages m on m.id = u.message_id"
    assert [r["content"] for r in await connection.fetch(read)] == ["In Faro"]


async def test_a_memory_without_a_time_has_that_of_its_owner_in_the_file(
    memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    given: list[dict[str, Any]] = [
        {"memory": "first"}, {"memory": "second", "created_at": "2025-03-01T09:00:00Z"},
        {"memory": "of guide", "agent_id": "guide"}, {"memory": "third", "created_at": "soon"},
        {"memory": "of bo", "user_id": "bo"}, {"memory": "fourth", "created_at": "2025-03-01T10:00:00Z"},
        {"memory": "fifth", "created_at": ""}, {"memory": "sixth", "created_at": 99999999999999},
        {"memory": "seventh"},
    ]  # fmt: skip
    given = [{"id": f"{n}", "user_id": "mia"} | each for n, each in enumerate(given)]
    file = written(tmp_path / "m.json", {"results": given})
    dry = await run(memoryd, "mem0", file, "--dry-run")
    report = await run(memoryd, "mem0", file)
    for one in (dry, report):
        assert changed(one) == {
            ("memory", CHANGED): 1,
            ("memory", "a time that cannot be read is left out"): 1,
        }
    told = await memoryd("import", str(file), "--from", "mem0")
    assert re.search(rf"^ *1 +memory +{CHANGED}$", told.out, re.MULTILINE), told.out
    at = {r["content"]: r["created_at"] for r in await connection.fetch(MEMORIES)}
    nine = {"first", "second", "of guide", "third"}
    assert {said for said, time in at.items() if time.isoformat() == "2025-03-01T09:00:00+00:00"} == nine
    assert {(at[said].year, at[said].hour) for said in ("fourth", "fifth", "sixth", "seventh")} == {
        (2025, 10)
    }
    assert at["of bo"].year > 2025


async def test_times_of_an_agent_and_of_a_file_stand_in_for_those_that_lack(
    memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    (tmp_path / "agents").mkdir()
    for name, of_agent, of_file in (("Sam", 1, 2), ("Tom", None, 3), ("Una", None, None)):
        agent = {
            "name": name, "created_at": of_agent and f"2025-0{of_agent}-01",
            "block_ids": ["block-0"], "passages": [{"text": f"a passage of {name}"}],
        }  # fmt: skip
        whole = {
            "created_at": of_file and f"2025-0{of_file}-01", "agents": [agent],
            "blocks": [{"id": "block-0", "label": "human", "value": f"Knows {name}."}],
        }  # fmt: skip
        written(tmp_path / f"agents/{name}.af", whole)
    report = await run(memoryd, "letta", tmp_path / "agents", "--user", "mia")
    assert changed(report) == {("memory", CHANGED): 2}
    at = {r["content"]: r["created_at"] for r in await connection.fetch(MEMORIES)}
    for name, month in (("Sam", 1), ("Tom", 3)):
        for said in (f"a passage of {name}", f"Knows {name}."):
            assert (at[said].year, at[said].month) == (2025, month), said
    assert min(at["a passage of Una"].year, at["Knows Una."].year) > 2025


async def test_what_zep_and_conversations_lack_is_that_of_their_messages(
    memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    ten = "2025-03-01T10:00:00Z"
    said = {"uuid": "m", "role": "user", "content": "I row", "created_at": ten}
    threads = [
        {"session_id": "s", "user_id": "mia", "messages": [said]},
        {"session_id": "t", "user_id": "bo", "created_at": ten, "facts": [{"uuid": "f", "fact": "Bo swims"}]},
    ]
    report = await run(memoryd, "zep", written(tmp_path / "z.json", {"threads": threads}))
    assert (rows(report)["conversations"], changed(report)) == ((2, 0), {})
    for table in ("conversation_sessions", "agent_memory"):
        at = await connection.fetch(f"select created_at from {table}")
        assert {r["created_at"].isoformat() for r in at} == {"2025-03-01T10:00:00+00:00"}, table


async def test_a_note_whose_date_cannot_be_read_has_the_time_of_its_own_file(
    memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    """Not that of the file that was read before it."""
    notes = tmp_path / "notes"
    notes.mkdir()
    for month, (name, front) in enumerate(
        (("a", ""), ("b", "---\ncreated: someday\n---\n"), ("c", "")), start=1
    ):
        file = notes / f"{name}.md"
        file.write_text(f"{front}- said in {name}\n")
        seconds = datetime(2025, month, 1, tzinfo=UTC).timestamp()
        os.utime(file, (seconds, seconds))
    await run(memoryd, "markdown", notes, "--agent", "guide")
    at = {r["content"]: r["created_at"].month for r in await connection.fetch(MEMORIES)}
    assert at == {"said in a": 1, "said in b": 2, "said in c": 3}


async def test_times_as_other_programs_write_them(
    memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    times = (
        1740823200, 1740823200000, 1740823200000000, "1740823200", "1740823200.0", "1740823200000", "1740823200000000000",
        "2025-03-01 10:00:00 UTC", "2025-03-01 10:00:00.0 +0000 UTC", "2025-03-01 15:30:00+05:30", "20250301T100000Z",
        "Sat, 01 Mar 2025 10:00:00 GMT", "Sat, 1 Mar 2025 11:00:00 +0100", "1 Mar 2025 10:00 +0000",
    )  # fmt: skip
    given = [
        {"id": f"{t}", "user_id": "mia", "memory": f"{t}", "created_at": t}
        for t in (*times, "2025", "1e999", "31 Feb 2025 10:00:00 GMT")
    ]
    report = await run(memoryd, "mem0", written(tmp_path / "m.json", given))
    assert changed(report) == {("memory", "a time that cannot be read is left out"): 3}
    found = await connection.fetch("select distinct created_at at time zone 'utc' as at from agent_memory")
    assert [row["at"].isoformat() for row in found] == ["2025-03-01T10:00:00"]
