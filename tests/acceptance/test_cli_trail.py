"""The trail from the command line: what a daemon captures is anchored, signed, proved, and verified without a database."""

from __future__ import annotations

import json
import os
from pathlib import Path

import asyncpg

from tests.support.processes.commands import Commands
from tests.support.processes.daemons import Daemons
from tests.support.waiting import IDLE, until

OUTCOMES = """
insert into agent_commands (agent_id, message, output, exit_code, status)
values ('alice', 'deploy the site', 'the site went live', 0, 'completed'),
       ('alice', 'look at the weather', 'sunny, no outage', 0, 'completed'),
       ('alice', 'check billing', 'an outage after the decision', 1, 'failed')
"""
SIGNED = "select coalesce(max(size), 0) >= $1 from memoryd.trail_checkpoints"


async def test_from_a_captured_outcome_to_a_proof_verified_without_a_database(
    memoryd: Commands, connection: asyncpg.Connection, daemons: Daemons, tmp_path: Path
) -> None:
    key = tmp_path / "trail.key"
    made = await memoryd("anchors", "new-key", str(key))
    assert made.code == 0
    assert key.stat().st_mode & 0o777 == 0o600
    assert (await memoryd("anchors", "new-key", str(key))).sentences[0].startswith(f"{key} exists already.")
    daemon = await daemons.start(trail_key=f"file:{key}", trail_checkpoint_minutes=1 / 60)
    await connection.execute(OUTCOMES)
    await until(connection, SIGNED, 2)
    # kill -9 and another one: nothing is done twice, nothing is lost.
    await daemon.kill()
    await connection.execute(OUTCOMES)
    other = tmp_path / "other.key"
    assert (await memoryd("anchors", "new-key", str(other))).code == 0
    again = await daemons.start(trail_key=f"file:{other}", trail_checkpoint_minutes=1 / 60)
    await until(connection, SIGNED, 4)
    await until(connection, "select count(*) = 4 from agent_memory where source = 'anchor'")
    await until(connection, IDLE)
    rows = await connection.fetch(
        "select m.content, a.category, a.id from memory_anchors a join agent_memory m on m.id = a.memory_id order by a.id"
    )
    assert sorted(row["category"] for row in rows) == ["incident", "incident", "milestone", "milestone"]
    await again.stop()
    assert [name for name in os.listdir(tmp_path) if name.endswith(".signed")] != []  # noqa: PTH208 - in an async function
    # Nothing secret is in the log or in the database.
    for one in (key, other):
        assert one.read_text().splitlines()[1] not in again.text() + daemon.text()

    listed = (await memoryd("anchors")).out
    assert listed.count(" signed  ") == 4
    [earlier] = [
        line.partition(": ")[2] for line in listed.splitlines() if line.startswith("Earlier public key: ")
    ]
    [public] = [
        line.partition(": ")[2] for line in listed.splitlines() if line.startswith("Public key in use: ")
    ]
    assert earlier != public
    found = (await memoryd("doctor", "--json", trail_key=f"file:{other}")).json
    [trail] = [one for one in found if one["name"] == "trail"]
    assert (trail["verdict"], "not verified: memoryd verify --all" in trail["found"]) == ("ok", True)
    file = tmp_path / "a.tlog-proof"
    assert (await memoryd("prove", str(rows[0]["id"]), "--output", str(file))).code == 0
    nowhere = Commands("postgresql://nobody@127.0.0.1:1/none", tmp_path)
    [shown] = (await nowhere("verify", str(file), "--key", public, "--json")).json
    assert shown["row"]["payload"]["content"] == rows[0]["content"]
    whole = await memoryd("verify", "--all", str(file), "--key", public, "--key", earlier)
    assert (whole.code, "0 breaks" in whole.out) == (0, True)

    await _tamper(memoryd, connection, rows)
    await _give_nonsense(nowhere, file, public)
    assert "no anchor" in (await memoryd("prove", "00000000-0000-0000-0000-000000000001")).sentences[0]
    # The context of the agent says how many there are, to those who work for the agents.
    asked = "select build_context('alice', 'what did we decide about the outage of billing?')"
    assert "\nAnchors: 4, the last a" in await connection.fetchval(asked)
    status = (await memoryd("status", "--json")).json
    assert (status["anchors"], status["anchors_signed"]) == (4, 4)


async def _tamper(memoryd: Commands, connection: asyncpg.Connection, rows: list[asyncpg.Record]) -> None:
    of_anchor = "(select memory_id from memory_anchors where id = $1)"
    await connection.execute(
        f"update agent_memory set content = 'it never happened' where id = {of_anchor}", rows[0]["id"]
    )
    assert (await memoryd("verify", "--all")).code == 3
    await connection.execute("update memory_anchors set chain_tx = '0x1' where id = $1", rows[2]["id"])
    unknown = await memoryd("verify", "--all")
    assert (unknown.code, "not verifiable: leaf" in unknown.out, "0 breaks" in unknown.out) == (4, True, True)
    await connection.execute("update memory_anchors set category = 'decision' where id = $1", rows[1]["id"])
    broken = await memoryd("verify", "--all", "--json")
    assert broken.code == 1
    assert [(one["how"], one["anchor"]) for one in broken.json["breaks"]] == [("altered", str(rows[1]["id"]))]


async def _give_nonsense(nowhere: Commands, file: Path, public: str) -> None:
    _write(file, _read(file).replace(b"index ", b"index 1", 1))
    wrong = await nowhere("verify", str(file), "--key", public)
    assert (wrong.code, "does not hold" in wrong.out) == (1, True)
    _write(file, b"\x00\xff" * 1000)
    assert (await nowhere("verify", str(file), "--key", public)).code == 1
    assert "Say what to verify" in (await nowhere("verify")).sentences[0]
    assert "no public key" in (await nowhere("verify", str(file), "--key", "x")).sentences[0]


def _read(file: Path) -> bytes:
    return file.read_bytes()


def _write(file: Path, content: bytes) -> None:
    file.write_bytes(content)


async def test_a_key_that_others_can_read_is_refused_and_the_doctor_says_what_is_missing(
    memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    key = tmp_path / "trail.key"
    await memoryd("anchors", "new-key", str(key))
    key.chmod(0o644)
    refused = await memoryd("run", trail_key=f"file:{key}")
    assert refused.code == 1
    assert f"The key {key} can be read by other accounts. Run: chmod 600 {key}" in refused.sentences[-1]
    (tmp_path / "bad").write_text("-----BEGIN PRIVATE KEY-----\nnonsense")
    (tmp_path / "bad").chmod(0o600)
    for file, says in (("bad", "is not a private key"), ("none", "cannot be read")):
        found = (await memoryd("doctor", "--json", trail_key=f"file:{tmp_path / file}")).json
        [trail] = [one for one in found if one["name"] == "trail"]
        assert (trail["verdict"], says in trail["found"]) == ("problem", True)
    await connection.execute(
        "insert into memory_anchors (agent_id, category, payload) values ('a', 'decision', '{}')"
    )
    found = (await memoryd("doctor", "--json")).json
    assert [one["verdict"] for one in found if one["name"] == "trail"] == ["warning"]
    assert json.dumps(found).count("PRIVATE") == 0
