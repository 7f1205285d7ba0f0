"""Checks a restored database: its trail is whole, and recall finds its memories.

Promise: code in the file of a backup runs as a login that can do nothing outside of its database.
"""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

from daemon.db.administrator import read_missing_rights
from daemon.db.pool import Database, connected
from daemon.logs import get_logger
from plugins.trail.reading import read_keys, verify_all

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


ACCOUNT = "memoryd_verify"


async def make_account(url: str) -> str:
    """Makes an ordinary login with its own database on a temporary server; returns its URL."""
    parts = urlsplit(url)
    database = parts._replace(path=f"/{ACCOUNT}")
    own = urlunsplit(database._replace(netloc=f"{ACCOUNT}@"))
    async with connected(url, application="memoryd backup") as server:
        await server.execute(f"create role {ACCOUNT} login createrole")
        await server.execute(f"create database {ACCOUNT} owner {ACCOUNT}")
    async with (
        connected(own, application="memoryd backup") as account,
        connected(urlunsplit(database), application="memoryd backup") as administrator,
    ):
        # Nothing of the file is there yet.
        for statement in (await read_missing_rights(account)).statements:
            await administrator.execute(statement)
    return own


async def prove(url: str) -> list[str]:
    """The faults, a line each."""
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
