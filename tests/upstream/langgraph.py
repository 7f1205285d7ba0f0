"""Runs LangGraph's own tests of its stores on MemorydStore.

    MEMORYD_UPSTREAM=/path/to/checkouts python -m tests.upstream.langgraph

In the folder langgraph/ of MEMORYD_UPSTREAM are test_store.py and test_async_store.py of langgraph's
libs/checkpoint-postgres/tests, and test_store.py (as test_base_store.py) and embed_test_utils.py of its libs/checkpoint/tests.
What they make as a PostgresStore or an InMemoryStore is a MemorydStore here, of an agent of its own in one database. It says
how many passed, and what is left out.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Callable
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Self
from uuid import uuid4

import asyncpg
import pytest

from benchmarks.harness import database
from tests.support.repository import ROOT

LEFT_OUT = {
    r"test_escape_like_literal|test_namespace_match_pattern|test_nonnull_migrations": "the SQL of PostgresStore",
    r"test_vector_store_initialization": "its configuration: memoryd embeds by itself",
    r"test_scores|test_search_sorting": "cosines of the test's own embedder: a score here is recall's",
    r"test_embed_with_path": "made-up words, whose letters the test's own embedder compares",
    r"test_(async_)?vector_search_with_filters": "asks for 'bbbbluuu', whose letters the test's own embedder compares",
    r"test_async_store.py::test_vector_search_edge_cases": "that a longer query has another cosine",
    r"test_no_running_loop": "that calls without async are refused in an event loop: here they are made by another one",
    r"test_abatch_uses_single_pool_checkout": "the pool of AsyncPostgresStore",
    r"test_omit_expired_disabled": "what has expired is never read",
    r"test_async_batch_store|test_async_batched_vector_search_concurrent": "AsyncBatchedBaseStore, LangGraph's own",
    r"test_get_text_at_path": "LangGraph's own function",
}
"""By the names of tests."""


class _Cursor:
    """The few statements in which the tests look at PostgresStore's table, on ours."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def execute(self, sql: str, given: tuple[Any, ...] = ()) -> None:
        self._row = self._store.ask(sql, given)

    def fetchone(self) -> Any:
        return self._row


class _Awaited(_Cursor):
    async def execute(self, sql: str, given: tuple[Any, ...] = ()) -> None:  # type: ignore[override]
        super().execute(sql, given)

    async def fetchone(self) -> Any:
        return self._row


def _stores(url: str) -> tuple[type[Any], type[Any], Callable[..., Any]]:  # noqa: C901 - classes of a few lines
    """What stands for PostgresStore, AsyncPostgresStore and InMemoryStore."""
    from memoryd_client import sync  # noqa: PLC0415 - after the path is set
    from memoryd_client.langgraph import MemorydStore, key_of  # noqa: PLC0415

    shared = sync.Database(url)

    def made(cls: Any, agent: str, index: dict[str, Any] | None = None, ttl: Any = None, **_: Any) -> Any:
        return cls(shared, agent=agent, fields=(index or {}).get("fields"), ttl=ttl)

    class Store(MemorydStore):
        MIGRATIONS = ()

        def setup(self) -> None: ...
        def start_ttl_sweeper(self) -> None: ...
        def stop_ttl_sweeper(self) -> None: ...

        @classmethod
        @contextmanager
        def from_conn_string(cls, conn_string: str, **given: Any) -> Any:
            yield made(cls, conn_string.rpartition("/")[2], **given)

        @contextmanager
        def _cursor(self) -> Any:
            yield _Cursor(self)

        def ask(self, sql: str, given: tuple[Any, ...]) -> Any:
            if not given:
                return None
            *first, prefix, key = given
            of = "from agent_memory where agent_id = $1 and key = $2"
            if sql.startswith("UPDATE"):
                change = (
                    "expires_at = now() - interval '1 minute'"
                    if "expires_at" in sql
                    else f"updated_at = now() - interval '{first[0]} seconds'"
                )
                of = f"update agent_memory set {change} where agent_id = $1 and key = $2 returning 1"
            else:
                of = f"select {'count(*) as n' if 'COUNT' in sql else 'expires_at'} {of}"

            async def work() -> Any:
                connection = await asyncpg.connect(url)
                try:
                    return await connection.fetchrow(of, self._whose[0], key_of(prefix.split("."), key))
                finally:
                    await connection.close()

            return sync._LOOP.run(work())

    class AsyncStore(Store):
        async def setup(self) -> None: ...  # type: ignore[override]
        async def start_ttl_sweeper(self) -> None: ...  # type: ignore[override]
        async def stop_ttl_sweeper(self) -> None: ...  # type: ignore[override]

        @classmethod
        @asynccontextmanager
        async def from_conn_string(cls, conn_string: str, **given: Any) -> Any:  # type: ignore[override]
            yield made(cls, conn_string.rpartition("/")[2], **given)

        @asynccontextmanager
        async def _cursor(self) -> Any:  # type: ignore[override]
            yield _Awaited(self)

    return Store, AsyncStore, lambda **given: made(Store, f"agent-{uuid4().hex}", **given)


class _Connection:
    """For `CREATE DATABASE`: an agent needs none."""

    @classmethod
    @contextmanager
    def connect(cls, *_: Any, **__: Any) -> Any:
        yield cls()

    def execute(self, *_: Any) -> None: ...


class _AsyncConnection:
    @classmethod
    async def connect(cls, *_: Any, **__: Any) -> _AsyncConnection:
        return cls()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...
    async def execute(self, *_: Any) -> None: ...


def _module(name: str, **content: Any) -> None:
    sys.modules[name] = ModuleType(name)
    vars(sys.modules[name]).update(content)


def _stand_in(folder: Path, url: str) -> type[Any]:
    """Puts ours in the places of the modules that the tests import; gives the tests' own embedder."""
    import langgraph.store.memory  # noqa: PLC0415

    found = importlib.util.spec_from_file_location("tests.embed_test_utils", folder / "embed_test_utils.py")
    assert found is not None
    assert found.loader is not None
    embedding = importlib.util.module_from_spec(found)
    found.loader.exec_module(embedding)
    sys.modules["tests.embed_test_utils"] = embedding
    embedder: type[Any] = embedding.CharacterEmbeddings
    store, async_store, in_memory = _stores(url)
    langgraph.store.memory.InMemoryStore = in_memory  # type: ignore[assignment,misc]
    _module("psycopg", Connection=_Connection, AsyncConnection=_AsyncConnection)
    _module("pytest_mock", MockerFixture=object)
    _module("langgraph.checkpoint.postgres", _ainternal=None)
    _module("langgraph.store.postgres", PostgresStore=store, AsyncPostgresStore=async_store)
    _module("langgraph.store.postgres.base", _escape_like_literal=None, _namespace_match_pattern=None)
    _module(
        "tests.conftest",
        DEFAULT_URI="postgres://upstream/postgres",
        VECTOR_TYPES=["vector"],
        CharacterEmbeddings=embedder,
    )
    return embedder


class _Plugin:
    def __init__(self, embedder: type[Any]) -> None:
        self._embedder = embedder
        self.left_out: dict[str, int] = {}

    @pytest.fixture
    def fake_embeddings(self) -> Any:
        return self._embedder(dims=500)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        kept = []
        for item in items:
            name = getattr(item, "originalname", item.name)
            reason = next(
                (
                    why
                    for names, why in LEFT_OUT.items()
                    if re.search(f"::(?:{names})|^(?:{names})", f"{item.path.name}::{name}")
                ),
                None,
            )
            if any(f"[{way}" in item.name for way in ("pipe", "pool")):
                reason = "once more with another connection of psycopg's"
            if reason is None:
                kept.append(item)
            else:
                self.left_out[reason] = self.left_out.get(reason, 0) + 1
        items[:] = kept


def main() -> int:
    """Runs the tests; 0 where all that are not left out passed."""
    upstream = os.environ.get("MEMORYD_UPSTREAM")
    if not upstream or not (folder := Path(upstream) / "langgraph").is_dir():
        print("Set MEMORYD_UPSTREAM to a folder that has a folder langgraph.", file=sys.stderr)  # noqa: T201
        return 2
    sys.path.insert(0, str(ROOT / "clients" / "python" / "src"))
    with database(None) as url:
        plugin = _Plugin(_stand_in(folder, url))
        ended = pytest.main(
            ["-q", "--noconftest", "-c", os.devnull, f"--rootdir={folder}", "--import-mode=importlib",
             "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", *sys.argv[1:], *map(str, sorted(folder.glob("test_*.py")))],
            plugins=[plugin],
        )  # fmt: skip
    print(f"left out: {sum(plugin.left_out.values())}")  # noqa: T201
    for reason, count in plugin.left_out.items():
        print(f"  {count:3} {reason}")  # noqa: T201
    return int(ended)


if __name__ == "__main__":
    sys.exit(main())
