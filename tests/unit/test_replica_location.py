"""Where MEMORYD_REPLICA says that the replica is."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import pytest

from daemon.settings import all_settings
from plugins.replica.location import drive_id_of, open_location

ID = "1AbC_d-E2fGhIjKlMnOpQrStUvWxYz012"


@pytest.mark.parametrize(
    "text",
    [
        f"gdrive:{ID}",
        f"gdrive:https://drive.google.com/drive/folders/{ID}",
        f"https://drive.google.com/drive/folders/{ID}?usp=sharing",
        f"https://drive.google.com/drive/u/1/folders/{ID}",
    ],
)
def test_a_folder_in_google_drive_is_known_by_id_or_address(text: str) -> None:
    assert drive_id_of(Path(text)) == ID


@pytest.mark.parametrize("text", ["/srv/memory", "memory", "gdrive", "https:/somewhere/else"])
def test_anything_else_is_a_path(text: str) -> None:
    assert drive_id_of(Path(text)) is None


@pytest.mark.parametrize(
    "text", ["gdrive:", "gdrive:a b", "gdrive:../x", "gdrive:https://example.com/folders/x"]
)
def test_what_is_no_id_says_what_to_do(text: str) -> None:
    with pytest.raises(ValueError, match=r"MEMORYD_REPLICA .* the id of a folder"):
        drive_id_of(Path(text))


def test_a_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without_google(name: str, *args: Any, **more: Any) -> Any:
        if name.startswith("google"):
            raise ImportError(name)
        return imported(name, *args, **more)

    monkeypatch.setattr(builtins, "__import__", without_google)
    with pytest.raises(ValueError, match="needs the extra gdrive of memoryd"):
        open_location(all_settings()(replica=Path(f"gdrive:{ID}"), _env_file=None))  # type: ignore[call-arg]
