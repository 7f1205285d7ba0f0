"""URLs of databases: what every library reads, and of which nothing is shown because it is a little wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from daemon.cli.app import app
from daemon.settings import SettingsError, load_settings
from daemon.settings.databases import address_of, parse_databases, readable
from plugins.hooks import libpq
from plugins.hooks.driver import Connection as Driver
from plugins.move_in.importers.items import System
from plugins.move_in.importers.records import ExportError
from plugins.move_in.importers.sources import files_in

GOOD = (
    "postgresql://u:p@db.example:5432/app", "postgres://db/app", "postgresql:///app?host=/run/pg&port=5433",
    "postgresql://u:p%40%2F%23@[::1]:5432/app?sslmode=require", "postgresql://a:1,b:2/app?target_session_attrs=any",
    "postgresql://u:p@/app?host=%2Frun%2Fpg&user=me@tenant", "postgresql://", "postgresql://db/app?options=-csearch_path=x&",
    "postgresql://u.ref:p@pooler.example:6543/postgres", "postgresql://u:p;w,$!*()~|^@db/app",
)  # fmt: skip
SECRET = "S3CRETPW"
WRONG = (
    "postgresql://u:{}#x@db/app", "postgresql://u:{}/x@db/app", "postgresql://u:{}?x@db/app", "postgresql://u:x/{}@db/app",
    "postgresql://u:x#{}@db/app", "postgresql://u:x?{}@db/app", "postgresql://u:4711?{}=x@db/app", "postgresql:/u:{}@db/app",
    "postgresql:u:{}@db/app", "postgres//u:{}@db/app", "u:{}@db/app", "host=db password={} dbname=app", "host=db password=a {}",
    "postgresql://u:[{}@db/app", "postgresql://u:a]{}@db/app", "postgresql://u:{}@db:port/app", "postgresql://u:{}@db:99999/app",
    "postgresql://u:%zz{}@db/app", "postgresql://u:a%{}@db/app", "postgresql://u:%00{}@db/app", "mysql://u:{}@db/app",
    "postgresql+asyncpg://u:{}@db/app", " postgresql://u:{}@db/app", "'postgresql://u:{}@db/app'",
    "postgresql://u:a b{}@db/app", "postgresql://u:{}\n@db/app", "postgresql://db/app?user=u;password={}", "postgresql://db/app?password=x&{}",
    "postgresql://u:{}@[::1/app", "postgresql://u:{}:5432/app", "jdbc:postgresql://db/app?password={}",
    "postgresql://u:{}@/app?port={}", "postgresql://u:{}@db:1,2:x/app",
)  # fmt: skip


@pytest.mark.parametrize("url", GOOD)
def test_a_url_that_libraries_read_stays_as_it_is(url: str) -> None:
    assert readable(url, "It") == url


def test_an_at_sign_within_a_password_is_written_as_all_libraries_read_it() -> None:
    assert readable("postgresql://me@t:a@b@db/app", "It") == "postgresql://me%40t:a%40b@db/app"


@pytest.mark.parametrize("wrong", WRONG)
def test_nothing_of_a_wrong_url_is_shown(wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = wrong.replace("{}", SECRET)
    said = [address_of(url)]
    for refuse in (
        lambda: readable(url, "It"), lambda: parse_databases([f"acme={url}"], where="The file"),
        lambda: next(files_in(System.LETTA, url)), lambda: Driver(url),
        lambda: libpq.Connection(url, path=str(libpq.library("postgresql://localhost"))),
    ):  # fmt: skip
        with pytest.raises((ValueError, ExportError, libpq.Unreachable)) as refused:
            refuse()
        said.append(str(refused.value))
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "MEMORYD_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("DATABASE_URL", url)
    commands = (["status"], ["psql"], ["hooks", "install", "claude-code", "--user"], ["hooks", "status"])
    said += [CliRunner().invoke(app, command).output for command in commands]
    for text in said:
        assert "Traceback" not in text
        for part in (SECRET[:4], SECRET[2:6], SECRET[4:], "4711", "4:7"):
            assert part.lower() not in text.lower(), text


@pytest.mark.parametrize(
    "wrong",
    [
        "http://u:{}#x@llm/v1", "http://u:{}/x@llm/v1", "http://u:{}?x@llm/v1", "http:/u:{}@llm/v1", "u:{}@llm/v1", "ftp://u:{}@llm",
        "http://u:[{}@llm/v1", "http://u:{}@llm:99999/v1", " http://u:{}@llm/v1", "http://u:a b{}@llm/v1", "http://u:{}@llm:x/v1",
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["openai_base_url", "gdrive_url"])
def test_nothing_of_a_wrong_address_of_a_server_is_shown(name: str, wrong: str) -> None:
    with pytest.raises(SettingsError, match=f"MEMORYD_{name.upper()} is a secret value") as refused:
        load_settings(**{name: wrong.replace("{}", SECRET)})
    assert SECRET not in str(refused.value)
    for good in ("http://127.0.0.1:11434/v1", "https://u:p%40@llm.example/v1/@cf/x?y=z", "http://[::1]:80"):
        assert getattr(load_settings(**{name: good}), name) == good
