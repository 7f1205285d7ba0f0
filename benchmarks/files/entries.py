"""What is remembered in the replica: how long it takes to write it out, and what a pass costs when nothing has changed, or one
entry.

python -m benchmarks.files.entries --memories 100000

The passes run in this process, one after the other, without a daemon's pauses. Nothing is indexed. The files are in a temporary
folder of a disk.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import Annotated
from uuid import uuid4

import asyncpg

from benchmarks.harness import Figures, command
from daemon.db.pool import Database
from daemon.logs import get_logger
from plugins.replica.local_folder import LocalFolder
from plugins.replica.store.documents import LEASE_SECONDS, Store
from plugins.replica.sync import Sync

INSERT = """
insert into public.agent_memory (agent_id, kind, content)
select 'agent ' || n % 20, 'fact',
       'Memory number ' || n || ' says that ' || md5(n::text) || ' is what matters, and that this is about as long as most are.'
from generate_series(1, $1) n
"""
ONE = "insert into public.agent_memory (agent_id, kind, content) values ('agent 3', 'fact', 'One more.')"
CHANGES = "select count(*) from memoryd.replica_changes"
RESTS = 20


async def timed(store: Store, sync: Sync) -> tuple[float, float]:
    """Seconds and processor seconds of a pass, while the lease is renewed as a daemon does."""

    async def renew() -> None:
        while True:
            await asyncio.sleep(LEASE_SECONDS / 4)
            await store.lease()

    replica = await store.lease()
    assert replica is not None
    renewing = asyncio.create_task(renew())
    began, spent = time.perf_counter(), time.process_time()
    await sync.run(replica)
    took = time.perf_counter() - began, time.process_time() - spent
    renewing.cancel()
    return took


async def measure(
    url: str, _connection: asyncpg.Connection, *, memories: Annotated[int, "facts of 20 agents"] = 100_000
) -> Figures:
    """All figures."""
    opened = await Database.open(url, size=4, pooled=False, logger=get_logger())
    with tempfile.TemporaryDirectory(prefix="memoryd-entries-") as folder:
        root = Path(folder) / "replica"
        store = Store(opened, uuid4())
        sync = Sync(store=store, folder=LocalFolder(root))
        await opened.execute(INSERT, memories)
        await opened.execute("delete from memoryd.jobs")
        replica = await store.lease()
        assert replica is not None
        await sync.prepare(replica)
        first, _ = await timed(store, sync)
        # A pass that reads what it has written, since the files were too young to be trusted.
        await asyncio.sleep(3)
        await timed(store, sync)
        rests = [await timed(store, sync) for _ in range(RESTS)]
        began = time.perf_counter()
        await opened.execute(ONE)
        noted = await opened.fetchval(CHANGES)
        inserted = time.perf_counter() - began
        new, _ = await timed(store, sync)
        path = next((root / "agents/agent 7").iterdir())
        path.write_text(path.read_text("utf-8").replace("what matters", "what counts", 1), "utf-8")
        await asyncio.sleep(3)
        edited, _ = await timed(store, sync)
        began = time.perf_counter()
        await store.entries.compare([])
        compared = time.perf_counter() - began
        files = len(list(root.rglob("*.md")))
    await opened.close()
    assert noted == 1
    return {
        "memories": memories,
        "files": files,
        "written_s": round(first, 1),
        "rest_ms": round(1000 * statistics.median(took for took, _ in rests), 1),
        "rest_cpu_ms": round(1000 * statistics.median(spent for _, spent in rests), 1),
        "insert_ms": round(1000 * inserted, 1),
        "new_entry_ms": round(1000 * new, 1),
        "edit_ms": round(1000 * edited, 1),
        "compare_all_ms": round(1000 * compared),
    }


if __name__ == "__main__":
    command(__doc__, measure)
