"""Whether coding agents' own programs tell hooks and the MCP server what memoryd reads, and take what it answers.

    npm install --prefix FOLDER @anthropic-ai/claude-code @openai/codex @google/gemini-cli @github/copilot opencode-ai \\
        @qwen-code/qwen-code @continuedev/cli
    python -m benchmarks.clients.hosts --programs FOLDER/node_modules/.bin

Each program that is there gets a home of its own and a model on this machine (model_server.py). With `memoryd hooks install`
it has two sessions. The first states a rule, runs a command that fails, and concludes. Of each: `rule`: it is remembered;
`told`: the second session's model is given it; `turn`: prompt, conclusion and command are remembered as they were; `failure`:
so is that of the command, with its error.

With `memoryd mcp`, added as docs/mcp.md says, it has a session whose model remembers, recalls, and makes a wrong call. `kept`:
the memory is there; `found`: the model is given it; `once`: as one result; `refusal`: the model is told what was wrong.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import asyncpg

from benchmarks.clients.model_server import BUILD, COMMAND, SENTENCE, Call, model_server
from benchmarks.harness import Figures, command, daemon

SECONDS = 120
PROMPT = "From now on name branches after birds, please. Then build it."
RULE = "name branches after birds, please"
LATER = "Make a branch for the webhook sender."
FAILURE = re.compile(
    rf"`{COMMAND}` failed: (?:Exit code 2 / )?make: \*\*\* No rule to make target '[\w-]+'\.  Stop\."
)
TURN = f"Asked: {PROMPT}\nConcluded: {SENTENCE}\nDone: ran {COMMAND} (failed)"
COPILOT = {
    "COPILOT_PROVIDER_TYPE": "openai", "COPILOT_MODEL": "m", "COPILOT_OFFLINE": "true", "COPILOT_PROVIDER_API_KEY": "x"
}  # fmt: skip
CODEX = '[model_providers.here]\nname = "here"\nbase_url = "{url}/v1"\nwire_api = "responses"\n'
HOSTS = {
    "claude-code": ["claude", "--dangerously-skip-permissions", "-p"],
    "codex": [
        "codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-hook-trust",
        "--dangerously-bypass-approvals-and-sandbox",
    ],
    "gemini": ["gemini", "--yolo", "-m", "gemini-2.5-flash", "-p"],
    "copilot": ["copilot", "--allow-all-tools", "-p"],
    "opencode": ["opencode", "run"],
}  # fmt: skip
"""Each with its program's words before a prompt."""
MCP_HOSTS = HOSTS | {
    "codex": [*HOSTS["codex"], "-c", "mcp_servers.memoryd.required=true"],
    "qwen": ["qwen", "--yolo", "-p"],
    "continue": ["cn", "--config", "continue.yaml", "--auto", "-p"],
}
MOTH = "The moth trap of the weir stands on the left bank."
CALLS = (
    Call("remember", {"text": MOTH}),
    Call("recall", {"query": "where does the moth trap stand?"}),
    Call("remember", {"text": "a\0b"}),
)
SEARCH = Call("tool_search", {"query": "select:mcp__memoryd__remember,mcp__memoryd__recall"})
"""Qwen Code's model asks for the tools of servers first."""
RECALLED = re.compile(r'recall_id\\+"')
REFUSAL = "it contains the character NUL"
KEPT = "select kind, content from agent_memory where agent_id = $1"


async def measure(
    url: str, connection: asyncpg.Connection, *, programs: Annotated[Path, "the folder of the programs"]
) -> Figures:
    """Of each program that is there."""
    figures: Figures = {}
    programs = programs.resolve()

    async def rows(agent: str) -> set[tuple[str, str]]:
        return {(row["kind"], row["content"]) for row in await connection.fetch(KEPT, agent)}

    async with daemon(url):
        for host, words in MCP_HOSTS.items():
            if not (programs / words[0]).exists():
                continue
            if host in HOSTS:
                version, asked = await asyncio.to_thread(_hooks, url, programs, host, HOSTS[host])
                there = await rows(host)
                shown = {
                    "rule": ("fact", RULE) in there,
                    "told": any(RULE in body for body in asked),
                    "turn": ("outcome", TURN) in there,
                    "failure": any(kind == "error" and FAILURE.fullmatch(said) for kind, said in there),
                }
                figures[f"{host} {version}, hooks"] = _shown(shown)
            version, asked = await asyncio.to_thread(_mcp, url, programs, host, words)
            last = asked[-1] if asked else ""
            shown = {
                "kept": ("fact", MOTH) in await rows(f"{host} mcp"),
                "found": last.count(MOTH) > 1,
                "once": len(RECALLED.findall(last)) == 1,
                "refusal": REFUSAL in last,
            }
            figures[f"{host} {version}, mcp"] = _shown(shown)
    return figures


def _shown(figures: dict[str, bool]) -> str:
    return ", ".join(f"{name} {'yes' if fine else 'NO'}" for name, fine in figures.items())


@contextmanager
def _settled(programs: Path, host: str, *calls: Call) -> Iterator[tuple[Callable[..., str], Path, list[str]]]:
    """A function that runs a program with settings of its own, its project, and what its model is asked."""
    with (
        tempfile.TemporaryDirectory(prefix=f"memoryd-{host}-") as folder,
        model_server(*calls) as (model, asked),
    ):
        home, project = Path(folder, "home"), Path(folder, "project")
        project.mkdir()
        _settle(home, project, model)
        environment = _environment(home, model) | {"PWD": str(project)}
        environment["PATH"] = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"

        def run(*command: str, **more: str) -> str:
            done = subprocess.run(
                command, cwd=project, env=environment | more, stdin=subprocess.DEVNULL, capture_output=True,
                text=True, timeout=SECONDS, check=False,
            )  # fmt: skip
            return done.stdout

        yield run, project, asked


def _hooks(url: str, programs: Path, host: str, words: list[str]) -> tuple[str, list[str]]:
    """The program's version, and what its model was asked in the second session."""
    with _settled(programs, host, BUILD) as (run, _, asked):
        run("memoryd", "hooks", "install", host, "--user", "--agent", host, DATABASE_URL=url)
        run(*words, PROMPT)
        asked.clear()
        run(*words, LATER)
        return _version(run(words[0], "--version")), asked


def _mcp(url: str, programs: Path, host: str, words: list[str]) -> tuple[str, list[str]]:
    """The program's version, and what its model was asked."""
    calls = (SEARCH, *CALLS) if host == "qwen" else CALLS
    with _settled(programs, host, *calls) as (run, project, asked):
        served = [str(Path(sys.executable).parent / "memoryd"), "mcp", "--agent", f"{host} mcp"]
        if host == "continue":
            config = project / "continue.yaml"
            server = {
                "name": "memoryd",
                "command": served[0],
                "args": served[1:],
                "env": {"DATABASE_URL": url},
            }
            config.write_text(json.dumps(json.loads(config.read_text()) | {"mcpServers": [server]}))
        elif host in ("gemini", "qwen"):
            # Gemini CLI cuts a value at its second =.
            named = project / "memoryd.env"
            named.write_text(f"DATABASE_URL={url}\n")
            run(words[0], "mcp", "add", "memoryd", *served, "-e", f"MEMORYD_ENV_FILE={named}")
        else:
            run(words[0], "mcp", "add", "memoryd", "--env", f"DATABASE_URL={url}", "--", *served)
        run(*words, PROMPT, MCP_CONNECTION_NONBLOCKING="0", MCP_CONNECT_TIMEOUT_MS="60000")
        return _version(run(words[0], "--version")), asked


def _version(said: str) -> str:
    found = re.search(r"\d+\.\d+\.\d+", said)
    return found[0] if found else "?"


def _environment(home: Path, model: str) -> dict[str, str]:
    """Of a person who has nothing but a key for a model."""
    known = {k: v for k, v in os.environ.items() if not k.startswith(("MEMORYD_", "XDG_"))}
    return known | COPILOT | {
        "HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config"), "XDG_STATE_HOME": str(home / ".state"),
        "ANTHROPIC_BASE_URL": model, "ANTHROPIC_API_KEY": "x", "IS_SANDBOX": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "GOOGLE_GEMINI_BASE_URL": model, "GEMINI_API_KEY": "x", "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "COPILOT_PROVIDER_BASE_URL": f"{model}/v1",
    }  # fmt: skip


def _settle(home: Path, project: Path, model: str) -> None:
    """The settings without which a program asks its person."""
    options = {"baseURL": f"{model}/v1", "apiKey": "x"}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"m": {}}}
    opencode = {"autoupdate": False, "model": "here/m", "provider": {"here": provider}}
    own = {"name": "m", "provider": "openai", "model": "m", "apiKey": "x", "apiBase": f"{model}/v1"}
    qwen = {"selectedType": "openai", "apiKey": "x", "baseUrl": f"{model}/v1"}
    settings = {
        project / "continue.yaml": {"name": "m", "version": "1.0.0", "schema": "v1", "models": [own]},
        home / ".qwen/settings.json": {"security": {"auth": qwen}, "model": {"name": "m"}},
        home / ".gemini/settings.json": {"security": {"auth": {"selectedType": "gemini-api-key"}}},
        home / ".config/opencode/opencode.json": opencode,
    }
    files = {path: json.dumps(each) for path, each in settings.items()}
    files[home / ".codex/config.toml"] = 'model = "m"\nmodel_provider = "here"\n' + CODEX.format(url=model)
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    command(__doc__, measure)
