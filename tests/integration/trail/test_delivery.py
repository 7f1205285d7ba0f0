"""What ledgers are asked to keep: at least once, from the step that was reached, and without one delaying another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias

import asyncpg
import pytest

from daemon.db.pool import Database
from daemon.logs import get_logger
from plugins.trail.delivery import Delivery
from plugins.trail.log import Pace, Trail
from plugins.trail.ports import Ledger, LedgerItem, Progress, Receipt
from plugins.trail.rules.canonical import cid_of
from providers.ports import RejectionError, UnavailableError
from tests.integration.trail.test_log import KEY
from tests.support.access.acting import ANN
from tests.support.rows import column, remember

DUE = "update memoryd.trail_receipts set next_at = now(), claimed_until = '-infinity'"
ANCHOR = "select memoryd.anchor($1, 'milestone')"


Fails: TypeAlias = Callable[[LedgerItem, str], None]


class Book:
    """A ledger in memory, of two steps; `fails` is asked before each step."""

    def __init__(self, name: str, *, memories: bool = True, fails: Fails = lambda _item, _step: None) -> None:
        self.name = name
        self.keeps_memories = memories
        self.done: list[tuple[str, str]] = []
        self.items: list[LedgerItem] = []
        self.final = True
        self._fails = fails

    async def entrust(self, item: LedgerItem, progress: Progress) -> Receipt:
        """See `Ledger`."""
        self.items.append(item)
        for step in ("pin", "send"):
            if progress.reached(step) is None:
                self._fails(item, step)
                self.done.append((item.key, step))
                await progress.keep(step, f"{step} of {item.key}")
        return Receipt(reference=f"0x{item.key}", proof=None, final=self.final)

    async def dispute(self, item: LedgerItem, receipt: Receipt) -> str | None:
        """See `Ledger`."""
        raise NotImplementedError

    async def close(self) -> None:
        """See `Ledger`."""


def trail_of(database: Database, ledgers: Sequence[Ledger]) -> Trail:
    names = [one.name for one in ledgers if one.keeps_memories]
    return Trail(database, key=KEY, pace=Pace(1, 300), ledgers=names, logger=get_logger())


def delivery_of(
    database: Database, *ledgers: Ledger, payloads: bool = False, call_seconds: float = 60.0
) -> Delivery:
    return Delivery(database, ledgers, payloads=payloads, logger=get_logger(), call_seconds=call_seconds)


async def receipts(connection: asyncpg.Connection) -> dict[tuple[str, str], bool]:
    rows = await connection.fetch("select ledger, key, final from memoryd.trail_receipts")
    return {(row["ledger"], row["key"]): row["final"] for row in rows}


async def test_an_anchor_reaches_the_ledgers_and_the_fact_names_the_transaction(
    connection: asyncpg.Connection, database: Database
) -> None:
    evm, stamps = Book("evm"), Book("rfc3161", memories=False)
    early = await connection.fetchval(ANCHOR, await remember(connection, "before"))
    await trail_of(database, ()).advance()
    # What was anchored before a ledger was set is not sent to it.
    await delivery_of(database, evm, stamps).tick()
    memory = await remember(connection, "it is launched", user_id=ANN)
    anchor = await connection.fetchval(ANCHOR, memory)
    trail = trail_of(database, (evm, stamps))
    await trail.advance()
    facts = "select content from agent_memory where source = 'anchor' order by created_at, content"
    assert len(await column(connection, facts)) == 1
    await delivery_of(database, evm, stamps).tick()
    await trail.advance()
    expected = {(name, f"checkpoint/{size}") for name in ("evm", "rfc3161") for size in (1, 2)} | {
        ("evm", str(anchor))
    }
    assert await receipts(connection) == dict.fromkeys(expected, True)
    assert str(early) not in {item.key for item in evm.items}
    [item] = [item for item in evm.items if item.key == str(anchor)]
    content = await connection.fetchval("select payload::text from memory_anchors where id = $1", anchor)
    assert (item.cid, item.payload, item.category) == (cid_of(content.encode()), None, "milestone")
    assert (
        await connection.fetchval("select chain_tx from memory_anchors where id = $1", anchor)
        == f"0x{anchor}"
    )
    fact = await connection.fetchrow(
        "select * from agent_memory where source = 'anchor' and user_id = $1", ANN
    )
    assert fact is not None
    assert fact["content"] == f"A milestone was anchored: CID {item.cid}, transaction 0x{anchor}."
    assert (fact["kind"], fact["ttl_hours"], fact["expires_at"]) == ("fact", None, None)
    await delivery_of(database, evm, stamps).tick()
    await trail.advance()
    assert len(evm.items) == 3
    assert len(await column(connection, facts)) == 2


async def test_what_succeeded_is_not_done_again_and_nobody_waits_for_a_ledger_that_hangs(
    connection: asyncpg.Connection, database: Database
) -> None:
    down = {"send"}
    never = asyncio.Event()

    def fail(item: LedgerItem, step: str) -> None:
        if step in down:
            raise UnavailableError("it is away", provider="evm", retry_in=50.0)

    class Hanging(Book):
        async def entrust(self, item: LedgerItem, progress: Progress) -> Receipt:
            await progress.keep("pin", "kept")
            await never.wait()
            raise AssertionError

    def refuse(item: LedgerItem, step: str) -> None:
        raise RejectionError("it reverted", provider="ipfs")

    def burst(item: LedgerItem, step: str) -> None:
        raise RuntimeError("\x00 a bug of a library, with secret words")

    ledgers = (
        Book("evm", fails=fail),
        Hanging("a"),
        Book("ipfs", fails=refuse),
        Book("b", fails=burst),
        Book("good"),
    )
    delivery = delivery_of(database, *ledgers, call_seconds=0.2)
    await delivery.tick()
    await connection.execute(ANCHOR, await remember(connection, "x"))
    await trail_of(database, ledgers).advance()
    await delivery.tick()
    assert {ledger for (ledger, _), final in (await receipts(connection)).items() if final} == {"good"}
    said = {
        row["ledger"]: (row["last_error"], row["attempts"])
        for row in await connection.fetch("select * from memoryd.trail_receipts where last_error <> ''")
    }
    # One that cannot be used is asked once.
    assert len(ledgers[0].items) == 1
    assert said == {
        "evm": ("UnavailableError: it is away", 1),
        "a": ("TimeoutError", 1),
        "ipfs": ("RejectionError: it reverted", 1),
        "b": ("RuntimeError", 1),
    }
    assert (
        await connection.fetchval(
            "select steps ->> 'pin' from memoryd.trail_receipts where ledger = 'a' and steps <> '{}'"
        )
        == "kept"
    )
    await delivery.tick()
    assert len(ledgers[0].items) == 2
    pauses = "select extract(epoch from next_at - now()) > 40 from memoryd.trail_receipts where ledger in ('evm', 'ipfs')"
    assert set(await column(connection, pauses)) == {True}
    # Not due: nothing is asked.
    await delivery.tick()
    assert len(ledgers[0].items) == 2
    down.clear()
    await connection.execute(DUE)
    await delivery_of(database, ledgers[0]).tick()
    keys = {key for _, key in await receipts(connection)}
    assert sorted(ledgers[0].done) == sorted((key, step) for key in keys for step in ("pin", "send"))


async def test_two_daemons_entrust_each_thing_once_and_a_dead_ones_claim_expires(
    connection: asyncpg.Connection, database: Database
) -> None:
    book = Book("evm")
    await delivery_of(database, book).tick()
    for n in range(5):
        await connection.execute(ANCHOR, await remember(connection, f"x {n}"))
    await trail_of(database, (book,)).advance()
    # One of them was claimed by a daemon that died after the first step.
    await delivery_of(database, Book("other", memories=False)).tick()
    await asyncio.gather(*(delivery_of(database, book).tick() for _ in range(3)))
    assert len(book.items) == 6
    await connection.execute("update memoryd.trail_receipts set final = false, steps = '{\"pin\": \"was kept\"}', "
                             "claimed_until = now() + interval '1 hour' where ledger = 'evm'")  # fmt: skip
    await delivery_of(database, book).tick()
    assert len(book.items) == 6
    await connection.execute(DUE)
    book.done.clear()
    book.final = False
    await delivery_of(database, book).tick()
    assert {step for _, step in book.done} == {"send"}
    assert set((await receipts(connection)).values()) == {False, True}
    # A receipt that is not final is asked for again, later.
    assert await connection.fetchval(
        "select min(next_at) > now() from memoryd.trail_receipts where not final"
    )


@pytest.mark.parametrize("payloads", [False, True])
async def test_payloads_leave_only_if_a_setting_says_so_and_never_after_an_erasure(
    connection: asyncpg.Connection, database: Database, *, payloads: bool
) -> None:
    book = Book("ipfs")
    delivery = delivery_of(database, book, payloads=payloads)
    await delivery.tick()
    for user in (ANN, None):
        await connection.execute(ANCHOR, await remember(connection, "the secret", user_id=user))
    await trail_of(database, (book,)).advance()
    agents = "array(select anchor_id from memoryd.trail_leaves where user_id is null)"
    await connection.execute(f"select memoryd.seal_anchors({agents})")
    await connection.execute("select erase_user_memory($1)", ANN)
    await connection.execute(ANCHOR, await remember(connection, "said"))
    await trail_of(database, (book,)).advance()
    await delivery.tick()
    memories = [item for item in book.items if item.category != "checkpoint"]
    assert len(memories) == 1
    assert (memories[0].payload is not None) == payloads
    assert payloads == (memories[0].payload is not None and b"said" in memories[0].payload)
    assert all(item.payload is not None for item in book.items if item.category == "checkpoint")
    # Of several checkpoints that wait only the newest is sent.
    for n in range(3):
        await connection.execute(ANCHOR, await remember(connection, f"more {n}"))
        await trail_of(database, (book,)).advance()
    book.items.clear()
    await delivery.tick()
    assert [item.key for item in book.items if item.category == "checkpoint"] == ["checkpoint/6"]
