"""The ledgers that keep checkpoints, over HTTP: a witness, and an authority for time stamps. Both may answer anything."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from providers.ledgers.cosignatures import WitnessKey, verify_cosignature
from providers.ledgers.timestamps import TimestampAuthority, verify_timestamp
from providers.ledgers.witness import Witness
from providers.ports import Entrusted, Rejected, Unavailable
from tests.support.services.ledgers import KeptProgress, entrusted
from tests.support.services.played_server import GARBAGE, Fault
from tests.support.services.tsa_server import REJECTED, TsaServer
from tests.support.services.witness_server import NAME, TIME, Log, WitnessServer, vkey

LEAVES = [b"leaf %d" % number for number in range(40)]
OTHER_KEY = Ed25519PrivateKey.from_private_bytes(b"\x03" * 32)


def checkpoint(log: Log, size: int) -> Entrusted:
    return entrusted(log.checkpoint(size), category="checkpoint", key=f"checkpoint/{size}")


@pytest.fixture
def log() -> Log:
    return Log(LEAVES)


@pytest.fixture
def server(log: Log) -> Iterator[WitnessServer]:
    with WitnessServer(log.key.public_key()) as served:
        yield served


def make_witness(server: WitnessServer, log: Log) -> Witness:
    return Witness(
        f"{server.url}/log/",
        WitnessKey.read(server.vkey),
        consistency=log.consistency,
        timeout_seconds=10.0,
    )


@pytest.fixture
async def witness(server: WitnessServer, log: Log) -> AsyncIterator[Witness]:
    made = make_witness(server, log)
    yield made
    await made.close()


async def test_a_witness_signs_as_the_log_grows(server: WitnessServer, witness: Witness, log: Log) -> None:
    for size in (1, 2, 3, 7, 8, 8, 21, 40):
        item = checkpoint(log, size)
        receipt = await witness.entrust(item, KeptProgress())
        assert (receipt.reference, receipt.final) == (f"{NAME} at {TIME}", True)
        assert receipt.proof is not None
        assert item.payload is not None
        assert verify_cosignature(receipt.proof, item.payload, WitnessKey.read(server.vkey)) == TIME
        assert await witness.dispute(item, receipt) is None
        assert server.seen[0] == size
    assert len(server.requests) == 8, "what it has seen is remembered"


async def test_a_witness_tells_a_new_daemon_what_it_has_seen(
    server: WitnessServer, witness: Witness, log: Log
) -> None:
    await witness.entrust(checkpoint(log, 13), KeptProgress())
    restarted = make_witness(server, log)
    await restarted.entrust(checkpoint(log, 29), KeptProgress())
    assert [one.body.split(b"\n")[0] for one in server.requests] == [b"old 0", b"old 0", b"old 13"]
    # The other daemon's is older than the newest now.
    with pytest.raises(Rejected, match="seen 29 leaves, and this checkpoint has 20"):
        await witness.entrust(checkpoint(log, 20), KeptProgress())
    await witness.entrust(checkpoint(log, 40), KeptProgress())
    await restarted.close()


@pytest.mark.parametrize("position", range(0, 13, 4))
async def test_a_rewritten_log_gets_no_signature(
    server: WitnessServer, witness: Witness, log: Log, position: int
) -> None:
    await witness.entrust(checkpoint(log, 13), KeptProgress())
    log.leaves[position] = b"rewritten"
    with pytest.raises(Rejected, match="rewritten since it signed last"):
        await witness.entrust(checkpoint(log, 20), KeptProgress())
    with pytest.raises(Rejected, match="another checkpoint of 13 leaves"):
        await witness.entrust(checkpoint(log, 13), KeptProgress())


async def test_a_log_that_was_cut_off_gets_no_signature(
    server: WitnessServer, witness: Witness, log: Log
) -> None:
    await witness.entrust(checkpoint(log, 40), KeptProgress())
    shorter = Log(LEAVES[:20])
    made = make_witness(server, shorter)
    with pytest.raises(Rejected, match="was cut off"):
        await made.entrust(checkpoint(shorter, 20), KeptProgress())
    await made.close()


async def test_a_log_without_the_proof_is_said(server: WitnessServer, witness: Witness, log: Log) -> None:
    await witness.entrust(checkpoint(log, 10), KeptProgress())
    item = checkpoint(log, 30)
    del log.leaves[20:]
    with pytest.raises(Rejected, match="cannot prove that it has grown from 10 to 30"):
        await witness.entrust(item, KeptProgress())


async def test_a_witness_that_does_not_know_us(server: WitnessServer, witness: Witness, log: Log) -> None:
    log.key = OTHER_KEY
    with pytest.raises(Unavailable, match="its operator has to add it"):
        await witness.entrust(checkpoint(log, 10), KeptProgress())
    server.origins.clear()
    with pytest.raises(Unavailable, match="does not know this trail"):
        await witness.entrust(checkpoint(log, 10), KeptProgress())


async def test_signatures_of_others_are_not_taken(server: WitnessServer, witness: Witness, log: Log) -> None:
    item = checkpoint(log, 10)
    text = log.checkpoint(10).partition(b"\n\n")[0] + b"\n"
    wrong = {
        "another key": server.cosign(text, key=OTHER_KEY),
        "another name": server.cosign(text, name="witness.example/two"),
        "another checkpoint": server.cosign(log.checkpoint(11).partition(b"\n\n")[0] + b"\n"),
        "none": b"",
        "the log's own": log.checkpoint(10).partition(b"\n\n")[2],
        "not base64": f"\N{EM DASH} {NAME} ****\n".encode(),
        "short": f"\N{EM DASH} {NAME} AAAA\n".encode(),
        "two lines in one": server.cosign(text).replace(b"\n", b" x"),
    }
    for lines in wrong.values():
        server.script(Fault.body(lines))
        with pytest.raises(Unavailable, match="MEMORYD_WITNESS_KEY"):
            await witness.entrust(item, KeptProgress())
    server.script(Fault.body(b"".join(wrong.values()) + b"\n" + server.cosign(text)))
    receipt = await witness.entrust(item, KeptProgress())
    assert receipt.proof == server.cosign(text)


async def test_a_signature_with_any_bit_changed_is_disputed(witness: Witness, log: Log) -> None:
    item = checkpoint(log, 10)
    receipt = await witness.entrust(item, KeptProgress())
    assert receipt.proof is not None
    for place in range(len(receipt.proof)):
        changed = bytearray(receipt.proof)
        changed[place] ^= 1
        assert await witness.dispute(item, dataclasses.replace(receipt, proof=bytes(changed))) is not None
    assert await witness.dispute(checkpoint(log, 11), receipt) is not None
    assert await witness.dispute(item, dataclasses.replace(receipt, proof=None)) is not None


async def test_what_is_no_checkpoint_is_rejected(server: WitnessServer, witness: Witness) -> None:
    for content in (
        b"",
        b"\n\n",
        b"origin\n-1\nroot\n\n",
        b"origin\n01\nroot\n\n",
        b"origin\n1\n\n",
        b"\xff\x00",
    ):
        with pytest.raises(Rejected):
            await witness.entrust(entrusted(content, category="checkpoint"), KeptProgress())
    with pytest.raises(Rejected):
        await witness.entrust(entrusted(b"origin\n1\nroot\n\n", payload=False), KeptProgress())
    assert server.requests == []


@pytest.mark.parametrize(
    "key",
    [
        "", "name", "name+12345678+AAAA", "na me+12345678+AAAA", "+12345678+AAAA",
        vkey(NAME, OTHER_KEY, kind=b"\x01"), "x" + vkey(NAME, OTHER_KEY), vkey(NAME, OTHER_KEY)[:-4],
    ],
)  # fmt: skip
def test_what_is_no_key_of_a_witness(key: str) -> None:
    with pytest.raises(ValueError, match="it"):
        WitnessKey.read(key)


OWN_FAULTS = (Fault.status(502), GARBAGE, Fault.body(b""))
"""tests/integration/ledgers/test_http.py has those of HTTP."""


async def test_a_witness_that_fails_is_asked_again(server: WitnessServer, witness: Witness, log: Log) -> None:
    for fault in OWN_FAULTS:
        server.always = fault
        with pytest.raises(Unavailable) as failure:
            await witness.entrust(checkpoint(log, 10), KeptProgress())
        assert "SECRET" not in str(failure.value)
    server.heal()
    assert (await witness.entrust(checkpoint(log, 10), KeptProgress())).final


@pytest.fixture
def tsa() -> Iterator[TsaServer]:
    with TsaServer() as served:
        yield served


def make_authority(tsa: TsaServer) -> TimestampAuthority:
    return TimestampAuthority(tsa.url + "/tsr", tsa.pem(), timeout_seconds=10.0)


NOTE = Log(LEAVES).checkpoint(10)
ITEM = entrusted(NOTE, category="checkpoint", key="checkpoint/10")


@pytest.mark.parametrize(("own", "inside"), [(False, True), (True, True), (True, False)])
async def test_a_time_stamp_is_verified_offline_afterwards(tsa: TsaServer, own: bool, inside: bool) -> None:
    """The authority's certificate is in the settings, in the token, or in both."""
    tsa.with_certificate = inside
    certificates = tsa.pem(own=own)
    authority = TimestampAuthority(tsa.url, certificates, timeout_seconds=10)
    receipt = await authority.entrust(ITEM, KeptProgress())
    assert receipt.final
    assert receipt.proof is not None
    assert await authority.dispute(ITEM, receipt) is None
    await authority.close()
    time = verify_timestamp(receipt.proof, NOTE, certificates)
    assert abs(time - datetime.now(UTC)) < timedelta(minutes=5)
    with pytest.raises(ValueError, match="something else"):
        verify_timestamp(receipt.proof, NOTE + b"x", certificates)


async def test_time_stamps_that_do_not_hold_are_not_taken(tsa: TsaServer) -> None:
    authority = make_authority(tsa)

    async def refused(reason: str) -> None:
        with pytest.raises(Unavailable, match=reason):
            await authority.entrust(ITEM, KeptProgress())

    tsa.other_hash = b"\x05" * 32
    await refused("of something else")
    tsa.other_hash, tsa.other_nonce = None, 5
    await refused("the nonce differs")
    tsa.other_nonce, tsa.status = None, REJECTED
    await refused("RFC 3161|did not grant")
    tsa.status = 0
    tsa.become_another()
    await refused("not signed by the configured authority")
    await authority.close()


async def test_a_time_stamp_with_a_bit_changed_is_disputed(tsa: TsaServer) -> None:
    authority = make_authority(tsa)
    receipt = await authority.entrust(ITEM, KeptProgress())
    assert receipt.proof is not None
    signed = receipt.proof.index(ITEM.content_hash)
    for place in (*range(12), signed, signed + 31, len(receipt.proof) - 1):
        changed = bytearray(receipt.proof)
        changed[place] ^= 1
        assert await authority.dispute(ITEM, dataclasses.replace(receipt, proof=bytes(changed))) is not None
    for proof in (None, b"", receipt.proof[:-1], receipt.proof + b"\x00"):
        assert await authority.dispute(ITEM, dataclasses.replace(receipt, proof=proof)) is not None
    await authority.close()


async def test_only_the_hash_goes_to_the_authority(tsa: TsaServer) -> None:
    authority = make_authority(tsa)
    await authority.entrust(ITEM, KeptProgress())
    (asked,) = tsa.requests
    assert asked.headers["content-type"] == "application/timestamp-query"
    assert ITEM.content_hash in asked.body
    assert b"memoryd" not in asked.body
    for item in (dataclasses.replace(ITEM, payload=None), dataclasses.replace(ITEM, payload=b"other")):
        with pytest.raises(Rejected):
            await authority.entrust(item, KeptProgress())
    await authority.close()


async def test_an_authority_that_fails_is_asked_again(tsa: TsaServer) -> None:
    authority = make_authority(tsa)
    for fault in OWN_FAULTS:
        tsa.always = fault
        with pytest.raises(Unavailable) as failure:
            await authority.entrust(ITEM, KeptProgress())
        assert "SECRET" not in str(failure.value)
    tsa.heal()
    assert (await authority.entrust(ITEM, KeptProgress())).final
    await authority.close()


@pytest.mark.parametrize(
    "content", [b"", b"no certificate", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
def test_what_is_no_certificate(content: bytes) -> None:
    with pytest.raises(ValueError, match="PEM"):
        TimestampAuthority("http://127.0.0.1:1", content, timeout_seconds=1)
