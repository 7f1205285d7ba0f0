"""The writers: what agents, chats, teams and users do all day, each over a connection that may break at any moment."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from uuid import UUID, uuid4

import asyncpg

from benchmarks.corpus import Corpus
from benchmarks.soak.ledger import Ledger, User

AGENTS = [f"agent{n}" for n in range(8)]
BROKEN = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)
CALL_SECONDS = 60.0

Step = Callable[[asyncpg.Connection], Awaitable[None]]

MEMORIES = """
insert into agent_memory (id, agent_id, user_id, content)
select * from unnest($1::uuid[], $2::text[], $3::uuid[], $4::text[])
"""
MESSAGE = """
insert into conversation_messages (id, session_id, user_id, role, speaker, content) values ($1, $2, $3, 'user', $4, $5)
"""
KNOWLEDGE = """
insert into shared_knowledge (id, tier, category, title, content, created_by)
values ($1, 'working', 'project', $2, $3, $4)
"""
CHUNK = """
with document as (
    insert into documents (id, title, user_id) values ($1, $2, $3) returning id
)
insert into memory_chunks (id, document_id, user_id, chunk_index, chunk_text) select $4, id, $3, 0, $5 from document
"""

WHOLE = "insert into documents (id, title, content, user_id) values ($1, $2, $3, $4)"
ANCHOR = "insert into memory_anchors (id, agent_id, category, payload) values ($1, $2, 'decision', $3)"


class Writers:
    """All of them; `run` goes on until `stop`."""

    def __init__(self, url: str, ledger: Ledger, seed: int) -> None:
        self._url = url
        self._ledger = ledger
        self._corpus = Corpus(seed)
        self._stopping = asyncio.Event()
        self._sessions: list[tuple[UUID, User | None]] = [(uuid4(), None) for _ in range(4)]

    def stop(self) -> None:
        """No more writing; what is under way ends."""
        self._stopping.set()

    async def run(self, pause: float) -> None:
        """Writes until stopped, each writer pausing this number of seconds between two statements."""
        often = [self._memories, self._commands, self._messages, self._executor]
        steps: list[Step] = [
            *often, *often, self._change, self._knowledge, self._chunks, self._documents, self._anchors, self._recall,
            self._erase,
        ]  # fmt: skip
        await asyncio.gather(*(self._writer(step, pause) for step in steps))

    async def _writer(self, step: Step, pause: float) -> None:
        connection: asyncpg.Connection | None = None
        while not self._stopping.is_set():
            try:
                if connection is None or connection.is_closed():
                    connection = await asyncpg.connect(self._url, timeout=5, command_timeout=CALL_SECONDS)
                await step(connection)
            except BROKEN:
                self._ledger.broken += 1
                if connection is not None:
                    connection.terminate()
                connection = None
                await asyncio.sleep(0.2)
            await asyncio.sleep(pause * self._ledger.dice.uniform(0.5, 1.5))
        if connection is not None:
            connection.terminate()

    def _text(self, user: User | None) -> str:
        return self._corpus.text() + (f" {user.mark}" if user is not None else "")

    async def _as_user(self, work: Callable[[User | None], Awaitable[None]]) -> None:
        """Does it for a user who is not erased meanwhile."""
        user = self._ledger.someone()
        if user is not None:
            user.writing += 1
        try:
            await work(user)
        finally:
            if user is not None:
                user.writing -= 1

    async def _memories(self, connection: asyncpg.Connection) -> None:
        async def write(user: User | None) -> None:
            count = self._ledger.dice.choice((1, 1, 5, 40))
            ids = [uuid4() for _ in range(count)]
            agents = [self._ledger.dice.choice(AGENTS) for _ in ids]
            owner = user.id if user is not None else None
            await connection.execute(MEMORIES, ids, agents, [owner] * count, [self._text(user) for _ in ids])
            for row in ids:
                self._ledger.note("agent_memory", row, user)

        await self._as_user(write)

    async def _commands(self, connection: asyncpg.Connection) -> None:
        async def write(user: User | None) -> None:
            row = uuid4()
            await connection.execute(
                "insert into agent_commands (id, agent_id, user_id, message) values ($1, $2, $3, $4)",
                *(row, self._ledger.dice.choice(AGENTS), user.id if user else None, self._text(user)),
            )
            self._ledger.note("agent_commands", row, user)

        await self._as_user(write)

    async def _executor(self, connection: asyncpg.Connection) -> None:
        """Claims and completes, also while the command's user is being erased."""
        agent = self._ledger.dice.choice(AGENTS)
        row = await connection.fetchrow("select id, user_id, message from claim_command($1)", agent)
        if row is None or row["id"] is None:
            return
        await asyncio.sleep(self._ledger.dice.uniform(0, 0.05))
        user = next((u for u in self._ledger.users if u.id == row["user_id"]), None)
        output = f"done: {row['message'][-60:]}"
        await connection.execute(
            "select complete_command($1, $2, $3)", row["id"], output, int(self._ledger.dice.random() < 0.2)
        )
        if user is None or not user.erased:
            self._ledger.completed[row["id"]] = user
            self._ledger.acknowledged += 1

    async def _messages(self, connection: asyncpg.Connection) -> None:
        async def write(user: User | None) -> None:
            if self._ledger.dice.random() < 0.05:
                self._sessions.append((uuid4(), user))
            mine = [s for s, owner in self._sessions[-30:] if owner is user]
            if not mine:
                self._sessions.append((uuid4(), user))
                mine = [self._sessions[-1][0]]
            row, session = uuid4(), self._ledger.dice.choice(mine)
            await connection.execute(
                MESSAGE,
                *(row, session, user.id if user else None, user.mark if user else "Ann", self._text(user)),
            )
            self._ledger.note("conversation_messages", row, user)

        await self._as_user(write)

    async def _knowledge(self, connection: asyncpg.Connection) -> None:
        row = uuid4()
        await connection.execute(
            KNOWLEDGE, row, self._corpus.text()[:60], self._text(None), self._ledger.dice.choice(AGENTS)
        )
        self._ledger.note("shared_knowledge", row, None)

    async def _chunks(self, connection: asyncpg.Connection) -> None:
        async def write(user: User | None) -> None:
            document, chunk = uuid4(), uuid4()
            owner = user.id if user is not None else None
            await connection.execute(CHUNK, document, self._text(user)[-80:], owner, chunk, self._text(user))
            self._ledger.note("documents", document, user)
            self._ledger.note("memory_chunks", chunk, user)

        await self._as_user(write)

    async def _documents(self, connection: asyncpg.Connection) -> None:
        """Whole ones, which the daemon cuts into chunks."""

        async def write(user: User | None) -> None:
            document = uuid4()
            content = "\n\n".join(self._text(user) for _ in range(self._ledger.dice.choice((1, 20))))
            await connection.execute(
                WHOLE, document, self._text(user)[-80:], content, user.id if user else None
            )
            self._ledger.note("documents", document, user)

        await self._as_user(write)

    async def _anchors(self, connection: asyncpg.Connection) -> None:
        anchor = uuid4()
        payload = json.dumps({"text": self._text(None)})
        await connection.execute(ANCHOR, anchor, self._ledger.dice.choice(AGENTS), payload)
        self._ledger.note("memory_anchors", anchor, None)

    async def _change(self, connection: asyncpg.Connection) -> None:
        """New words for some rows, an end for others."""
        table = self._ledger.dice.choice(("agent_memory", "conversation_messages", "shared_knowledge"))
        for row in self._ledger.some(table, 2):
            owner = self._ledger.rows[table].get(row)
            if owner is not None:
                owner.writing += 1
            try:
                if self._ledger.dice.random() < 0.5:
                    await connection.execute(
                        f"update {table} set content = $2 where id = $1", row, self._text(owner)
                    )
                    continue
                self._ledger.unsure.add(row)
                self._ledger.gone(table, row)
                await connection.execute(f"delete from {table} where id = $1", row)
                self._ledger.unsure.discard(row)
            finally:
                if owner is not None:
                    owner.writing -= 1

    async def _recall(self, connection: asyncpg.Connection) -> None:
        began = time.perf_counter()
        if self._ledger.dice.random() < 0.3:
            # By request: its answer is kept in a row.
            await connection.execute(
                "insert into memory_requests (kind, query) values ('recall', $1)",
                self._corpus.question().text,
            )
            return
        await connection.fetch("select * from recall($1)", self._corpus.question().text)
        self._ledger.recalls.append(time.perf_counter() - began)

    async def _erase(self, connection: asyncpg.Connection) -> None:
        living = [u for u in self._ledger.users if not u.retired]
        if len(living) < 10 or self._ledger.dice.random() < 0.6:
            return
        user = self._ledger.dice.choice(living)
        user.retired = True
        # Their commands that run already complete whenever they do; nothing new is asked for.
        while user.writing and not self._stopping.is_set():
            await asyncio.sleep(0.01)
        try:
            await connection.fetchval("select erase_user_memory($1)", user.id)
        except BROKEN:
            self._ledger.broken += 1
            again = await asyncpg.connect(self._url, timeout=5, command_timeout=CALL_SECONDS)
            try:
                await again.fetchval("select erase_user_memory($1)", user.id)
            finally:
                again.terminate()
        self._ledger.forget(user)
