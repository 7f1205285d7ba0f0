"""memoryd import --from: what exports lack, and what machines wrote into them: owners, tasks, marks, JSON in JSON."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from memoryd_client import id_of

from plugins.move_in.importers.machines import without_machines
from tests.acceptance.test_cli_import_elsewhere import (
    DATA,
    MEMORIES,
    MESSAGES,
    left_out,
    rows,
    run,
    sqlite_file,
)
from tests.support.processes.commands import Commands

SAID = "select content, created_at at time zone 'utc' as at from conversation_messages order by message_index"
BY_MACHINE = "a machine wrote it, not its user"


def written(file: Path, content: Any) -> Path:
    """A file with this JSON."""
    file.write_text(json.dumps(content), encoding="utf-8")
    return file


def claude(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A conversation of a Claude export."""
    turns = [{"uuid": f"m{n}", "sender": "human"} | message for n, message in enumerate(messages)]
    return {"uuid": "c", "name": "Lake", "chat_messages": turns} | fields


async def test_what_machines_write_as_user_is_left_out_and_counted(
    memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    turns = claude(
        {"text": "<system-reminder>Be brief.</system-reminder>"},
        {
            "text": "Count the herons.\n<system-reminder>\n<b>x</b></system-reminder>\n<command-name>/clear</command-name>"
        },
        {"text": "[Request interrupted by user]"},
        {"text": "<system-reminder>is sent to the model</system-reminder>", "sender": "assistant"},
        {"text": "What does <system-reminder> do?"},
    )
    report = await run(memoryd, "claude", written(tmp_path / "c.json", [turns]), "--user", "mia")
    assert [r["content"] for r in await connection.fetch(SAID)] == [
        "Count the herons.",
        "<system-reminder>is sent to the model</system-reminder>",
        "What does <system-reminder> do?",
    ]
    assert [(e["what"], e["count"]) for e in report["left_out"] if e["reason"] == BY_MACHINE] == [
        ("message", 2), ("part of a message", 2)
    ]  # fmt: skip


def test_a_flood_of_marks_is_gone_through_once() -> None:
    """Read again for each of them, it would take hours."""
    flood = (
        "</system-reminder>" + "<system-reminder>" * 200_000 + "--- CONTEXT 0123456789ab x ---\n" * 100_000
    )
    assert without_machines(flood) == (flood, 0)
    pairs = "<ide_selection>" * 100_000 + "</ide_selection>" * 100_000
    assert without_machines(pairs)[1] == 1


async def test_letta_names_its_agents_and_tells_the_persona_from_the_human(
    memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    human = "- Likes herons.\n\n* Lives in Porto\nLikes herons."
    sam = {
        "agents": [{"id": "agent-0", "name": "Sam", "block_ids": ["block-0", "block-1"], "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hello"}], "created_at": "2025-03-01"}]}],
        "blocks": [
            {"id": "block-0", "label": "human", "value": human},
            {"id": "block-1", "label": "persona", "value": "I am Sam.\nI count birds."},
            {"id": "block-2", "label": "persona", "value": "Whose am I?"},
            {"id": "block-3", "label": "lake", "value": "frozen"}],
    }  # fmt: skip
    file = written(tmp_path / "sam.af", sam)
    report = await run(memoryd, "letta", file)
    assert left_out(report) == {
        "it is the agent's own: give --agent": 1,
        "it names neither user nor agent: give --user or --agent": 1,
    }
    assert await connection.fetchval("select agent_id from conversation_messages") == "Sam"
    report = await run(memoryd, "letta", file, "--user", "mia")
    found = await connection.fetch(MEMORIES)
    mia = id_of("mia")
    assert [(r["content"], r["user_id"], r["agent_id"], r["kind"]) for r in found if r["user_id"] == mia] == [
        ("Likes herons.", mia, "Sam", "fact"),
        ("Lives in Porto", mia, "Sam", "fact"),
        ("lake: frozen", mia, await connection.fetchval("select memoryd.app_agent_id()"), "note"),
    ]
    assert [r["agent_id"] for r in found if r["content"].startswith("persona")] == ["Sam"]
    assert rows(await run(memoryd, "letta", file, "--user", "mia", "--agent", "Sam"))["memories"] == (1, 4)


async def test_an_agent_file_of_an_older_letta_is_read(
    memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    said = [
        {"role": "user", "content": text, "created_at": "2025-03-01T10:00:00Z"} for text in ("Hello", "Bye")
    ]
    old = {
        "name": "Sam", "agent_type": "memgpt_agent", "messages": said,
        "core_memory": [
            {"label": "human", "value": "Likes herons."}, {"label": "persona", "value": "I am Sam."}
        ],
    }  # fmt: skip
    file = written(tmp_path / "sam.af", old)
    await run(memoryd, "letta", file, "--user", "mia", "--agent", "Sam")
    found = await connection.fetch(MEMORIES)
    assert {r["content"]: r["user_id"] for r in found} == {
        "Likes herons.": id_of("mia"),
        "persona: I am Sam.": None,
    }
    assert {r["content"] for r in await connection.fetch(SAID)} == {"Hello", "Bye"}


def chatgpt(*nodes: tuple[str, str | None, float | None, str], **fields: Any) -> dict[str, Any]:
    """A conversation of ChatGPT: of each message its id, the one before, its time, its text."""
    return {"conversation_id": "c", "create_time": 1.7e9, "mapping": {
        key: {"id": key, "parent": parent, "message": {
            "id": key, "author": {"role": "assistant"}, "create_time": at,
            "content": {"content_type": "text", "parts": [text]}, "metadata": {}}}
        for key, parent, at, text in nodes}} | fields  # fmt: skip


@pytest.mark.parametrize("current", [{}, {"current_node": None}, {"current_node": "gone"}])
async def test_chatgpt_without_a_current_node_goes_on_to_the_latest_leaf(
    current: dict[str, Any], memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    tree = chatgpt(
        ("b", "a", 1.7e9 + 50, "new"), ("a", None, 1.7e9 + 90, "root"), ("d", "a", None, "lost"),
        ("c", "a", 1.7e9 + 9, "old"), ("e", "b", None, "end"), **current,
    )  # fmt: skip
    await run(memoryd, "chatgpt", written(tmp_path / "conversations.json", [tree]), "--user", "mia")
    assert [r["content"] for r in await connection.fetch(SAID)] == ["root", "new", "end"]


async def test_marks_of_citations_go(
    memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    said = (
        "Herons nest in \ue200entity\ue202[\"city\",\"Porto\",\"in Portugal\"]\ue201. \ue200cite\ue202turn0search1\ue201"
        "They eat fish 【12†source】【4:1†report.pdf】, as citeturn0search3 says. 【sic】 \ue200left\ue202open"
    )  # fmt: skip
    tree = chatgpt(
        ("a", None, 1.7e9, said), ("b", "a", 1.7e9, "\ue200cite\ue202turn1\ue201"), current_node="b"
    )
    report = await run(memoryd, "chatgpt", written(tmp_path / "conversations.json", [tree]), "--user", "mia")
    assert [r["content"] for r in await connection.fetch(SAID)] == [
        "Herons nest in Porto. They eat fish, as  says. 【sic】 leftopen"
    ]
    assert left_out(report) == {"it has no text": 1}


async def test_tasks_that_are_open_and_done_are_told_apart(
    memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    file = tmp_path / "todo.md"
    file.write_text(
        "# Todo\n- [ ] buy seeds\n  at the market\n- [x] dig\n- [X] water\n- weed\n\nA [ ] box.\n"
    )
    await run(memoryd, "markdown", file, "--agent", "guide")
    kinds = {r["content"]: r["kind"] for r in await connection.fetch(MEMORIES)}
    assert kinds == {
        "Todo: buy seeds\n  at the market": "goal", "Todo: dig": "outcome", "Todo: water": "outcome",
        "Todo: weed": "note", "Todo: A [ ] box.": "note",
    }  # fmt: skip
    file.write_text("# Todo\n- [x] buy seeds\n  at the market\n")
    assert rows(await run(memoryd, "markdown", file, "--agent", "guide")) == {"memories": (1, 0)}


async def test_each_nested_task_is_a_memory_of_its_own(
    memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    file = tmp_path / "todo.md"
    file.write_text(
        "# Todo\n- [ ] Garden\n  by May\n  - [x] dig\n    deep\n\n    - [ ] roots\n  - [ ] water\n  - gloves\n\n"
        "  The soil is heavy.\n- House\n\t1. [X] paint\n\t\t- blue\n\t```\n\t- [ ] no task\n\t```\n- weed\n  - often\n\n"
        "    - [ ] soon\n\nProse.\n\n    - [ ] no task\n"
    )
    await run(memoryd, "markdown", file, "--agent", "guide")
    kinds = {r["content"]: r["kind"] for r in await connection.fetch(MEMORIES)}
    assert kinds == {
        "Todo: Garden\n  by May\n  - gloves\n\n  The soil is heavy.": "goal",
        "Todo > Garden: dig\n    deep": "outcome", "Todo > Garden > dig: roots": "goal", "Todo > Garden: water": "goal",
        "Todo: House\n\t```\n\t- [ ] no task\n\t```": "note", "Todo > House: paint\n\t\t- blue": "outcome",
        "Todo: weed\n  - often": "note", "Todo > weed: soon": "goal", "Todo: Prose.\n\n    - [ ] no task": "note",
    }  # fmt: skip
    file.write_text("# Todo\n- [ ] Garden\n  - [x] water\n")
    again = await run(memoryd, "markdown", file, "--agent", "guide")
    assert rows(again) == {"memories": (2, 0)}  # Garden has another text, and watering is done


@pytest.mark.parametrize("form", ["[{0}, {1}]", "{0}\n{1}\n", '{{"results": [{0}, {1}]}}', "{0}"])
async def test_json_within_a_string_of_json_is_read(
    form: str, memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    one, two = (
        json.dumps(json.dumps({"id": f"{n}", "memory": f"heron {n}", "user_id": "mia"})) for n in range(2)
    )
    (tmp_path / "m.json").write_text(form.format(one, two))
    await run(memoryd, "mem0", tmp_path / "m.json")
    assert [r["content"] for r in await connection.fetch(MEMORIES)] == ["heron 0", "heron 1"][
        : form.count("{1}") + 1
    ]
    item = {"namespace": ["m", "mia"], "key": "k", "value": json.dumps({"content": "Mia rows"})}
    await run(memoryd, "langmem", written(tmp_path / "l.json", [item]))
    assert "Mia rows" in [r["content"] for r in await connection.fetch(MEMORIES)]


@pytest.mark.parametrize(
    "form", ["[{0}, {1}]", '{{"points": [{0}, {1}]}}', '{{"result": {{"points": [{0}, 5, {1}]}}, "status": "ok"}}',
             '{{"result": {{"points": [{0}]}}}}\n{{"result": {{"points": [{1}], "next_page_offset": null}}}}'],
)  # fmt: skip
async def test_points_of_qdrant_are_the_memories_of_mem0(
    form: str, memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    one, two = (
        json.dumps({"id": n, "payload": {"data": f"heron {n}", "user_id": "mia"}, "vector": {"": [0.5]}})
        for n in range(2)
    )
    (tmp_path / "q.json").write_text(form.format(one, two))
    report = await run(memoryd, "mem0", tmp_path / "q.json")
    assert rows(report) == {"memories": (2, 0)}
    assert [e["reason"] for e in report["left_out"]] == ["it has a form that memoryd does not know"] * (
        ", 5," in form
    )
    assert [r["content"] for r in await connection.fetch(MEMORIES)] == ["heron 0", "heron 1"]
    assert rows(await run(memoryd, "mem0", tmp_path / "q.json")) == {"memories": (0, 2)}


MIA = {"data": 'Mia said "row"', "user_id": "eve"}


def in_json(value: Any, depth: int) -> Any:
    """A value as JSON, and that as a string of JSON, and so on."""
    return value if depth == 0 else json.dumps(in_json(value, depth - 1))


@pytest.mark.parametrize("depth", [0, 1, 2, 7])
async def test_a_text_that_is_json_within_json_is_read_as_the_text(
    depth: int, memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    told = {
        "nested": {"memory": MIA}, "plain": 'Mia said "row"', "list": [{"text": "Mia said"}, '"row"'],
        "named": {"name": "Mia", "boat": {"oars": 2, "is_red": True, "sails": None},
                  "crew": {"of": {}, "list": [[], {"a": None}]}, "tags": ["a", "b"]},
    }  # fmt: skip
    says = [
        'Mia said "row"', 'Mia said "row"', "Mia said\nrow", "name: Mia\nboat: oars: 2, is_red: true\ntags: a, b"
    ]  # fmt: skip
    given = [{"id": name, "user_id": "mia", "memory": in_json(value, depth)} for name, value in told.items()]
    report = await run(memoryd, "mem0", written(tmp_path / "m.json", in_json(given, depth)))
    assert rows(report) == {"memories": (4, 0)}
    whose = "select user_id, content from agent_memory order by metadata ->> 'original_id'"
    assert [(r["user_id"], r["content"]) for r in await connection.fetch(whose)] == [
        (id_of("mia"), said) for said in (says[2], says[3], says[0], says[1])
    ]
    await connection.execute("delete from agent_memory")
    items = [
        {"namespace": ["m", "mia"], "key": name, "value": in_json({"content": in_json(value, depth)}, depth)}
        for name, value in told.items()
    ]
    await run(memoryd, "langmem", written(tmp_path / "l.json", items))
    assert {r["content"] for r in await connection.fetch(MEMORIES)} == set(says)
    await connection.execute("delete from agent_memory")
    table = (
        "create table history (memory_id text, new_memory text, event text, created_at text, updated_at text, "
        "is_deleted integer, actor_id text, role text);"
    )
    with closing(sqlite3.connect(sqlite_file(tmp_path / "h.db", table))) as made, made:
        insert = "insert into history (memory_id, new_memory, event) values ('a', ?, 'ADD')"
        made.execute(insert, (in_json(told["nested"], depth + 1),))
    await run(memoryd, "mem0", tmp_path / "h.db", "--user", "mia")
    assert [r["content"] for r in await connection.fetch(MEMORIES)] == ['Mia said "row"']


def noted(name: str) -> str:
    """A memory of mem0."""
    return json.dumps({"id": name, "user_id": "mia", "memory": f"Mia said {name}"})


@pytest.mark.parametrize(
    ("lines", "taken", "bad"),
    [
        ([noted("a"), noted("b")[:20], "", noted("c"), '{"id": "d", "memory": "x"y"}', noted("e")[:-1]], "ac", "2, 5, 6"),
        (["Loading ...", "[INFO] ok", noted("a"), noted("b"), noted("c")], "abc", "1, 2"),
        ([json.dumps(noted("a")), json.dumps(noted("b"))[:9], json.dumps(noted("c"))], "ac", "2"),
        ([json.dumps({"results": [json.loads(noted("a"))]}), "Done.", f'{{"results": [{noted("b")}, {{]}}'], "a", "2, 3"),
        ([noted("a"), "[" * 100_000, '{"a": ' * 100_000, noted("b")], "ab", "2, 3"),
        ([noted("a"), *("{" for _ in range(30))], "a", ", ".join(map(str, range(2, 22))) + ", ..."),
    ],
)  # fmt: skip
async def test_lines_that_cannot_be_read_are_named_and_the_others_taken(
    memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path, lines: list[str], taken: str, bad: str
) -> None:
    (tmp_path / "m.jsonl").write_text("\ufeff" + "\r\n".join(lines), encoding="utf-8", newline="")
    report = await run(memoryd, "mem0", tmp_path / "m.jsonl")
    assert [r["content"] for r in await connection.fetch(MEMORIES)] == [f"Mia said {name}" for name in taken]
    assert [e["reason"] for e in report["left_out"]] == [f"it is not JSON: {bad}"]


async def test_sessions_of_zep_keep_their_messages_a_line_each_alone_or_within_an_answer(
    memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    said = [{"role": "user", "content": text} for text in ("Bye", "Bye now")]
    threads = [{"thread_id": name, "user_id": "mia", "messages": said} for name in ("a", "b")]
    (tmp_path / "z.jsonl").write_text("\n".join(map(json.dumps, threads)), encoding="utf-8")
    assert rows(await run(memoryd, "zep", tmp_path / "z.jsonl"))["messages"] == (4, 0)
    assert rows(await run(memoryd, "zep", written(tmp_path / "z.json", threads[0])))["messages"] == (0, 2)
    answered = {"threads": [threads[1] | {"messages": {"messages": said, "row_count": 2}}]}
    assert rows(await run(memoryd, "zep", written(tmp_path / "z.json", answered)))["messages"] == (0, 2)


async def test_an_episode_that_python_wrote_as_text_is_a_message(
    memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    """As json.dumps(default=str) writes it."""
    episode = {
        "uuid": "e", "group_id": "mia", "source": "EpisodeType.message", "source_description": "chat",
        "content": "Mia (user): Hello", "valid_at": "2025-03-01 10:00:00+00:00",
    }  # fmt: skip
    assert rows(await run(memoryd, "graphiti", written(tmp_path / "g.json", [episode]))) == {
        "messages": (1, 0)
    }


async def test_a_namespace_with_a_hole_names_nobody(
    memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    items = [
        {"namespace": parts, "key": f"{n}", "value": {"content": "Likes herons."}}
        for n, parts in enumerate((["memories", None], [None, "mia"]))
    ]
    report = await run(memoryd, "langmem", written(tmp_path / "l.json", items))
    assert list(report["users"]) == ["mia"]
    assert left_out(report) == {"it names neither user nor agent: give --user or --agent": 1}


# As export_palace() of mempalace 3.11.0 writes it.
ROOM = """# family / music/brass

## drawer_a1

> My sister Dora
> plays the tuba
>\x20
> ## not a heading
> | Field | Value |
> ---

| Field | Value |
|-------|-------|
| Source | chat.md |
| Filed | 2026-03-01T10:00:00 |
| Added by | claude |

---

## drawer_b2

> > quoted\vtwice

| Field | Value |
|-------|-------|
| Source | unknown |
| Filed | unknown |
| Added by | unknown |

---

"""


async def test_the_drawers_of_mempalace(
    memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    palace = tmp_path / "palace"
    (palace / "family").mkdir(parents=True)
    (palace / "family/music_brass.md").write_text(ROOM)
    (palace / "index.md").write_text("# Palace Export — 2026-11-29\n\n\n| Wing | Rooms | Drawers |\n")
    (palace / "notes.md").write_text("Something else")
    taken = await run(memoryd, "mempalace", palace, "--user", "mia")
    assert left_out(taken) == {"it has a form that memoryd does not know": 1}
    quoted, dora = await connection.fetch(MEMORIES)
    assert dora["content"] == "My sister Dora\nplays the tuba\n\n## not a heading\n| Field | Value |\n---"
    assert (dora["created_at"].isoformat(), quoted["content"]) == (
        "2026-03-01T10:00:00+00:00",
        "> quoted\vtwice",
    )
    stored = await connection.fetchval(
        "select metadata -> 'original' from agent_memory where content ~ 'Dora'"
    )
    assert json.loads(stored) == {
        "wing": "family", "room": "music/brass", "source": "chat.md", "added_by": "claude"
    }  # fmt: skip
    assert rows(await run(memoryd, "mempalace", palace, "--user", "mia")) == {"memories": (0, 2)}


async def test_a_bank_of_hindsight(memoryd: Commands, connection: asyncpg.Connection) -> None:
    taken = await run(memoryd, "hindsight", DATA / "hindsight.json", "--user", "mia", "--agent", "guide")
    assert (rows(taken), left_out(taken)) == ({"memories": (4, 0)}, {"it has no text": 1})
    booked, cares, lived, plays = await connection.fetch(MEMORIES)
    # Nobody else is told what the agent did for a user.
    assert {(m["user_id"], m["agent_id"]) for m in (booked, cares, lived, plays)} == {(id_of("mia"), "guide")}
    assert [m["kind"] for m in (booked, cares, plays)] == ["observation", "observation", "fact"]
    assert (lived["valid_to"].isoformat(), plays["valid_to"]) == ("2026-04-01T10:00:00+00:00", None)
    assert plays["created_at"].isoformat() == "2026-03-01T10:00:00+00:00"


async def test_a_workspace_of_honcho(
    memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    taken = await run(memoryd, "honcho", DATA / "honcho.json")
    assert (rows(taken), left_out(taken)) == (
        {"memories": (3, 0), "messages": (3, 0)},
        {},
    )
    said = await connection.fetch(MESSAGES)
    assert [(m["role"], m["speaker"], m["user_id"]) for m in said] == [
        ("user", "mia", id_of("mia")), ("assistant", "guide", id_of("mia")), ("user", "bo", id_of("mia"))
    ]  # fmt: skip
    asks, guessed, watches = await connection.fetch(MEMORIES)
    assert (watches["kind"], guessed["kind"], watches["user_id"]) == ("fact", "observation", id_of("mia"))
    assert (asks["user_id"], asks["agent_id"]) == (None, "guide")
    assert rows(await run(memoryd, "honcho", DATA / "honcho.json"))["memories"] == (0, 3)

    whole = json.loads((DATA / "honcho.json").read_text())
    concluded = whole["conclusions"][0]
    about = [
        {
            **concluded,
            "id": "c4",
            "observer_id": "bo",
            "observed_id": "guide",
            "content": "guide keeps secrets",
        },
        {**concluded, "id": "c5", "observer_id": "bo", "observed_id": "bo", "content": "bo has four eggs"},
    ]
    first = {**whole["messages"][1], "id": "m0", "session_id": "friday", "content": "Good news, Bo"}
    peers = [*whole["peers"], {**whole["peers"][0], "id": "bo"}]
    (tmp_path / "more.json").write_text(
        json.dumps({"peers": peers, "messages": [first], "conclusions": about})
    )
    more = await run(memoryd, "honcho", tmp_path / "more.json")
    # Whose it is nobody knows, and another person's it must not be.
    assert left_out(more) == {"only agents had spoken in its session, and the file has several persons": 1}
    secrets = await connection.fetch(
        "select content, user_id, agent_id from agent_memory where content ~ '^(guide keeps|bo has)' order by content"
    )
    assert [tuple(row) for row in secrets] == [
        ("bo has four eggs", id_of("bo"), "app"),
        ("guide keeps secrets", id_of("bo"), "guide"),
    ]
    # In another order an agent would be taken for a person.
    (tmp_path / "sorted.json").write_text(json.dumps(whole, sort_keys=True))
    odd = await run(memoryd, "honcho", tmp_path / "sorted.json", "--user", "eve")
    assert (rows(odd), sum(each["count"] for each in odd["left_out"])) == ({}, 6)
