"""The local embedder's tokens get into the database once, whole, by whoever is first, and from a package that is sound."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import asyncpg
import pytest

import daemon.db.tokens
import providers.local_tokens
from daemon.db.errors import MigrationError
from daemon.db.tokens import KEY, load_tokens, tokens_are_missing
from providers.local_embedder import package_folder, tokenizer_file, weights_file
from tests.support.database.schemas import connected
from tests.support.processes.commands import memoryd

COUNT = "select count(*) from memoryd.tokens"
FORGET = "delete from memoryd.settings where key = $1"
EMBEDS = "select memoryd.embed('zebra') is not null"


async def test_memoryd_migrate_loads_the_tokens_once(empty_url: str, tmp_path: Path) -> None:
    first = await memoryd("migrate", url=empty_url, folder=tmp_path)
    assert "applied the tokens of local/wordllama-256" in first.out
    again = await memoryd("migrate", url=empty_url, folder=tmp_path)
    assert again.out == "The schema is up to date.\n"
    async with connected(empty_url) as connection:
        assert await connection.fetchval(COUNT) == 32_000
        assert await connection.fetchval(EMBEDS)
        # Other files than those that were loaded.
        await connection.execute("update memoryd.settings set value = '\"x\"' where key = $1", KEY)
        await connection.execute("delete from memoryd.tokens where rank > 100")
        would = await memoryd("migrate", "--dry-run", url=empty_url, folder=tmp_path)
        assert "would apply the tokens of local/wordllama-256" in would.out
        assert await tokens_are_missing(connection)
        assert (await memoryd("migrate", url=empty_url, folder=tmp_path)).code == 0
        assert await connection.fetchval(COUNT) == 32_000


async def test_of_several_at_once_one_loads(connection: asyncpg.Connection, database_url: str) -> None:
    await connection.execute(FORGET, KEY)

    async def load() -> bool:
        async with connected(database_url) as mine:
            return await load_tokens(mine)

    assert sorted(await asyncio.gather(*(load() for _ in range(3)))) == [False, False, True]
    assert await connection.fetchval(COUNT) == 32_000


async def test_a_load_that_is_cut_off_leaves_nothing_and_is_done_again(
    connection: asyncpg.Connection, second: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await connection.execute(FORGET, KEY)
    pid = connection.get_server_pid()
    whole = daemon.db.tokens._row
    rows = iter(range(20_000))

    def cut_off(token: providers.local_tokens.Token) -> bytes:
        if next(rows, None) is None:
            raise ConnectionAbortedError
        return whole(token)

    monkeypatch.setattr(daemon.db.tokens, "_row", cut_off)
    with pytest.raises(ConnectionAbortedError):
        await load_tokens(connection)
    await second.execute("select pg_terminate_backend($1, 10000)", pid)
    monkeypatch.undo()
    assert await second.fetchval(COUNT) == 0
    assert await second.fetchval(EMBEDS) is False
    assert await load_tokens(second)
    assert await second.fetchval(EMBEDS)


@pytest.mark.usefixtures("tokens")
async def test_readers_do_not_wait_for_a_load(
    connection: asyncpg.Connection, second: asyncpg.Connection
) -> None:
    async with connection.transaction():
        await connection.execute("lock table memoryd.tokens in share row exclusive mode")
        await connection.execute("delete from memoryd.tokens")
        assert await asyncio.wait_for(second.fetchval(EMBEDS), 90)


async def test_a_database_of_another_embedder_needs_no_tokens(connection: asyncpg.Connection) -> None:
    await connection.execute(FORGET, KEY)
    await connection.execute("update memoryd.settings set value = '\"openai/test\"' where key = 'embedder'")
    assert not await load_tokens(connection)
    assert await connection.fetchval(COUNT) == 0


def _without_weights(folder: Path) -> None:
    weights_file(folder).unlink()


def _half_a_tokenizer(folder: Path) -> None:
    path = tokenizer_file(folder)
    path.write_bytes(path.read_bytes()[:100_000])


def _another_normalizer(folder: Path) -> None:
    path = tokenizer_file(folder)
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | {"normalizer": None}), "utf-8")


def _no_merges(folder: Path) -> None:
    path = tokenizer_file(folder)
    config = json.loads(path.read_text("utf-8"))
    config["model"]["merges"] = config["model"]["merges"][:1000]
    path.write_text(json.dumps(config), "utf-8")


def _half_the_weights(folder: Path) -> None:
    path = weights_file(folder)
    path.write_bytes(path.read_bytes()[:1_000_000])


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_without_weights, "cannot read l2_supercat_256.safetensors of the package wordllama: reinstall"),
        (_half_the_weights, "cannot read l2_supercat_256.safetensors of the package wordllama: reinstall"),
        (
            _half_a_tokenizer,
            "cannot read l2_supercat_tokenizer_config.json of the package wordllama: reinstall",
        ),
        (_another_normalizer, "has another tokenizer than local/wordllama-256: reinstall"),
        (_no_merges, "has another tokenizer than local/wordllama-256: reinstall"),
    ],
)
async def test_a_damaged_package_is_told(
    connection: asyncpg.Connection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    damage: object,
    said: str,
) -> None:
    assert callable(damage)
    folder = tmp_path / "wordllama"
    for path in (tokenizer_file(package_folder()), weights_file(package_folder())):
        copy = folder / path.relative_to(package_folder())
        copy.parent.mkdir(parents=True)
        shutil.copy(path, copy)
    damage(folder)
    monkeypatch.setattr(providers.local_tokens, "package_folder", lambda: folder)
    with pytest.raises(MigrationError, match=said):
        await load_tokens(connection)
    assert await connection.fetchval(COUNT) == 0
