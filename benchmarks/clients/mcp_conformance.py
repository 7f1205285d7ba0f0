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
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg

from benchmarks.harness import Figures, arguments, database, report
from benchmarks.served import Handler, served

SUITE = "@modelcontextprotocol/conformance@0.1.16"
OLDEST_NODE = 22
APPLICABLE = (
    "server-initialize", "ping", "tools-list", "resources-list", "prompts-list", "dns-rebinding-protection",
)  # fmt: skip
"""The scenarios that need neither the suite's own tools, resources and prompts nor what memoryd does not offer: logging,
completion, subscriptions, sessions that poll."""


class _Relay(Handler):
    """Hands requests on with the token, which the suite cannot send, and with the Host that they name."""

    protocol_version = "HTTP/1.0"  # an answer ends with its connection
    wbufsize = 0
    to: str
    token: str

    def respond(self) -> None:
        headers = dict(self.headers.items()) | {"Authorization": f"Bearer {self.token}"}
        there = HTTPConnection(urlsplit(self.to).netloc)
        there.request(self.command, self.path, self.body(), headers)
        with closing(there), suppress(HTTPException, OSError):  # either may end a stream
            answer = there.getresponse()
            self.send_response(answer.status)
            for name in ("Content-Type", "Allow"):
                if value := answer.headers.get(name):
                    self.send_header(name, value)
            self.end_headers()
            while part := answer.read1():
                self.wfile.write(part)


@contextmanager
def memoryd(url: str) -> Iterator[str]:
    """A server on this database, behind the relay: an address that needs no token."""
    token = secrets.token_urlsafe(32)
    environment = os.environ | {"DATABASE_URL": url, "MEMORYD_MCP_TOKEN": token}
    command = [sys.executable, "-m", "daemon", "mcp", "--agent", "alice", "--http", "--port", "0"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        try:
            line: dict[str, str] = {}
            while line.get("event") != "mcp_listening":
                line = json.loads(process.stderr.readline())
            with served(type("Relay", (_Relay,), {"to": line["url"], "token": token})) as address:
                yield f"{address}/mcp"
        finally:
            process.terminate()


def play(at: str, results: Path) -> dict[str, list[str]]:
    """Plays the applicable scenarios; of each the checks that failed."""
    failed = {}
    for scenario in APPLICABLE:
        folder = results / scenario
        command = ["npx", "--yes", SUITE, "server", "--url", at, "--scenario", scenario]
        ended = subprocess.run(
            [*command, "--output-dir", str(folder)], check=False, capture_output=True, text=True
        )
        written = sorted(folder.rglob("checks.json"))
        if not written:
            said = ended.stdout[-2000:] + ended.stderr[-2000:]
            raise SystemExit(f"The suite did not play {scenario}:\n{said}")
        checks = json.loads(written[0].read_text())
        wrong = [f"{c['id']}: {c.get('errorMessage', '')}" for c in checks if c["status"] == "FAILURE"]
        if not any(check["status"] in ("SUCCESS", "FAILURE") for check in checks):
            wrong = ["nothing was checked"]
        failed[scenario] = wrong
        print(f"{'FAILED' if wrong else 'passed'} {scenario}", *wrong, sep="\n    ", flush=True)
    return failed


async def _remember(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute("insert into agent_memory (agent_id, content) values ('alice', 'to list')")
    await connection.close()


def main() -> None:
    """Command line."""
    options = arguments(__doc__ or "").parse_args()
    if shutil.which("npx") is None or shutil.which("node") is None:
        raise SystemExit("The suite needs npm and Node: npx or node is not on the PATH.")
    version = subprocess.run(["node", "--version"], check=True, capture_output=True, text=True).stdout
    if int(version.strip().lstrip("v").split(".")[0]) < OLDEST_NODE:
        raise SystemExit(f"The suite needs Node {OLDEST_NODE} or newer, not {version.strip()}.")
    with database(options.database_url) as url, tempfile.TemporaryDirectory() as results:
        asyncio.run(_remember(url))
        with memoryd(url) as at:
            failed = play(at, Path(results))
    counts: Figures = {"played": len(failed), "failed": sum(map(bool, failed.values()))}
    report("mcp_conformance", counts, options.json)
    raise SystemExit(any(failed.values()))


if __name__ == "__main__":
    main()
