"""Documents with questions, for measuring how documents are cut: the long messages of body files.

A question of a body file (benchmarks.search.bodies) has the documents that answer it, since there a document is a message.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MIN_WORDS = 100
"""A message is taken for a document from this length on."""


@dataclass(frozen=True, slots=True)
class Document:
    """A document before it is cut."""

    id: uuid.UUID
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the documents that answer it."""

    text: str
    evidence: frozenset[uuid.UUID]


@dataclass(frozen=True, slots=True)
class DocumentSet:
    """Documents of one user, and questions about them."""

    documents: Sequence[Document]
    questions: Sequence[Question]


def long_messages(file: Path) -> list[DocumentSet]:
    """The long messages of each body in a file, and the questions that some of them answer."""
    return [_messages(body) for body in json.loads(file.read_text(encoding="utf-8"))]


def _messages(body: dict[str, Any]) -> DocumentSet:
    turns = {t["id"]: t for t in body["turns"] if len(t["text"].split()) >= MIN_WORDS}
    ids = {turn: uuid.uuid4() for turn in turns}
    questions = []
    for asked in body["questions"]:
        evidence = frozenset(ids[e] for e in asked["evidence"] if e in ids)
        if evidence:
            questions.append(Question(asked["question"], evidence))
    return DocumentSet(
        [
            Document(ids[i], f"Session {t['session']}, {(t['time'] or '')[:10]}", t["text"])
            for i, t in turns.items()
        ],
        questions,
    )
