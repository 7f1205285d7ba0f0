"""Tries clients/openclaw with the OpenClaw that is installed: its installer, its loader, two turns, a model that is none.

    npm install -g openclaw          # needs Node 24
    python tests/clients/openclaw/try_openclaw.py postgresql://...

Needs npm, and a database with memoryd's schema. Its turns are of a user of their own; `memoryd erase NAME` deletes them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

PLUGIN = Path(__file__).parents[3] / "clients/openclaw"
USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
ASKED: list[str] = []


class Model(BaseHTTPRequestHandler):
    """Answers every question with the same words."""

    def log_message(self, *_: object) -> None:
        """Says nothing."""

    def do_POST(self) -> None:
        """One answer, as a stream."""
        ASKED.append(self.rfile.read(int(self.headers["content-length"])).decode())
        answer = {"index": 0, "delta": {"role": "assistant", "content": "Indeed."}, "finish_reason": None}
        end = {"index": 0, "delta": {}, "finish_reason": "stop"}
        chunk = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "none"}
        parts = [{**chunk, "choices": [answer]}, {**chunk, "choices": [end], "usage": USAGE}]
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.wfile.write("".join(f"data: {p}\n\n" for p in (*map(json.dumps, parts), "[DONE]")).encode())


def configured(url: str, user: str, port: int, given: dict[str, Any]) -> dict[str, Any]:
    """OpenClaw's own settings after the installation, with the slot, the plugin's settings, and the model."""
    entry = {
        "enabled": True,
        "hooks": {"allowConversationAccess": True},
        "config": {"url": url, "user": user},
    }
    model = {
        "id": "none",
        "name": "none",
        "reasoning": False,
        "input": ["text"],
        "contextWindow": 100_000,
        "maxTokens": 1000,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
    }
    provider = {
        "baseUrl": f"http://127.0.0.1:{port}/v1",
        "apiKey": "none",
        "api": "openai-completions",
        "models": [model],
    }
    plugins = given.get("plugins", {})
    return {
        **given,
        "plugins": {
            **plugins,
            "slots": {"memory": "memoryd"},
            "entries": {**plugins.get("entries", {}), "memoryd": entry},
        },
        "models": {"providers": {"none": provider}},
        "agents": {"defaults": {"model": {"primary": "none/none"}}},
    }


def main() -> None:
    """Exits with an AssertionError if a promise is broken."""
    url, user = sys.argv[1], f"try-{uuid4().hex[:8]}"
    model = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    Thread(target=model.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "HOME": home, "OPENCLAW_STATE_DIR": home}

        def run(*command: str) -> str:
            return subprocess.run(
                command, env=environment, cwd=home, check=True, stdout=subprocess.PIPE, text=True
            ).stdout

        packed = run("npm", "pack", "--silent", str(PLUGIN)).split()[-1]
        run("openclaw", "plugins", "install", f"npm-pack:{home}/{packed}", "--force", "--accept-capabilities")
        settings = Path(home) / "openclaw.json"
        before = json.loads(settings.read_text("utf-8"))
        settings.write_text(json.dumps(configured(url, user, model.server_port, before)), "utf-8")
        shown = run("openclaw", "plugins", "inspect", "memoryd", "--runtime", "--json")
        plugin = json.loads(shown[shown.index("{") :])["plugin"]
        assert (plugin["status"], plugin["hookCount"]) == ("loaded", 3), plugin
        for session, text in (
            ("1", "My sister Dora plays the tuba"),
            ("2", "Which instrument does Dora play?"),
        ):
            run(
                "openclaw",
                "agent",
                "--local",
                "--agent",
                "main",
                "--session-id",
                f"{user}-{session}",
                "--message",
                text,
            )
    assert "curated by memoryd" not in ASKED[0]
    assert "curated by memoryd" in ASKED[1]
    assert "tuba" in ASKED[1]
    sys.stdout.write(f"OpenClaw and memoryd: all is well (user {user})\n")


if __name__ == "__main__":
    main()
