"""A connection that is lost: nothing is stored twice, nothing that was reported is missing, and the next call works."""

from __future__ import annotations

import asyncio
import ssl
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from memoryd_client import (
    ChatMemory,
    Database,
    Memory,
    OutcomeUnknown,
    Refused,
    TimedOut,
    Unavailable,
)

from tests.support.database.cut_wire import CutWire
from tests.support.database.transaction_pooler import TransactionPooler
from tests.support.processes.daemons import DaemonProcess
from tests.support.rows import column
from tests.support.waiting import BLOCKED, until

pytestmark = pytest.mark.asyncio(loop_scope="session")

IDS = "select id from agent_memory where agent_id = $1"
STORED = "select count(*) from agent_memory where agent_id = $1"
END_ALL = """
select count(pg_terminate_backend(pid)) from pg_stat_activity
where application_name = 'memoryd-client' and datname = current_database()
"""


@asynccontextmanager
async def wired(
    url: str, *, size: int = 1, time_limit: float = 20.0
) -> AsyncIterator[tuple[CutWire, Database]]:
    """A wire to the database that can be cut, and a client's way through it, with one connection that is open."""
    with tempfile.TemporaryDirectory() as folder:
        async with (
            CutWire(url, folder) as wire,
            Database(wire.url, size=size, time_limit=time_limit) as database,
        ):
            await Memory(database, agent="nobody").forget(uuid4())
            yield wire, database


@pytest.mark.parametrize(
    ("at", "after"),
    [(b"begin", False), (b"remember", False), (b"remember", True), (b"commit", False), (b"commit", True)],
)
async def test_a_memory_whose_connection_is_cut_is_stored_once(
    client_url: str, owner: asyncpg.Connection, agent: str, at: bytes, after: bool
) -> None:
    async with wired(client_url) as (wire, database):
        wire.cut(at, after=after)
        stored = await Memory(database, agent=agent).remember("The heron built a nest")
        assert wire.cuts == 1
    assert await column(owner, IDS, agent) == [stored.id]


@pytest.mark.parametrize("after", [False, True])
async def test_a_turn_whose_commit_is_cut_is_said_once(client_url: str, after: bool) -> None:
    session = uuid4()
    async with wired(client_url) as (wire, database):
        chat = ChatMemory(database, user=uuid4())
        wire.cut(b"commit", after=after)
        assert [m["content"] for m in await chat.prompt(session, "Hello heron")] == ["Hello heron"]
        assert wire.cuts == 1
        assert [m.content for m in await chat.get_messages(session)] == ["Hello heron"]
        wire.cut(b"commit", after=after)
        assert await chat.reset(session) == 1
        assert wire.cuts == 2


async def test_what_cannot_be_found_out_is_said_to_be_unknown(
    client_url: str, owner: asyncpg.Connection, agent: str
) -> None:
    async with wired(client_url, time_limit=2.0) as (wire, database):
        memory = Memory(database, agent=agent)
        wire.cut(b"commit", after=True, close=True)
        with pytest.raises(OutcomeUnknown, match="Look before you repeat it") as caught:
            await memory.remember("The heron built a nest")
        assert caught.value.__context__ is None
        # As it says: if it was committed, that row is there.
        assert list(caught.value.ids) == await column(owner, IDS, agent)
        with pytest.raises(Unavailable, match="cannot be reached; nothing was changed"):
            await memory.remember("The otter swims")
        wire.closed = False
        await memory.remember("The otter swims")
    assert await owner.fetchval(STORED, agent) == 2


async def test_calls_go_on_after_all_their_connections_were_ended(
    client_url: str, owner: asyncpg.Connection, agent: str
) -> None:
    async with Database(client_url, size=4) as database:
        memory = Memory(database, agent=agent)
        await asyncio.gather(*(memory.remember(f"heron {n}") for n in range(8)))
        assert await owner.fetchval(END_ALL) >= 1
        await asyncio.gather(*(memory.remember(f"otter {n}") for n in range(8)))
    assert await owner.fetchval(STORED, agent) == 16


async def test_waiting_goes_on_over_a_lost_connection(
    client_url: str, owner: asyncpg.Connection, client_daemon: DaemonProcess, agent: str
) -> None:
    async with wired(client_url) as (wire, database):
        memory = Memory(database, agent=agent)
        async with owner.transaction():
            key = await owner.fetchval(
                "insert into agent_memory (agent_id, content) values ($1, 'bees') returning id", agent
            )
            jobs = await owner.fetch("delete from memoryd.jobs where ref = $1 returning topic", key)
        wire.cut(b"index_state", after=False, close=True)
        waiting = asyncio.create_task(memory.wait_indexed([key], timeout=60))
        while not wire.cuts:
            await asyncio.sleep(0)
        wire.closed = False
        for job in jobs:
            await owner.execute("insert into memoryd.jobs (topic, ref) values ($1, $2)", job["topic"], key)
        await owner.execute("select memoryd.wake('index')")
        assert [s.state for s in await waiting] == ["indexed"]


async def test_a_cancelled_call_changes_nothing_and_leaves_its_connection_fit(
    client_url: str, owner: asyncpg.Connection, agent: str
) -> None:
    async with Database(client_url, size=1) as database:
        memory = Memory(database, agent=agent)
        stored = await memory.remember("The heron built a nest")
        async with owner.transaction():
            await owner.execute("select 1 from agent_memory where id = $1 for update", stored.id)
            call = asyncio.create_task(memory.forget(stored.id))
            await until(owner, BLOCKED)
            call.cancel()
            with suppress(asyncio.CancelledError):
                await call
            assert call.cancelled()
        assert [f.id for f in await memory.recall("heron")] == [stored.id]


async def test_calls_that_are_cancelled_at_any_moment_leave_nothing_of_their_user_on_the_connection(
    client_url: str, agent: str
) -> None:
    async with Database(client_url, size=1) as database:
        ann, ben = (Memory(database, agent=agent, user=uuid4()) for _ in range(2))
        its = await ben.remember("The heron is Ben's")
        for turns in range(24):
            call = asyncio.create_task(ann.remember("The heron is Ann's"))
            for _ in range(turns):
                await asyncio.sleep(0)
            call.cancel()
            if turns % 2:
                await asyncio.sleep(0)
                call.cancel()
            await asyncio.wait([call])
            assert [f.id for f in await ben.recall("heron", sources=["memory"])] == [its.id]


async def test_a_connection_that_says_nothing_more_costs_one_call(client_url: str, agent: str) -> None:
    async with wired(client_url, size=3, time_limit=2.0) as (wire, database):
        memory = Memory(database, agent=agent)
        await asyncio.gather(*(memory.recall("heron") for _ in range(3)))
        wire.silence()
        with pytest.raises(TimedOut, match=r"let nobody in within 2 seconds; nothing was changed"):
            await memory.recall("heron")
        assert list(await memory.recall("heron")) == []
        wire.end_all(close=True)


async def test_a_call_that_takes_too_long_ends_and_changes_nothing(
    client_url: str, owner: asyncpg.Connection, agent: str
) -> None:
    async with Database(client_url, size=1, time_limit=2.0) as database:
        memory = Memory(database, agent=agent)
        stored = await memory.remember("The heron built a nest")
        async with owner.transaction():
            await owner.execute("select 1 from agent_memory where id = $1 for update", stored.id)
            with pytest.raises(TimedOut, match=r"did not answer within 2 seconds; nothing was changed"):
                await memory.forget(stored.id)
            both = [asyncio.create_task(memory.forget(stored.id)) for _ in range(2)]
            said = sorted(str(e) for e in await asyncio.gather(*both, return_exceptions=True))
        assert said[0].startswith("All 1 connections were in use for 2 seconds; nothing was changed."), said
        assert await memory.forget(stored.id) == 1


async def test_it_works_behind_a_transaction_pooler(client_url: str, agent: str) -> None:
    async with (
        TransactionPooler(client_url) as pooler,
        Database(pooler.url, transaction_pooler=True) as database,
    ):
        memory = Memory(database, agent=agent, user="ann")
        await asyncio.gather(*(memory.remember(f"heron {n}") for n in range(6)))
        found = await memory.recall("heron")
        assert len(found) == 6
        await memory.feedback(found)
        async with Memory(pooler.url, agent=agent) as unaware:
            with pytest.raises(Refused, match=r"Give Database\(url, transaction_pooler=True\)"):
                await unaware.recall("heron")


async def test_a_server_whose_certificate_is_not_trusted_is_not_talked_to(agent: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        server_s, another = (certificate(folder, name) for name in ("server", "another"))
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(server_s)

        async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(8)
            writer.write(b"S")
            with suppress(OSError):
                await writer.start_tls(tls)
            writer.close()

        async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            url = f"postgresql://ann@127.0.0.1:{port}/x?sslmode=verify-full&sslrootcert={another}"
            async with Memory(url, agent=agent) as memory:
                with pytest.raises(Refused, match="certificate is not trusted"):
                    await memory.recall("heron")


def certificate(folder: str, name: str) -> str:
    """A file with a key and a certificate that it has signed itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
    signed = made.not_valid_before(now).not_valid_after(now + timedelta(days=1)).sign(key, hashes.SHA256())
    path = Path(folder, name)
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(secret + signed.public_bytes(Encoding.PEM))
    return str(path)


async def test_who_cannot_be_let_in_is_told_what_to_check(client_url: str, agent: str) -> None:
    async with Memory("postgresql://nobody@127.0.0.1:1/none", agent=agent) as memory:
        with pytest.raises(Unavailable, match="check the URL and the server"):
            await memory.recall("heron")
    for url in (
        "mysql://secret@host/x",
        "postgresql://u:secret[1@host/x",
        "postgresql://127.0.0.1:65536/secret",
    ):
        async with Memory(url, agent=agent) as memory:
            with pytest.raises(
                Refused, match="The URL of the database, or a file that it names, cannot be read"
            ) as caught:
                await memory.recall("heron")
            assert "secret" not in str(caught.value)
    for size, time_limit in (0, 1.0), (1, 0.0), (1, float("inf")):
        with pytest.raises(Refused, match=r"(size|time_limit) is no"):
            Database(client_url, size=size, time_limit=time_limit)
    database = Database(client_url)
    await database.close()
    with pytest.raises(Refused, match="is closed"):
        await Memory(database, agent=agent).recall("heron")
