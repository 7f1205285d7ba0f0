"""Bodies of text with questions, for measuring recall: read from files, written through SQL, indexed by a daemon.

A FILE is a list of bodies: {"id", "turns": [{"id", "session", "speaker", "time", "text"}], "questions": [{"question",
"evidence": [turn ids], "category"}]}. The turns of a body become conversation_messages of one new user, or memories where
they have no session. A question may have `sessions` (those that answer it), `asked` (when it is asked) and `own` (the session
that it is asked in, which is left out with all that is later).
"""

from __future__ import annotations

import json
import time
import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import asyncpg

from benchmarks.harness import daemon, until_idle

Files = Annotated[list[Path], "bodies of text with questions"]
ROLES = ("user", "assistant", "system")

WRITE_MESSAGES = """
insert into conversation_messages (id, session_id, user_id, message_index, role, speaker, content, created_at)
select * from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::integer[], $5::text[], $6::text[], $7::text[], $8::timestamptz[])
"""
WRITE_MEMORIES = """
insert into agent_memory (id, agent_id, user_id, content, created_at, kind, ttl_hours)
select m.id, 'reader', m.user_id, m.content, coalesce(m.created_at, now()), 'fact', null
from unnest($1::uuid[], $2::uuid[], $3::text[], $4::timestamptz[]) as m(id, user_id, content, created_at)
"""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and the rows that answer it."""

    text: str
    evidence: frozenset[uuid.UUID]
    kind: str
    sessions: frozenset[Any] = frozenset()
    """The sessions that answer it, by their names."""
    options: dict[str, str] = field(default_factory=dict)
    """Options of recall()."""
    later: frozenset[uuid.UUID] = frozenset()
    """The rows that do not count: of its own session, and those after it."""


@dataclass(frozen=True, slots=True)
class Body:
    """A body of text as rows of one user."""

    user: uuid.UUID
    texts: dict[uuid.UUID, str]
    """By row, in order."""
    sessions: dict[uuid.UUID, Any]
    """By row; None: it is a memory."""
    questions: Sequence[Asked]


def make_body(found: dict[str, Any]) -> tuple[Body, list[list[object]]]:
    """A body of a file, for a new user, and its rows as columns."""
    user = uuid.uuid4()
    ids = {turn["id"]: uuid.uuid4() for turn in found["turns"]}
    asked = [_asked(question, found["turns"], ids, user) for question in found["questions"]]
    body = Body(
        user,
        {ids[turn["id"]]: turn["text"] for turn in found["turns"]},
        {ids[turn["id"]]: turn["session"] for turn in found["turns"]},
        [question for question in asked if question.evidence or question.sessions],
    )
    if found["turns"][0]["session"] is None:
        times = {ids[turn["id"]]: _time(turn["time"]) for turn in found["turns"]}
        rows: list[tuple[object, ...]] = [(i, user, text, times[i]) for i, text in body.texts.items()]
    else:
        rows = _messages(found["turns"], ids, user)
    return body, [list(column) for column in zip(*rows, strict=True)]


def _asked(
    found: dict[str, Any], turns: Sequence[dict[str, Any]], ids: dict[Any, uuid.UUID], user: uuid.UUID
) -> Asked:
    options, later = {}, set()
    asked, own = _time(found.get("asked")), found.get("own")
    if asked is not None:
        options["asked_at"] = asked.isoformat()
    if asked is not None and own is not None:
        options |= {"until": asked.isoformat(), "exclude_session": str(_session_id(user, own))}
        later = {
            ids[turn["id"]]
            for turn in turns
            if turn["session"] == own or (_time(turn["time"]) or asked) > asked
        }
    evidence = frozenset(ids[e] for e in found["evidence"] if e in ids)
    sessions = frozenset(found.get("sessions", ()))
    return Asked(found["question"], evidence, str(found["category"]), sessions, options, frozenset(later))


def _session_id(user: uuid.UUID, name: object) -> uuid.UUID:
    return uuid.uuid5(user, str(name))


def _time(said: str | None) -> datetime | None:
    """A time of a file; UTC where it does not say."""
    if not said:
        return None
    time = datetime.fromisoformat(said)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _messages(
    turns: Sequence[dict[str, Any]], ids: dict[Any, uuid.UUID], user: uuid.UUID
) -> list[tuple[object, ...]]:
    places: dict[Any, int] = defaultdict(int)
    roles: dict[str, str] = {}
    rows: list[tuple[object, ...]] = []
    for turn in turns:
        place = places[turn["session"]]
        places[turn["session"]] += 1
        speaker = turn["speaker"]
        role = speaker if speaker in ROLES else roles.setdefault(speaker, "assistant" if roles else "user")
        said = _time(turn["time"]) or datetime.now(UTC)
        rows.append(
            (
                *(ids[turn["id"]], _session_id(user, turn["session"]), user, place, role),
                *(None if speaker in ROLES else speaker, turn["text"], said + timedelta(milliseconds=place)),
            )
        )
    return rows


async def write(url: str, found: Sequence[dict[str, Any]], **settings: object) -> tuple[list[Body], float]:
    """Writes all, and waits until a daemon with these settings has indexed them: the bodies, and the seconds that it took."""
    connection = await asyncpg.connect(url)
    written = []
    async with daemon(url, **settings):
        began = time.perf_counter()
        for one in found:
            body, columns = make_body(one)
            await connection.execute(
                WRITE_MEMORIES if one["turns"][0]["session"] is None else WRITE_MESSAGES, *columns
            )
            written.append(body)
        await until_idle(connection)
        seconds = time.perf_counter() - began
    await connection.execute("vacuum analyze")
    await connection.close()
    return written, seconds


def read(files: Sequence[Path]) -> dict[str, list[dict[str, Any]]]:
    """What is in the files, by their names."""
    sets: dict[str, list[dict[str, Any]]] = {}
    for file in files:
        bodies = json.loads(file.read_text(encoding="utf-8"))
        # A blank turn can be no row.
        sets[file.stem] = [
            body | {"turns": [turn for turn in body["turns"] if turn["text"].strip()]} for body in bodies
        ]
    return sets
