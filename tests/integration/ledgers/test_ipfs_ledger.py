"""The ledger `ipfs`, over the RPC of Kubo and over Pinata's API."""

from __future__ import annotations

import dataclasses
import traceback
from collections.abc import Iterator

import pytest

from plugins.trail.ledgers.ipfs import MAX_BLOCK_BYTES, Ipfs, Kubo, Pinata
from plugins.trail.ports import Receipt
from providers.ports import RejectionError, UnavailableError
from tests.support.services.ipfs_server import JWT, IpfsServer
from tests.support.services.ledgers import KeptProgress, Killed, cid_of, entrusted
from tests.support.services.played_server import GARBAGE, Fault

ITEM = entrusted(b"memoryd/test\n10\nroot\n\nsigned\r\n--\x00\xff", category="checkpoint")


@pytest.fixture
def server() -> Iterator[IpfsServer]:
    with IpfsServer() as served:
        yield served


def make(server: IpfsServer, kind: str, *, jwt: str = JWT) -> Ipfs:
    if kind == "kubo":
        return Ipfs(Kubo(server.url, timeout_seconds=10.0), payloads=False)
    return Ipfs(Pinata(server.url, jwt=jwt, timeout_seconds=10.0), payloads=False)


@pytest.fixture(params=["kubo", "pinata"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_it_is_pinned_under_our_cid(server: IpfsServer, kind: str) -> None:
    ipfs = make(server, kind)
    receipt = await ipfs.entrust(ITEM, KeptProgress())
    assert receipt == Receipt(ITEM.cid, None, True)
    assert server.pinned == {ITEM.cid: ITEM.payload}
    assert await ipfs.dispute(ITEM, receipt) is None
    server.pinned.clear()
    assert "is not pinned" in str(await ipfs.dispute(ITEM, receipt))
    assert "another CID" in str(await ipfs.dispute(entrusted(b"other"), receipt))
    await ipfs.close()


async def test_nothing_but_what_may_leave_is_sent(server: IpfsServer, kind: str) -> None:
    ipfs = make(server, kind)
    assert not ipfs.keeps_memories
    for item in (
        dataclasses.replace(ITEM, payload=None),
        dataclasses.replace(ITEM, payload=b"other"),
        entrusted(b"x" * (MAX_BLOCK_BYTES + 1)),
    ):
        with pytest.raises(RejectionError):
            await ipfs.entrust(item, KeptProgress())
    assert server.requests == []
    largest = entrusted(b"x" * MAX_BLOCK_BYTES)
    assert (await ipfs.entrust(largest, KeptProgress())).reference == largest.cid
    await ipfs.close()


async def test_another_cid_is_not_taken(server: IpfsServer, kind: str) -> None:
    ipfs = make(server, kind)
    server.other_cid = cid_of(b"other")
    progress = KeptProgress()
    with pytest.raises(UnavailableError, match="another CID"):
        await ipfs.entrust(ITEM, progress)
    assert progress.steps == {}
    await ipfs.close()


async def test_killed_after_the_pin_it_is_not_sent_again(server: IpfsServer, kind: str) -> None:
    ipfs = make(server, kind)
    progress = KeptProgress()
    progress.kill_when_kept()
    with pytest.raises(Killed):
        await ipfs.entrust(ITEM, progress)
    assert (await ipfs.entrust(ITEM, progress)).reference == ITEM.cid
    assert len(server.requests) == 1
    await ipfs.close()


OWN_FAULTS = (Fault.status(500), GARBAGE, Fault.body(b'{"Hash": 5}'))
"""tests/integration/ledgers/test_http.py has those of HTTP."""


async def test_a_server_that_fails_is_asked_again(server: IpfsServer, kind: str) -> None:
    ipfs = make(server, kind)
    progress = KeptProgress()
    for fault in OWN_FAULTS:
        server.always = fault
        for ask in (
            lambda: ipfs.entrust(ITEM, progress),
            lambda: ipfs.dispute(ITEM, Receipt(ITEM.cid, None, True)),
        ):
            with pytest.raises(UnavailableError) as failure:
                await ask()
            assert "SECRET" not in "".join(traceback.format_exception(failure.value))
    server.heal()
    assert progress.steps == {}
    assert (await ipfs.entrust(ITEM, progress)).final
    await ipfs.close()


async def test_a_wrong_key_is_a_matter_of_settings(server: IpfsServer) -> None:
    ipfs = make(server, "pinata", jwt="SECRET-wrong")
    with pytest.raises(UnavailableError, match="MEMORYD_PINATA_JWT") as failure:
        await ipfs.entrust(ITEM, KeptProgress())
    assert "SECRET" not in "".join(traceback.format_exception(failure.value))
    await ipfs.close()
