"""The pages of the trail: anchors and how far their proof is, checking one and all, and what an end user sees."""

from __future__ import annotations

import uuid
from pathlib import Path

import asyncpg
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from daemon.logs import get_logger
from plugins.trail.log import Pace, Trail
from tests.support.processes.workers import open_database
from tests.support.rows import remember
from tests.support.services.web_pages import Reader, served, text_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANN, BOB = uuid.uuid4(), uuid.uuid4()
HOSTILE = "we keep <img src=x onerror=alert(1)>"
KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))


async def anchored(db: asyncpg.Connection, text: str, *, user: uuid.UUID | None = None) -> uuid.UUID:
    memory = await remember(db, text, agent_id="keeper", user_id=user)
    anchor: uuid.UUID = await db.fetchval("select memoryd.anchor($1, 'decision')", memory)
    return anchor


async def sign(url: str) -> None:
    """As a daemon does."""
    async with open_database(url) as database:
        await Trail(database, key=KEY, pace=Pace(1, 300), ledgers=[], logger=get_logger()).advance()


async def verdict(pages: Reader) -> str:
    """What verifying all has said, at its end."""
    sent = await pages.send("/trail/verify", {}, on="/trail")
    assert sent.status_code == 303
    return await pages.read_done("/trail", "verify", lacks="Verifying:")


async def test_an_empty_trail_says_so(pages: Reader) -> None:
    said = await pages.read("/trail")
    assert "Nothing is anchored" in said
    assert "Nothing is signed yet" in said
    assert "Not verified since" in said


async def test_an_anchor_waits_then_is_signed_then_holds(
    pages: Reader, url: str, db: asyncpg.Connection
) -> None:
    anchor = await anchored(db, HOSTILE)
    path = f"/trail/{anchor}"
    assert "no proof yet" in text_of((await pages.send(path, {})).text)
    await sign(url)
    listed = await pages.get("/trail")
    assert f'href="{path}"' in listed
    assert "<img" not in listed
    assert "signed" in text_of(listed)
    answer = await pages.send(path, {})
    assert answer.status_code == 200
    assert "it holds This is what was anchored: leaf 0 of 1" in text_of(answer.text)
    assert HOSTILE in text_of(answer.text)
    assert "<img" not in answer.text
    assert "All is as it was anchored" in await verdict(pages)


async def test_what_was_altered_is_named(pages: Reader, url: str, db: asyncpg.Connection) -> None:
    anchor = await anchored(db, "we ship on Friday")
    await sign(url)
    before = await db.fetchval("select payload from memory_anchors where id = $1", anchor)
    await db.execute(
        "update memory_anchors set payload = jsonb_set(payload, '{content}', '\"we ship on Monday\"') where id = $1",
        anchor,
    )
    assert "It does not hold" in text_of((await pages.send(f"/trail/{anchor}", {})).text)
    said = await verdict(pages)
    assert "broken Something was changed" in said
    assert "altered leaf" in said
    assert f'href="/trail/{anchor}"' in await pages.get("/trail")
    await db.execute("update memory_anchors set payload = $2 where id = $1", anchor, before)


async def test_who_else_keeps_it_is_told(pages: Reader, url: str, db: asyncpg.Connection) -> None:
    anchor = await anchored(db, "we moved to the harbour")
    await sign(url)
    size = await db.fetchval("select max(size) from memoryd.trail_checkpoints")
    await db.execute(
        "insert into memoryd.trail_ledgers (name, from_position, next_position, from_size) values ('rfc3161', 0, 0, 0)"
    )
    await db.execute(
        "insert into memoryd.trail_receipts (ledger, key, size, anchor_id, reference, final, last_error) values "
        "('rfc3161', 'checkpoint/' || $1::bigint, $1, null, 'stamped-1', true, null), "
        "('rfc3161', $2::uuid::text, null, $2, null, false, 'no answer <b>yet</b>')",
        size,
        anchor,
    )
    page = await pages.get("/trail")
    assert "rfc3161: 1 kept , 1 waiting no answer <b>yet</b>" in text_of(page).replace("kept,", "kept ,")
    assert "<b>" not in page
    said = await pages.read(f"/trail/{anchor}")
    assert f"kept rfc3161 : the checkpoint over {size} leaves stamped-1" in said.replace(
        "rfc3161:", "rfc3161 :"
    )
    assert "ask the ledgers" in page
    await db.execute("delete from memoryd.trail_ledgers")


async def test_an_erased_anchor_shows_nothing_and_breaks_nothing(
    pages: Reader, url: str, db: asyncpg.Connection
) -> None:
    anchor = await anchored(db, "nobody shall know", user=BOB)
    await sign(url)
    memory = await db.fetchval("select memory_id from memory_anchors where id = $1", anchor)
    await db.execute("select forget(array[$1::uuid])", memory)
    said = text_of((await pages.send(f"/trail/{anchor}", {})).text)
    assert "nobody shall know" not in said
    assert "only that there is a leaf is shown" in said
    assert "All is as it was anchored" in await verdict(pages)


async def test_the_list_goes_on(pages: Reader, db: asyncpg.Connection) -> None:
    for n in range(60):
        await anchored(db, f"decided {n:02}")
    first = await pages.get("/trail")
    onwards = first.partition('rel="next" href="')[2].partition('"')[0].replace("&amp;", "&")
    assert text_of(first).count("decided") == 50
    assert await pages.read(onwards) != text_of(first)
    assert "decided 09" in await pages.read(onwards)


async def test_an_end_user_sees_the_anchors_of_their_memories_only(
    url: str, db: asyncpg.Connection, tmp_path: Path
) -> None:
    hers = await anchored(db, "ann keeps the bicycle", user=ANN)
    his = await anchored(db, "bob sells the boat", user=BOB)
    async with served(url, tmp_path, "--edit", "--as-user", str(ANN)) as ann:
        said = await ann.read("/trail")
        assert "bicycle" in said
        assert "boat" not in said
        assert "decided" not in said
        assert "bicycle" in await ann.read(f"/trail/{hers}")
        missing = await ann.read(f"/trail/{uuid.uuid4()}", status=404)
        assert await ann.read(f"/trail/{his}", status=404) == missing
        for path in ("/trail/verify", f"/trail/{hers}", f"/trail/{his}"):
            assert (await ann.send(path, {}, on="/trail")).status_code == 400
