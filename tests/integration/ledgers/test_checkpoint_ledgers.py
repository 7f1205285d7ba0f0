"""The ledger that keeps checkpoints only, over HTTP: an authority for time stamps, which may answer anything."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from plugins.trail.ledgers.timestamps import TimestampAuthority, verify_timestamp
from plugins.trail.rules.note import Checkpoint, sign
from providers.ports import RejectionError, UnavailableError
from tests.support.services.ledgers import KeptProgress, entrusted
from tests.support.services.played_server import GARBAGE, Fault
from tests.support.services.tsa_server import REJECTED, TsaServer

OWN_FAULTS = (Fault.status(502), GARBAGE, Fault.body(b""))
"""tests/integration/ledgers/test_http.py has those of HTTP."""


@pytest.fixture
def tsa() -> Iterator[TsaServer]:
    with TsaServer() as served:
        yield served


def make_authority(tsa: TsaServer) -> TimestampAuthority:
    return TimestampAuthority(tsa.url + "/tsr", tsa.pem(), timeout_seconds=10.0)


KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
NOTE = str(sign(Checkpoint("memoryd/test", 10, bytes(32)), KEY)).encode()
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
        with pytest.raises(UnavailableError, match=reason):
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
        with pytest.raises(RejectionError):
            await authority.entrust(item, KeptProgress())
    await authority.close()


async def test_an_authority_that_fails_is_asked_again(tsa: TsaServer) -> None:
    authority = make_authority(tsa)
    for fault in OWN_FAULTS:
        tsa.always = fault
        with pytest.raises(UnavailableError) as failure:
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
