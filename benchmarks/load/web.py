"""How long the pages of `memoryd web` take with no, one and many rows in every table, and how much memory their process needs.

    python -m benchmarks.load.web                     0, 1 and 1,000,000 rows, of 1,000 users
    python -m benchmarks.load.web --rows 100000

Made-up memories are loaded with their entries, as `benchmarks.search.recall` does, without a lexicon; the other tables by
statements (tables.py). One reader signs in as support and asks for each page again and again, over one connection; where a page
is of one row or user, of another each time. Then an audit is run, which the page begins and does not wait for.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import http.client
import json
import os
import random
import re
import subprocess
import sys
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import asyncpg
from pgvector.asyncpg import register_vector

from benchmarks.corpus import Corpus
from benchmarks.harness import arguments, database, percentiles, report
from benchmarks.load.bulk import COUNT, Rows, load
from benchmarks.load.tables import fill_tables
from plugins.web.app import PAGES

SIZES = (0, 1)
USERS = 1000
NOTHING = "6b8e1f0a-0000-4000-8000-000000000000"
"""No row has this id."""
OF_LISTS: dict[str, list[dict[str, str]]] = {
    "/memories": [
        {"agent": "assistant"}, {"user": "{user}"}, {"ended": "yes"}, {"kind": "goal"}, {"agent": "nobody"},
        {"as_of": "2030-01-01"}, {"as_of": "{middle}"}, {"tag": "red"}, {"tag": "old"}, {"source": "nowhere"},
    ],
    "/conversations": [
        {"user": "{user}"}, {"agent": "assistant"}, {"agent": "nobody"}, {"agent": "old hand"}, {"channel": "nowhere"},
        {"channel": "fax"}, {"groups": "yes"},
    ],
    "/documents": [
        {"user": "{user}"}, {"status": "deleted"}, {"status": "conflict"}, {"source": "nowhere"}, {"shared": "yes"},
    ],
    "/knowledge": [
        {"tier": "core"}, {"category": "team"}, {"category": "commitment"}, {"by": "nobody"}, {"by": "old hand"},
        {"tag": "nowhere"}, {"tag": "old"}, {"tag": "team"}, {"status": "resolved"}, {"status": "archived"}, {"org": NOTHING},
    ],
    "/dreams": [],
    "/dreams/insights": [
        {"agent": "assistant"}, {"agent": "nobody"}, {"agent": "old hand"}, {"user": "{user}"}, {"category": "summary"},
        {"category": "correction"}, {"confidence": "0.9"},
    ],
    "/tasks": [{"user": "{user}"}, {"agent": "assistant"}, {"status": "failed"}, {"memory": "{memory}"}],
    "/trail": [{"category": "milestone"}, {"category": "incident"}, {"agent": "nobody"}, {"agent": "old hand"}],
}  # fmt: skip
"""What each list is asked for beside its first page and one from its middle: also what no row has, or only the oldest."""
ASKED: dict[str, list[dict[str, str]]] = {
    "/recall": [{"q": "{question}", "user": "{user}"}],
    "/context": [{"agent": "assistant", "message": "{question}"}],
    "/graph": [{"memory": "{memory}"}, {"memory": "{hub}"}, {"user": "{user}"}, {"user": "{linked}"}],
    "/graph/data": [{"memory": "{hub}"}, {"user": "{linked}"}],
    "/names": [{"user": "a"}, {"agent": "a"}],
    "/audit": [{"user": "{user}"}],
    "/audit/derived": [{"kind": "memory", "id": "{memory}"}, {"kind": "command", "id": "{command}"}],
} | {
    path: [*asked, {"before": "{position}" if path == "/trail" else "{middle},{nobody}"}] for path, asked in OF_LISTS.items()
}  # fmt: skip
"""Pages that are also asked something."""
ONLY_ASKED = ("/graph/data", "/audit/derived")
"""What is no page until it is asked something."""
OF_ONE = {
    "/memories/": ("memory", "replaced", "hub"), "/conversations/": ("session", "long_session"),
    "/documents/": ("document", "long_document"), "/knowledge/": ("knowledge",), "/dreams/": ("dream",),
    "/dreams/insights/": ("insight",), "/trail/": ("anchor",), "/tasks/": ("command",),
    "/users/": ("user",),
}  # fmt: skip
"""Pages of one row: of which."""
KNOWN = """
select (select json_agg(id) from (select id from agent_memory order by id limit 1000) m) as memories,
       (select id from agent_memory where superseded_by is not null order by created_at, id limit 1) as replaced,
       (select memory_id from memory_associations group by 1 order by count(*) desc limit 1) as hub,
       (select user_id from agent_memory order by created_at desc limit 1) as linked,
       (select session_id from conversation_messages where message_index = 50 limit 1) as long_session,
       (select document_id from memory_chunks where chunk_index = 50 limit 1) as long_document
"""


class Reader:
    """Somebody who is signed in, over one connection."""

    def __init__(self, sign_in: str) -> None:
        at = urlsplit(sign_in)
        assert at.hostname is not None
        self._http = http.client.HTTPConnection(at.hostname, at.port, timeout=60)
        self._http.request("GET", f"{at.path}?{at.query}")
        answer = self._http.getresponse()
        answer.read()
        self._cookie = {"Cookie": (answer.getheader("Set-Cookie") or "").partition(";")[0]}

    def ask(self, path: str) -> tuple[int, float, float, int]:
        """The status, the seconds to the first byte and to the last, and the size in bytes."""
        began = time.perf_counter()
        self._http.request("GET", path, headers=self._cookie)
        answer = self._http.getresponse()
        first = time.perf_counter() - began
        size = len(answer.read())
        return answer.status, first, time.perf_counter() - began, size

    def run_audit(self) -> tuple[float, float]:
        """Begins one; the seconds until the answer, and until its page shows what was found."""
        self._http.request("GET", "/audit", headers=self._cookie)
        mark = re.search(r'name="csrf" value="([^"]+)"', self._http.getresponse().read().decode())
        assert mark is not None
        began = time.perf_counter()
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        self._http.request("POST", "/audit", urlencode({"csrf": mark[1]}), self._cookie | form)
        self._http.getresponse().read()
        begun = time.perf_counter() - began
        while True:
            self._http.request("GET", "/audit", headers=self._cookie)
            if b"<progress" not in self._http.getresponse().read():
                return begun, time.perf_counter() - began
            time.sleep(0.1)


@contextmanager
def served(url: str) -> Iterator[tuple[Reader, int]]:
    """`memoryd web` on a database: a reader, and the id of the process."""
    environment = {**os.environ, "DATABASE_URL": url, "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(
        [sys.executable, "-m", "daemon", "web", "--port", "0"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield Reader(process.stdout.readline().removeprefix("Open ").strip()), process.pid
    finally:
        process.terminate()
        process.wait(30)


def paths(known: Mapping[str, str]) -> dict[str, str]:
    """Each page that there is, by its route and what is asked."""
    found = {}
    for route in (r for page in PAGES for r in page if "GET" in (r.methods or ())):
        before, brace, _ = route.path.partition("{")
        if not brace and route.path not in ONLY_ASKED:
            found[route.path] = route.path
        for what in OF_ONE.get(before, ()) if brace else ():
            if what in known:
                found[f"{before}{{{what}}}"] = before + known[what]
        for asked in ASKED.get(route.path, ()):
            said = [f"{k}={v}" for k, v in asked.items()]
            query = urlencode(
                {k: v.format_map(defaultdict(lambda: NOTHING, known)) for k, v in asked.items()}
            )
            found[f"{route.path}?{'&'.join(said)}"] = f"{route.path}?{query}"
    return found


def memory_of(process: int) -> float:
    """Megabytes that a process has in memory now, what it shares with others included."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


@dataclass(frozen=True, slots=True)
class There:
    """What is in a database: which memories, and `known`: words of `ASKED` and `OF_ONE`."""

    rows: int
    memories: Sequence[str]
    known: Mapping[str, str]

    def choose(self, corpus: Corpus, dice: random.Random) -> dict[str, str]:
        """The same with a row and a user of chance. Ids are made as tables.py makes them."""
        n = dice.randrange(1, self.rows + 1) if self.rows else 0
        ids = {
            each: str(uuid.UUID(hashlib.md5(f"{each}{n}".encode(), usedforsecurity=False).hexdigest()))
            for each in ("session", "document", "knowledge", "dream", "insight", "anchor", "command")
        }
        middle = datetime.now(UTC) - timedelta(seconds=10 * self.rows)
        asked = {
            "memory": dice.choice(self.memories) if self.memories else NOTHING,
            "user": str(uuid.UUID(int=dice.randrange(USERS) + 1)),
            "question": corpus.question().text,
            "middle": middle.isoformat(),
            "position": str(self.rows // 2),
        }
        return {**(ids if self.rows else {}), **asked, **self.known}


def ask(url: str, there: There, samples: int) -> dict[str, object]:
    """The figures of each page; the first round, which pays for plans and cold pages, is told apart."""
    corpus, dice = Corpus(2), random.Random(1)
    first: dict[str, list[float]] = {}
    whole: dict[str, list[float]] = {}
    cold: dict[str, float] = {}
    failed: dict[str, int] = {}
    with served(url) as (reader, process):
        before = memory_of(process)
        for _ in range(samples + 1):
            for name, path in paths(there.choose(corpus, dice)).items():
                status, head, all_of_it, _size = reader.ask(path)
                if status != 200:
                    failed[name] = status
                if name not in cold:
                    cold[name] = all_of_it
                    continue
                first.setdefault(name, []).append(head)
                whole.setdefault(name, []).append(all_of_it)
        begun, done = reader.run_audit()
        figures: dict[str, object] = {
            "memory_mb at start": round(before),
            "memory_mb at end": round(memory_of(process)),
            "audit begun_ms": round(begun * 1000),
            "audit until done_s": round(done, 1),
        }
    for name, seconds in whole.items():
        begins, ends = percentiles(first[name]), percentiles(seconds)
        figures[name] = (
            f"first byte p50 {begins['p50_ms']:.0f} p99 {begins['p99_ms']:.0f}, "
            f"whole p50 {ends['p50_ms']:.0f} p99 {ends['p99_ms']:.0f} ms, cold {cold[name] * 1000:.0f}"
            + (f", status {failed[name]}" if name in failed else "")
        )
    return figures


async def fill(url: str, rows: Rows, there: int, size: int) -> There:
    """Fills each table up to `size` rows."""
    connection = await asyncpg.connect(url)
    await register_vector(connection)
    if size > there:
        await load(connection, "agent_memory", rows, size - there)
        await connection.execute(COUNT)
        await fill_tables(connection, there, size)
        await connection.execute("vacuum analyze")
    found = dict(await connection.fetchrow(KNOWN) or {})
    await connection.close()
    memories = json.loads(found.pop("memories") or "[]")
    return There(size, memories, {each: str(value) for each, value in found.items() if value is not None})


def measure(url: str, options: argparse.Namespace) -> None:
    """At each size."""
    rows = Rows(users=[uuid.UUID(int=n + 1) for n in range(USERS)], seed=1)
    filled = options.rows if options.loaded else 0
    for size in [options.rows] if options.loaded else sorted({*SIZES, options.rows}):
        began = time.perf_counter()
        there = asyncio.run(fill(url, rows, filled, size))
        filled = size
        loaded = time.perf_counter() - began
        figures = {"rows of each table": size, "load_s": round(loaded), **ask(url, there, options.samples)}
        report("web", figures, options.json)


def main() -> None:
    """Command line."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--samples", type=int, default=30, help="of each page")
    parser.add_argument("--loaded", action="store_true", help="the database has the rows of an earlier run")
    options = parser.parse_args()
    with database(options.database_url) as url:
        measure(url, options)


if __name__ == "__main__":
    main()
