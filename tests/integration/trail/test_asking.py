"""Ledgers are asked about what they said that they keep: what differs is named, and what is not asked about is counted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from daemon.db.pool import Database
from daemon.logs import get_logger
from daemon.settings import Settings, load_settings
from plugins.trail import answers as asking
from plugins.trail.answers import LedgerAnswer, query_ledgers
from plugins.trail.build import build_ledgers
from plugins.trail.delivery import Delivery
from plugins.trail.log import Pace, Trail
from plugins.trail.settings import Trail as Section
from tests.integration.trail.test_log import KEY, anchored
from tests.support.access.acting import ANN
from tests.support.services.ipfs_server import IpfsServer
from tests.support.services.played_server import Fault
from tests.support.services.tsa_server import TsaServer


@pytest.fixture
def ipfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[IpfsServer]:
    monkeypatch.chdir(tmp_path)
    with IpfsServer() as server:
        yield server


async def kept(database: Database, connection: asyncpg.Connection, settings: Settings, anchors: int) -> None:
    """Anchors, one after the other, and each checkpoint kept by the ledgers that the settings name."""
    ledgers, _ = build_ledgers(settings)
    names = [one.name for one in ledgers if one.keeps_memories]
    trail = Trail(database, key=KEY, pace=Pace(1, 300), ledgers=names, logger=get_logger())
    delivery = Delivery(
        database, ledgers, payloads=settings.section(Section).trail_payloads, logger=get_logger()
    )
    await delivery.tick()
    for _ in range(anchors):
        await anchored(connection, 1, ANN)
        await trail.advance()
        await delivery.tick()
    for one in ledgers:
        await one.close()


async def test_what_the_owner_of_the_database_changed_is_disputed(
    connection: asyncpg.Connection, database: Database, ipfs: IpfsServer
) -> None:
    settings = load_settings(ledgers="ipfs", ipfs_url=ipfs.url, trail_payloads=True)
    await kept(database, connection, settings, 3)
    assert await query_ledgers(settings, database) == ([LedgerAnswer("ipfs", 6, 6)], [])
    anchor = await connection.fetchval("select anchor_id from memoryd.trail_leaves where position = 1")
    await connection.execute(
        'update memory_anchors set payload = payload || \'{"content": "another"}\' where id = $1', anchor
    )
    await connection.execute("delete from memoryd.trail_checkpoints where size = 2")
    [asked], breaks = await query_ledgers(settings, database)
    assert (asked.answered, asked.disputed) == (6, 2)
    assert {(one.how, one.position, one.anchor) for one in breaks} == {
        ("disputed", None, None),
        ("disputed", 1, str(anchor)),
    }
    said = {one.says for one in breaks}
    assert f"ipfs, {anchor}: the receipt is of another CID" in said
    assert "ipfs, checkpoint/2: the ledger keeps it, and it is not in the database" in said
    # What was erased is no break, and is not asked about.
    await connection.execute("select erase_user_memory($1)", ANN)
    [asked], breaks = await query_ledgers(settings, database)
    assert (asked.answered, asked.erased, asked.disputed, len(breaks)) == (3, 3, 1, 1)


async def test_what_was_not_asked_about_is_counted_and_said(
    connection: asyncpg.Connection, database: Database, ipfs: IpfsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load_settings(ledgers="ipfs", ipfs_url=ipfs.url)
    await kept(database, connection, settings, 3)
    monkeypatch.setattr(asking, "RECEIPTS", 2)
    ipfs.requests.clear()
    [asked], _ = await query_ledgers(settings, database)
    assert (asked.answered, asked.not_queried, asked.could_not) == (2, 1, False)
    assert asked.reason == "only the newest 2 are asked about"
    [newest] = await connection.fetch(
        "select reference from memoryd.trail_receipts where key = 'checkpoint/3'"
    )
    assert newest["reference"] in ipfs.requests[0].path
    # One that does not answer is asked once.
    ipfs.requests.clear()
    ipfs.always = Fault.status(500)
    [asked], breaks = await query_ledgers(settings, database)
    assert (asked.answered, asked.could_not, breaks, len(ipfs.requests)) == (0, True, [], 1)
    assert asked.reason is not None
    assert "SECRET" not in asked.reason
    [asked], breaks = await query_ledgers(load_settings(ledgers="ipfs"), database)
    assert (asked.not_queried, asked.could_not, breaks) == (3, True, [])
    assert "MEMORYD_IPFS_URL" in str(asked.reason)
    [asked], breaks = await query_ledgers(load_settings(ledgers=""), database)
    assert (asked.not_queried, asked.could_not, breaks) == (3, False, [])
    assert "does not name it" in str(asked.reason)


async def test_time_stamps_are_verified_when_nobody_answers(
    connection: asyncpg.Connection, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with TsaServer() as tsa:
        (tmp_path / "tsa.pem").write_bytes(tsa.pem())
        settings = load_settings(ledgers="rfc3161", tsa_url=tsa.url, tsa_certificate=tmp_path / "tsa.pem")
        await kept(database, connection, settings, 2)
    expected = [LedgerAnswer("rfc3161", 2, 2)]
    assert await query_ledgers(settings, database) == (expected, [])
    await connection.execute(
        "update memoryd.trail_receipts set proof = set_byte(proof, length(proof) - 5, get_byte(proof, length(proof) - 5) # 1) "
        "where size = 2"
    )
    asked, breaks = await query_ledgers(settings, database)
    assert [(one.answered, one.disputed) for one in asked] == [(2, 1)]
    assert {one.how for one in breaks} == {"disputed"}
    await connection.execute("update memoryd.trail_receipts set proof = null where size = 2")
    _, breaks = await query_ledgers(settings, database)
    assert {one.says for one in breaks} == {
        "rfc3161, checkpoint/2: there is no time stamp",
    }


async def test_what_a_witness_kept_stays_listed(
    connection: asyncpg.Connection, database: Database, ipfs: IpfsServer
) -> None:
    """memoryd had witnesses until 0.2: what they signed is named as not asked about, and is no failure."""
    settings = load_settings(ledgers="witness,ipfs", ipfs_url=ipfs.url)
    await kept(database, connection, settings, 1)
    await connection.execute(
        "insert into memoryd.trail_ledgers (name, from_position, next_position, from_size) values ('witness', 0, 0, 0)"
    )
    await connection.execute(
        "insert into memoryd.trail_receipts (ledger, key, size, final, proof) values ('witness', 'checkpoint/1', 1, true, 'x')"
    )
    asked, breaks = await query_ledgers(settings, database)
    assert [(one.ledger, one.answered, one.not_queried, one.could_not) for one in asked] == [
        ("ipfs", 1, 0, False),
        ("witness", 0, 1, False),
    ]
    assert breaks == []
