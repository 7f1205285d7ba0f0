"""A server that speaks the RPC of Kubo and the API of Pinata, as far as pinning goes."""

from __future__ import annotations

import json
import re
from urllib.parse import parse_qs, urlsplit

from tests.support.services.ledgers import cid_of
from tests.support.services.played_server import Asked, PlayedServer, Reply

JWT = "SECRET-token"


class IpfsServer(PlayedServer):
    """The server. `pinned` has what was pinned."""

    def __init__(self) -> None:
        super().__init__()
        self.pinned: dict[str, bytes] = {}
        self.other_cid: str | None = None
        """What is answered instead of the CID."""

    def answer(self, asked: Asked) -> Reply:
        """Pin, or say what is pinned."""
        address = urlsplit(asked.path)
        query = {name: values[0] for name, values in parse_qs(address.query).items()}
        if address.path.startswith("/api/v0/"):
            return self._kubo(address.path.removeprefix("/api/v0/"), query, asked)
        if asked.headers.get("authorization") != f"Bearer {JWT}":
            return Reply(b"{}", 401)
        if (asked.method, address.path) == ("POST", "/pinning/pinFileToIPFS"):
            parts = _parts(asked)
            assert json.loads(parts["pinataOptions"])["cidVersion"] == 1
            return _json(
                {"IpfsHash": self._pin(parts["file"]), "PinSize": 1, "Timestamp": "2026-11-22T00:00:00Z"}
            )
        assert (asked.method, address.path, query["status"]) == ("GET", "/data/pinList", "pinned")
        rows = [{"ipfs_pin_hash": cid} for cid in self.pinned if query["hashContains"] in cid]
        return _json({"count": len(rows), "rows": rows})

    def _kubo(self, call: str, query: dict[str, str], asked: Asked) -> Reply:
        assert asked.method == "POST", "Kubo answers 405 to all else"
        if call == "pin/ls":
            if query["arg"] in self.pinned:
                return _json({"Keys": {query["arg"]: {"Type": "recursive"}}})
            return _json({"Message": f"path '{query['arg']}' is not pinned", "Code": 0, "Type": "error"}, 500)
        assert call == "add"
        assert (query["cid-version"], query["raw-leaves"], query["pin"]) == ("1", "true", "true")
        content = _parts(asked)["file"]
        assert len(content) <= int(query["chunker"].removeprefix("size-"))
        return _json({"Name": "anchor", "Hash": self._pin(content), "Size": str(len(content))})

    def _pin(self, content: bytes) -> str:
        cid = self.other_cid or cid_of(content)
        self.pinned[cid] = content
        return cid


def _json(said: object, status: int = 200) -> Reply:
    return Reply(json.dumps(said).encode(), status, "application/json")


def _parts(asked: Asked) -> dict[str, bytes]:
    boundary = asked.headers["content-type"].partition("boundary=")[2].encode()
    parts = {}
    for part in asked.body.split(b"--" + boundary)[1:-1]:
        head, _, content = part.partition(b"\r\n\r\n")
        found = re.search(rb' name="([^"]*)"', head)
        assert found is not None
        parts[found[1].decode()] = content.removesuffix(b"\r\n")
    return parts
