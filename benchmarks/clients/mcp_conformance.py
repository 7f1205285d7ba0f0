"""The conformance suite of the Model Context Protocol, played against `memoryd mcp --http`.

    python -m benchmarks.clients.mcp_conformance

Needs npm and Node 22 or newer, and the extra mcp. npx fetches the suite. Exit code 1: a scenario that applies has failed.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg

from benchmarks.harness import arguments, database, report

SUITE = "@modelcontextprotocol/conformance@0.1.16"
OLDEST_NODE = 22
APPLICABLE = (
    "server-initialize", "ping", "tools-list", "resources-list", "prompts-list", "dns-rebinding-protection",
)  # fmt: skip
"""The scenarios that need neither the suite's own tools, resources and prompts nor what memoryd does not offer: logging,
completion, subscriptions, sessions that poll."""


class _Relay(BaseHTTPRequestHandler):
    """Hands requests on with the token, which the suite cannot send, and with the Host that they name."""

    to: str
    token: str

    def _hand_on(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        headers = dict(self.headers.items()) | {"Authorization": f"Bearer {self.token}"}
        there = HTTPConnection(urlsplit(self.to).netloc)
        there.request(self.command, self.path, self.rfile.read(length), headers)
        with closing(there), suppress(HTTPException, OSError):  # either may end a stream
            answer = there.getresponse()
            self.send_response(answer.status)
            for name in ("Content-Type", "Allow"):
                if value := answer.headers.get(name):
                    self.send_header(name, value)
            self.end_headers()
            while part := answer.read1():
                self.wfile.write(part)

    do_GET = do_POST = do_DELETE = _hand_on  # noqa: N815 - the names that the base class calls

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def relay(to: str, token: str) -> Iterator[str]:
    """An address that needs no token."""
    handler = type("Relay", (_Relay,), {"to": to, "token": token})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.block_on_close = False
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/mcp"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def served(url: str) -> Iterator[str]:
    """A server on this database, behind the relay."""
    token = secrets.token_urlsafe(32)
    environment = os.environ | {"DATABASE_URL": url, "MEMORYD_MCP_TOKEN": token}
    command = [sys.executable, "-m", "daemon", "mcp", "--agent", "alice", "--http", "--port", "0"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        try:
            line: dict[str, str] = {}
            while line.get("event") != "mcp_listening":
                line = json.loads(process.stderr.readline())
            with relay(line["url"], token) as at:
                yield at
        finally:
            process.terminate()


def play(at: str, results: Path) -> dict[str, list[str]]:
    """Plays the applicable scenarios; of each the checks that failed."""
    failed = {}
    for scenario in APPLICABLE:
        folder = results / scenario
        command = [
            "npx",
            "--yes",
            SUITE,
            "server",
            "--url",
            at,
            "--scenario",
            scenario,
            "--output-dir",
            str(folder),
        ]
        ended = subprocess.run(command, check=False, capture_output=True, text=True)
        written = sorted(folder.rglob("checks.json"))
        if not written:
            raise SystemExit(
                f"The suite did not play {scenario}:\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}"
            )
        checks = json.loads(written[0].read_text())
        said = [f"{c['id']}: {c.get('errorMessage', '')}" for c in checks if c["status"] == "FAILURE"]
        passed = any(check["status"] == "SUCCESS" for check in checks)
        failed[scenario] = said if said or passed else ["nothing was checked"]
        print(
            f"{'FAILED' if failed[scenario] else 'passed'} {scenario}",
            *failed[scenario],
            sep="\n    ",
            flush=True,
        )
    return failed


async def _remember(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(
        "insert into agent_memory (agent_id, content) values ('alice', 'something to list')"
    )
    await connection.close()


def main() -> None:
    """Command line."""
    parser = arguments(__doc__ or "")
    options = parser.parse_args()
    if shutil.which("npx") is None or shutil.which("node") is None:
        raise SystemExit("The suite needs npm and Node: npx or node is not on the PATH.")
    version = subprocess.run(["node", "--version"], check=True, capture_output=True, text=True).stdout
    if int(version.strip().lstrip("v").split(".")[0]) < OLDEST_NODE:
        raise SystemExit(f"The suite needs Node {OLDEST_NODE} or newer, not {version.strip()}.")
    with database(options.database_url) as url, tempfile.TemporaryDirectory() as results:
        asyncio.run(_remember(url))
        with served(url) as at:
            failed = play(at, Path(results))
    report(
        "mcp_conformance", {"played": len(failed), "failed": sum(map(bool, failed.values()))}, options.json
    )
    raise SystemExit(any(failed.values()))


if __name__ == "__main__":
    main()
