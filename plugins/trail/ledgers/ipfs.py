"""IPFS: a node of ours (the RPC of Kubo) or Pinata keeps checkpoints, and memories where a setting says so.

Promise: what is pinned has the CID that the trail has, or it is not taken for pinned. A memory without a payload is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from urllib.parse import urlencode

from plugins.trail.ledgers.http import Http
from plugins.trail.ports import LedgerItem, Progress, Receipt

MAX_BLOCK_BYTES = 1_048_576
"""Of the largest content that is one block. A larger one would get another CID."""
STEP = "pinned"


class Ipfs:
    """Implements `Ledger`."""

    name = "ipfs"

    def __init__(self, pinner: Kubo | Pinata, *, payloads: bool) -> None:
        """`payloads`: memories are pinned too. What is public cannot be erased."""
        self.keeps_memories = payloads
        self._pinner = pinner

    async def entrust(self, item: LedgerItem, progress: Progress) -> Receipt:
        http = self._pinner.http
        if item.payload is None:
            raise http.rejected("there is nothing to pin: the content of this memory stays on the machine")
        if hashlib.sha256(item.payload).digest() != item.content_hash:
            raise http.rejected("the content is not what its hash says")
        if len(item.payload) > MAX_BLOCK_BYTES:
            raise http.rejected(f"the content is larger than a block of IPFS ({MAX_BLOCK_BYTES} bytes)")
        if progress.reached(STEP) != item.cid:
            cid = await self._pinner.pin(item.payload)
            if cid != item.cid:
                raise http.unavailable("it pinned under another CID than the content has; check its settings")
            await progress.keep(STEP, cid)
        return Receipt(item.cid, None, True)

    async def dispute(self, item: LedgerItem, receipt: Receipt) -> str | None:
        if receipt.reference != item.cid:
            return "the receipt is of another CID"
        return None if await self._pinner.has(item.cid) else f"{item.cid} is not pinned"

    async def close(self) -> None:
        await self._pinner.http.close()


class Kubo:
    """The RPC of Kubo. `pin` answers the CID, `has` whether it is pinned."""

    def __init__(self, url: str, *, timeout_seconds: float, token: str | None = None) -> None:
        """`token`: of API.Authorizations, where the node wants one."""
        self._url = url.rstrip("/") + "/api/v0/"
        self.http = Http(Ipfs.name, settings="MEMORYD_IPFS_URL", timeout_seconds=timeout_seconds, token=token)

    async def pin(self, content: bytes) -> str:
        asked = {
            "cid-version": "1",
            "raw-leaves": "true",
            "chunker": f"size-{MAX_BLOCK_BYTES}",
            "hash": "sha2-256",
            "pin": "true",
        }
        body, content_type = _form({"file": content})
        answer = await self.http.post(f"{self._url}add?{urlencode(asked)}", body, content_type=content_type)
        return _cid_in(self.http.json(answer), "Hash", self.http)

    async def has(self, cid: str) -> bool:
        answer = await self.http.post(
            f"{self._url}pin/ls?{urlencode({'arg': cid})}",
            b"",
            content_type="text/plain",
            also=frozenset({500}),
        )
        if answer.status == 500:
            if b"is not pinned" in answer.body:
                return False
            raise self.http.unavailable("HTTP 500")
        keys = self.http.json(answer).get("Keys")
        if not isinstance(keys, dict):
            raise self.http.misunderstood()
        return cid in keys


class Pinata:
    def __init__(self, url: str, *, jwt: str, timeout_seconds: float) -> None:
        self._url = url.rstrip("/")
        settings = "MEMORYD_PINATA_JWT"
        self.http = Http(Ipfs.name, settings=settings, timeout_seconds=timeout_seconds, token=jwt)

    async def pin(self, content: bytes) -> str:
        options = json.dumps({"cidVersion": 1}).encode()
        body, content_type = _form({"file": content, "pinataOptions": options})
        answer = await self.http.post(f"{self._url}/pinning/pinFileToIPFS", body, content_type=content_type)
        return _cid_in(self.http.json(answer), "IpfsHash", self.http)

    async def has(self, cid: str) -> bool:
        asked = urlencode({"hashContains": cid, "status": "pinned", "pageLimit": 10})
        rows = self.http.json(await self.http.get(f"{self._url}/data/pinList?{asked}")).get("rows")
        if not isinstance(rows, list):
            raise self.http.misunderstood()
        return any(isinstance(row, dict) and row.get("ipfs_pin_hash") == cid for row in rows)


def _cid_in(said: Mapping[str, object], name: str, http: Http) -> str:
    cid = said.get(name)
    if not isinstance(cid, str):
        raise http.misunderstood()
    return cid


def _form(parts: Mapping[str, bytes]) -> tuple[bytes, str]:
    """The parts as multipart/form-data, and its content type. The part `file` is a file."""
    from httpx2 import Request

    files = {name: ("anchor" if name == "file" else None, content) for name, content in parts.items()}
    made = Request("POST", "http://multipart", files=files)
    return made.read(), made.headers["Content-Type"]
