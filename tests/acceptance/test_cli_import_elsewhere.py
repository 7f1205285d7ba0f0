"""memoryd import --from: what other systems of memory exported (tests/data/elsewhere says how it was made)."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from typer.testing import CliRunner

from daemon.cli.app import app
from daemon.ids import id_of
from tests.support.processes.commands import Commands
from tests.support.processes.daemons import DaemonProcess
from tests.support.repository import ROOT
from tests.support.waiting import until

DATA = ROOT / "tests/data/elsewhere"

MEM0_HISTORY = """
create table history (id text primary key, memory_id text, old_memory text, new_memory text, event text,
    created_at datetime, updated_at datetime, is_deleted integer, actor_id text, role text);
insert into history values
    ('1', 'a', null, 'Mia lives in Porto', 'ADD', '2025-03-01T10:00:00Z', null, 0, null, null),
    ('2', 'a', 'Mia lives in Porto', 'Mia lives in Lisbon', 'UPDATE', null, '2025-04-01T10:00:00Z', 0, null, null),
    ('3', 'b', null, 'gone', 'ADD', '2025-03-01T10:00:00Z', null, 0, null, null),
    ('4', 'b', 'gone', null, 'DELETE', null, '2025-04-01T10:00:00Z', 1, null, null);
"""
CLAUDE_MEM = """
create table sdk_sessions (id integer primary key, content_session_id text, memory_session_id text, project text);
create table observations (id integer primary key, memory_session_id text, project text, text text, type text,
    title text, subtitle text, narrative text, facts text, concepts text, files_read text, files_modified text,
    created_at text, created_at_epoch integer);
create table session_summaries (id integer primary key, memory_session_id text, project text, request text,
    investigated text, learned text, completed text, next_steps text, files_read text, files_edited text, notes text,
    created_at text, created_at_epoch integer);
create table user_prompts (id integer primary key, session_db_id integer, content_session_id text,
    prompt_number integer, prompt_text text, created_at text, created_at_epoch integer);
insert into sdk_sessions values (1, 'c', 'm', 'lake');
insert into observations values (1, 'm', 'lake', null, 'bugfix', 'Herons were counted twice', null, 'The loop ran twice',
    '["One loop", "Two counts"]', '[]', '["a.py"]', null, '2025-03-01T10:00:00Z', 1740823200000);
insert into session_summaries values (1, 'm', 'lake', 'Count herons', null, 'Loops count', null, null, null, null, null,
    '2025-03-01T10:00:00Z', 1740823200000);
insert into user_prompts values (1, 1, 'c', 1, 'Why six herons?', '2025-03-01T10:00:00Z', 1740823200000);
"""
MEMORIES = """
select user_id, agent_id, kind, content, source, created_at, valid_from, valid_to, expires_at,
       metadata ->> 'project' as project
from agent_memory order by content collate "C"
"""
MESSAGES = "select role, speaker, content, created_at, user_id from conversation_messages order by session_id, message_index"


async def run(memoryd: Commands, system: str, source: object, *options: str) -> Any:
    """The report."""
    done = await memoryd("import", str(source), "--from", system, *options, "--json")
    assert done.code == 0, done.err
    return done.json


def rows(report: Any) -> dict[str, tuple[int, int]]:
    """Of each table the rows that were taken, and those that were there."""
    return {name: (c["taken"], c["there"]) for name, c in report["rows"].items() if any(c.values())}


def left_out(report: Any) -> dict[str, int]:
    """How many for each reason."""
    return {each["reason"]: each["count"] for each in report["left_out"]}


def sqlite_file(file: Path, script: str) -> Path:
    """A file with these tables."""
    with closing(sqlite3.connect(file)) as made:
        made.executescript(script)
    return file


async def test_mem0_twice_and_dry(memoryd: Commands, connection: asyncpg.Connection) -> None:
    dry = await run(memoryd, "mem0", DATA / "mem0.json", "--dry-run")
    assert await connection.fetchval("select count(*) from agent_memory") == 0
    taken, other = await asyncio.gather(*(run(memoryd, "mem0", DATA / "mem0.json") for _ in range(2)))
    if rows(taken) != {"memories": (2, 0)}:
        taken, other = other, taken
    assert rows(other) == {"memories": (0, 2)}
    assert {**taken, "dry_run": True} == dry
    assert rows(taken) == {"memories": (2, 0)}
    assert left_out(taken) == {"it has no text": 1, "it had expired": 1}
    assert taken["users"] == {"mia": str(id_of("mia")), "bo": str(id_of("bo"))}
    likes, lives = await connection.fetch(MEMORIES)
    assert (likes["user_id"], likes["kind"], likes["source"]) == (id_of("mia"), "fact", "mem0")
    assert (likes["expires_at"], likes["created_at"].isoformat()) == (None, "2025-03-01T10:00:00+00:00")
    assert lives["agent_id"] == "guide"
    # The same export of another owner is other rows.
    assert rows(await run(memoryd, "mem0", DATA / "mem0.json", "--user", "eve")) == {"memories": (2, 0)}


async def test_the_sqlite_of_mem0_and_claude_mem(
    memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    history = sqlite_file(tmp_path / "history.db", MEM0_HISTORY)
    taken = await run(memoryd, "mem0", history, "--user", "mia")
    assert rows(taken) == {"memories": (1, 0)}
    assert left_out(taken)["it was deleted there"] == 1
    (lives,) = await connection.fetch(MEMORIES)
    assert (lives["content"], lives["created_at"].month) == ("Mia lives in Lisbon", 3)
    await connection.execute("delete from agent_memory")

    file = sqlite_file(tmp_path / "claude-mem.db", CLAUDE_MEM)
    assert rows(await run(memoryd, "claude-mem", file, "--agent", "coder")) == {
        "memories": (2, 0),
        "messages": (1, 0),
    }
    summary, observation = sorted(await connection.fetch(MEMORIES), key=lambda r: r["kind"], reverse=True)
    assert observation["content"] == "Herons were counted twice\nThe loop ran twice\n- One loop\n- Two counts"
    assert {(r["agent_id"], r["expires_at"], r["project"]) for r in (summary, observation)} == {
        ("coder", None, "lake")
    }
    assert rows(await run(memoryd, "claude-mem", file, "--agent", "coder")) == {
        "memories": (0, 2),
        "messages": (0, 1),
    }


async def test_facts_of_graphiti_and_zep_that_ended_are_not_current(
    memoryd: Commands, connection: asyncpg.Connection
) -> None:
    graph = await run(memoryd, "graphiti", DATA / "graphiti.json")
    assert rows(graph) == {"memories": (3, 0), "messages": (2, 0)}
    assert left_out(graph) == {"it has no text": 1}  # of the node without a summary
    found = {r["content"]: r for r in await connection.fetch(MEMORIES)}
    assert found["Mia lives in Porto"]["valid_to"].isoformat() == "2025-03-10T10:00:00+00:00"
    assert found["Mia lives in Lisbon"]["valid_to"] is None
    recalled = await connection.fetch(
        "select content from recall('Mia lives in Porto or Lisbon', user_id => $1)", id_of("mia")
    )
    assert "Mia lives in Porto" not in [r["content"] for r in recalled]
    assert "Mia lives in Lisbon" in [r["content"] for r in recalled]
    assert [(m["role"], m["speaker"], m["content"]) for m in await connection.fetch(MESSAGES)] == [
        ("user", "Mia", "I moved to Lisbon"),
        ("assistant", None, "How nice"),
    ]
    thread = await run(memoryd, "zep", DATA / "zep.json")
    assert rows(thread) == {"memories": (1, 0), "conversations": (1, 0), "messages": (2, 0)}
    assert rows(await run(memoryd, "zep", DATA / "zep.json")) == {
        "memories": (0, 1),
        "conversations": (0, 1),
        "messages": (0, 2),
    }


async def test_langmem_letta_and_the_exports_of_chats(
    memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    items = await run(memoryd, "langmem", DATA / "langmem.jsonl", "--agent", "lake")
    assert rows(items) == {"memories": (2, 0)}
    assert [(r["content"], r["user_id"]) for r in await connection.fetch(MEMORIES)] == [
        ("Mia likes herons", id_of("mia")),
        ("name: Lake\ndepth: 3", None),
    ]
    await connection.execute("delete from agent_memory")

    sam = await run(memoryd, "letta", DATA / "letta.af", "--user", "mia", "--agent", "sam")
    assert rows(sam) == {"memories": (1, 0), "messages": (3, 0)}
    assert left_out(sam)["it is an event of Letta's own"] == 1
    string = tmp_path / "string.af"
    string.write_text(json.dumps((DATA / "letta.af").read_text()))
    again = await run(memoryd, "letta", string, "--user", "mia", "--agent", "sam")
    assert rows(again) == {"memories": (0, 1), "messages": (0, 3)}
    said = [(m["role"], m["content"]) for m in await connection.fetch(MESSAGES)]
    assert said[:2] == [("user", "Where is the heron?"), ("assistant", "At the lake.")]
    await connection.execute("delete from conversation_sessions")

    chat = await run(memoryd, "chatgpt", DATA / "chatgpt.json", "--user", "mia")
    assert rows(chat) == {"conversations": (1, 0), "messages": (2, 0)}
    assert left_out(chat) == {"memoryd keeps texts": 1, "it is in another branch of its conversation": 1}
    assert [(m["role"], m["content"]) for m in await connection.fetch(MESSAGES)] == [
        ("user", "Is this a heron?"),
        ("assistant", "It is a heron."),
    ]
    await connection.execute("delete from conversation_sessions")

    claude = await run(memoryd, "claude", DATA / "claude.json", "--user", "mia")
    assert rows(claude) == {"memories": (3, 0), "conversations": (1, 0), "messages": (2, 0)}
    assert left_out(claude) == {"memoryd ingest takes files": 1} | left_out(claude)
    assert [m["content"] for m in await connection.fetch(MESSAGES)] == [
        "Count the herons.",
        "There are three.",
    ]


async def test_markdown_by_item_and_section(
    memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    (notes / "sub").mkdir(parents=True)
    (notes / "a.md").write_text(
        "---\ncreated: 2025-03-01\n---\n# Lake\n\n- herons nest here\n- [x] trams\n  go there\n\n"
        "Then prose.\n\n```\n# no heading\n```\n\n## Ice\nIt freezes.\n"
    )
    (notes / "sub/b.md").write_text("Whole.\n\nOne memory.")
    (notes / "c.md").write_text("Склад переехал в Тверь.", encoding="cp1251")
    (notes / "d.md").write_text("The boat is in Köln.", encoding="utf-16")
    taken = await run(memoryd, "markdown", notes, "--agent", "guide")
    assert left_out(taken) == {"it is not UTF-8: save it as UTF-8": 1}
    found = await connection.fetch(MEMORIES)
    assert [r["content"] for r in found] == [
        "Lake > Ice: It freezes.",
        "Lake: Then prose.\n\n```\n# no heading\n```",
        "Lake: herons nest here",
        "Lake: trams\n  go there",
        "The boat is in Köln.",
        "Whole.\n\nOne memory.",
    ]
    assert (found[0]["created_at"].date().isoformat(), found[0]["kind"]) == ("2025-03-01", "note")
    assert rows(await run(memoryd, "markdown", notes, "--agent", "guide")) == {"memories": (0, 6)}


def command(**fields: Any) -> dict[str, Any]:
    """A line of past commands: a good one, with these fields."""
    return {
        "agent_id": "alice",
        "message": "deploy the heronry",
        "created_at": "2026-05-24T13:38:03-05:00",
    } | fields


async def test_past_commands_are_remembered_with_their_outcomes(
    memoryd: Commands, connection: asyncpg.Connection, daemon: DaemonProcess, tmp_path: Path
) -> None:
    file = tmp_path / "commands.jsonl"
    given = [
        command(output="It listens at port 7411", exit_code=0, user_id="mia", session_id="telegram:42"),
        command(message="undo", output="no", exit_code=3, finished_at="2026-05-24T19:05:00Z"),
        command(message="rest", error="lost"),
        command(message="wake", metadata={"build": 512}, session_id=str(id_of("hers"))),
    ]
    hers = "insert into conversation_sessions (id, user_id) values ($1, $2)"
    await connection.execute(hers, id_of("hers"), id_of("ann"))
    file.write_text("\n".join(map(json.dumps, given)))
    taken = await run(memoryd, "commands", file)
    assert rows(taken) == {"commands": (4, 0)}
    assert rows(await run(memoryd, "commands", file)) == {"commands": (0, 4)}
    found = await connection.fetch("select * from agent_commands order by message")
    assert [(r["message"], r["status"], r["exit_code"]) for r in found] == [
        ("deploy the heronry", "completed", 0),
        ("rest", "failed", None),
        ("undo", "failed", 3),
        ("wake", "completed", None),
    ]
    assert (found[0]["user_id"], found[0]["session_id"]) == (id_of("mia"), id_of("telegram:42"))
    assert found[0]["created_at"] == found[0]["started_at"] == found[0]["finished_at"]
    assert found[2]["finished_at"].isoformat() == "2026-05-24T19:05:00+00:00"
    assert (json.loads(found[3]["metadata"])["original"], found[3]["session_id"]) == ({"build": 512}, None)
    await until(connection, "select count(*) = 4 from agent_memory where kind in ('outcome', 'error')")
    context = await connection.fetchval(
        "select build_context('alice', 'deploy the heronry', user_id => $1)", id_of("mia")
    )
    assert "It listens at port 7411" in context


async def test_of_past_commands_those_that_are_wrong_are_left_out(
    memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    bad: dict[str, list[Any]] = {
        "it names no agent: give --agent": [command(agent_id=None), command(agent_id="_shared")],
        "the name of its agent is too long, or has characters that are not seen": [
            command(agent_id="a" * 201)
        ],
        "it has no text": [command(message=" \u3000"), command(message=["deploy"])],
        "it has no time": [command(created_at=None), command(created_at="yesterday")],
        "its exit code is no 32-bit integer": [command(exit_code=c) for c in ("0", True, 2**31)],
        "the id of its user is almost a UUID, or no text: give --user": [
            command(user_id="5f0c5a4e-0000-4000-8000-00001")
        ],
        "the id of its session is almost a UUID, or no text": [
            command(session_id="5f0c5a4e-0000-4000-8000-00001")
        ],
        "it has a form that memoryd does not know": [["deploy"], {"agent_id": "alice"}],
        "its id stands in the export before, with the same text": [command()],
    }
    file = tmp_path / "commands.json"
    good = [command(), command(metadata="x"), command(message="a\0b\ud800", finished_at="2026-13-01")]
    file.write_text(json.dumps(good + [one for each in bad.values() for one in each]))
    taken = await run(memoryd, "commands", file)
    assert rows(taken) == {"commands": (3, 0)}
    assert left_out(taken) == {why: len(each) for why, each in bad.items()}
    assert await connection.fetchval("select count(*) from agent_commands") == 3


async def test_hostile_rows_are_mended_or_left_out(
    memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    deep: Any = "x"
    for _ in range(200):
        deep = [deep]
    given = [
        {"id": "1", "user_id": "mia", "memory": "NUL \0 and \ud800 half"},
        {"id": "2", "user_id": "mia", "memory": "m" * 5_000_000},
        {"id": "3", "user_id": "mia", "memory": "in ms", "created_at": 1740823200000},
        {"id": "4", "user_id": "mia", "memory": "year 0", "created_at": "0000-01-01T00:00:00Z"},
        {"id": "4", "user_id": "mia", "memory": "the same id"},
        {"id": "5", "user_id": "mia", "memory": 7},
        {"id": "6", "user_id": "00000000-0000-0000-0000-00000000a11", "memory": "almost"},
        {"id": "7", "memory": "nobody's"},
        {"id": "8", "user_id": "mia", "memory": "forged", "metadata": {"from": "conversation", "slot": "home"}},
        {"id": "9", "user_id": "mia", "memory": "deep", "metadata": {"d": deep}},
        {"user_id": "mia", "memory": "no id"},
        "no record",
    ]  # fmt: skip
    (tmp_path / "bad.json").write_text(json.dumps(given))
    taken = await run(memoryd, "mem0", tmp_path / "bad.json")
    assert rows(taken) == {"memories": (6, 0)}
    assert sum(left_out(taken).values()) == 6
    found = {r["content"]: r for r in await connection.fetch(MEMORIES)}
    assert "NUL  and \ufffd half" in found
    assert found["in ms"]["created_at"].year == 2025
    assert "year 0" in found
    assert await connection.fetchval("select count(*) from memoryd.fact_sources") == 0
    assert {each["what"] for each in taken["changed"]} == {"text", "memory", "metadata"}


async def test_memory_that_its_user_switched_off_stays_off(
    memoryd: Commands, connection: asyncpg.Connection
) -> None:
    await connection.execute(
        "insert into memory_settings (user_id, memory_enabled) values ($1, false)", id_of("mia")
    )
    taken = await run(memoryd, "mem0", DATA / "mem0.json")
    assert rows(taken) == {}
    assert left_out(taken)["its user has switched memory off"] == 2


async def test_what_is_cut_off_or_no_export_writes_nothing(
    memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    whole = (DATA / "mem0.json").read_text()
    file = tmp_path / "cut.json"
    for text, says in (
        (whole[:400], "is cut off, after 1 records, at character"),
        ("", "is empty"),
        ("hello", "is not JSON"),
        (whole + "]", "goes on after its end"),
        ("[" * 100_000, "nested too deep"),
    ):
        file.write_text(text)
        refused = await memoryd("import", str(file), "--from", "mem0")
        assert (refused.code, refused.out) == (1, "")
        assert says in refused.err
    for system, source, says in (
        ("claude-mem", sqlite_file(tmp_path / "empty.db", "create table t (a)"), "none of the tables"),
        ("chatgpt", tmp_path, "has no file conversations*.json"),
        ("chatgpt", tmp_path / "none", "does not exist"),
        ("mem0", "postgresql://a:geheim@127.0.0.1:1/x", "memoryd reads files"),
    ):
        refused = await memoryd("import", str(source), "--from", system, "--user", "mia")
        assert (refused.code, refused.out) == (1, ""), refused.err
        assert says in refused.err
        assert "geheim" not in refused.err
    assert await connection.fetchval("select count(*) from agent_memory") == 0


async def test_rows_of_postgres_as_psql_writes_them(
    memoryd: Commands, connection: asyncpg.Connection, empty_url: str, tmp_path: Path
) -> None:
    """As docs/importing.md says."""
    there = await asyncpg.connect(empty_url)
    await there.execute("""
        create table store (prefix text, key text, value jsonb, created_at timestamptz, updated_at timestamptz);
        insert into store values ('memories.mia', 'k', '{"content": "Mia likes herons"}', now(), now());
        create table mem0 (id uuid primary key, vector text, payload jsonb);
        insert into mem0 values (gen_random_uuid(), '[1]', '{"data": "Bo sells trams", "user_id": "bo"}');
        create table block (id text, label text, value text, created_at timestamptz);
        insert into block values ('block-00000000-0000-0000-0000-000000000001', 'human', 'Likes ice', now());
        create table archival_passages (id text, text text, is_deleted boolean, created_at timestamptz);
        insert into archival_passages values ('p', 'Ice is cold', false, now()), ('q', 'gone', true, now());
        create table messages (id text, agent_id text, role text, content jsonb, created_at timestamptz);
        insert into messages values ('m', 'sam', 'user', '[{"type": "text", "text": "Is it cold?"}]', now());
    """)
    page = (ROOT / "docs/importing.md").read_text()
    files = {}
    for sql, name in re.findall(r"psql .* -Atc \"(.*?)\" > (\S+)", page):
        files[name] = tmp_path / name
        files[name].write_text("\n".join([row[0] for row in await there.fetch(sql)]))
    await there.close()
    assert rows(await run(memoryd, "langmem", files["langmem.jsonl"])) == {"memories": (1, 0)}
    assert rows(await run(memoryd, "mem0", files["mem0.jsonl"])) == {"memories": (1, 0)}
    passages = await run(memoryd, "letta", files["letta.json"], "--agent", "sam")
    assert rows(passages) == {"memories": (2, 0), "messages": (1, 0)}
    assert left_out(passages) == {"it was deleted there": 1}
    assert rows(await run(memoryd, "langmem", files["langmem.jsonl"])) == {"memories": (0, 1)}
    trams, *_ = await connection.fetch(MEMORIES)
    assert (trams["content"], trams["user_id"], trams["agent_id"]) == (
        "Bo sells trams",
        id_of("bo"),
        await connection.fetchval("select memoryd.app_agent_id()"),
    )


@pytest.mark.parametrize(
    "call",
    [
        ("x.json", "--from", "myspace"),
        ("x.json", "--from", "chatgpt"),
        ("x.json", "--from", "mem0", "--agent", " "),
        ("x.json", "--dry-run"),
        ("x.json", "--agent", "alice"),
    ],
    ids=" ".join,
)
def test_a_wrong_call_ends_with_2(call: tuple[str, ...]) -> None:
    ended = CliRunner(env={"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}).invoke(
        app, ["import", *call]
    )
    assert (ended.exit_code, ended.stdout) == (2, ""), ended.output
