"""`memoryd import --from claude-code|codex`: what coding agents did before memoryd was installed."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from benchmarks.harness import megabytes
from tests.support.processes.coding_agent import CONCLUDED, CodingAgent
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

OF = """
select kind, content, source, created_at, metadata ->> 'project' as project, metadata ->> 'session' as session
from agent_memory where agent_id = $1 and superseded_by is null order by created_at, kind, content
"""
BEGAN = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Transcript:
    """A session as Claude Code keeps it: lines of JSON, a second after each other."""

    def __init__(self, claude: CodingAgent, session: str, *, began: datetime = BEGAN) -> None:
        self._head = {"sessionId": session, "cwd": str(claude.project), "version": "2.0.1"}
        self.path = claude.home / ".claude/projects/-project" / f"{session}.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._at = began
        self.lines: list[bytes] = []

    def add(self, **record: Any) -> None:
        """A line; the file has it at once."""
        self._at += timedelta(seconds=1)
        given = self._head | {"timestamp": self._at.strftime("%Y-%m-%dT%H:%M:%S.000Z")} | record
        self.raw(json.dumps(given).encode() + b"\n")

    def raw(self, line: bytes) -> None:
        """These bytes."""
        with self.path.open("ab") as file:
            file.write(line)

    def ask(self, prompt: object) -> None:
        """A prompt."""
        self.add(type="user", message={"role": "user", "content": prompt})

    def say(self, text: str) -> None:
        """What the agent says."""
        self.add(type="assistant", message={"role": "assistant", "content": [{"type": "text", "text": text}]})

    def use(self, name: str, given: dict[str, Any], result: str = "ok", *, failed: bool = False) -> None:
        """A tool and its result."""
        call = {"type": "tool_use", "id": f"t{self._at.timestamp()}", "name": name, "input": given}
        self.add(type="assistant", message={"role": "assistant", "content": [call]})
        answer = {"type": "tool_result", "tool_use_id": call["id"], "content": result, "is_error": failed}
        self.add(type="user", message={"role": "user", "content": [answer]})

    def turn(self, prompt: str) -> None:
        """A whole turn."""
        self.ask(prompt)
        self.say(CONCLUDED)


async def run(
    claude: CodingAgent, url: str, *arguments: str, source: str = "claude-code"
) -> tuple[int, str, str]:
    """How the import ends, and what it says."""
    process = await claude.command("import", "--from", source, *arguments, DATABASE_URL=url)
    out, err = await process.communicate()
    assert b"Traceback" not in err, err
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def taken(claude: CodingAgent, url: str, *arguments: str, source: str = "claude-code") -> Any:
    """The report of an import that ends well."""
    code, out, err = await run(claude, url, *arguments, "--json", source=source)
    assert code == 0, err
    return json.loads(out)


def counts(report: Any) -> dict[str, tuple[int, int]]:
    """Of each kind what was taken, and what was there."""
    return {name: (c["taken"], c["there"]) for name, c in report["rows"].items() if any(c.values())}


def reasons(report: Any) -> dict[str, int]:
    """How many were left out, by reason."""
    return {each["reason"]: each["count"] for each in report["left_out"]}


async def test_a_past_session_becomes_what_hooks_would_have_kept(
    claude: CodingAgent, db: asyncpg.Connection, url: str, agent: str
) -> None:
    past = Transcript(claude, "p1")
    past.add(type="summary", summary="a title")
    past.ask("<command-name>/clear</command-name>")
    past.add(type="user", isMeta=True, message={"role": "user", "content": "Caveat: by the host"})
    past.ask(
        [
            {"type": "text", "text": "<system-reminder>always be nice</system-reminder>"},
            {"type": "text", "text": "Let the webhook sender wait longer between tries"},
        ]
    )
    past.say("I look.")
    past.use("Edit", {"file_path": str(claude.project / "src/webhooks.py")})
    why = "Exit code 1\nE   ModuleNotFoundError: No module named 'tenacity'"
    past.use("Bash", {"command": "pytest tests/test_webhooks.py -x"}, why, failed=True)
    past.use("Bash", {"command": "pip install tenacity"})
    past.use("Bash", {"command": "pytest tests/test_webhooks.py -x"}, "3 passed")
    past.add(
        type="assistant",
        isSidechain=True,
        message={"role": "assistant", "content": "of an agent of the agent"},
    )
    past.say(CONCLUDED)
    past.ask("always run tests with uv run pytest, never bare pytest")
    past.say("Fine.")

    report = await taken(claude, url, "--dry-run")
    assert counts(report) == {"turns": (1, 0), "repairs": (1, 0), "rules": (1, 0)}
    assert not await db.fetch(OF, agent)
    assert counts(await taken(claude, url)) == {"turns": (1, 0), "repairs": (1, 0), "rules": (1, 0)}
    repaired, turn, rule = await db.fetch(OF, agent)
    assert turn["content"] == (
        "Asked: Let the webhook sender wait longer between tries\n"
        f"Concluded: {CONCLUDED}\n"
        "Done: changed src/webhooks.py; ran pytest tests/test_webhooks.py -x; ran pip install tenacity"
    )
    assert "It went through after running pip install tenacity." in repaired["content"]
    assert rule["content"] == "always run tests with uv run pytest, never bare pytest"
    assert {(r["source"], r["project"], r["session"]) for r in (repaired, turn, rule)} == {
        ("claude-code", str(claude.project), "p1")
    }
    assert all(BEGAN < row["created_at"] < BEGAN + timedelta(minutes=1) for row in (repaired, turn, rule))
    # A second run adds nothing, also two at once.
    for again in await asyncio.gather(taken(claude, url), taken(claude, url)):
        assert counts(again) == {"turns": (0, 1), "repairs": (0, 1), "rules": (0, 1)}
    assert len(await db.fetch(OF, agent)) == 3
    # It is given to the next session.
    begun = await claude.tell("SessionStart", session_id="s9", source="startup")
    assert "uv run pytest" in begun["hookSpecificOutput"]["additionalContext"]


async def test_sessions_of_codex_are_read_in_both_of_its_forms(
    claude: CodingAgent, db: asyncpg.Connection, url: str, agent: str
) -> None:
    folder = claude.home / ".codex/sessions/2026/03/01"
    folder.mkdir(parents=True)

    def item(second: int, kind: str, **payload: Any) -> str:
        at = f"2026-03-01T12:00:{second:02}.000Z"
        return json.dumps({"timestamp": at, "type": "response_item", "payload": {"type": kind} | payload})

    def said(role: str, text: str) -> dict[str, Any]:
        kind = "output_text" if role == "assistant" else "input_text"
        return {"role": role, "content": [{"type": kind, "text": text}]}

    head = {"id": "c1", "cwd": "/gone/api", "git": {"repository_url": "git@host.example:team/api.git"}}
    patch = "*** Begin Patch\n*** Update File: src/settings.py\n@@\n-a\n+b\n*** End Patch"
    lines = [
        json.dumps({"timestamp": "2026-03-01T12:00:00.000Z", "type": "session_meta", "payload": head}),
        item(1, "message", **said("user", "# AGENTS.md instructions for /gone/api\nalways be nice")),
        item(2, "message", **said("user", "<environment_context>\n<cwd>/gone/api</cwd>\n</environment_context>")),
        item(3, "message", **said("user", "Rename the setting")),
        json.dumps({"type": "event_msg", "payload": {"type": "user_message", "message": "Rename the setting"}}),
        item(4, "custom_tool_call", name="apply_patch", input=patch, call_id="a"),
        item(5, "custom_tool_call_output", call_id="a", output='{"output": "Done", "metadata": {"exit_code": 0}}'),
        item(6, "function_call", name="exec_command", arguments='{"cmd": "make test"}', call_id="b"),
        item(
            7, "function_call_output", call_id="b",
            output="Chunk ID: 1f\nWall time: 0.2 seconds\nProcess exited with code 2\nOutput:\nmake: *** [test] Error 2",
        ),
        item(8, "message", **said("assistant", CONCLUDED)),
    ]  # fmt: skip
    (folder / "rollout-2026-03-01T12-00-00-c1.jsonl").write_text("\n".join(lines) + "\n")
    older = [
        {"id": "c0", "timestamp": "2025-06-01T10:00:00.000Z", "instructions": None},
        {
            "type": "message",
            **said("user", "<environment_context>\n<cwd>/gone/old</cwd>\n</environment_context>"),
        },
        {"type": "message", **said("user", "Which broker do we use?")},
        {"type": "message", **said("assistant", CONCLUDED)},
        {"type": "message", **said("user", "And the port of it?")},
        {"type": "message", **said("assistant", CONCLUDED)},
    ]
    (folder / "rollout-2025-06-01T10-00-00-c0.jsonl").write_text("\n".join(map(json.dumps, older)))
    assert counts(await taken(claude, url, source="codex")) == {"turns": (3, 0), "failures": (1, 0)}
    first, second, turn = [r for r in await db.fetch(OF, agent) if r["kind"] == "outcome"]
    assert (first["project"], second["content"].splitlines()[0]) == (
        "/gone/old",
        "Asked: And the port of it?",
    )
    assert (turn["source"], turn["project"]) == ("codex", "host.example/team/api")
    assert turn["content"] == (
        f"Asked: Rename the setting\nConcluded: {CONCLUDED}\nDone: changed src/settings.py; ran make test (failed)"
    )
    assert counts(await taken(claude, url, source="codex")) == {"turns": (0, 3), "failures": (0, 1)}


async def test_what_the_hooks_kept_of_a_session_is_not_taken_again(
    claude: CodingAgent, db: asyncpg.Connection, url: str, agent: str
) -> None:
    past = Transcript(claude, "s1", began=datetime.now(UTC) - timedelta(hours=1))
    past.turn("Before the hooks were installed")
    # The hooks are told of what comes then: one turn is stored, and another one still goes on.
    await claude.tell("UserPromptSubmit", prompt="limit the rate")
    live = Transcript(claude, "s1", began=datetime.now(UTC) - timedelta(seconds=2))
    live.turn("limit the rate")
    await claude.tell("Stop", last_assistant_message=CONCLUDED)
    await claude.tell("UserPromptSubmit", session_id="s2", prompt="write the changelog")
    Transcript(claude, "s2", began=datetime.now(UTC) - timedelta(seconds=2)).turn("write the changelog")
    assert counts(await taken(claude, url))["turns"] == (1, 0)
    await claude.tell("Stop", session_id="s2", last_assistant_message=CONCLUDED)
    assert [r["content"].splitlines()[0] for r in await db.fetch(OF, agent)] == [
        "Asked: Before the hooks were installed", "Asked: limit the rate", "Asked: write the changelog",
    ]  # fmt: skip


async def test_a_later_rule_replaces_an_earlier_one_whatever_the_order_of_the_files(
    claude: CodingAgent, db: asyncpg.Connection, url: str, agent: str
) -> None:
    Transcript(claude, "a", began=BEGAN + timedelta(days=1)).ask(
        "from now on write commit messages in english"
    )
    Transcript(claude, "b", began=BEGAN).ask("from now on write commit messages in german")
    Transcript(claude, "c", began=BEGAN).ask("remember: the password is hunter2-zebra-9, use it always")
    report = await taken(claude, url)
    assert reasons(report)["it contains a secret"] == 1
    assert [r["content"] for r in await db.fetch(OF, agent)] == ["write commit messages in english"]
    await taken(claude, url)
    assert [r["content"] for r in await db.fetch(OF, agent)] == ["write commit messages in english"]


async def test_a_failure_that_a_later_session_repaired_is_over_whatever_the_order_of_the_files(
    claude: CodingAgent, db: asyncpg.Connection, url: str, agent: str
) -> None:
    later, earlier = Transcript(claude, "a", began=BEGAN + timedelta(days=1)), Transcript(claude, "b")
    for past, command, failed in ((earlier, "pytest tests", True), (later, "uv run pytest tests", False)):
        past.ask("run the tests")
        past.use(
            "Bash", {"command": command}, "Exit code 1\nerror: 1" if failed else "3 passed", failed=failed
        )
        past.say(CONCLUDED)
    for _ in range(2):
        await taken(claude, url)
        held = [r["content"] for r in await db.fetch(OF, agent) if r["kind"] != "outcome"]
        assert held == ["`pytest tests` failed: error: 1\nIt went through after running uv run pytest tests."]


async def test_damaged_files_are_read_as_far_as_they_can_be(
    claude: CodingAgent, db: asyncpg.Connection, url: str, agent: str
) -> None:
    past = Transcript(claude, "d1")
    past.raw(
        b"\x00\xff\xfe\x89PNG\r\n\x1a\n\n" + b"[" * 100_000 + b"\n\n" + b'{"a": ' + b"9" * 10_000 + b"}\n"
    )
    past.turn("deploy \0 \ud800 " + "x" * 5_000_000)
    past.use("Bash", {"command": "make\0 " + "y" * 5_000_000}, "z" * 5_000_000)
    past.add(type="user", message=7)
    past.add(type=None, message={"role": "user", "content": [None, 7, {"type": "text"}]}, timestamp="never")
    past.raw(json.dumps({"type": "user", "sessionId": {"a": 1}, "cwd": 7, "message": []}).encode() + b"\n")
    past.raw(b'{"type": "user", "message": {"role": "user", "content": "half a li')
    (past.path.parent / "junk.jsonl").write_bytes(bytes(range(256)) * 4000)
    (past.path.parent / "empty.jsonl").touch()
    report = await taken(claude, url)
    assert counts(report)["turns"] == (1, 0)
    assert reasons(report)["it is not a line of JSON"] >= 4
    [turn] = await db.fetch(OF, agent)
    assert turn["content"].startswith("Asked: deploy \ufffd \ufffd")
    assert len(turn["content"]) < 5000


async def peak_of(claude: CodingAgent, url: str, *arguments: str) -> tuple[Any, float]:
    """The report of an import, and the most memory that it had, in MB, as often as we look."""
    process = await claude.command("import", "--from", "claude-code", "--json", *arguments, DATABASE_URL=url)
    peak, ending = 0.0, asyncio.create_task(process.communicate())
    while not ending.done():
        peak = megabytes(process.pid) or peak
        await asyncio.wait([ending], timeout=0.01)
    return json.loads(ending.result()[0]), peak


async def test_a_line_that_is_too_long_is_left_out_and_never_in_memory_whole(
    claude: CodingAgent, db: asyncpg.Connection, url: str, agent: str
) -> None:
    past = Transcript(claude, "l1")
    past.turn("limit the rate")
    report, before = await peak_of(claude, url)
    assert counts(report)["turns"] == (1, 0)
    for size in (16_000_001, 62_000_000, 80_000_000):
        past.use("Bash", {"command": "cat log"}, "x" * size)
    past.turn("wait longer")
    past.raw(b'{"type": "user", "half": "' + b"y" * 20_000_000)
    report, peak = await peak_of(claude, url)
    assert counts(report)["turns"] == (1, 1)
    assert reasons(report) == {"it has more than 16 MB": 4}
    assert peak - before < 50, (before, peak)


@pytest.mark.parametrize("many", [b"{},", b'"ab",', b"[[[]]],", b'{"a":0},', b"1000,", b'"\\\\","\\"",'])
async def test_a_line_of_millions_of_values_is_never_in_memory_as_such(
    claude: CodingAgent, db: asyncpg.Connection, url: str, agent: str, many: bytes
) -> None:
    past = Transcript(claude, "v1")
    past.turn("limit the rate")
    past.use("Bash", {"command": "cat log"}, '{"a": [[], {}]},' * 500_000)
    _, before = await peak_of(claude, url, "--dry-run")
    past.raw(b'{"type": "user", "half": [' + many * (15_900_000 // len(many)) + b"0]}\n")
    past.turn("wait longer")
    report, peak = await peak_of(claude, url)
    assert counts(report)["turns"] == (2, 0)
    assert reasons(report) == {"it holds more than 200,000 values": 1}
    assert peak - before < 50, (before, peak)


@pytest.mark.parametrize("linked", ["file", "folder", "source", "home"])
async def test_a_link_into_another_home_is_not_followed(
    claude: CodingAgent, db: asyncpg.Connection, url: str, agent: str, linked: str, tmp_path: Path
) -> None:
    theirs = Transcript(CodingAgent(tmp_path / "theirs", claude.project), "t1")
    theirs.turn("The salary of Mia")
    mine = claude.home / ".claude/projects"
    arguments: tuple[str, ...] = ()
    if linked == "home":
        (claude.home / ".claude").symlink_to(theirs.path.parents[2])
    elif linked == "source":
        mine.parent.mkdir(parents=True, exist_ok=True)
        mine.symlink_to(theirs.path.parents[1])
    else:
        Transcript(claude, "m1").turn("limit the rate")
        name = "-project/theirs.jsonl" if linked == "file" else "-theirs"
        (mine / name).symlink_to(theirs.path if linked == "file" else theirs.path.parent)
    if linked in ("home", "source"):
        code, _, err = await run(claude, url, *arguments)
        assert code == 1
        assert "is a link" in err.replace("\n", " ")
        assert not await db.fetch(OF, agent)
    else:
        report = await taken(claude, url, *arguments)
        assert reasons(report) == {"links are not followed": 1}
        assert [r["session"] for r in await db.fetch(OF, agent)] == ["m1"]


async def test_since_leaves_out_what_is_older(
    claude: CodingAgent, db: asyncpg.Connection, url: str, agent: str
) -> None:
    past = Transcript(claude, "e1", began=BEGAN)
    past.turn("an old prompt of March")
    Transcript(claude, "e1", began=BEGAN + timedelta(days=40)).turn("a newer prompt of April")
    assert counts(await taken(claude, url, "--since", "2026-04-01"))["turns"] == (1, 0)
    assert [r["content"].splitlines()[0] for r in await db.fetch(OF, agent)] == [
        "Asked: a newer prompt of April"
    ]
    assert counts(await taken(claude, url))["turns"] == (1, 1)
    code, _, err = await run(claude, url, "--since", "yesterday")
    assert code == 2
    assert "--since" in err


async def test_a_copy_of_a_session_in_a_resumed_one_is_taken_once(
    claude: CodingAgent, db: asyncpg.Connection, url: str, agent: str
) -> None:
    past = Transcript(claude, "r1")
    past.add(type="user", uuid="u1", message={"role": "user", "content": "limit the rate"})
    past.say(CONCLUDED)
    copy = Transcript(claude, "r2")
    copy.add(type="user", uuid="u1", message={"role": "user", "content": "limit the rate"})
    copy.say(CONCLUDED)
    copy.add(type="user", uuid="u2", message={"role": "user", "content": "write the changelog"})
    copy.say(CONCLUDED)
    assert counts(await taken(claude, url))["turns"] == (2, 0)


async def test_a_project_that_wants_no_memory_gets_none(
    claude: CodingAgent, db: asyncpg.Connection, url: str, agent: str
) -> None:
    (claude.project / ".memorydignore").write_text("*\n")
    Transcript(claude, "i1").turn("limit the rate")
    report = await taken(claude, url)
    assert reasons(report) == {"its project's .memorydignore leaves out everything": 1}
    assert not await db.fetch(OF, agent)


async def test_an_import_that_is_killed_goes_on_where_it_was(
    claude: CodingAgent, db: asyncpg.Connection, url: str, agent: str
) -> None:
    for n in range(40):
        past = Transcript(claude, f"k{n}", began=BEGAN + timedelta(hours=n))
        for turn in range(50):
            past.turn(f"prompt {turn} of session {n}")
    process = await claude.command("import", "--from", "claude-code", DATABASE_URL=url)
    stored = "select exists (select from agent_memory where agent_id = $1)"
    await until(db, stored, agent)
    process.kill()
    await process.wait()
    report = await taken(claude, url)
    there, new = counts(report)["turns"][1], counts(report)["turns"][0]
    assert there > 0
    assert there + new == 2000
    assert await db.fetchval("select count(*) from agent_memory where agent_id = $1", agent) == 2000


async def test_a_call_that_cannot_be_right_is_refused(claude: CodingAgent, url: str) -> None:
    code, _, err = await run(claude, url)
    assert code == 1
    assert ".claude/projects does not exist" in err.replace("\n", "")
    for wrong in (("--user", "mia"), ("--agent", " ")):
        assert (await run(claude, url, *wrong))[0] == 2
    assert (await run(claude, url, source="mem0"))[0] == 2
