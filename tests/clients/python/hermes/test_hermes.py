"""clients/hermes: turns are stored once, whatever happens; Hermes never fails; nobody is told of another user."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import ModuleType
from typing import TypeVar
from uuid import UUID

import asyncpg
import pytest
from memoryd_client import id_of
from memoryd_client.sync import ChatMemory

from tests.clients.python.hermes.conftest import Begin
from tests.support.database.cut_wire import CutWire
from tests.support.repository import ROOT

pytestmark = pytest.mark.asyncio(loop_scope="session")

T = TypeVar("T")

SAID = """
select array(select m.content from conversation_messages m where m.session_id = $1 order by m.message_index)
"""
CONNECTIONS = """
select count(*) from pg_stat_activity where application_name = 'memoryd-client' and datname = current_database()
"""
FILE = "memoryd-turns.sqlite"


async def apart(work: Callable[[], T]) -> T:
    """In a thread, as Hermes calls it: the wire and the tests' connections are in this one's loop."""
    return await asyncio.to_thread(work)


def session_of(person: str, session: str) -> UUID:
    """The session's id in the database."""
    return id_of(f"hermes:telegram:{person}:{session}")


@contextmanager
def waiting(folder: Path) -> Iterator[sqlite3.Connection]:
    """The file of the turns that wait."""
    with closing(sqlite3.connect(folder / FILE)) as file, file:
        yield file


def tool(provider: object, name: str, **arguments: object) -> dict[str, object]:
    """A tool's answer."""
    answer: dict[str, object] = json.loads(provider.handle_tool_call(name, arguments))  # type: ignore[attr-defined]
    return answer


async def test_what_is_said_comes_back_in_other_conversations_of_the_same_user(
    begin: Begin, client_url: str, person: str
) -> None:
    def work() -> None:
        question = "Which instrument does my sister Dora play?"
        one = begin(client_url, "one", user_id=person)
        assert one.prefetch(question) == ""
        one.sync_turn("My sister Dora plays the tuba", "A fine instrument.", session_id="one")
        assert "tuba" not in one.prefetch(question)
        one.on_session_switch("one", parent_session_id="one", reset=False, reason="compression")
        one.sync_turn("What time is it?", "Noon.", session_id="one")
        assert "tuba" in one.prefetch(question)
        one.on_session_switch("two", parent_session_id="one", reset=True)
        assert "tuba" in one.prefetch(question)
        assert begin(client_url, "three", user_id=f"{person}1").prefetch(question) == ""

    await apart(work)


async def test_the_tools(begin: Begin, client_url: str, person: str) -> None:
    def work() -> None:
        mine, other = begin(client_url, "one", user_id=person), begin(client_url, "two", user_id=f"{person}1")
        assert [t["name"] for t in mine.get_tool_schemas()] == [
            "memoryd_recall", "memoryd_remember", "memoryd_forget"
        ]  # fmt: skip
        stored = tool(mine, "memoryd_remember", text="The dentist is Dr. Okafor")
        assert tool(mine, "memoryd_remember", text="The dentist is Dr. Okafor") == {**stored, "known": True}
        assert tool(other, "memoryd_recall", query="Who is the dentist?")["results"] == []
        assert tool(other, "memoryd_forget", ids=[stored["id"]]) == {"deleted": 0}
        found = tool(mine, "memoryd_recall", query="Who is the dentist?", count=1)["results"]
        assert isinstance(found, list)
        assert [f["id"] for f in found] == [stored["id"]]
        assert tool(mine, "memoryd_forget", ids=[stored["id"]]) == {"deleted": 1}
        for name, arguments in (
            ("memoryd_recall", {"query": "the secret of the tuba", "count": "many"}),
            ("memoryd_recall", {}),
            ("memoryd_remember", {"text": "a\0b"}),
            ("memoryd_forget", {"ids": "all"}),
            ("memoryd_forget", {"ids": None}),
            ("memory", {}),
        ):
            answer = tool(mine, name, **arguments)
            assert "error" in answer, (name, arguments)
            assert "tuba" not in str(answer)

    await apart(work)


async def test_turns_wait_in_order_while_the_database_is_away(
    begin: Begin, client_url: str, owner: asyncpg.Connection, person: str, caplog: pytest.LogCaptureFixture
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with CutWire(client_url, folder) as wire:
            wire.end_all(close=True)

            def away() -> None:
                before = begin(wire.url, "one", user_id=person)
                before.sync_turn("first", "a", session_id="one")
                before.sync_turn("second\0 \ud800", "b", session_id="one")
                before.sync_turn("", "  ", session_id="one")
                assert before.prefetch("first") == ""
                assert "cannot be reached" in str(tool(before, "memoryd_recall", query="first"))
                before.shutdown()
                before.sync_turn("too late", "c", session_id="one")
                assert before.prefetch("first") == ""

            with caplog.at_level(logging.INFO):
                await apart(away)
    assert "second" not in caplog.text
    await apart(lambda: begin(client_url, "two", user_id=person).sync_turn("third", "d", session_id="two"))
    assert await owner.fetchval(SAID, session_of(person, "one")) == ["first", "a", "second\ufffd \ufffd", "b"]
    assert await owner.fetchval(SAID, session_of(person, "two")) == ["third", "d"]


async def test_a_turn_whose_commit_was_not_answered_is_stored_once(
    begin: Begin, client_url: str, owner: asyncpg.Connection, person: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memoryd_client._database.SETTLE_SECONDS", 0.1)
    with tempfile.TemporaryDirectory() as folder:
        async with CutWire(client_url, folder) as wire:
            wire.cut(b"commit", after=True, close=True)
            cut = begin(wire.url, "one", user_id=person)
            await apart(lambda: cut.sync_turn("only once", "yes", session_id="one"))
            assert wire.cuts == 1
    await apart(lambda: begin(client_url, "two", user_id=person).shutdown())
    assert await owner.fetchval(SAID, session_of(person, "one")) == ["only once", "yes"]


KILLED = """
import os, signal, sys
from pathlib import Path
from turns import Turns
turns = Turns(Path(sys.argv[1]))
for text in ("0", "1", "2"):
    turns.add(sys.argv[2], "hermes", sys.argv[3], [{"role": "user", "content": text}])
turns.take()
os.kill(os.getpid(), signal.SIGKILL)
"""


async def test_a_killed_process_loses_no_turn_and_two_at_once_store_each_once(
    plugin: ModuleType, begin: Begin, client_url: str, owner: asyncpg.Connection, person: str, tmp_path: Path
) -> None:
    arguments = [str(tmp_path / FILE), f"telegram:{person}", f"hermes:telegram:{person}:one"]
    killed = await asyncio.create_subprocess_exec(
        sys.executable, "-c", KILLED, *arguments, env={"PYTHONPATH": str(ROOT / "clients/hermes")}
    )
    assert await killed.wait() == -signal.SIGKILL
    assert plugin.Turns(tmp_path / FILE).take() is None, "the process that has the first one may be alive"
    with waiting(tmp_path) as file:
        file.execute("update turns set due = 0")  # a minute later
    both = [begin(client_url, name, user_id=person) for name in ("two", "three")]
    await asyncio.gather(*(apart(each.shutdown) for each in both))
    assert await owner.fetchval(SAID, session_of(person, "one")) == ["0", "1", "2"]
    assert (tmp_path / FILE).stat().st_mode & 0o077 == 0, "others of this machine may read it"


async def test_a_turn_that_the_database_refuses_stops_no_other(
    begin: Begin, client_url: str, owner: asyncpg.Connection, person: str, tmp_path: Path
) -> None:
    def work() -> None:
        with ChatMemory(client_url, user="somebody else") as other:
            other.add_user_message(session_of(person, "taken"), "mine")
        mine = begin(client_url, "one", user_id=person)
        mine.sync_turn("to a session of somebody else", "no", session_id="taken")
        mine.sync_turn("to my own", "yes", session_id="one")

    await apart(work)
    assert await owner.fetchval(SAID, session_of(person, "taken")) == ["mine"]
    assert await owner.fetchval(SAID, session_of(person, "one")) == ["to my own", "yes"]
    with waiting(tmp_path) as file:
        assert file.execute("select count(*), min(due) > 0 from turns").fetchone() == (1, 1)


async def test_without_its_file_turns_are_stored_while_the_database_is_there(
    begin: Begin, client_url: str, owner: asyncpg.Connection, person: str, tmp_path: Path
) -> None:
    (tmp_path / FILE).write_bytes(b"SQLite format 3\0 cut off")
    long = "tuba " * 1_000_000
    await apart(lambda: begin(client_url, "one", user_id=person).sync_turn(long, "I see", session_id="one"))
    assert await owner.fetchval(SAID, session_of(person, "one")) == [long, "I see"]


async def test_a_refused_turn_is_passed_by_the_later_ones_of_its_session(
    plugin: ModuleType, tmp_path: Path
) -> None:
    turns = plugin.Turns(tmp_path / FILE)
    for text in ("refused", "later"):
        turns.add(None, "hermes", "one", [{"role": "user", "content": text}])
    refused = turns.take()
    assert turns.take() is None, "before the first one is stored, the second one has to wait"
    turns.put_back(refused, refused=True)
    later = turns.take()
    assert later.messages == [{"role": "user", "content": "later"}]
    turns.stored(later)
    with waiting(tmp_path) as file:
        file.execute("update turns set due = 0")  # an hour later
    again = turns.take()
    assert (again.id, again.again) == (refused.id, True)


async def test_no_more_turns_wait_than_there_is_room_for(
    plugin: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys.modules[plugin.Turns.__module__], "MOST", 2)
    turns = plugin.Turns(tmp_path / FILE)
    assert [turns.add(None, "hermes", str(n), []) for n in range(3)] == [True, True, False]
    assert [turns.take().session for _ in range(2)] == ["0", "1"]


async def test_jobs_are_no_conversations_and_profiles_are_agents(
    begin: Begin, client_url: str, owner: asyncpg.Connection, person: str
) -> None:
    def work() -> None:
        begin(client_url, f"job-{person}", platform="cron").sync_turn("Check the mail", "Done.")
        begin(client_url, f"aside-{person}", agent_context="subagent").sync_turn("Count", "Seven.")
        named = begin(client_url, f"talk-{person}", platform="cli", agent_identity="coder")
        named.sync_turn("Hello", "Good day.")

    await apart(work)
    rows = await owner.fetch(
        "select m.content, m.agent_id, m.user_id from conversation_messages m "
        "where m.session_id = any($1) order by m.message_index",
        [id_of(f"hermes:{name}-{person}") for name in ("job", "aside", "talk")],
    )
    assert [tuple(row) for row in rows] == [
        ("Hello", "hermes-coder", None),
        ("Good day.", "hermes-coder", None),
    ]


async def test_nothing_stays_open(
    plugin: ModuleType,
    begin: Begin,
    client_url: str,
    owner: asyncpg.Connection,
    person: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def work() -> None:
        one, two = begin(client_url, "one", user_id=person), begin(client_url, "two", user_id=person)
        for each in (one, two):
            each.sync_turn("Hello", "Good day.")
            each.shutdown()
            each.shutdown()

    monkeypatch.setattr(plugin, "_DATABASES", type(plugin._DATABASES)())
    before = await owner.fetchval(CONNECTIONS)
    await apart(work)
    assert await owner.fetchval(CONNECTIONS) == before


async def test_it_is_available_where_it_is_told_of_a_database(
    plugin: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = plugin.MemorydProvider()
    monkeypatch.delenv("MEMORYD_DATABASE_URL", raising=False)
    assert not provider.is_available()
    monkeypatch.setenv("MEMORYD_DATABASE_URL", "postgresql://localhost/app")
    assert provider.is_available()
    # Before initialize, and after one that failed.
    assert provider.prefetch("Hello") == ""
    provider.sync_turn("Hello", "Good day.")
    assert "error" in tool(provider, "memoryd_recall", query="Hello")
    provider.shutdown()
