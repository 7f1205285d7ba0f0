"""Whether a restored database works: its trail is whole, and what was remembered is found."""

from __future__ import annotations

from daemon.db.pool import Database
from daemon.logs import get_logger
from daemon.trail.reading import read_keys, verify_all

# The newest that is indexed, by its own words.
_RECALL = """
select coalesce(bool_or(m.id = any(array(
           select r.id from public.recall(left(m.content, 1000), user_id => m.user_id, agent_id => m.agent_id) r))), true)
from (select m.id, m.content, m.user_id, m.agent_id
      from public.agent_memory m
      where m.content ~ '\\w{4}' and m.superseded_by is null
        and exists (select from memoryd.entries e where e.scope = m.scope and e.id = m.id and e.code is not null)
      order by m.created_at desc limit 5) m
"""


async def prove(url: str) -> list[str]:
    """What is wrong, a line each."""
    database = await Database.open(
        url, size=2, pooled=False, logger=get_logger(), application="memoryd backup"
    )
    try:
        found = await verify_all(database, await read_keys(database))
        wrong = [f"the trail is broken: {one.says}" for one in found.breaks]
        if not await database.fetchval(_RECALL):
            wrong.append("recall does not find a memory by its own words")
        return wrong
    finally:
        await database.close()
