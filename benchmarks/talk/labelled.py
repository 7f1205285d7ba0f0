"""Conversations with labels, from files of two shapes, and what a memory is judged by.

A list of {user, sessions: [[[speaker or null, message]]], expect, superseded, never, questions}, where a label is a name and a
regular expression, and a question has the expression of its evidence and of what is outdated. Or {schema, chats}, with ids and
times of messages, where a label has several expressions that one memory must match, and a question the ids that answer it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

INSERT = """
insert into conversation_messages (id, session_id, user_id, agent_id, role, speaker, content, created_at)
values ($1, $2, $3, 'chatbot', $4, $5, $6, $7)
"""
SPACE = UUID("0a6f6d1c-9a4b-4b56-9d37-5b3a4d5f1e00")
FIRST_SESSION = datetime(2026, 11, 9, 10, tzinfo=UTC)
"""Where the file has no times: a Monday. The other sessions are a week apart."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A message."""

    id: UUID
    role: str
    speaker: str | None
    text: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Label:
    """What one memory must match: all of `match`, none of `unless`; said in these messages, if that is known."""

    name: str
    match: Sequence[str]
    unless: Sequence[str] = ()
    said_in: Sequence[UUID] = ()

    def fits(self, text: str) -> bool:
        """Whether a memory is this one."""
        return all(re.search(one, text, re.IGNORECASE) for one in self.match) and not any(
            re.search(one, text, re.IGNORECASE) for one in self.unless
        )


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked at the end, and what answers it: an expression, or messages."""

    text: str
    evidence: str | None
    answers: Sequence[UUID]
    outdated: str | None


@dataclass(frozen=True, slots=True)
class Chat:
    """One user's conversations."""

    name: str
    user: UUID
    sessions: Sequence[Sequence[Turn]]
    expect: Sequence[Label]
    outdated: Sequence[Label]
    never: Sequence[Label]
    questions: Sequence[Question]
    needs: Sequence[Question] = ()
    """Of the questions those that ask for nothing that was said, and need it all the same."""
    small_talk: Sequence[str] = ()
    """What needs nothing."""

    def rows(self, session: Sequence[Turn]) -> list[tuple[object, ...]]:
        """The arguments of INSERT for one of its sessions."""
        return [(t.id, session[0].id, self.user, t.role, t.speaker, t.text, t.at) for t in session]

    @property
    def ends(self) -> datetime:
        """When the last message was said."""
        return self.sessions[-1][-1].at


def read_chats(file: Path) -> list[Chat]:
    """The chats of a file."""
    found = json.loads(file.read_text(encoding="utf-8"))
    return (
        [_untimed(one) for one in found]
        if isinstance(found, list)
        else [_timed(one) for one in found["chats"]]
    )


def plain(text: str | None) -> str:
    """For comparisons: small letters, single blanks."""
    return " ".join((text or "").lower().split())


def _untimed(chat: Mapping[str, Any]) -> Chat:
    name = chat["user"]
    sessions = [
        [
            Turn(
                uuid5(SPACE, f"{name} {week} {nth}"), "user", speaker, text,
                FIRST_SESSION + timedelta(weeks=week, minutes=nth),
            )
            for nth, (speaker, text) in enumerate(messages)
        ]
        for week, messages in enumerate(chat["sessions"])
    ]  # fmt: skip
    expect, outdated, never = (
        [Label(label, [expression]) for label, expression in chat[part]]
        for part in ("expect", "superseded", "never")
    )
    questions = [Question(text, evidence, (), wrong) for text, evidence, wrong in chat["questions"]]
    return Chat(name, uuid5(SPACE, name), sessions, expect, outdated, never, questions)


def _timed(chat: Mapping[str, Any]) -> Chat:
    name, labels = chat["id"], chat["labels"]

    def of(message: str) -> UUID:
        return uuid5(SPACE, f"{name} {message}")

    sessions = [
        [
            Turn(of(one["id"]), one["role"], None, one["text"],
                 datetime.fromisoformat(session["date"]) + timedelta(minutes=nth))
            for nth, one in enumerate(session["messages"])
        ]
        for session in chat["sessions"]
    ]  # fmt: skip

    def asked(text: str, answers: Sequence[str]) -> Question:
        return Question(text, None, [of(each) for each in answers], None)

    needs = [asked(one["text"], one["evidence"]) for one in labels["needs_memory"]]
    return Chat(
        name,
        uuid5(SPACE, name),
        sessions,
        [Label(one["content"], one["match"]) for one in labels["facts"]],
        [Label(one["content"], one["match"], one.get("unless", ())) for one in labels["outdated"]],
        [Label(one["why"], one["match"], said_in=[of(one["message"])]) for one in labels["never"]],
        [asked(one["question"], one["answers"]) for one in labels["questions"]] + needs,
        needs,
        labels.get("small_talk", ()),
    )
