"""An authority for time stamps (RFC 3161) on a local port: its certificates, and signed tokens, put together by hand."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from functools import cache

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.support.services.played_server import Asked, PlayedServer, Reply

SIGNED_DATA = "1.2.840.113549.1.7.2"
TST_INFO = "1.2.840.113549.1.9.16.1.4"
CONTENT_TYPE, MESSAGE_DIGEST = "1.2.840.113549.1.9.3", "1.2.840.113549.1.9.4"
SHA256, ECDSA_SHA256 = "2.16.840.1.101.3.4.2.1", "1.2.840.10045.4.3.2"
GRANTED, REJECTED = 0, 2


class TsaServer(PlayedServer):
    """The authority. What it answers can be made wrong with the attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.root, self.certificate, self.key = _authority("one")
        self.other_hash: bytes | None = None
        self.other_nonce: int | None = None
        self.status = GRANTED
        self.with_certificate = True

    def pem(self, *, root: bool = True, own: bool = False) -> bytes:
        """Its certificates, as settings have them."""
        wanted = [self.root] * root + [self.certificate] * own
        return b"".join(one.public_bytes(Encoding.PEM) for one in wanted)

    def become_another(self) -> None:
        """Sign with the key of an authority that nobody knows."""
        self.root, self.certificate, self.key = _authority("two")

    def answer(self, asked: Asked) -> Reply:
        """Stamp what is asked for."""
        # The request is SEQUENCE (INTEGER version, SEQUENCE imprint, INTEGER nonce, BOOLEAN certificates).
        _, request, _ = _read(asked.body)
        _, _, rest = _read(request)
        _, imprint, rest = _read(rest)
        _, nonce, _ = _read(rest)
        _, _, hashed = _read(imprint)
        _, digest, _ = _read(hashed)
        if self.status != GRANTED:
            return Reply(
                _der(0x30, _der(0x30, _integer(self.status))), content_type="application/timestamp-reply"
            )
        content = self._info(self.other_hash or digest, self.other_nonce or int.from_bytes(nonce, "big"))
        body = _der(0x30, _der(0x30, _integer(GRANTED)), self._signed(content))
        return Reply(body, content_type="application/timestamp-reply")

    def _info(self, digest: bytes, nonce: int) -> bytes:
        imprint = _der(0x30, _der(0x30, _oid(SHA256), _der(0x05)), _der(0x04, digest))
        time = _der(0x18, datetime.now(UTC).strftime("%Y%m%d%H%M%SZ").encode())
        accuracy = _der(0x30, _integer(1))
        return _der(
            0x30,
            _integer(1),
            _oid("1.2.3.4"),
            imprint,
            _integer(len(self.requests)),
            time,
            accuracy,
            _integer(nonce),
        )

    def _signed(self, content: bytes) -> bytes:
        attributes = [
            _der(0x30, _oid(CONTENT_TYPE), _der(0x31, _oid(TST_INFO))),
            _der(0x30, _oid(MESSAGE_DIGEST), _der(0x31, _der(0x04, hashlib.sha256(content).digest()))),
        ]
        together = b"".join(sorted(attributes))
        signature = self.key.sign(_der(0x31, together), ec.ECDSA(hashes.SHA256()))
        issuer = self.certificate.issuer.public_bytes()
        signer = _der(
            0x30,
            _integer(1),
            _der(0x30, issuer, _integer(self.certificate.serial_number)),
            _der(0x30, _oid(SHA256)),
            _der(0xA0, together),
            _der(0x30, _oid(ECDSA_SHA256)),
            _der(0x04, signature),
        )
        own = self.certificate.public_bytes(Encoding.DER) if self.with_certificate else b""
        data = _der(
            0x30,
            _integer(3),
            _der(0x31, _der(0x30, _oid(SHA256))),
            _der(0x30, _oid(TST_INFO), _der(0xA0, _der(0x04, content))),
            _der(0xA0, own),
            _der(0x31, signer),
        )
        return _der(0x30, _oid(SIGNED_DATA), _der(0xA0, data))


@cache
def _authority(name: str) -> tuple[x509.Certificate, x509.Certificate, ec.EllipticCurvePrivateKey]:
    root_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    root_name, own_name = (
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{kind} {name}")])
        for kind in ("root", "authority")
    )
    begin = datetime.now(UTC) - timedelta(days=1)

    def made(subject: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(root_name).public_key(public)
        builder = builder.serial_number(x509.random_serial_number()).not_valid_before(begin)
        return builder.not_valid_after(begin + timedelta(days=10))

    root = made(root_name, root_key.public_key()).add_extension(
        x509.BasicConstraints(True, None), critical=True
    )
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING])
    own = made(own_name, key.public_key()).add_extension(usage, critical=True)
    return root.sign(root_key, hashes.SHA256()), own.sign(root_key, hashes.SHA256()), key


def _der(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    length = len(content)
    if length < 128:
        return bytes((tag, length)) + content
    written = length.to_bytes((length.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(written))) + written + content


def _integer(number: int) -> bytes:
    return _der(0x02, number.to_bytes(number.bit_length() // 8 + 1, "big"))


def _oid(text: str) -> bytes:
    first, second, *others = (int(one) for one in text.split("."))
    content = bytes((first * 40 + second,))
    for number in others:
        digits = [number & 0x7F]
        while number := number >> 7:
            digits.append(0x80 | number & 0x7F)
        content += bytes(reversed(digits))
    return _der(0x06, content)


def _read(content: bytes) -> tuple[int, bytes, bytes]:
    """The tag and content of the first value, and what comes after it."""
    tag, length, start = content[0], content[1], 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(content[2:start], "big")
    return tag, content[start : start + length], content[start + length :]
