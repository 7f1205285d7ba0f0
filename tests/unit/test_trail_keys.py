"""The key of the trail: where it comes from, who may read its file, and that nothing half written is left."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from daemon.settings import Settings, SettingsError, load_settings
from plugins.trail.keys import make_key, signing_key
from plugins.trail.log import Pace


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings but the test's own, in an empty working directory."""
    for name in os.environ:
        if name.upper().startswith("MEMORYD_") or name == "DATABASE_URL":
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def own() -> Settings:
    return load_settings(database_url="postgresql://somewhere/else")


def raw(key: Ed25519PrivateKey | None) -> bytes | None:
    return None if key is None else key.private_bytes_raw()


def test_the_embedded_server_gets_a_key_by_itself_and_another_database_none(tmp_path: Path) -> None:
    settings = load_settings(data_dir=tmp_path)
    assert signing_key(settings) is None
    made = signing_key(settings, make=True)
    assert made is not None
    assert raw(signing_key(settings, make=True)) == raw(made)
    assert (tmp_path / "trail.key").stat().st_mode & 0o777 == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["trail.key"]
    assert signing_key(own(), make=True) is None
    # A file that a setting names is never made by itself.
    with pytest.raises(ValueError, match=r"cannot be read: .*memoryd anchors new-key"):
        signing_key(load_settings(data_dir=tmp_path, trail_key=f"file:{tmp_path / 'none'}"), make=True)


def test_a_key_from_the_environment_may_have_its_lines_escaped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    key = make_key(tmp_path / "key")
    pem = (tmp_path / "key").read_text()
    for text in (pem, pem.replace("\n", "\\n")):
        monkeypatch.setenv("MEMORYD_TRAIL_KEY", text)
        assert raw(signing_key(own())) == raw(key)
        assert pem.splitlines()[1] not in repr(own())


def test_what_is_no_key_is_refused_without_quoting_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = (
        generate_private_key(65537, 2048)
        .private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        .decode()
    )
    for text in ("secret words", other, "-----BEGIN PRIVATE KEY-----\nsecret\n-----END PRIVATE KEY-----\n"):
        monkeypatch.setenv("MEMORYD_TRAIL_KEY", text)
        with pytest.raises(ValueError, match="MEMORYD_TRAIL_KEY is not a private key") as raised:
            signing_key(own())
        assert "secret" not in str(raised.value)
    monkeypatch.delenv("MEMORYD_TRAIL_KEY")
    file = tmp_path / "key"
    make_key(file)
    for mode in (0o640, 0o604, 0o660):
        file.chmod(mode)
        with pytest.raises(ValueError, match="chmod 600"):
            signing_key(load_settings(trail_key=f"file:{file}"))


def test_a_key_is_never_overwritten_and_a_full_disk_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "key"

    def full(_number: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            make_key(file)
    assert list(tmp_path.iterdir()) == []
    key = make_key(file)
    with pytest.raises(FileExistsError):
        make_key(file)
    assert raw(signing_key(load_settings(trail_key=f"file:{file}"))) == raw(key)
    # As settings of earlier versions named it.
    monkeypatch.setenv("MEMORYD_TRAIL_KEY_FILE", str(file))
    assert raw(signing_key(own())) == raw(key)
    monkeypatch.setenv("MEMORYD_TRAIL_KEY", f"file:{file}")
    with pytest.raises(SettingsError, match="both MEMORYD_TRAIL_KEY and MEMORYD_TRAIL_KEY_FILE"):
        own()


@pytest.mark.parametrize(
    ("new", "since", "due"),
    [
        (0, None, False),
        (1, None, True),
        (1, 10.0, False),
        (1, 300.0, True),
        (8, 0.0, True),
        (1, -5.0, False),
        (1, -3600.0, True),
    ],
)
def test_when_a_checkpoint_is_due(new: int, since: float | None, *, due: bool) -> None:
    assert Pace(8, 300).is_due(new, since) == due
