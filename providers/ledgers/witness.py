"""A witness of the trail (C2SP tlog-witness): it signs a checkpoint only if the log has grown, and nothing in it was rewritten.

Promise: what is kept as proof was verified with the witness's configured key.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from providers.ledgers.cosignatures import WitnessKey, find_cosignature, size_of, verify_cosignature
from providers.ledgers.http import Answer, Http
from providers.ports import Entrusted, Progress, Receipt, Rejected

ConsistencyProof: TypeAlias = Callable[[int, int], Awaitable[Sequence[bytes]]]
"""Answers the hashes (32 bytes each) that prove that the log of the first number of leaves is the beginning of the log of the
second number of leaves (RFC 6962, 2.1.2). Called with 0 < first < second. LookupError says that the log has no such proof: it
has fewer leaves."""

MAX_HASHES = 63
SETTINGS = "MEMORYD_WITNESS_URL and MEMORYD_WITNESS_KEY"
ANSWERS = frozenset({400, 403, 404, 409, 422})


class Witness:
    """Implements `Ledger`."""

    name = "witness"
    keeps_memories = False

    def __init__(
        self, url: str, key: WitnessKey, *, consistency: ConsistencyProof, timeout_seconds: float
    ) -> None:
        """`url`: the submission prefix."""
        self._url = url.rstrip("/") + "/add-checkpoint"
        self._key = key
        self._consistency = consistency
        self._http = Http(self.name, settings=SETTINGS, timeout_seconds=timeout_seconds)
        self._seen = 0
        """How many leaves the witness has seen, as far as we know."""

    async def entrust(self, item: Entrusted, progress: Progress) -> Receipt:
        """Have a checkpoint signed, see `Ledger.entrust`. Asking again for the same one only gives another signature."""
        try:
            note, size = _checkpoint(item)
        except ValueError as error:
            raise self._http.rejected(str(error)) from None
        seen = self._seen if self._seen <= size else 0
        answer = await self._submit(note, seen, size)
        if answer.status == 409 and (told := _size_told(answer)) is not None and told != seen:
            if told > size:
                raise self._http.rejected(
                    f"it has seen {told} leaves, and this checkpoint has {size}; a trail that has fewer than {told} was cut off"
                )
            seen = told
            answer = await self._submit(note, seen, size)
        self._require_signed(answer, size)
        try:
            line, time = find_cosignature(answer.body, note, self._key)
        except ValueError as error:
            raise self._http.unavailable(f"it answered, but {error}; check {SETTINGS}") from None
        self._seen = size
        return Receipt(f"{self._key.name} at {time}", line, True)

    async def dispute(self, item: Entrusted, receipt: Receipt) -> str | None:
        """Verify the signature, see `Ledger.dispute`. The witness is not asked: it keeps the newest checkpoint only."""
        if receipt.proof is None:
            return "there is no signature of the witness"
        try:
            note, _ = _checkpoint(item)
            verify_cosignature(receipt.proof, note, self._key)
        except ValueError as error:
            return f"the signature of {self._key.name}: {error}"
        return None

    async def close(self) -> None:
        """Close connections."""
        await self._http.close()

    async def _submit(self, note: bytes, seen: int, size: int) -> Answer:
        hashes: Sequence[bytes] = ()
        if 0 < seen < size:
            try:
                hashes = await self._consistency(seen, size)
            except LookupError:
                raise self._http.rejected(
                    f"the trail cannot prove that it has grown from {seen} to {size} leaves"
                ) from None
        if len(hashes) > MAX_HASHES:
            raise self._http.rejected("the proof is too long")
        lines = [b"old %d" % seen, *(b64encode(one) for one in hashes), b""]
        body = b"".join(line + b"\n" for line in lines) + note
        return await self._http.post(self._url, body, content_type="text/plain; charset=utf-8", also=ANSWERS)

    def _require_signed(self, answer: Answer, size: int) -> None:
        """Raises Unavailable where the settings or a race are the reason, Rejected where the checkpoint is."""
        if 200 <= answer.status < 300:
            return
        if answer.status == 404:
            raise self._http.unavailable(
                f"HTTP 404: it does not know this trail's key, or there is no witness; check {SETTINGS}"
            )
        if answer.status == 403:
            raise self._http.unavailable(
                "HTTP 403: it does not know the key that signed the checkpoint: its operator has to add it"
            )
        if answer.status == 409 and _size_told(answer) not in {None, size}:
            self._seen = 0
            raise self._http.unavailable("HTTP 409: another daemon submits checkpoints at the same time")
        raise self._refused(answer.status, size)

    def _refused(self, status: int, size: int) -> Rejected:
        if status == 409:
            return self._http.rejected(
                f"HTTP 409: it has signed another checkpoint of {size} leaves: the trail was rewritten, or there are two"
            )
        if status == 422:
            return self._http.rejected(
                "HTTP 422: the proof does not hold: the trail was rewritten since it signed last"
            )
        return self._http.rejected(f"HTTP {status}: it refuses this checkpoint")


def _checkpoint(item: Entrusted) -> tuple[bytes, int]:
    """The signed note and its number of leaves. Raises ValueError."""
    if item.payload is None:
        raise ValueError("it is no checkpoint")
    return item.payload, size_of(item.payload)


def _size_told(answer: Answer) -> int | None:
    """The number of leaves in an answer 409; None if it has none."""
    text = answer.body.strip()
    return int(text) if text.isdigit() and len(text) < 20 else None
