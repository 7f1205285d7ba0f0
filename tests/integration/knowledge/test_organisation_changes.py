"""An organisation that gets another id: its knowledge is found under the new one at once, and no more under the old one."""

from __future__ import annotations

from uuid import UUID

import asyncpg

from tests.support.access.isolation import index_world
from tests.support.content.knowledge import know
from tests.support.rows import column

OLD, NEW = UUID(int=0xA), UUID(int=0xB)
AS = "select set_config('memoryd.org_id', $1, true)"
NOTED = "select what from note_knowledge('Release on Tuesdays.', 'decision', 'sam', strengthen => false)"
SEEN = (
    "select content from recall('walrus', sources => '{knowledge}')",
    "select l from string_to_table(build_context('alice', 'Did Walrus call?'), chr(10)) l where l ~ 'is ours'",
)


async def test_knowledge_follows_its_organisation(scratch: asyncpg.Connection) -> None:
    await scratch.execute(AS, str(OLD))
    await know(scratch, "Walrus", "The walrus is ours", category="client", org_id=OLD)
    assert await scratch.fetchval(NOTED) == "stored"
    await index_world(scratch)
    await scratch.execute(AS, "all")
    await scratch.execute("update shared_knowledge set org_id = $2 where org_id = $1", OLD, NEW)

    async def seen(org: UUID) -> list[int]:
        await scratch.execute(AS, str(org))
        return [len(await column(scratch, sql)) for sql in SEEN]

    # Before the daemon has indexed them again, and after.
    for _ in range(2):
        assert await seen(OLD) == [0, 0]
        assert (await seen(NEW))[0] == 1
        assert await scratch.fetchval(NOTED) == "known"
        assert await column(scratch, "select title from decisions()") == ["Release on Tuesdays."]
        await index_world(scratch)
    assert await seen(NEW) == [1, 1]
    await scratch.execute(AS, str(OLD))
    assert await column(scratch, "select title from decisions()") == []
    assert await scratch.fetchval(NOTED) == "stored"
