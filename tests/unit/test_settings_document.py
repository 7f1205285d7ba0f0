"""docs/settings.md and .env.example say what daemon/settings says, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest
from dotenv import dotenv_values

from daemon.settings import PREFIX, all_settings, sections
from docs.describe_settings import DOCUMENT, EXAMPLE, FIRST, write_document, write_example

HINT = "is out of date. Run: python -m docs.describe_settings"


def test_the_document_is_what_the_settings_are() -> None:
    assert DOCUMENT.read_text("utf-8") == write_document(), f"docs/settings.md {HINT}"


def test_the_example_is_what_the_settings_are() -> None:
    assert EXAMPLE.read_text("utf-8") == write_example(), f".env.example {HINT}"


def test_every_setting_stands_once_under_a_heading() -> None:
    names = [name for section in sections() for name in section.model_fields]
    assert sorted(names) == sorted(all_settings().model_fields)
    document = write_document()
    assert [name for one in sections() if document.count(f"## {(name := vars(one)['heading'])}\n") != 1] == []
    rows = [
        line.partition("`")[2].partition("`")[0] for line in document.splitlines() if line.startswith("| `")
    ]
    # The first ones stand there twice: on top, too.
    assert rows == [PREFIX + name.upper() for name in (*FIRST, *names)]
    assert len(set(FIRST)) == 10


def test_the_example_copied_as_it_is_changes_nothing(tmp_path: Path) -> None:
    copied = tmp_path / ".env"
    copied.write_text(write_example(), encoding="utf-8")
    assert dotenv_values(copied) == {}


def test_the_example_with_every_line_uncommented_is_the_defaults(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in all_settings().model_fields:
        monkeypatch.delenv(PREFIX + name.upper(), raising=False)
    for name in ("DATABASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    copied = tmp_path / ".env"
    copied.write_text(write_example().replace(f"# {PREFIX}", PREFIX), encoding="utf-8")
    assert len(dotenv_values(copied)) == len(all_settings().model_fields)
    assert all_settings()(_env_file=copied) == all_settings()(_env_file=None)  # type: ignore[call-arg]
