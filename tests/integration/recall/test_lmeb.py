"""benchmarks.search.lmeb as MTEB calls it: with rows as its data sets give, and the arguments of its SearchProtocol."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any, cast

import asyncpg
import pytest

from benchmarks.search import lmeb
from benchmarks.search.lmeb import Memoryd
from tests.support.processes.daemons import DaemonProcess

CORPUS = [
    {"id": "a1", "title": "Session 1, Turn 1", "text": "Ann: My sailing boat is called Kestrel."},
    {"id": "a2", "title": "Session 1, Turn 2", "text": "Ann: The boat\0 has a leak near the keel."},
    {"id": "a3", "title": "", "text": ""},
    {"id": "b1", "title": "Recipe of the harbour cook", "text": "Bob: Boil the mussels in white wine."},
    {"id": "b2", "text": "Bob: My boat is a canoe."},
]
QUERIES = [
    {"id": "q1", "text": "Is the sailing boat called Kestrel?"},
    {"id": "q2", "text": "Which boat has\0 a leak near the keel?"},
    {"id": "q3", "text": "What does the harbour cook prepare?"},
]
POOLS = {"q1": ["a1", "a2", "a3"], "q2": ["a1", "a2", "a3"], "q3": ["b1", "b2", "gone"]}
OF_MTEB: Mapping[str, Any] = {
    "task_metadata": None,
    "hf_split": "test",
    "hf_subset": "default",
    "encode_kwargs": {},
    "num_proc": None,
}
COUNT = "select count(*) || ' of ' || count(distinct user_id) from agent_memory"


async def test_a_task_is_asked_of_one_user_for_each_pool(
    connection: asyncpg.Connection, database_url: str, daemon: DaemonProcess
) -> None:
    def run(top_k: int, pools: dict[str, list[str]] | None = None) -> dict[str, list[str]]:
        model = Memoryd(database_url)
        model.index(CORPUS, **OF_MTEB)
        found = model.search(QUERIES, top_k=top_k, top_ranked=pools, **OF_MTEB)
        assert all(list(f.values()) == sorted({*f.values()}, reverse=True) for f in found.values())
        return {query: list(answer) for query, answer in found.items()}

    assert daemon.process.returncode is None
    assert await asyncio.to_thread(run, 1) == {"q1": ["a1"], "q2": ["a2"], "q3": ["b1"]}
    assert await connection.fetchval(COUNT) == "4 of 1"
    apart = await asyncio.to_thread(run, 1_000, POOLS)
    assert {query: answer[0] for query, answer in apart.items()} == {"q1": "a1", "q2": "a2", "q3": "b1"}
    assert all({*answer} <= {*POOLS[query]} for query, answer in apart.items())
    assert await connection.fetchval(COUNT) == "8 of 3"
    assert await asyncio.to_thread(run, 1_000, POOLS) == apart
    assert await connection.fetchval(COUNT) == "8 of 3", "another subset with the same texts"


async def test_without_a_daemon_it_says_what_is_missing(database_url: str) -> None:
    model = Memoryd(database_url)
    model.index(CORPUS)
    with pytest.raises(SystemExit, match="4 of 4 documents are not indexed: does a daemon run"):
        await asyncio.to_thread(model.search, QUERIES, top_k=10)


class Unreachable:
    """As MTEB behaves without a network."""

    @staticmethod
    def get_tasks(*, tasks: list[str]) -> None:
        raise ConnectionError(f"Couldn't reach 'mteb/{tasks[0]}' on the Hub")


@pytest.mark.parametrize(
    ("module", "said"), [(None, "pip install mteb"), (Unreachable, "Couldn't reach 'mteb/TMD'")]
)
def test_without_mteb_or_a_network_it_says_so(
    monkeypatch: pytest.MonkeyPatch, module: type[Unreachable] | None, said: str
) -> None:
    monkeypatch.setitem(sys.modules, "mteb", cast("ModuleType", module))
    monkeypatch.setattr(sys, "argv", ["lmeb", "TMD", "--database-url", "postgresql://unused"])
    with pytest.raises(SystemExit, match=said):
        lmeb.main()
