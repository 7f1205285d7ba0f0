"""Encrypted values of secret fields: the test vector of docs/secrets.md, what does not open, and the file of the keys."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from plugins.secrets.keys import (
    DecryptionError,
    SecretKeys,
    add_key,
    base64url,
    from_base64url,
    read_encrypted,
    read_keys,
)

DOCUMENT = Path(__file__).parents[2] / "docs" / "secrets.md"
ANN = UUID("00000000-0000-0000-0000-00000000a11c")


@pytest.fixture
def keys(tmp_path: Path) -> SecretKeys:
    return add_key(tmp_path / "keys")


def value(keys: SecretKeys, secret: bytes = b"sk-1", *, user: UUID | None = ANN) -> str:
    return json.dumps(keys.newest.encrypt(secret, field="api_key", user=user))


def test_the_documented_test_vector_opens() -> None:
    text = DOCUMENT.read_text("utf-8")
    vector = dict(re.findall(r"^\| ([a-z ]+) \| `([^`]+)` \|$", text, re.MULTILINE))
    key = X25519PrivateKey.from_private_bytes(from_base64url(vector["private key"]))
    keys = SecretKeys(Path("file"), (key,))
    assert (keys.newest.raw, keys.newest.id) == (from_base64url(vector["public key"]), vector["key id"])
    user = UUID(vector["user"])
    for name in ("encrypted", "encrypted elsewhere"):
        assert keys.decrypt(vector[name], field=vector["field"], user=user) == vector["value"].encode()


def test_the_documented_example_encrypts(keys: SecretKeys) -> None:
    [example] = re.findall(r"^```python\n(.*?)^```$", DOCUMENT.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    exec(example, names)
    key = {"key_id": keys.newest.id, "public_key": base64url(keys.newest.raw)}
    for user in (ANN, None):
        made = names["encrypt"](key, "API_KEY", None if user is None else str(user), "sk-é")
        assert keys.decrypt(json.dumps(made), field="api_key", user=user) == "sk-é".encode()


def test_a_value_opens_as_its_own_field_of_its_own_user_alone(keys: SecretKeys, tmp_path: Path) -> None:
    made = value(keys, b"a\0b")
    assert keys.decrypt(made, field="API_Key", user=ANN) == b"a\0b"
    assert keys.decrypt(value(keys, user=None), field="api_key", user=None) == b"sk-1"
    head, sealed = json.loads(made)["encrypted"].rsplit(".", 1)
    bytes_ = from_base64url(sealed)
    changed = [
        f"{head}.{base64url(one)}" for one in (bytes_[:-1], bytes([bytes_[0] ^ 1]) + bytes_[1:], bytes(48))
    ]
    wrong = [
        (made, "token", ANN),
        (made, "api_key", uuid4()),
        (made, "api_key", None),
        (value(keys, user=None), "api_key", ANN),
        *((one, "api_key", ANN) for one in changed),
    ]
    for each, field, user in wrong:
        with pytest.raises(DecryptionError, match="another field or another user, or was changed"):
            keys.decrypt(each, field=field, user=user)
    with pytest.raises(DecryptionError, match=f"key {keys.newest.id}, which is not in"):
        add_key(tmp_path / "other").decrypt(made, field="api_key", user=ANN)


def test_the_same_secret_is_never_encrypted_the_same(keys: SecretKeys) -> None:
    assert len({value(keys) for _ in range(20)}) == 20


@pytest.mark.parametrize(
    "text",
    [
        "", "null", "[]", "{}", '{"encrypted": null}', '{"encrypted": 1}', '{"encrypted": "1.x.y"}', "sk-1",
        '{"encrypted": "2.0123456789abcdef.' + "A" * 64 + '"}', '{"encrypted": "1.0123456789abcdef.' + "A" * 65 + '"}',
        '{"encrypted": "1.0123456789abcdef.' + "A" * 64 + '", "and": 1}', "1.0123456789abcdef." + "A" * 63 + "+",
    ],
)  # fmt: skip
def test_what_has_another_form_is_no_encrypted_value(text: str) -> None:
    assert read_encrypted(text) is None


def test_a_new_key_is_the_first_and_the_older_ones_stay(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    first = add_key(file)
    made = value(first)
    second = add_key(file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert second.newest.id != first.newest.id
    assert list(read_keys(file).ids) == [second.newest.id, first.newest.id]
    assert read_keys(file).decrypt(made, field="api_key", user=ANN) == b"sk-1"
    assert [each.name for each in tmp_path.iterdir()] == ["keys"]


def test_two_who_make_a_key_at_once_lose_none(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    # Programs of their own: a fork of this one, which has threads, may wait for ever.
    make = (
        "import pathlib, sys; from plugins.secrets.keys import add_key\n"
        "for _ in range(3): print(add_key(pathlib.Path(sys.argv[1])).newest.id)"
    )
    at_once = [
        subprocess.Popen([sys.executable, "-c", make, str(file)], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    made = [line for each in at_once for line in each.communicate()[0].split()]
    assert len(made) == 9
    assert sorted(read_keys(file).ids) == sorted(made)


def test_a_file_that_others_may_read_or_that_has_no_such_keys_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    add_key(file)
    pem = file.read_bytes()
    for mode in (0o640, 0o604, 0o660):
        file.chmod(mode)
        with pytest.raises(ValueError, match="chmod 600"):
            read_keys(file)
        with pytest.raises(ValueError, match="chmod 600"):
            add_key(file)
    file.chmod(0o600)
    assert file.read_bytes() == pem
    with pytest.raises(ValueError, match=r"cannot be read: .*memoryd secrets new-key"):
        read_keys(tmp_path / "none")
    trail = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for content in (b"", b"secret words", pem[:-40], pem.replace(b"M", b"!"), pem + trail):
        file.write_bytes(content)
        with pytest.raises(ValueError, match="must have at most") as raised:
            read_keys(file)
        assert "secret words" not in str(raised.value)
        assert pem.splitlines()[1].decode() not in str(raised.value)


def test_a_file_with_a_damaged_or_too_many_keys_is_not_written_anew(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    add_key(file)
    pem = file.read_bytes()
    for content in (pem + pem[:-40], pem * 1000):
        file.write_bytes(content)
        with pytest.raises(ValueError, match="must have at most"):
            add_key(file)
        assert file.read_bytes() == content


def test_a_key_file_behind_links_gets_the_key_and_the_links_stay(tmp_path: Path) -> None:
    file, link = tmp_path / "safe" / "keys", tmp_path / "keys"
    file.parent.mkdir()
    link.symlink_to(file)
    ids = [add_key(path).newest.id for path in (link, file, link)]
    assert link.is_symlink()
    assert list(read_keys(file).ids) == ids[::-1]


def test_neither_a_key_nor_keys_show_themselves(keys: SecretKeys) -> None:
    private = keys.keys[0].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    assert private.splitlines()[1] not in repr(keys) + str(keys)
    assert "X25519PrivateKey" not in repr(keys)
