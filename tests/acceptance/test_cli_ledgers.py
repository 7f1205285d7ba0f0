"""Ledgers from the command line: a daemon has them keep its checkpoints, and they are asked whether they still do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import asyncpg

from plugins.trail.keys import make_key
from tests.support.processes.commands import Commands
from tests.support.processes.daemons import Daemons
from tests.support.services.ipfs_server import IpfsServer
from tests.support.services.played_server import Fault

INCIDENT = """
insert into agent_commands (agent_id, message, output, exit_code, status)
values ('alice', 'check billing', 'an outage of an hour', 1, 'failed')
"""


async def test_an_incident_is_kept_by_a_ledger_and_missed_when_it_has_lost_it(
    memoryd: Commands, connection: asyncpg.Connection, daemons: Daemons, tmp_path: Path
) -> None:
    key = tmp_path / "trail.key"
    make_key(key)
    with IpfsServer() as server:
        given: dict[str, Any] = {"ledgers": "ipfs,rfc3161", "ipfs_url": server.url}
        daemon = await daemons.start(trail_key=f"file:{key}", trail_checkpoint_minutes=1 / 60, **given)
        [left_out] = daemon.events("ledger_left_out")
        assert left_out["ledger"] == "rfc3161"
        assert left_out["reason"] == "MEMORYD_TSA_URL and MEMORYD_TSA_CERTIFICATE are not set"
        await connection.execute(INCIDENT)
        await daemon.event("ledger_kept", ledger="ipfs", key="checkpoint/1")
        await daemon.stop()
        listed = (await memoryd("anchors")).out
        assert "incident" in listed
        assert "Ledger ipfs: 1 kept, 0 waiting\n" in listed
        holds = await memoryd("verify", "--all", "--ledgers", **given)
        assert holds.code == 0, holds.out
        assert "Ledger ipfs: asked about 1 of 1, 0 disputed\n" in holds.out
        assert f"Ledger rfc3161: asked about 0 of 0, 0 disputed: {left_out['reason']}\n" in holds.out
        [note] = server.pinned.values()
        assert note.decode() == await connection.fetchval("select note from memoryd.trail_checkpoints")

        server.pinned.clear()
        lost = await memoryd("verify", "--all", "--ledgers", **given)
        assert lost.code == 1
        assert lost.out.startswith("disputed: ipfs, checkpoint/1: ")
        assert "is not pinned\n" in lost.out
        server.always = Fault.status(500)
        away = await memoryd("verify", "--all", "--ledgers", "--json", **given)
        assert (away.code, away.json["breaks"]) == (1, [])
        assert [(one["ledger"], one["answered"], one["could_not"]) for one in away.json["ledgers"]] == [
            ("ipfs", 0, True),
            ("rfc3161", 0, False),
        ]


async def test_a_wrong_setting_stops_the_start_and_the_doctor_says_what_is_missing(memoryd: Commands) -> None:
    wrong: dict[str, Any] = {"ledgers": "ipfs", "ipfs_url": "SECRET"}
    refused = await memoryd("run", **wrong)
    says = "MEMORYD_IPFS_URL is not an address: it must begin with http:// or https://"
    assert (refused.code, refused.sentences[-1]) == (1, says)
    assert "SECRET" not in refused.err
    for given, verdict, found in (
        (wrong, "problem", says),
        ({"ledgers": "rfc3161"}, "warning", "rfc3161 is left out: MEMORYD_TSA_URL and"),
    ):
        [ledgers] = [
            one for one in (await memoryd("doctor", "--json", **given)).json if one["name"] == "ledgers"
        ]
        assert (ledgers["verdict"], found in f"{ledgers['found']} {ledgers['advice']}") == (verdict, True)
    assert "verify --all --ledgers" in (await memoryd("verify", "--ledgers")).sentences[0]
