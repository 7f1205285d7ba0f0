"""Memory of memoryd_client: an agent's, an end user's, and what a hostile caller gets."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID, uuid4

import asyncpg
import pytest
from memoryd_client import (
    Database,
    Memory,
    MemorydError,
    NotFound,
    NotIndexed,
    Refused,
    TimedOut,
    id_of,
)

from tests.support.database.logins import login
from tests.support.processes.daemons import DaemonProcess

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_what_an_agent_remembers_is_found_judged_and_forgotten(
    db: Database, client_daemon: DaemonProcess, owner: asyncpg.Connection, agent: str
) -> None:
    memory = Memory(db, agent=agent)
    stored = await memory.remember(
        "The heron built a nest in the reeds", kind="outcome", ttl_hours=5, metadata={"river": "Aa"}
    )
    assert stored.expires_at is not None
    assert (await memory.remember("Herons eat frogs", ttl_hours=None)).expires_at is None

    found = await memory.recall("where is the heron's nest?", count=1)  # by its words, at once
    assert [f.id for f in found] == [stored.id]
    assert (found[0].source, found[0].content) == ("memory", "The heron built a nest in the reeds")
    assert found[0].metadata["river"] == "Aa"
    [state] = await memory.wait_indexed([stored.id], timeout=60)
    assert (state.state, state.source, state.id) == ("indexed", "memory", stored.id)

    await memory.feedback(found)
    assert await owner.fetchval("select useful from memory_queries where id = $1", found.id)
    assert "heron" in await memory.context("Look for the heron's nest on the river")

    other = Memory(db, agent=f"{agent}-2")
    assert found.id is not None
    with pytest.raises(NotFound):
        await other.feedback(found.id)
    assert await other.forget([stored.id, uuid4()]) == 0
    assert await memory.forget([stored.id, str(stored.id)]) == 1
    with pytest.raises(NotFound, match=f"1 of 1 rows do not exist, or are not yours: {stored.id}"):
        await memory.wait_indexed(stored.id)


async def test_what_is_remembered_again_is_known(db: Database, owner: asyncpg.Connection, agent: str) -> None:
    memory = Memory(db, agent=agent)
    first = await memory.remember("The heron nests in the old willow")
    again = await memory.remember("the heron nests in the old willow.")
    assert (first.known, again.known, again.id) == (False, True, first.id)
    assert await owner.fetchval("select count(*) from agent_memory where agent_id = $1", agent) == 1


async def test_recall_has_the_options_of_recall_in_sql(
    db: Database, client_daemon: DaemonProcess, agent: str
) -> None:
    memory = Memory(db, agent=agent)
    work = await memory.remember("The gate code is 12", project="office", metadata={"floor": 2})
    home = await memory.remember("The gate code is 77", project="family", kind="note")

    async def found(**options: Any) -> set[UUID]:
        return {f.id for f in await memory.recall("gate code", **options)}

    now = datetime.now(timezone.utc)  # noqa: UP017 - as on Python 3.10
    hour = timedelta(hours=1)
    assert await found() == {work.id, home.id}
    assert await found(project="family") == {home.id}
    assert await found(filter={"floor": 2}) == {work.id}
    assert await found(since=now - hour, until=now + hour, as_of=now + hour) == {work.id, home.id}
    assert await found(since=now + hour) == set()
    assert await found(sources=["insight"]) == set()
    assert await found(min_score=1.0, count=0, roles=["user"], speakers=["Mia"], around=1) == set()
    assert await found(exclude_session="telegram:1", exclude_last=3) == {work.id, home.id}


async def test_each_user_has_memories_of_their_own(
    db: Database, client_daemon: DaemonProcess, agent: str, user: UUID
) -> None:
    ann, bob = Memory(db, agent=agent, user=user), Memory(db, agent=agent, user="bob@example.org")
    stored = await ann.remember("I keep bees behind the house")
    await bob.remember("I keep goats behind the house")
    await ann.wait_indexed([stored.id], timeout=60)
    found = await ann.recall("what is behind the house?")
    assert [f.content for f in found] == ["I keep bees behind the house"]
    await ann.feedback(found)

    assert found.id is not None
    with pytest.raises(NotFound):
        await bob.feedback(found.id)
    with pytest.raises(NotFound):
        await bob.wait_indexed([stored.id])
    assert await bob.index_state([stored.id]) == []
    assert await bob.forget([stored.id]) == 0
    # The service asks for a user, too.
    service = Memory(db, agent=agent, user="bob@example.org", rights="service")
    assert [f.content for f in await service.recall("behind the house")] == ["I keep goats behind the house"]
    assert await service.forget([stored.id]) == 0
    assert await ann.forget([stored.id]) == 1


async def test_a_login_of_the_users_own_is_that_user(
    client_url: str, owner: asyncpg.Connection, agent: str, user: UUID
) -> None:
    async with login(owner, client_url) as (name, _):
        await owner.execute("insert into memoryd.logins (login, user_id) values ($1, $2)", name, user)
        parts = urlsplit(client_url)
        url = urlunsplit(parts._replace(netloc=f"{name}:secret@{parts.netloc.rpartition('@')[2]}"))
        async with Memory(url, agent=agent, rights="login") as memory:
            stored = await memory.remember("I keep bees")
            assert [f.id for f in await memory.recall("bees")] == [stored.id]
            assert await memory.forget([stored.id]) == 1
        async with Memory(url, agent=agent) as memory:
            with pytest.raises(Refused, match="Grant it to the login") as caught:
                await memory.remember("I am the service")
            assert caught.value.sqlstate == "42501"
        await owner.execute("delete from memoryd.logins where login = $1", name)


async def test_who_has_switched_memory_off_is_told_that_nothing_was_stored(
    db: Database, owner: asyncpg.Connection, agent: str, user: UUID
) -> None:
    await owner.execute("insert into memory_settings (user_id, memory_enabled) values ($1, false)", user)
    with pytest.raises(Refused, match="switched memory off"):
        await Memory(db, agent=agent, user=user).remember("I keep bees")


async def test_waiting_says_which_rows_failed_and_why(
    db: Database, owner: asyncpg.Connection, client_daemon: DaemonProcess, agent: str
) -> None:
    memory = Memory(db, agent=agent)
    # A daemon does not come to it: its job is taken in the transaction that stores it.
    async with owner.transaction():
        key = await owner.fetchval(
            "insert into agent_memory (agent_id, content) values ($1, 'bees') returning id", agent
        )
        await owner.execute("delete from memoryd.jobs where ref = $1", key)
    with pytest.raises(TimedOut, match="1 of 1 rows are not indexed after 0") as late:
        await memory.wait_indexed([key], timeout=0.01)
    assert [s.state for s in late.value.states] == ["waiting"]
    await owner.execute(
        "insert into memoryd.dead_letters (id, topic, ref, attempts, error, created_at) "
        "values (-1, 'index', $1, 5, 'the provider refused it', now())",
        key,
    )
    with pytest.raises(NotIndexed, match=f"{key}: the provider refused it") as caught:
        await memory.wait_indexed([key])
    assert [s.id for s in caught.value.states] == [key]


MB = 1_000_000
WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "NUL": ("remember", {"text": "sec\0ret"}, "text has the character NUL"),
    "surrogate": ("remember", {"text": "secret \ud800"}, "text has a lone surrogate"),
    "blank": ("remember", {"text": " \n"}, "text is blank"),
    "no text": ("remember", {"text": b"secret"}, "text is no text"),
    "11 MB": ("remember", {"text": "secret " * 2 * MB}, "text has 14,000,000 characters; at most 10,000,000"),
    "kind": (
        "remember",
        {"text": "x", "kind": "secret"},
        "kind is not an allowed value. Allowed: observation,",
    ),
    "ttl": ("remember", {"text": "x", "ttl_hours": -1}, "ttl_hours is no whole number"),
    "ttl after the year 9999": (
        "remember",
        {"text": "x", "ttl_hours": 2**31 - 1},
        "ttl_hours is no whole number",
    ),
    "pairs": ("remember", {"text": "x", "project": "y", "metadata": ["secret"]}, "metadata is no mapping"),
    "metadata": (
        "remember",
        {"text": "x", "metadata": {"a": object()}},
        "metadata cannot be written as JSON",
    ),
    "NaN": ("remember", {"text": "x", "metadata": {"a": float("nan")}}, "metadata cannot be written as JSON"),
    "NUL in metadata": ("remember", {"text": "x", "metadata": {"a": ["\0"]}}, "A string in metadata has the"),
    "2 MB of metadata": ("remember", {"text": "x", "metadata": {"a": "secret" * MB}}, "metadata has"),
    "query": ("recall", {"query": "sec\0ret"}, "query has the character NUL"),
    "source": ("recall", {"query": "x", "sources": ["secret"]}, "sources is not an allowed value"),
    "sources": ("recall", {"query": "x", "sources": "memory"}, "sources is no list"),
    "speakers": ("recall", {"query": "x", "speakers": 5}, "speakers is no list"),
    "score": ("recall", {"query": "x", "min_score": 2}, "min_score is no number from 0 to 1"),
    "around": ("recall", {"query": "x", "around": 11}, "around is no whole number from 0 to 10"),
    "time": ("recall", {"query": "x", "since": datetime(2026, 1, 1)}, "since has no time zone"),  # noqa: DTZ001
    "last": (
        "recall",
        {"query": "x", "exclude_last": 3},
        "(?i)exclude_last is given without exclude_session",
    ),
    "id": ("forget", {"ids": ["secret"]}, "An id is no UUID"),
    "no ids": ("forget", {"ids": None}, "ids is no list of ids"),
    "timeout": ("wait_indexed", {"ids": [], "timeout": "secret"}, "timeout is no number of seconds from 0"),
    "recall": ("feedback", {"recall": uuid4()}, "There is no such recall"),
    "message": ("context", {"message": "\udfff"}, "message has a lone surrogate"),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("who", ["agent", "user"])
async def test_what_is_wrong_is_refused_with_what_to_do_and_without_quoting_it(
    db: Database, agent: str, user: UUID, wrong: tuple[str, dict[str, Any], str], who: str
) -> None:
    call, arguments, words = wrong
    memory = Memory(db, agent=agent, user=None if who == "agent" else user)
    with pytest.raises(MemorydError, match=words) as caught:
        await getattr(memory, call)(**arguments)
    assert isinstance(caught.value, NotFound if call == "feedback" else Refused)
    assert "secret" not in str(caught.value)


async def test_five_megabytes_are_stored_whole(db: Database, agent: str) -> None:
    memory = Memory(db, agent=agent)
    text = "heron " + "~" * 5 * MB
    stored = await memory.remember(text)
    [found] = await memory.recall("heron")
    assert (found.id, found.content) == (stored.id, text)
    assert await memory.forget(stored.id) == 1


async def test_a_name_is_the_same_id_everywhere() -> None:
    # The vectors of the document: see test_documents.py.
    assert id_of("telegram:42") == id_of("telegram:42") != id_of("telegram:43")
    one = uuid4()
    assert id_of(str(one)) == id_of(str(one).upper()) == id_of(one) == one
    for wrong in (one.hex, str(one)[:-1], "", "x" * 10_001, "\ud800"):  # more: tests/unit/test_ids.py
        with pytest.raises(Refused):
            id_of(wrong)
