"""A run over golden questions: each is asked as `memoryd recall` asks it, and what came is counted.

recall@k is the part of a question's answers among the first k results, any@k whether there is one among them; silence, of
questions that nothing answers, whether nothing came. Figures are means over questions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING
from uuid import UUID

from pydantic import BaseModel

from daemon.cli.failure import Misuse
from plugins.eval.golden import Golden

if TYPE_CHECKING:
    from daemon.db.pool import Database
    from handlers.shared.embedding import Questions

CUTS = (1, 5, 10)
RESULTS = max(CUTS)
SILENCE = "silence"
FIGURES = (*(f"recall@{k}" for k in CUTS), *(f"any@{k}" for k in CUTS), SILENCE)

# What recall may find: rows that were deleted, or superseded, answer nothing any more.
CURRENT = """
select s.id from memoryd.searchable s
where s.id = any($1) and s.is_current and (s.expires_at is null or s.expires_at > now())
"""


@dataclass(frozen=True, slots=True)
class Answered:
    """One question, and the ids that came, best first."""

    golden: Golden
    found: Sequence[UUID]

    @property
    def figures(self) -> dict[str, float]:
        """Its figures."""
        answers = self.golden.answers
        if not answers:
            return {SILENCE: float(not self.found)}
        hits = {k: len(answers.intersection(self.found[:k])) for k in CUTS}
        return {f"recall@{k}": n / len(answers) for k, n in hits.items()} | {
            f"any@{k}": float(n > 0) for k, n in hits.items()
        }


class Saved(BaseModel):
    """What is read of an earlier run."""

    by: dict[str, str]
    figures: dict[str, float]
    questions: dict[str, dict[str, float]]


@dataclass(frozen=True, slots=True)
class Run:
    """What was asked, and what came."""

    by: dict[str, str]
    """The version and the model that answered."""
    figures: dict[str, float]
    """Means, in the order of FIGURES; only those that some question has."""
    questions: dict[str, dict[str, float]]
    """The figures of each question, by its key."""
    gone: Sequence[Golden]
    """Questions that were not asked, since all their answers are deleted, superseded or expired."""

    @property
    def asked(self) -> int:
        """How many were asked."""
        return len(self.questions)


async def ask_all(
    database: Database,
    questions: Questions,
    asked: Sequence[Golden],
    *,
    by: dict[str, str],
    after_each: Callable[[], None],
) -> tuple[Run, bool]:
    """Asks every question that can be answered; and whether the embedder was missing for one of them."""
    from handlers.shared.embedding import search

    wanted = list({i for golden in asked for i in golden.answers})
    current = {row["id"] for row in await database.fetch(CURRENT, wanted)}
    gone = [golden for golden in asked if golden.answers and not golden.answers & current]
    left_out = {golden.key for golden in gone}
    answered = []
    by_words = False
    for golden in asked:
        if golden.key not in left_out:
            user = golden.user_id
            question = await questions.read(golden.question, agent=golden.agent, user=user)
            by_words |= question.by_words
            rows = await search(
                database, question, agent=golden.agent, user=user, count=RESULTS, options=golden.options
            )
            answered.append(Answered(golden, [row["id"] for row in rows]))
        after_each()
    return run_of(answered, by=by, gone=gone), by_words


def run_of(answered: Sequence[Answered], *, by: dict[str, str], gone: Sequence[Golden]) -> Run:
    """The run of these answers."""
    questions = {one.golden.key: one.figures for one in answered}
    figures = {
        name: round(fmean(values), 4)
        for name in FIGURES
        if (values := [each[name] for each in questions.values() if name in each])
    }
    return Run(by, figures, questions, gone)


def changes(before: dict[str, dict[str, float]], now: Run) -> list[tuple[str, str, float, float]]:
    """The questions of both runs that got worse, the worst first: key, figure, before, now."""
    worse = []
    for key, figures in now.questions.items():
        earlier = before.get(key, {})
        fallen = [(figures[n] - earlier[n], n) for n in reversed(FIGURES) if n in figures and n in earlier]
        if fallen and (lowest := min(fallen))[0] < 0:
            worse.append((key, lowest[1], earlier[lowest[1]], figures[lowest[1]]))
    return sorted(worse, key=lambda one: one[3] - one[2])


def limits(given: Sequence[str]) -> dict[str, float]:
    """Figures that may not be lower, from `recall@10=0.8`. Raises Misuse."""
    found = {}
    for each in given:
        name, _, value = each.partition("=")
        try:
            lowest = float(value)
        except ValueError:
            lowest = -1.0
        if name not in FIGURES or not 0 <= lowest <= 1:
            raise Misuse(
                f"--at-least {each}: write a figure ({', '.join(FIGURES)}), = and a number from 0 to 1."
            )
        found[name] = lowest
    return found
