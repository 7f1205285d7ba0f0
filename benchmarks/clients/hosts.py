"""Whether coding agents' own programs tell hooks what memoryd reads, and take what it answers.

    npm install --prefix FOLDER @anthropic-ai/claude-code @openai/codex @google/gemini-cli @github/copilot opencode-ai
    python -m benchmarks.clients.hosts --programs FOLDER/node_modules/.bin

Each program that is there gets a home of its own, `memoryd hooks install`, a model on this machine (model_server.py) and two
sessions. The first states a rule, runs a command that fails, and concludes. Of each: `rule`: it is remembered; `told`: the
second session's model is given it; `turn`: prompt, conclusion and command are remembered as they were; `failure`: so is that of
the command, with its error.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import asyncpg

from benchmarks.clients.model_server import COMMAND, SENTENCE, model_server
from benchmarks.harness import arguments, daemon, database, report

SECONDS = 120
PROMPT = "From now on name branches after birds, please. Then build it."
RULE = "name branches after birds, please"
LATER = "Make a branch for the webhook sender."
FAILURE = re.compile(
    rf"`{COMMAND}` failed: (?:Exit code 2 / )?make: \*\*\* No rule to make target '[\w-]+'\.  Stop\."
)
TURN = f"Asked: {PROMPT}\nConcluded: {SENTENCE}\nDone: ran {COMMAND} (failed)"
COPILOT = {
    "COPILOT_PROVIDER_TYPE": "openai",
    "COPILOT_MODEL": "m",
    "COPILOT_OFFLINE": "true",
    "COPILOT_PROVIDER_API_KEY": "x",
}
CODEX = '[model_providers.here]\nname = "here"\nbase_url = "{url}/v1"\nwire_api = "responses"\n'
HOSTS = {
    "claude-code": ["claude", "--dangerously-skip-permissions", "-p"],
    "codex": [
        "codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-hook-trust",
        "--dangerously-bypass-approvals-and-sandbox",
    ],
    "gemini": ["gemini", "--yolo", "-p"],
    "copilot": ["copilot", "--allow-all-tools", "-p"],
    "opencode": ["opencode", "run"],
}  # fmt: skip
"""Each with its program's words before a prompt."""
KEPT = "select kind, content from agent_memory where agent_id = $1"


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--programs", type=Path, required=True, help="the folder of the programs")
    options = parser.parse_args()
    with database(options.database_url) as url:
        figures = asyncio.run(_measure(url, options.programs.resolve()))
    report("hooks of coding agents", figures, options.json)


async def _measure(url: str, programs: Path) -> dict[str, object]:
    figures: dict[str, object] = {}
    async with daemon(url):
        connection = await asyncpg.connect(url)
        for host, words in HOSTS.items():
            if (programs / words[0]).exists():
                version, asked = await asyncio.to_thread(_sessions, url, programs, host, words)
                rows = {(row["kind"], row["content"]) for row in await connection.fetch(KEPT, host)}
                shown = {
                    "rule": ("fact", RULE) in rows,
                    "told": any(RULE in body for body in asked),
                    "turn": ("outcome", TURN) in rows,
                    "failure": any(kind == "error" and FAILURE.fullmatch(content) for kind, content in rows),
                }
                figures[f"{host} {version}"] = ", ".join(
                    f"{name} {'yes' if fine else 'NO'}" for name, fine in shown.items()
                )
        await connection.close()
    return figures


def _sessions(url: str, programs: Path, host: str, words: list[str]) -> tuple[str, list[str]]:
    """The program's version, and what its model was asked in the second session."""
    with tempfile.TemporaryDirectory(prefix=f"memoryd-{host}-") as folder, model_server() as (model, asked):
        home, project = Path(folder, "home"), Path(folder, "project")
        project.mkdir()
        _settle(home, model)
        environment = _environment(home, model)
        environment["PATH"] = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"

        def run(*command: str, **more: str) -> str:
            done = subprocess.run(
                command, cwd=project, env=environment | more, stdin=subprocess.DEVNULL, capture_output=True,
                text=True, timeout=SECONDS, check=False,
            )  # fmt: skip
            return done.stdout

        run("memoryd", "hooks", "install", host, "--user", "--agent", host, DATABASE_URL=url)
        run(*words, PROMPT)
        asked.clear()
        run(*words, LATER)
        version = re.search(r"\d+\.\d+\.\d+", run(words[0], "--version"))
        return version[0] if version else "?", asked


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


def _settle(home: Path, model: str) -> None:
    """The settings without which a program asks its person."""
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{model}/v1", "apiKey": "x"},
        "models": {"m": {}},
    }
    files = {
        ".gemini/settings.json": json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}}),
        ".codex/config.toml": 'model = "m"\nmodel_provider = "here"\n' + CODEX.format(url=model),
        ".config/opencode/opencode.json": json.dumps(
            {"autoupdate": False, "model": "here/m", "provider": {"here": provider}}
        ),
    }
    for name, text in files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
