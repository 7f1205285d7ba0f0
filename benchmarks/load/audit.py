"""How long `memoryd audit` takes, rule by rule, and how long to find and to forget what came from one agent.

    python -m benchmarks.load.audit --rows 100000
    python -m benchmarks.load.audit --rows 1000000

Memories of benchmarks.load.ingest, 120 days old. One in a hundred is there twice, one in a hundred says where a person
lives (one of two towns), one in a thousand says nothing, and half were retrieved. No daemon runs. Counted are the seconds of
each rule as the owner, with what it found; and the rows of the agent, with the seconds.
"""

from __future__ import annotations

import asyncpg

from benchmarks.harness import Figures, Times, command
from benchmarks.load.ingest import batches
from plugins.audit.derived import Kind, derived
from plugins.audit.find import RULES
from plugins.audit.forget import forget
from plugins.audit.repair import repair
from plugins.audit.rule import Extent

# Triggers are off: what they make of the rows (jobs, times to live) is not measured here.
INSERT = """
insert into agent_memory (agent_id, ttl_hours, kind, content)
select agent_id, null, 'note', content from unnest($1::text[], $2::text[]) as t(agent_id, content)
"""
SPREAD = """
insert into agent_memory (agent_id, ttl_hours, kind, content)
select agent_id, null, kind, upper(content) from agent_memory where hashtext(id::text) % 100 = 0;
insert into agent_memory (agent_id, ttl_hours, kind, content)
select agent_id, null, 'fact', 'Person ' || translate((hashtext(id::text) % 50)::text, '-0123456789', 'zabcdefghij')
       || ' lives in ' || case when length(content) % 2 = 0 then 'Lyon' else 'Ghent' end
from agent_memory where hashtext(id::text) % 100 = 1;
insert into agent_memory (agent_id, ttl_hours, kind, content)
select agent_id, null, kind, repeat('?', 1 + abs(hashtext(id::text)) % 90)
from agent_memory where hashtext(id::text) % 1000 = 2;
update agent_memory
set created_at = now() - interval '120 days' + random() * interval '1 day', updated_at = now() - interval '119 days';
insert into memoryd.memory_uses (memory_id, uses, used_at)
select id, 1, now() from agent_memory where hashtext(id::text) % 2 = 0
"""


async def measure(_url: str, connection: asyncpg.Connection, *, rows: int = 100_000) -> Figures:
    """Fills, finds, repairs, forgets."""
    await connection.execute("set session_replication_role = replica")
    statement = await connection.prepare(INSERT)
    columns = batches("agent_memory", rows, 1)
    while some := [columns_ for _, columns_ in zip(range(100), columns, strict=False)]:
        await statement.executemany(some)
    await connection.execute(SPREAD, timeout=3600)
    await connection.execute("set session_replication_role = origin")
    await connection.execute("vacuum analyze agent_memory, memoryd.memory_uses", timeout=3600)
    figures: Figures = {"rows": await connection.fetchval("select count(*) from agent_memory")}
    times = Times()
    for rule in RULES:
        with times.of("rules"):
            found = await rule.find(connection, Extent(), limit=1000)
        figures[rule.name] = f"{found.total} in {times['rules'][-1]:.2f} s"
        if rule.name == "duplicates":
            with times.of("repair"):
                done = await repair(connection, rule, found.findings)
            figures["repair of duplicates"] = f"{done.rows} rows in {times['repair'][0]:.2f} s"
    with times.of("derived"):
        lineage = await derived(connection, Kind.AGENT, "agent3")
    with times.of("forgotten"):
        gone = await forget(connection, Kind.AGENT, "agent3")
    return figures | {
        "all_rules_seconds": round(sum(times["rules"]), 2),
        "derived_from_an_agent": f"{len(lineage.rows)} rows in {times['derived'][0]:.2f} s",
        "forgotten": f"{sum(gone.values())} rows in {times['forgotten'][0]:.2f} s",
    }


if __name__ == "__main__":
    command(__doc__, measure)
