"""How long an idle system takes: an insert until it is searchable and associated, and a command until it can be claimed.

    python -m benchmarks.load.latency --samples 300

One insert at a time, a pause between them. `--history` memories stand there before, of the same agent.
"""

from __future__ import annotations

import asyncio
import random
import time

import asyncpg

from benchmarks.harness import arguments, daemon, database, percentiles, report, wait_for
from benchmarks.load.pipeline import texts

HISTORY = """
insert into agent_memory (agent_id, kind, content, created_at)
select 'alice', 'note', content, now() - make_interval(secs => 60 * n)
from unnest($1::text[]) with ordinality as t(content, n)
"""

INSERT_MEMORY = "insert into agent_memory (agent_id, kind, content) values ('alice', 'note', $1) returning id"

ASSOCIATED = """
select exists (select from memoryd.entries where id = $1 and code is not null)
   and exists (select from memory_associations where memory_id = $1)
"""

INSERT_COMMAND = "insert into agent_commands (agent_id, message) values ('alice', $1)"


async def measure(url: str, samples: int, history: int, pause: float) -> dict[str, object]:
    """Both latencies, in milliseconds."""
    text = texts(random.Random(1))
    connection = await asyncpg.connect(url)
    listener = await asyncpg.connect(url)
    ready = asyncio.Event()
    await listener.add_listener("command_ready", lambda *_: ready.set())
    searchable: list[float] = []
    claimed: list[float] = []
    async with daemon(url):
        await connection.execute(HISTORY, [text(8) for _ in range(history)])
        await wait_for(connection, "select not exists (select from memoryd.jobs)", pause=0.05)
        await connection.execute("analyze")
        for number in range(samples + 20):
            began = time.perf_counter()
            memory = await connection.fetchval(INSERT_MEMORY, text(8))
            await wait_for(connection, ASSOCIATED, memory, pause=0.0005)
            searched = time.perf_counter() - began
            await asyncio.sleep(pause)

            ready.clear()
            began = time.perf_counter()
            await connection.execute(INSERT_COMMAND, text(8))
            await ready.wait()
            row = await connection.fetchrow("select * from claim_command('alice')")
            assert row is not None
            took = time.perf_counter() - began
            await connection.execute(
                "update agent_commands set status = 'cancelled' where id = $1", row["id"]
            )
            await asyncio.sleep(pause)
            # The first ones pay for plans and connections that a daemon makes once.
            if number >= 20:
                searchable.append(searched)
                claimed.append(took)
    await connection.close()
    await listener.close()
    return {
        "samples": samples,
        "history": history,
        **{f"searchable_{k}": v for k, v in percentiles(searchable).items()},
        **{f"claim_{k}": v for k, v in percentiles(claimed).items()},
    }


def main() -> None:
    """Command line."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--samples", type=int, default=300)
    parser.add_argument(
        "--history", type=int, default=2000, help="memories of the agent that stand there already"
    )
    parser.add_argument("--pause", type=float, default=0.02, help="seconds between two inserts")
    options = parser.parse_args()
    with database(options.database_url) as url:
        figures = asyncio.run(measure(url, options.samples, options.history, options.pause))
    report("latency", figures, options.json)


if __name__ == "__main__":
    main()
