"""Documents with questions, for measuring how documents are cut: this project's own, and the long messages of body files.

A question of the project's own documents (questions.json) has a phrase of the passage that answers it. Each phrase stands
exactly once in all of the documents, which is checked when they are read. A question of a body file
(benchmarks.search.bodies) has the documents that answer it, since there a document is a message.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
QUESTIONS = Path(__file__).with_name("questions.json")
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
    """A question, and what answers it: a phrase, or documents."""

    text: str
    kind: str
    phrase: str | None
    evidence: frozenset[uuid.UUID]


@dataclass(frozen=True, slots=True)
class DocumentSet:
    """Documents of one user, and questions about them."""

    documents: Sequence[Document]
    questions: Sequence[Question]


def folded(text: str) -> str:
    """The text with each run of white space as one blank."""
    return " ".join(text.split())


def own_documents() -> DocumentSet:
    """The project's documents."""
    files = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    ids = {file.relative_to(ROOT).as_posix(): uuid.uuid4() for file in files}
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in ids}
    questions = json.loads(QUESTIONS.read_text(encoding="utf-8"))
    _check(questions, texts)
    return DocumentSet(
        [Document(ids[name], _title(name, text), text) for name, text in texts.items()],
        [
            Question(q["question"], q["kind"], folded(q["phrase"]), frozenset({ids[q["file"]]}))
            for q in questions
        ],
    )


def _title(name: str, text: str) -> str:
    heading = re.match(r"# +(.+)", text)
    return heading[1] if heading else name


def _check(questions: Sequence[dict[str, str]], texts: dict[str, str]) -> None:
    """Stops the benchmark if a phrase is missing, or stands more than once."""
    plain = {name: folded(text) for name, text in texts.items()}
    wrong = []
    for question in questions:
        phrase = folded(question["phrase"])
        places = [name for name, text in plain.items() for _ in range(text.count(phrase))]
        if places != [question["file"]]:
            wrong.append(
                f"  {phrase!r}: expected once in {question['file']}, found in {places or 'no document'}"
            )
    if wrong:
        raise SystemExit(
            f"The documents have changed. Correct these phrases in {QUESTIONS}:\n" + "\n".join(wrong)
        )


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
            questions.append(Question(asked["question"], "", None, evidence))
    return DocumentSet(
        [
            Document(ids[i], f"Session {t['session']}, {(t['time'] or '')[:10]}", t["text"])
            for i, t in turns.items()
        ],
        questions,
    )
