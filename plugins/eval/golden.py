"""Golden questions: what is asked of a store, and the rows that answer it.

They stand in a file, one JSON object a line, which belongs into version control beside the settings of the store:

    {"question": "where does mia live", "answers": ["<id of a row>"], "user": "<name or id>", "agent": "<agent>"}

`user`, `agent` and `options` (those of recall) may be missing. `"answers": []` says that nothing may be found: the question is
about something that the store does not know.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from daemon.cli.failure import Misuse
from daemon.ids import id_of
from memory.text import is_blank

if TYPE_CHECKING:
    from daemon.db.pool import Database

NAMES = frozenset(("question", "answers", "user", "agent", "options"))
LONGEST_LINE = 100_000
"""Characters."""
MOST = 10_000
"""Questions of a file."""

# The words of a retrieval are kept, not its text.
JUDGED = """
select array_to_string(q.task_keywords, ' ') as question, q.agent_id, q.user_id,
       (q.retrieved_memory_ids || q.knowledge_ids || q.insight_ids)[:$2] as answers
from memory_queries q
where q.useful and q.task_keywords <> '{}'
  and (q.retrieved_memory_ids || q.knowledge_ids || q.insight_ids) <> '{}'
order by q.query_time desc, q.id
limit $1
"""
BEST_JUDGED = 3
"""Of a retrieval that was judged useful, its best rows are what answered."""


@dataclass(frozen=True, slots=True)
class Golden:
    """One question. Without `answers` nothing may be found."""

    question: str
    answers: frozenset[UUID] = frozenset()
    user: str | None = None
    """A name or an id, as given."""
    agent: str | None = None
    options: Mapping[str, object] = field(default_factory=dict)

    @property
    def user_id(self) -> UUID | None:
        """The user's id."""
        return None if self.user is None else id_of(self.user)

    @property
    def key(self) -> str:
        """The question and who asks: the same in each run."""
        return json.dumps([self.question, self.user, self.agent, dict(self.options)], sort_keys=True)

    def line(self) -> str:
        """Its line in a file."""
        found: dict[str, object] = {"question": self.question, "answers": sorted(map(str, self.answers))}
        found |= {n: v for n, v in (("user", self.user), ("agent", self.agent)) if v is not None}
        return json.dumps(
            found | ({"options": dict(self.options)} if self.options else {}), ensure_ascii=False
        )


def read_golden(file: Path) -> list[Golden]:
    """The questions of a file, in its order. Raises Misuse where a line is no question."""
    found: dict[str, Golden] = {}
    for number, line in _lines(file):
        try:
            golden = _golden(line)
        except ValueError as error:
            raise Misuse(f"{file}, line {number}: {error}.") from None
        if golden.key in found:
            raise Misuse(f"{file}, line {number}: this question stands there twice. Keep one of both.")
        found[golden.key] = golden
        if len(found) > MOST:
            raise Misuse(f"{file} has more than {MOST:,} questions: split it.")
    return list(found.values())


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    try:
        with file.open(encoding="utf-8-sig") as opened:
            number = 0
            while line := opened.readline(LONGEST_LINE + 1):
                number += 1
                if len(line) > LONGEST_LINE:
                    raise Misuse(f"{file}, line {number} is longer than {LONGEST_LINE:,} characters.")
                if not is_blank(line):
                    yield number, line
    except FileNotFoundError:
        raise Misuse(
            f'There is no {file}. Write golden questions with: memoryd eval --add "a question" ID'
        ) from None
    except UnicodeDecodeError:
        raise Misuse(f"{file} is no text in UTF-8.") from None


def _golden(line: str) -> Golden:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ValueError("this is no JSON object")  # noqa: TRY004 - of the file, not of the program
    if unknown := sorted(found.keys() - NAMES):
        raise ValueError(f"{unknown[0]!r} is not known here; known are {', '.join(sorted(NAMES))}")
    question, user, agent = (found.get(name) for name in ("question", "user", "agent"))
    if not isinstance(question, str) or is_blank(question) or "\0" in question:
        raise ValueError("its question is no text")
    for name, value in (("user", user), ("agent", agent)):
        if value is not None and (not isinstance(value, str) or is_blank(value) or "\0" in value):
            raise ValueError(f"its {name} is no text")
    if user is not None:
        id_of(user)
    options = found.get("options", {})
    if not isinstance(options, dict):
        raise ValueError("its options are no JSON object")  # noqa: TRY004
    return Golden(question, frozenset(_ids(found.get("answers"))), user, agent, options)


def _ids(found: Any) -> Iterator[UUID]:
    if not isinstance(found, list):
        raise ValueError("its answers are no list of ids ([]: nothing may be found)")  # noqa: TRY004
    for each in found:
        try:
            yield UUID(each)
        except (ValueError, AttributeError, TypeError):
            raise ValueError(f"{each!r} is no id of a row") from None


def add_golden(file: Path, golden: Golden) -> None:
    """Adds a question at the end of a file, which may be new. Raises Misuse where it has it already."""
    known = read_golden(file) if file.exists() else []
    if any(one.key == golden.key for one in known):
        raise Misuse(f"{file} has this question already. To change its answers edit that line.")
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    with file.open("a", encoding="utf-8") as opened:
        opened.write(("" if text.endswith("\n") or not text else "\n") + golden.line() + "\n")


async def judged_golden(database: Database, *, limit: int) -> list[Golden]:
    """The newest retrievals that somebody judged useful (mark_useful), as questions of their words."""
    found: dict[str, Golden] = {}
    for row in await database.fetch(JUDGED, limit, BEST_JUDGED):
        user = None if row["user_id"] is None else str(row["user_id"])
        golden = Golden(row["question"], frozenset(row["answers"]), user, row["agent_id"])
        found.setdefault(golden.key, golden)
    return list(found.values())
