"""Turns on their way into the database, in a file of SQLite.

Promise: a turn that was added is in the file until it is in the database, also after kill -9 and with several processes; the
turns of a session leave in the order in which they came. A turn that the database refuses waits an hour, and the later ones
pass it.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

MOST = 2000
LEASE_SECONDS = 60
REFUSED_SECONDS = 3600

TABLE = """
create table if not exists turns (
    id integer primary key autoincrement,
    turn text not null,
    user text,
    agent text not null,
    session text not null,
    messages text not null,
    tries integer not null default 0,
    refused integer not null default 0,
    due real not null default 0
)
"""
ADD = """
insert into turns (turn, user, agent, session, messages)
select ?, ?, ?, ?, ? where (select count(*) from turns) < ?
"""
# The oldest turn of a session, until the lease of the process that takes it has expired.
TAKE = """
update turns set tries = tries + 1, due = ?
where id = (select t.id from turns t
            where t.due <= ? and not exists (select 1 from turns e
                                             where e.session = t.session and e.id < t.id and not e.refused)
            order by t.id limit 1)
returning id, turn, user, agent, session, messages, tries
"""


@dataclass(frozen=True)
class Turn:
    """What was said and answered. `id` is in the metadata of its messages; `again`: it may be in the database already."""

    key: int
    id: str
    user: str | None
    agent: str
    session: str
    messages: list[dict[str, str]]
    again: bool


class Turns:
    """The file. Every call opens and closes it, and may raise sqlite3.Error or OSError."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, user: str | None, agent: str, session: str, messages: list[dict[str, str]]) -> bool:
        """Whether there was room: `MOST` turns wait at most, of which the oldest stay."""
        with self._opened() as file:
            values = (str(uuid4()), user, agent, session, json.dumps(messages), MOST)
            return file.execute(ADD, values).rowcount == 1

    def take(self) -> Turn | None:
        """The next turn, which no other process gets for `LEASE_SECONDS`."""
        if not self._path.exists():
            return None
        now = time.time()
        with self._opened() as file:
            row = file.execute(TAKE, (now + LEASE_SECONDS, now)).fetchone()
        if row is None:
            return None
        key, turn, user, agent, session, messages, tries = row
        return Turn(key, turn, user, agent, session, json.loads(messages), tries > 1)

    def stored(self, turn: Turn) -> None:
        """It is in the database."""
        with self._opened() as file:
            file.execute("delete from turns where id = ?", (turn.key,))

    def put_back(self, turn: Turn, *, refused: bool) -> None:
        """It is not: it is tried again, in an hour if it was refused."""
        due = time.time() + REFUSED_SECONDS if refused else 0
        with self._opened() as file:
            file.execute("update turns set due = ?, refused = ? where id = ?", (due, refused, turn.key))

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))  # what was said is the user's alone
        with closing(sqlite3.connect(self._path, timeout=5.0)) as file, file:
            file.execute(TABLE)
            yield file
