"""From an anchor to its transaction: what a daemon does with the ledger `evm`, on a real database and a local chain."""

from __future__ import annotations

from pathlib import Path

import asyncpg
import pytest

from daemon.db.pool import Database
from daemon.logs import get_logger
from daemon.settings import load_settings
from plugins.trail.answers import query_ledgers
from plugins.trail.build import build_ledgers
from plugins.trail.delivery import Delivery
from plugins.trail.log import Pace, Trail
from tests.integration.ledgers.conftest import KEY, Deployed
from tests.integration.trail.test_delivery import DUE
from tests.integration.trail.test_log import KEY as TRAIL_KEY
from tests.integration.trail.test_log import anchored
from tests.support.services.evm_node import CHAIN_ID


async def test_an_anchor_gets_its_transaction_and_a_fact_that_names_it(
    connection: asyncpg.Connection,
    database: Database,
    deployed: Deployed,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load_settings(
        ledgers="evm", evm_rpc_url=deployed.node.url, evm_chain_id=CHAIN_ID, evm_contract=deployed.contract.address,
        evm_agent_id=16905, evm_key=KEY, evm_max_fee_gwei=100,
    )  # fmt: skip
    ledgers, _ = build_ledgers(settings)
    trail = Trail(database, key=TRAIL_KEY, pace=Pace(1, 300), ledgers=["evm"], logger=get_logger())
    delivery = Delivery(database, ledgers, payloads=False, logger=get_logger())
    await delivery.tick()
    [anchor] = await anchored(connection, 1)
    await trail.advance()
    await delivery.tick()
    chain_tx = "select chain_tx from memory_anchors"
    fact = "select content from agent_memory where source = 'anchor'"
    await trail.advance()
    assert (await connection.fetchval(chain_tx), await connection.fetchval(fact)) == (None, None)
    deployed.node.mine(13)
    await connection.execute(DUE)
    await delivery.tick()
    await trail.advance()
    transaction = await connection.fetchval(chain_tx)
    assert len(deployed.node.sent) == 2, "the checkpoint's and the anchor's"
    assert transaction in deployed.node.sent
    cid = await connection.fetchval("select cid from memory_anchors")
    assert (
        await connection.fetchval(fact) == f"A decision was anchored: CID {cid}, transaction {transaction}."
    )

    assert (await query_ledgers(settings, database))[1] == []
    await connection.execute('update memory_anchors set payload = \'{"content": "another"}\'')
    [asked], [disputed] = await query_ledgers(settings, database)
    assert (asked.answered, disputed.anchor, "no anchor with this hash" in disputed.says) == (
        2,
        str(anchor),
        True,
    )
    for one in ledgers:
        await one.close()
