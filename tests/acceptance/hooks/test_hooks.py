"""`memoryd hook` as coding agents run it: what they say of their events, and what they are given."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.support.database.servers import Server
from tests.support.database.templates import copied
from tests.support.processes.coding_agent import CONCLUDED, OF, CodingAgent

pytestmark = pytest.mark.asyncio(loop_scope="module")


def given(answer: Any) -> str:
    """The context in what Claude Code and Codex are answered."""
    text: str = answer["hookSpecificOutput"]["additionalContext"]
    return text


async def test_what_was_done_in_a_session_is_given_to_the_next(
    claude: CodingAgent, db: asyncpg.Connection, agent: str
) -> None:
    assert await claude.tell("SessionStart", source="startup") is None
    assert (
        await claude.tell("UserPromptSubmit", prompt="Let the webhook sender wait longer between tries")
        is None
    )
    edited = {"file_path": str(claude.project / "src/webhooks.py")}
    await claude.tell("PostToolUse", tool_name="Edit", tool_input=edited, tool_response={"success": True})
    test = {"command": f"cd {claude.project} && pytest tests/test_webhooks.py -x"}
    why = "Exit code 1\nE   ModuleNotFoundError: No module named 'tenacity'\n1 failed in 0.2s"
    await claude.tell("PostToolUseFailure", tool_name="Bash", tool_input=test, error=why)
    await claude.tell("PostToolUse", tool_name="Bash", tool_input={"command": "pip install tenacity"})
    await claude.tell("PostToolUse", tool_name="Bash", tool_input=test, tool_response={"stdout": "3 passed"})
    await claude.tell("PreCompact", trigger="auto")
    await claude.tell("Stop", last_assistant_message=CONCLUDED)
    await claude.tell("SessionEnd", reason="other")

    repaired, turn = await db.fetch(OF, agent)
    assert (repaired["kind"], repaired["ttl_hours"], turn["kind"], turn["ttl_hours"]) == (
        "fact",
        None,
        "outcome",
        2160,
    )
    assert repaired["content"] == (
        "`pytest tests/test_webhooks.py -x` failed: E   ModuleNotFoundError: No module named 'tenacity' / 1 failed in 0.2s\n"
        "It went through after running pip install tenacity."
    )
    assert turn["content"] == (
        "Asked: Let the webhook sender wait longer between tries\n"
        f"Concluded: {CONCLUDED}\n"
        "Done: changed src/webhooks.py; ran pytest tests/test_webhooks.py -x; ran pip install tenacity"
    )
    assert json.loads(turn["metadata"]) == {
        "project": str(claude.project), "session": "s1", "files": ["src/webhooks.py"],
    }  # fmt: skip
    assert not list(claude.state.glob("*.jsonl"))
    assert not claude.spooled

    begun = await claude.tell("SessionStart", session_id="s2", source="startup")
    assert "Let the webhook sender wait longer" in given(begun)
    assert begun["hookSpecificOutput"]["hookEventName"] == "SessionStart"
    assert await claude.tell("SessionStart", session_id="s2", source="resume") is None
    asked = await claude.tell(
        "UserPromptSubmit", session_id="s2", prompt="pytest has no module named tenacity"
    )
    assert "pip install tenacity" in given(asked)

    elsewhere = claude.project.with_name("other")
    elsewhere.mkdir()
    assert await claude.tell("SessionStart", session_id="s3", cwd=str(elsewhere)) is None
    prompt = "pytest has no module named tenacity"
    assert await claude.tell("UserPromptSubmit", session_id="s3", cwd=str(elsewhere), prompt=prompt) is None


async def test_a_question_that_no_daemon_answers_is_answered_without_a_word_beside(
    server: Server, template: str, tmp_path: Path
) -> None:
    """The database tells who searches that it cannot embed the question; a host would show that."""
    async with copied(server, template) as url:
        claude = CodingAgent.at(tmp_path, url)
        assert await claude.tell("UserPromptSubmit", prompt="Which broker do we use?") is None


async def test_codex_has_the_same_form(tmp_path: Path, url: str, db: asyncpg.Connection, agent: str) -> None:
    codex = CodingAgent.at(tmp_path, url, host="codex", agent=agent)
    await codex.tell("UserPromptSubmit", prompt="Rename the setting", turn_id="t1", model="m")
    patch = "*** Begin Patch\n*** Update File: src/settings.py\n@@\n-a\n+b\n*** End Patch"
    await codex.tell(
        "PostToolUse", tool_name="apply_patch", tool_input={"command": patch}, tool_response="Done"
    )
    failed = {"output": "make: *** [test] Error 2", "metadata": {"exit_code": 2}}
    await codex.tell(
        "PostToolUse", tool_name="shell", tool_input={"command": ["make", "test"]}, tool_response=failed
    )
    # As Codex 0.171 tells it: only its record of the session says how the command ended.
    record = tmp_path / "rollout.jsonl"
    ended = {"type": "CommandExecution", "id": "call_7", "status": "failed", "exit_code": 2}
    lines = [
        {"type": "event_msg", "payload": {"type": "item_completed", "item": i}}
        for i in (ended, ended | {"id": "x"})
    ]
    record.write_text("\n".join(map(json.dumps, lines)) + "\n{half call_7")
    told = {"tool_name": "Bash", "tool_response": "make: *** [lint] Error 2", "transcript_path": str(record)}
    await codex.tell("PostToolUse", **told, tool_input={"command": "make lint"}, tool_use_id="call_7")
    await codex.tell("PostToolUse", **told, tool_input={"command": "make docs"}, tool_use_id="call_8")
    silent = told | {"tool_response": ""}
    await codex.tell("PostToolUse", **silent, tool_input={"command": "make same"}, tool_use_id="call_7")
    await codex.tell("Stop", last_assistant_message="", stop_hook_active=False)
    await codex.tell("SessionEnd", reason="exit")
    *failures, turn = await db.fetch(OF, agent)
    assert turn["source"] == "codex"
    assert turn["content"] == (
        "Asked: Rename the setting\nDone: changed src/settings.py; ran make test (failed); "
        "ran make lint (failed); ran make docs; ran make same (failed)"
    )
    assert "`make lint` failed: make: *** [lint] Error 2" in [row["content"] for row in failures]


async def test_cursor_is_told_in_its_own_form(
    tmp_path: Path, url: str, db: asyncpg.Connection, agent: str
) -> None:
    cursor = CodingAgent.at(tmp_path, url, host="cursor", agent=agent)
    common = {
        "session_id": None,
        "cwd": None,
        "conversation_id": "c1",
        "workspace_roots": [str(cursor.project)],
    }
    assert await cursor.tell("beforeSubmitPrompt", **common, prompt="Rename the setting") == {
        "continue": True
    }
    shell = {"tool_name": "Shell", "tool_input": {"command": "make test"}}
    assert (
        await cursor.tell(
            "postToolUse", **common, **shell, tool_output='{"exitCode": 2, "stderr": "error: 1"}'
        )
        is None
    )
    assert await cursor.tell("afterAgentResponse", **common, text=CONCLUDED) is None
    assert await cursor.tell("stop", **common, status="completed") is None
    assert await cursor.tell("sessionEnd", **common, reason="user_close") is None
    failed, turn = await db.fetch(OF, agent)
    assert failed["content"] == "`make test` failed: error: 1"
    assert (
        turn["content"] == f"Asked: Rename the setting\nConcluded: {CONCLUDED}\nDone: ran make test (failed)"
    )
    begun = await cursor.tell("sessionStart", **common)
    assert "Rename the setting" in begun["additional_context"]


@pytest.mark.parametrize(
    "said",
    [
        b"", b"{", b'{"prompt": "half', b"[]", b"null", b"7", b"\xff\xfe", b"{}", b'{"prompt": null, "cwd": 4}',
        b'{"session_id": {"a": 1}, "cwd": "/nowhere/at/all", "prompt": ["x"], "new_in_2027": true}',
        b"[" * 100_000,
    ],
)  # fmt: skip
async def test_a_host_is_never_failed_by_what_it_sends(claude: CodingAgent, said: bytes) -> None:
    assert await claude.tell_raw("UserPromptSubmit", said) == b""
    assert await claude.tell_raw("an unknown event", said) == b""


async def test_what_is_long_or_cannot_be_stored_is_cut(
    claude: CodingAgent, db: asyncpg.Connection, agent: str
) -> None:
    prompt = "deploy \0 \ud800 " + "x" * 5_000_000
    await claude.tell("UserPromptSubmit", prompt=prompt, session_id="../../etc/passwd" * 20)
    await claude.tell(
        "PostToolUse", tool_name="Bash", tool_input={"command": "make\0 " + "y" * 5_000_000}, session_id="s1"
    )
    await claude.tell("Stop", session_id="../../etc/passwd" * 20, last_assistant_message=CONCLUDED)
    [turn] = await db.fetch(OF, agent)
    assert turn["content"].startswith("Asked: deploy \ufffd \ufffd")
    assert len(turn["content"]) < 5000
    assert all(path.parent == claude.state for path in claude.state.glob("**/*.jsonl"))


async def test_what_is_private_is_not_sent(claude: CodingAgent, db: asyncpg.Connection, agent: str) -> None:
    (claude.project / ".memorydignore").write_text("# of the customer\nfixtures/\n*.sqlite\n")
    prompt = (
        "Use the token ghp_"
        + "a1B2" * 9
        + " <private>and nobody knows that I am ill</private> for the release"
    )
    await claude.tell("UserPromptSubmit", prompt=prompt)
    for path in ("fixtures/ann.json", "data/a.sqlite", ".env.local", "src/main.py"):
        await claude.tell(
            "PostToolUse", tool_name="Write", tool_input={"file_path": str(claude.project / path)}
        )
    for command in ("cat .env", "sqlite3 data/a.sqlite .dump", "make release TOKEN=abcdefgh12345"):
        await claude.tell("PostToolUse", tool_name="Bash", tool_input={"command": command})
    await claude.tell("Stop", last_assistant_message="Released with password: correct-horse-7")
    [turn] = await db.fetch(OF, agent)
    assert turn["content"] == (
        "Asked: Use the token [secret] [private] for the release\n"
        "Concluded: Released with password: [secret]\n"
        "Done: changed src/main.py; ran make release TOKEN=[secret]"
    )
    # What was asked stays nowhere.
    assert not await db.fetchval("select exists (select from memory_requests where agent_id = $1)", agent)


async def test_a_project_or_a_call_may_switch_it_off(
    claude: CodingAgent, db: asyncpg.Connection, agent: str
) -> None:
    said = json.dumps(
        {"session_id": "s1", "cwd": str(claude.project), "prompt": "deploy the server"}
    ).encode()
    assert await claude.tell_raw("UserPromptSubmit", said, MEMORYD_HOOKS="off") == b""
    (claude.project / ".memorydignore").write_text("*\n")
    assert await claude.tell("UserPromptSubmit", prompt="deploy the server") is None
    assert await claude.tell("Stop", last_assistant_message=CONCLUDED) is None
    # Also where the agent works elsewhere meanwhile.
    other = claude.project.with_name("other")
    other.mkdir()
    assert await claude.tell("UserPromptSubmit", prompt="deploy the server", cwd=str(other)) is None
    assert await claude.tell("Stop", last_assistant_message=CONCLUDED * 3, cwd=str(other)) is None
    assert not await db.fetch(OF, agent)
    assert "deploy" not in "".join(path.read_text() for path in claude.state.glob("*.jsonl"))


async def test_a_turn_that_was_broken_off_ends_with_the_next_prompt(
    claude: CodingAgent, db: asyncpg.Connection, agent: str
) -> None:
    await claude.tell("UserPromptSubmit", prompt="first")
    await claude.tell("PostToolUse", tool_name="Bash", tool_input={"command": "make a"})
    await claude.tell("UserPromptSubmit", prompt="thanks")
    await claude.tell("Stop", last_assistant_message="You are welcome.")
    await claude.tell("UserPromptSubmit", prompt="/clear")
    await claude.tell("SessionEnd", last_assistant_message=CONCLUDED)
    assert [r["content"] for r in await db.fetch(OF, agent)] == ["Asked: first\nDone: ran make a"]


async def test_what_the_agent_said_last_is_read_from_the_hosts_record(
    claude: CodingAgent, db: asyncpg.Connection, agent: str
) -> None:
    record = claude.project / "record.jsonl"
    said = {
        "role": "assistant",
        "content": [{"type": "text", "text": CONCLUDED}, {"type": "tool_use", "name": "Bash"}],
    }
    tool = {"role": "user", "content": [{"type": "tool_result", "content": "ok"}]}
    aside = {"message": {"role": "assistant", "content": "of an agent of the agent"}, "isSidechain": True}
    lines = [{"message": {"role": "user", "content": "go"}}, {"message": said}, {"message": tool}, aside]
    record.write_text("\n".join(json.dumps(line) for line in lines) + "\n{half a li")
    await claude.tell("UserPromptSubmit", prompt="go")
    await claude.tell("Stop", transcript_path=str(record))
    # A turn that was broken off has said nothing yet.
    await claude.tell("UserPromptSubmit", prompt="Should we use Kafka?")
    with record.open("a") as more:
        more.write("\n" + json.dumps({"message": {"role": "user", "content": "Should we use Kafka?"}}))
    await claude.tell("SessionEnd", transcript_path=str(record))
    [turn] = await db.fetch(OF, agent)
    assert turn["content"] == f"Asked: go\nConcluded: {CONCLUDED}"


async def test_tools_that_end_at_once_are_all_noted(claude: CodingAgent) -> None:
    await claude.tell("UserPromptSubmit", prompt="do it all")
    await asyncio.gather(
        *(
            claude.tell("PostToolUse", tool_name="Bash", tool_input={"command": f"make {n}"})
            for n in range(12)
        )
    )
    [journal] = claude.state.glob("*.jsonl")
    ran = {json.loads(line).get("ran") for line in journal.read_text().splitlines() if line}
    assert {f"make {n}" for n in range(12)} <= ran


async def test_the_tools_have_the_hooks_memory_and_project(
    claude: CodingAgent, db: asyncpg.Connection, agent: str
) -> None:
    await claude.work(
        "Which broker do we use?",
        "RabbitMQ, since the spring; Kafka was too heavy for us, and nobody of the team had run it before in production.",
    )
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "daemon", "hooks", "mcp"],
        cwd=claude.project,
        env=claude.environment,
    )
    async with Client(stdio_client(server)) as client:
        found = await client.call_tool("recall", {"query": "the broker that we use"})
        assert "RabbitMQ" in str(found)
        await client.call_tool("remember", {"text": "The broker listens on port 5673"})
        elsewhere = """insert into agent_memory (agent_id, content, metadata) values ($1, 'not of here', '{"project": "x"}')"""
        await db.execute(elsewhere, agent)
        listed = str(await client.read_resource("memoryd://memories"))
        assert "5673" in listed
        assert "not of here" not in listed
        [insights] = (await client.read_resource("memoryd://insights")).contents
        assert "[]" in str(insights)
    project = "select metadata ->> 'project' from agent_memory where agent_id = $1 and content like '%5673%'"
    assert await db.fetchval(project, agent) == str(claude.project)


async def test_a_session_that_goes_on_later_overwrites_nothing(
    claude: CodingAgent, db: asyncpg.Connection, agent: str
) -> None:
    for prompt in ("limit the rate", "write the changelog"):
        await claude.tell("UserPromptSubmit", prompt=prompt)
        await claude.tell("Stop", last_assistant_message=CONCLUDED)
        await claude.tell("SessionEnd")
    assert [r["content"].splitlines()[0] for r in await db.fetch(OF, agent)] == [
        "Asked: limit the rate", "Asked: write the changelog",
    ]  # fmt: skip


async def test_a_session_without_an_end_is_remembered_by_a_later_one(
    claude: CodingAgent, db: asyncpg.Connection, agent: str
) -> None:
    await claude.tell("UserPromptSubmit", prompt="deploy the server")
    failing = {"tool_name": "Bash", "tool_input": {"command": "make deploy"}}
    await claude.tell("PostToolUseFailure", **failing, error="Exit code 2\nError: no route to host")
    [journal] = claude.state.glob("*.jsonl")
    os.utime(journal, (1, 1))
    await claude.tell("SessionStart", session_id="s2")
    assert [r["content"] for r in await db.fetch(OF, agent)] == [
        "`make deploy` failed: Error: no route to host",
        "Asked: deploy the server\nDone: ran make deploy (failed)",
    ]
    assert not journal.exists()


async def test_only_the_same_command_repairs_a_failure(
    claude: CodingAgent, db: asyncpg.Connection, agent: str
) -> None:
    await claude.tell("UserPromptSubmit", prompt="make it green")
    for command, failed in (
        ("python -m pytest tests/test_payments.py", "1 failed"),
        ("npm run build", "error TS1"),
        ("grep -r payments src", "Exit code 1"),
        ("test -f .env.example && grep -c 'a;b' .env.example", "Exit code 1"),
        ("git --no-pager diff a.py; diff a.py b.py", "Exit code 1"),
        ("cat a.py && npm run deploy", "error TS2"),
        ("ls 'a;b' && npm run lint", "error TS3"),
        ("make lint", "[Request interrupted by user for tool use]"),
    ):
        given = {"tool_name": "Bash", "tool_input": {"command": command}}
        await claude.tell("PostToolUseFailure", **given, error=failed)
    edited = {"file_path": str(claude.project / "a.py")}
    await claude.tell("PostToolUse", tool_name="Edit", tool_input=edited)
    unchanged = {"file_path": str(claude.project / "b.py")}
    missed = "<tool_use_error>String to replace not found in file.</tool_use_error>"
    await claude.tell("PostToolUseFailure", tool_name="Edit", tool_input=unchanged, error=missed)
    tests = "python -m pytest tests/test_words.py"
    for command in ("npm run lint", tests, "npm run build 2>&1 | tail -5", "sleep 1 &"):
        await claude.tell("PostToolUse", tool_name="Bash", tool_input={"command": command})
    await claude.tell("SessionEnd")
    contents = [r["content"] for r in await db.fetch(OF, agent) if r["kind"] != "outcome"]
    assert contents == [
        "`npm run build` failed: error TS1",
        "`npm run deploy` failed: error TS2",
        "`python -m pytest tests/test_payments.py` failed: 1 failed",
        "`npm run lint` failed: error TS3\nIt went through after changing a.py.",
    ]


async def test_what_was_stopped_or_only_started_repairs_nothing(
    claude: CodingAgent, db: asyncpg.Connection, agent: str
) -> None:
    await claude.tell("UserPromptSubmit", prompt="make it green")
    given: dict[str, Any] = {"tool_name": "Bash", "tool_input": {"command": "make test"}}
    await claude.tell("PostToolUseFailure", **given, error="error: 1")
    edited = {"file_path": str(claude.project / "a.py")}
    await claude.tell("PostToolUse", tool_name="Edit", tool_input=edited)
    refused = {"tool_name": "Edit", "tool_input": {"file_path": str(claude.project / "b.py")}}
    await claude.tell(
        "PostToolUseFailure", **refused, error="The user doesn't want to proceed with this tool use."
    )
    await claude.tell("PostToolUseFailure", **given, error="Exit code 137", is_interrupt=True)
    await claude.tell("PostToolUse", **given, tool_response={"stdout": "", "interrupted": True})
    given["tool_input"] = {"command": "make test", "run_in_background": True}
    await claude.tell("PostToolUse", **given, tool_response={"stdout": "", "backgroundTaskId": "b1"})
    await claude.tell("SessionEnd")
    assert [(row["kind"], row["content"]) for row in await db.fetch(OF, agent)] == [
        ("error", "`make test` failed: error: 1"),
        ("outcome", "Asked: make it green\nDone: changed a.py; ran make test (failed); ran make test &"),
    ]


async def test_a_hook_ends_in_time_whatever_it_waits_for(claude: CodingAgent) -> None:
    process = await claude.start("UserPromptSubmit", b'{"prompt": ', close=False)
    pipe = claude.project / "pipe"
    os.mkfifo(pipe)
    os.mkfifo(claude.project / ".memorydignore")
    (claude.project / ".git").mkdir()
    os.mkfifo(claude.project / ".git/config")
    await claude.tell("UserPromptSubmit", prompt="deploy")
    await claude.tell("Stop", transcript_path=str(pipe))
    assert await asyncio.wait_for(process.wait(), 20) == 0


@pytest.mark.parametrize(
    ("failed", "passed", "repaired"),
    [
        ("make build", "make clean && make build", True),
        ("pytest -q", "uv sync && uv run pytest", True),
        ("npm test", "npm ci && npm test", True),
        ("make build", "make clean; make build", False),
        ("make build", "make clean && cd other && make build", False),
        ("make build", "echo 'a && make build'", False),
    ],
)
async def test_a_longer_command_repairs_a_failure_of_its_part(
    failed: str, passed: str, repaired: bool, claude: CodingAgent, db: asyncpg.Connection, agent: str
) -> None:
    await claude.tell("UserPromptSubmit", prompt="make it green")
    given = {"tool_name": "Bash", "tool_input": {"command": failed}}
    await claude.tell("PostToolUseFailure", **given, error="error: 1 failed")
    await claude.tell("PostToolUse", tool_name="Bash", tool_input={"command": passed})
    await claude.tell("SessionEnd", reason="exit")
    kinds = [
        row["kind"] for row in await db.fetch("select kind from agent_memory where agent_id = $1", agent)
    ]
    assert ("fact" in kinds, "error" in kinds) == (repaired, not repaired)
