"""Time stamps (RFC 3161): an authority signs that a checkpoint existed at a time.

`verify_timestamp` needs no network: `memoryd verify` calls it with what is kept. What is kept is the whole answer of the
authority, which `openssl ts -verify -in` reads too.

Promise: what is kept as proof was verified, with our nonce, against the configured certificates.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from pathlib import Path

from cryptography.x509 import BasicConstraints, Certificate, ExtensionNotFound, load_pem_x509_certificates
from rfc3161_client import (
    HashAlgorithm,
    TimeStampRequest,
    TimestampRequestBuilder,
    VerificationError,
    VerifierBuilder,
    decode_timestamp_response,
)

from plugins.trail.ledgers.http import Http
from plugins.trail.ports import LedgerItem, Progress, Receipt

SETTINGS = "MEMORYD_TSA_URL and MEMORYD_TSA_CERTIFICATE"
MAX_CERTIFICATE_BYTES = 1_000_000


class TimestampAuthority:
    """Implements `Ledger`."""

    name = "rfc3161"
    keeps_memories = False

    def __init__(self, url: str, certificates: bytes, *, timeout_seconds: float) -> None:
        """`certificates`: PEM. Raises ValueError where it has none."""
        _chain(certificates)
        self._url = url
        self._certificates = certificates
        self._http = Http(self.name, settings=SETTINGS, timeout_seconds=timeout_seconds)

    async def entrust(self, item: LedgerItem, progress: Progress) -> Receipt:
        try:
            note = _note(item)
        except ValueError as error:
            raise self._http.rejected(str(error)) from None
        request = TimestampRequestBuilder().data(note).hash_algorithm(HashAlgorithm.SHA256).build()
        answer = await self._http.post(
            self._url, request.as_bytes(), content_type="application/timestamp-query"
        )
        try:
            time = verify_timestamp(answer.body, note, self._certificates, request=request)
            serial = decode_timestamp_response(answer.body).tst_info.serial_number
        except ValueError as error:
            raise self._http.unavailable(f"the time stamp does not hold: {error}; check {SETTINGS}") from None
        return Receipt(f"{serial} at {time.isoformat()}", answer.body, True)

    async def dispute(self, item: LedgerItem, receipt: Receipt) -> str | None:
        """Verify the time stamp, see `Ledger.dispute`. The authority keeps nothing that could be asked for."""
        if receipt.proof is None:
            return "there is no time stamp"
        try:
            verify_timestamp(receipt.proof, _note(item), self._certificates)
        except ValueError as error:
            return f"the time stamp: {error}"
        return None

    async def close(self) -> None:
        await self._http.close()


def _note(item: LedgerItem) -> bytes:
    if not item.payload or hashlib.sha256(item.payload).digest() != item.content_hash:
        raise ValueError("it is no checkpoint, or not what its hash says")
    return item.payload


def read_certificates(path: Path) -> bytes:
    """The certificates in a file. Raises ValueError."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_CERTIFICATE_BYTES)
        _chain(content)
    except OSError as error:
        raise ValueError(f"the file of MEMORYD_TSA_CERTIFICATE cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"the file of MEMORYD_TSA_CERTIFICATE: {error}") from None
    return content


def verify_timestamp(
    token: bytes, note: bytes, certificates: bytes, *, request: TimeStampRequest | None = None
) -> datetime:
    """When the note was stamped.

    `token`: the answer of the authority, as it is kept. `certificates`: PEM, with the root of the authority, and what is
    between unless the token has it. They must have been valid at that time, not now. `request`: what it answers, whose nonce
    it must have. Raises ValueError with what is wrong.
    """
    leaf, authorities = _chain(certificates)
    builder = VerifierBuilder(tsa_certificate=leaf, roots=authorities or ([leaf] if leaf else []))
    if request is not None and request.nonce is not None:
        builder = builder.nonce(request.nonce)
    try:
        response = decode_timestamp_response(token)
    except Exception:  # noqa: BLE001 - whatever the parser says of bytes from outside
        raise ValueError("it is not a time stamp of RFC 3161") from None
    try:
        builder.build().verify_message(response, note)
    except VerificationError as error:
        raise ValueError(_plain(error)) from None
    except Exception:  # noqa: BLE001 - a certificate in it may be anything
        raise ValueError("it is not a time stamp of RFC 3161") from None
    return response.tst_info.gen_time


def _chain(certificates: bytes) -> tuple[Certificate | None, list[Certificate]]:
    """The certificate of the authority itself, if it is there, and those above it."""
    try:
        read = load_pem_x509_certificates(certificates)
    except ValueError:
        raise ValueError("there is no certificate in it: it must be PEM") from None
    own = [one for one in read if not _is_authority(one)]
    if len(own) > 1:
        raise ValueError("it has certificates of several authorities")
    return (own[0] if own else None), [one for one in read if _is_authority(one)]


def _is_authority(certificate: Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(BasicConstraints).value.ca
    except ExtensionNotFound:
        return False


def _plain(error: VerificationError) -> str:
    """Our words for what the library says."""
    said = str(error)
    for words, plain in (
        ("GRANTED", "the authority did not grant it"),
        ("Nonce", "it answers another question: the nonce differs"),
        ("between messages", "it is of something else"),
        ("Unsupported hash", "it is of another kind of hash"),
        ("verifying certificates", "it is not signed by the configured authority"),
        ("does not match", "it is not signed by the configured authority"),
    ):
        if words in said:
            return plain
    return "its certificate is not one for time stamps"
