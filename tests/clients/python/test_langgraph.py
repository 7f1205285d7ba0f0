"""memoryd_client.langgraph: the promises of LangGraph's BaseStore, by memories with keys."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from langgraph.store.base import GetOp, InvalidNamespaceError, ListNamespacesOp, Op, PutOp, SearchOp
from memoryd_client import Memory, MemorydError, Refused, sync
from memoryd_client.langgraph import MemorydStore

from tests.support.processes.daemons import DaemonProcess

pytestmark = pytest.mark.asyncio(loop_scope="session")

HERE = ("users", "ann")


@pytest.fixture(scope="module")
def database(client_url: str) -> Iterator[sync.Database]:
    """The connections of all tests here."""
    with sync.Database(client_url) as opened:
        yield opened


@pytest.fixture
def store(database: sync.Database, agent: str) -> MemorydStore:
    """A store of the test's own."""
    return MemorydStore(database, agent=agent)


async def test_a_batch_reads_before_it_writes_and_the_last_put_counts(store: MemorydStore) -> None:
    store.put(HERE, "a", {"n": 1})
    ops: list[Op] = [
        PutOp(HERE, "a", {"n": 2}),
        GetOp(HERE, "a"),
        PutOp(HERE, "b", {"n": 1}),
        PutOp(HERE, "b", None),
        PutOp(HERE, "c", None),
        PutOp(HERE, "c", {"n": 3}),
        SearchOp(HERE, limit=10),
        ListNamespacesOp(),
        GetOp(HERE, "none"),
    ]
    results: list[Any] = await store.abatch(ops)
    assert (results[1].value, [i.key for i in results[6]], results[7], results[8]) == (
        {"n": 1},
        ["a"],
        [HERE],
        None,
    )
    assert {i.key: i.value for i in store.search(HERE)} == {"a": {"n": 2}, "c": {"n": 3}}


@pytest.mark.parametrize("label", ["a/b", "100%", "%2F", "é🦩", " ", "a\nb", "*", "_", "\x7f"])
async def test_labels_and_keys_may_be_any_text(store: MemorydStore, label: str) -> None:
    await store.aput(("x", label), label, {"v": label})
    item = await store.aget(("x", label), label)
    assert item is not None
    assert (item.namespace, item.key, item.value) == (("x", label), label, {"v": label})
    assert await store.alist_namespaces() == [("x", label)]
    assert [i.key for i in await store.asearch(("x", label))] == [label]
    assert await store.asearch(("x", label[:-1] or "other")) == []


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"v": "a\0b"}, "NUL"),
        ({"v": "\ud800"}, "lone surrogate"),
        ({"v": float("nan")}, "JSON"),
        ({"v": {1, 2}}, "JSON"),
        ({1: "x"}, "JSON"),
        (["x"], "no mapping"),
        ({"v": "x" * 2_000_000}, "metadata"),
    ],
)
async def test_a_value_that_cannot_be_kept_is_refused_and_nothing_changes(
    store: MemorydStore, value: Any, said: str
) -> None:
    store.put(HERE, "a", {"v": 1})
    with pytest.raises(Refused, match=said):
        store.batch([PutOp(HERE, "b", {"v": 1}), PutOp(HERE, "a", value)])
    with pytest.raises(Refused, match="ttl is no number of minutes from 0 to 52,560,000"):
        store.put(HERE, "b", {"v": 1}, ttl=-1)
    assert {i.key: i.value for i in store.search(HERE)} == {"a": {"v": 1}}


async def test_a_key_that_is_too_long_is_refused(store: MemorydStore) -> None:
    with pytest.raises(Refused, match="1 to 1500 bytes"):
        store.put(HERE, "é" * 1000, {"v": 1})
    with pytest.raises(InvalidNamespaceError):
        store.batch([PutOp(("a.b",), "k", {"v": 1})])
    with pytest.raises(Refused, match="NUL"):
        store.get(HERE, "\0")


async def test_what_another_keeps_is_not_there(database: sync.Database, agent: str, user: UUID) -> None:
    ann = MemorydStore(database, agent=agent, user=user)
    others = [
        MemorydStore(database, agent=agent, user="bob"),
        MemorydStore(database, agent=agent),
        MemorydStore(database, agent=f"{agent}-2", user=user),
    ]
    ann.put(HERE, "k", {"secret": "the heron nests in the willow"})
    for other in others:
        assert other.get(HERE, "k") is None
        assert other.search((), query="heron") == other.search(()) == other.list_namespaces() == []
        other.put(HERE, "k", {"mine": 1})
        other.delete(HERE, "k")
    assert ann.search((), query="heron")[0].value == {"secret": "the heron nests in the willow"}


async def test_of_a_user_with_memory_off_nothing_is_stored(
    database: sync.Database, owner: asyncpg.Connection, agent: str, user: UUID
) -> None:
    await owner.execute("insert into memory_settings (user_id, memory_enabled) values ($1, false)", user)
    with pytest.raises(Refused, match="switched memory off"):
        MemorydStore(database, agent=agent, user=user).put(HERE, "k", {"v": 1})


async def test_search_finds_at_once_and_by_meaning_once_it_is_indexed(
    store: MemorydStore, db: Any, agent: str, client_daemon: DaemonProcess, owner: asyncpg.Connection
) -> None:
    store.put(HERE, "1", {"text": "The heron nests in the old willow"})
    store.put(HERE, "2", {"text": "Bread is baked at six", "by": {"name": "Dora"}, "tags": ["kitchen"]})
    store.put(HERE, "3", {"text": "The gate code is 4711"}, index=False)
    store.put(HERE, "4", {"text": "nothing of it", "code": "gate"}, index=["text"])
    for query, key in (("where is the heron?", "1"), ("dora", "2")):
        assert [i.key for i in store.search(HERE, query=query, limit=1)] == [key]
    assert {i.key for i in store.search(HERE, query="gate code")} == {"1", "2", "4"}
    assert {i.score for i in store.search(HERE, query="gate code")} == {0}
    ids = [r["id"] for r in await owner.fetch("select id from agent_memory where agent_id = $1", agent)]
    await Memory(db, agent=agent).wait_indexed(ids, timeout=30)
    found = store.search(HERE, query="birds nesting in trees", limit=1)
    assert [(i.key, i.score is not None and i.score > 0) for i in found] == [("1", True)]
    store.put(HERE, "2", {"text": "Cheese is made at nine"})
    assert [
        i.key
        for i in store.search(HERE, query="willow heron cheese", filter={"text": {"$gte": "C", "$lt": "D"}})
    ] == ["2"]
    # What an agent keeps in a store, it recalls, too.
    assert "heron" in (await Memory(db, agent=agent).recall("heron"))[0].content


async def test_time_to_live(database: sync.Database, owner: asyncpg.Connection, agent: str) -> None:
    store = MemorydStore(database, agent=agent, ttl={"default_ttl": 10, "refresh_on_read": False})
    store.put(HERE, "default", {"v": 1})
    for key, ttl in (("short", 0.5), ("ever", None)):
        store.put(HERE, key, {"v": 1}, ttl=ttl)
    left = (
        "select substr(key, 21), round(extract(epoch from expires_at - now())) from agent_memory "
        "where agent_id = $1 order by 1"
    )

    async def lives() -> dict[str, Any]:
        return {k: v and int(v) for k, v in await owner.fetch(left, agent)}

    assert {k: v and 0 <= n - v < 5 for (k, v), n in zip((await lives()).items(), (600, 0, 30), strict=True)} == {
        "default": True, "ever": None, "short": True,
    }  # fmt: skip
    aged = "update agent_memory set expires_at = expires_at - interval '20 seconds' where agent_id = $1"
    await owner.execute(aged, agent)
    updated = [i.updated_at for i in store.search(HERE)]
    store.get(HERE, "short", refresh_ttl=True)
    store.get(HERE, "default")
    assert [v and v > 25 for k, v in (await lives()).items() if k == "short"] == [True]
    assert (await lives())["default"] < 590
    store.search(HERE, refresh_ttl=True)
    assert (await lives())["default"] > 590
    assert [i.updated_at for i in store.search(HERE)] == updated
    await owner.execute(
        "update agent_memory set expires_at = now() - interval '1 second' where agent_id = $1", agent
    )
    assert store.get(HERE, "short", refresh_ttl=True) is None
    assert [i.key for i in store.search(HERE)] == []
    store.put(HERE, "short", {"v": 2})
    assert [i.key for i in store.search(HERE)] == ["short"]


async def test_many_threads_and_event_loops_at_once(store: MemorydStore) -> None:
    """One fails, and none of the others."""

    def in_a_thread(n: int) -> None:
        asyncio.run(store.aput(HERE, f"t{n}", {"n": n}))
        store.put(HERE, f"s{n}", {"n": n})

    before = threading.active_count()
    calls: list[Any] = [asyncio.to_thread(in_a_thread, n) for n in range(8)]
    calls += [store.aput(HERE, f"a{n}", {"n": n}) for n in range(200)]
    calls.append(store.aput(HERE, "too long" * 1000, {"n": 0}))
    done = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(each, MemorydError) for each in done].count(True) == 1
    assert len(store.search(HERE, limit=1000)) == 216
    assert {t.name for t in threading.enumerate() if "memoryd" in t.name} == {"memoryd-client"}
    assert threading.active_count() <= before + 9


async def test_a_cancelled_call_leaves_the_others(store: MemorydStore) -> None:
    tasks = [asyncio.create_task(store.aput(HERE, f"{n}", {"n": n})) for n in range(20)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    await asyncio.wait(tasks)
    assert {f"{n}" for n in range(1, 20, 2)} <= {i.key for i in store.search(HERE, limit=100)}
