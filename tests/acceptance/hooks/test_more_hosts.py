"""Hosts whose hooks have other names or forms: Gemini CLI, Copilot CLI, and OpenCode, whose plugins are JavaScript."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from typer.testing import CliRunner, Result

from daemon.cli.app import app
from tests.support.processes.coding_agent import CONCLUDED, OF, CodingAgent

URL = "postgresql://me:hunter2@127.0.0.1:1/memory"
# As Gemini CLI 0.61 tells what a command printed, and begins a prompt with what hooks said before it.
FAILED = """<untrusted_context>
Output: collected 1 item
E   ModuleNotFoundError: No module named 'tenacity'
Exit Code: 1
Process Group PGID: 10615
</untrusted_context>"""
BEFORE = "<hook_context>Rules of this project:\n- always deploy on Mondays</hook_context>\n\n"
OPENCODE = """
import { Memoryd } from "PLUGIN";
const client = { session: { messages: async () => ({ data: [
  { info: { role: "user" }, parts: [] },
  { info: { role: "assistant" }, parts: [{ type: "text", text: CONCLUDED }] } ] }) } };
const plugin = await Memoryd({ client, directory: DIRECTORY });
const ask = async (session, text) => {
  const output = { message: { id: "m1" }, parts: [{ type: "text", text }] };
  await plugin["chat.message"]({ sessionID: session }, output);
  return output.parts.slice(1);
};
const told = [];
// `opencode run` quotes its argument.
told.push(await ask("o1", '"Let the \\\\"webhook\\\\" sender wait longer between tries"'));
await plugin["tool.execute.after"]({ tool: "edit", sessionID: "o1", args: { filePath: DIRECTORY + "/src/a.py" } }, {});
await plugin["tool.execute.after"]({ tool: "read", sessionID: "o1", args: { filePath: DIRECTORY + "/b.py" } }, {});
await plugin["tool.execute.after"](
  { tool: "bash", sessionID: "o1", args: { command: "make test" } }, { output: "error: 1", metadata: { exit: 2 } });
await plugin.event({ event: { type: "session.idle", properties: { sessionID: "o1" } } });
told.push(await ask("o2", "make test says error: 1"));
await plugin.event({ event: { type: "session.deleted", properties: { info: { id: "o1" } } } });
console.log(JSON.stringify(told));
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's home folder, and a project to be in."""
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    for name in (
        "XDG_CONFIG_HOME", "XDG_STATE_HOME", "CODEX_HOME", "COPILOT_HOME", "OPENCODE_CONFIG_DIR", "GEMINI_CLI_HOME",
    ):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DATABASE_URL", URL)
    return tmp_path


def hooks(*arguments: str) -> Result:
    """The command's end."""
    return CliRunner().invoke(app, ["hooks", *arguments])


@pytest.mark.asyncio(loop_scope="module")
async def test_gemini_is_told_by_its_own_events(
    tmp_path: Path, url: str, db: asyncpg.Connection, agent: str
) -> None:
    gemini = CodingAgent.at(tmp_path, url, host="gemini", agent=agent)
    common = {"transcript_path": "/nowhere", "timestamp": "2026-03-01T12:00:00Z"}
    assert await gemini.tell("SessionStart", **common, source="startup") is None
    await gemini.tell(
        "BeforeAgent", **common, prompt=f"{BEFORE}Let the webhook sender wait longer between tries"
    )
    edited = {"file_path": str(gemini.project / "src/webhooks.py"), "new_string": "x"}
    changed = {"llmContent": "Successfully modified file", "returnDisplay": ""}
    await gemini.tell("AfterTool", **common, tool_name="replace", tool_input=edited, tool_response=changed)
    ran = {"tool_name": "run_shell_command", "tool_input": {"command": "pytest tests"}}
    await gemini.tell("AfterTool", **common, **ran, tool_response={"llmContent": FAILED})
    ran["tool_input"] = {"command": "uv run pytest tests"}
    passed = {"llmContent": "Output: 1 passed\nExit Code: 0"}
    await gemini.tell("AfterTool", **common, **ran, tool_response=passed)
    said = {"prompt": "Let ...", "prompt_response": CONCLUDED}
    assert await gemini.tell("AfterAgent", **common, **said, stop_hook_active=False) is None
    assert await gemini.tell("PreCompress", **common, trigger="auto") is None
    assert await gemini.tell("SessionEnd", **common, reason="exit") is None
    repaired, turn = await db.fetch(OF, agent)
    assert repaired["content"] == (
        "`pytest tests` failed: E   ModuleNotFoundError: No module named 'tenacity'\n"
        "It went through after running uv run pytest tests."
    )
    assert turn["content"] == (
        f"Asked: Let the webhook sender wait longer between tries\nConcluded: {CONCLUDED}\n"
        "Done: changed src/webhooks.py; ran pytest tests (failed); ran uv run pytest tests"
    )
    begun = await gemini.tell("SessionStart", **common, session_id="s2", source="startup")
    assert begun["hookSpecificOutput"]["hookEventName"] == "SessionStart"
    assert "webhook sender" in begun["hookSpecificOutput"]["additionalContext"]
    asked = await gemini.tell(
        "BeforeAgent", **common, session_id="s3", prompt="pytest has no module named tenacity"
    )
    assert asked["hookSpecificOutput"]["hookEventName"] == "BeforeAgent"
    assert "uv run pytest" in asked["hookSpecificOutput"]["additionalContext"]


@pytest.mark.asyncio(loop_scope="module")
async def test_copilot_is_told_by_its_own_events(
    tmp_path: Path, url: str, db: asyncpg.Connection, agent: str
) -> None:
    copilot = CodingAgent.at(tmp_path, url, host="copilot", agent=agent)
    common = {"timestamp": "2026-03-01T12:00:00Z"}
    prompt = "always run tests with uv run pytest, never bare pytest"
    stated = await copilot.tell("UserPromptSubmit", **common, prompt=prompt)
    assert stated["additionalContext"].startswith("Remembered as a rule of this project")
    edited = {"path": str(copilot.project / "src/webhooks.py"), "old_str": "a", "new_str": "b"}
    fine = {"result_type": "success", "text_result_for_llm": "File updated"}
    await copilot.tell("PostToolUse", **common, tool_name="Edit", tool_input=edited, tool_result=fine)
    ran = {"tool_name": "Bash", "tool_input": {"command": "make test"}}
    failed = {
        "result_type": "success",
        "text_result_for_llm": "error: 1\n<shellId: 0 completed with exit code 2>",
    }
    await copilot.tell("PostToolUse", **common, **ran, tool_result=failed)
    record = tmp_path / "events.jsonl"
    lines = [
        {"type": "user.message", "data": {"content": prompt}},
        {"type": "assistant.message", "data": {"content": CONCLUDED, "toolRequests": []}},
        {"type": "assistant.turn_end", "data": {}},
    ]
    asks = {"content": "Let me look.", "toolRequests": [{"name": "bash"}]}
    early = [lines[0], {"type": "assistant.message", "data": asks}]
    record.write_text("\n".join(map(json.dumps, early)) + "\n")
    # It writes its record a moment after it has told the hook.
    given = {"session_id": "s1", "cwd": str(copilot.project), "transcript_path": str(record)} | common
    stop = await copilot.start("Stop", json.dumps(given).encode())
    record.write_text("\n".join(map(json.dumps, [*early, *lines[1:]])) + "\n{half")
    assert await asyncio.wait_for(stop.communicate(), 60) == (b"", b"")
    assert await copilot.tell("SessionEnd", **common, reason="complete") is None
    contents = [row["content"] for row in await db.fetch(OF, agent)]
    assert "`make test` failed: error: 1" in contents
    assert (
        f"Asked: {prompt}\nConcluded: {CONCLUDED}\nDone: changed src/webhooks.py; ran make test (failed)"
        in contents
    )
    begun = await copilot.tell("SessionStart", **common, session_id="s2", source="new")
    assert "uv run pytest" in begun["additionalContext"]
    asked = await copilot.tell(
        "UserPromptSubmit", **common, session_id="s3", prompt="run the tests with pytest"
    )
    assert "uv run pytest" in asked["additionalContext"]


@pytest.mark.skipif(shutil.which("node") is None, reason="OpenCode's plugins are JavaScript")
@pytest.mark.asyncio(loop_scope="module")
async def test_opencode_is_told_by_its_plugin(
    tmp_path: Path, url: str, db: asyncpg.Connection, agent: str
) -> None:
    opencode = CodingAgent.at(tmp_path, url, host="opencode", agent=agent)
    environment = opencode.environment | {"DATABASE_URL": url, "PATH": os.environ["PATH"]}
    installed = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "daemon", "hooks", "install", "opencode", "--user", "--agent", agent,
        cwd=opencode.project, env=environment, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert await installed.wait() == 0
    plugin = opencode.home / ".config/opencode/plugins/memoryd.js"
    copy = tmp_path / "memoryd.mjs"
    copy.write_text(plugin.read_text())
    script = OPENCODE.replace("PLUGIN", str(copy)).replace("CONCLUDED", json.dumps(CONCLUDED))
    (tmp_path / "host.mjs").write_text(script.replace("DIRECTORY", json.dumps(str(opencode.project))))
    process = await asyncio.create_subprocess_exec(
        "node", str(tmp_path / "host.mjs"), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, err = await asyncio.wait_for(process.communicate(), 60)
    assert (process.returncode, err) == (0, b""), err
    first, second = json.loads(out)
    assert first == []
    [part] = second
    assert (part["type"], part["synthetic"], part["sessionID"], part["messageID"]) == (
        "text",
        True,
        "o2",
        "m1",
    )
    assert "sender wait longer" in part["text"]
    failed, turn = await db.fetch(OF, agent)
    assert failed["content"] == "`make test` failed: error: 1"
    assert turn["source"] == "opencode"
    assert turn["content"] == (
        f'Asked: Let the "webhook" sender wait longer between tries\nConcluded: {CONCLUDED}\n'
        "Done: changed src/a.py; ran make test (failed)"
    )


@pytest.mark.skipif(shutil.which("node") is None, reason="OpenCode's plugins are JavaScript")
def test_opencode_is_not_failed_where_memoryd_is_missing(home: Path) -> None:
    assert hooks("install", "opencode", "--project").exit_code == 0
    copy = home / "memoryd.mjs"
    copy.write_text((home / "project/.opencode/plugins/memoryd.js").read_text())
    script = OPENCODE.replace("PLUGIN", str(copy)).replace("CONCLUDED", '"x"').replace("DIRECTORY", '"/"')
    (home / "host.mjs").write_text(script)
    node = str(shutil.which("node"))
    ended = subprocess.run(
        [node, str(home / "host.mjs")], env={"PATH": "/nowhere"}, check=True, capture_output=True
    )
    assert json.loads(ended.stdout) == [[], []]


@pytest.mark.parametrize("scope", ["--user", "--project"])
def test_files_of_copilot_and_opencode_are_written_and_removed(home: Path, scope: str) -> None:
    paths = {
        "copilot": {
            "--user": ".copilot/hooks/memoryd.json",
            "--project": "project/.github/hooks/memoryd.json",
        },
        "opencode": {
            "--user": ".config/opencode/plugins/memoryd.js",
            "--project": "project/.opencode/plugins/memoryd.js",
        },
    }
    for host, files in paths.items():
        path = home / files[scope]
        assert hooks("install", host, scope).exit_code == 0
        written = path.read_text()
        assert "hunter2" not in written
        assert (str(Path(sys.executable).with_name("memoryd")) in written) == (scope == "--user")
        assert "named memoryd already" in hooks("install", host, scope).output
        told = json.loads(hooks("status", "--json").stdout)["hosts"]
        assert [(h["host"], "--" + h["scope"]) for h in told if h["installed"]] == [(host, scope)]
        assert hooks("remove", host, scope).exit_code == 0
        assert not path.exists()
        assert "does not name memoryd" in hooks("remove", host, scope).output
    # A file of others by this name stays.
    path = home / paths["opencode"][scope]
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text("export const Mine = async () => ({});\n")
    for verb in ("install", "remove"):
        refused = hooks(verb, "opencode", scope)
        assert refused.exit_code == 1
        assert "is not memoryd's" in refused.stderr.replace("\n", " ")
    assert path.read_text().startswith("export const Mine")


def test_the_settings_of_gemini_count_in_milliseconds(home: Path) -> None:
    assert hooks("install", "gemini", "--user").exit_code == 0
    settings: Any = json.loads((home / ".gemini/settings.json").read_text())["hooks"]
    assert set(settings) == {
        "SessionStart",
        "BeforeAgent",
        "AfterTool",
        "AfterAgent",
        "PreCompress",
        "SessionEnd",
    }
    assert {one["timeout"] for groups in settings.values() for group in groups for one in group["hooks"]} == {
        5000
    }
    assert settings["AfterTool"][0]["matcher"] == "run_shell_command|replace|write_file"


def test_who_has_no_memoryd_on_the_path_is_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Path(sys.executable).with_name("memoryd")
    monkeypatch.setenv("PATH", f"{program.parent}:/bin")
    assert "PATH" not in hooks("install", "codex", "--project").stderr
    monkeypatch.setenv("PATH", "/nowhere")
    told = hooks("install", "codex", "--project").stderr.replace("\n", " ")
    assert f"memoryd is not on the PATH, so these hooks do nothing: add {program.parent} to it" in told
    # With --user the whole path is written, and nothing needs to be said.
    ended = hooks("install", "claude-code", "--user")
    assert "PATH" not in ended.stderr
    settings: Any = json.loads((home / ".claude/settings.json").read_text())["hooks"]
    assert settings["Stop"][0]["hooks"][0]["command"] == f"{program} hook Stop claude-code"
