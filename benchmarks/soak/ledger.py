"""What the writers know: which rows the database acknowledged, and what was said of them since.

A row counts from the moment its statement returned. What was under way when a connection broke is unknown, and counts neither
way.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field
from uuid import UUID, uuid4


@dataclass(slots=True)
class User:
    """An end user; `mark` is in each of their texts, and in no other text."""

    id: UUID
    mark: str
    retired: bool = False
    erased: bool = False
    writing: int = 0
    """Statements under way that write for this user."""


@dataclass(slots=True)
class Ledger:
    """The books of one soak."""

    dice: random.Random
    users: list[User] = field(default_factory=list)
    rows: dict[str, dict[UUID, User | None]] = field(default_factory=lambda: defaultdict(dict))
    """By table: rows that must be there at the end, and whose they are."""
    unsure: set[UUID] = field(default_factory=set)
    """Rows of which a change was under way when the connection broke: they may be there or not."""
    completed: dict[UUID, User | None] = field(default_factory=dict)
    """Commands whose completion was acknowledged."""
    acknowledged: int = 0
    broken: int = 0
    recalls: list[float] = field(default_factory=list)
    """Seconds of each recall that was answered."""

    def someone(self) -> User | None:
        """A user, sometimes a new one; in half of the calls none."""
        if self.dice.random() < 0.5:
            return None
        living = [u for u in self.users if not u.retired]
        if len(living) < 20 or self.dice.random() < 0.02:
            mark = "".join(self.dice.choices("bcdfghjklmnpqrstvwxz", k=14))
            living.append(User(uuid4(), mark))
            self.users.append(living[-1])
        return self.dice.choice(living)

    def note(self, table: str, row: UUID, user: User | None) -> None:
        """The database said that this row stands."""
        self.rows[table][row] = user
        self.acknowledged += 1

    def gone(self, table: str, row: UUID) -> None:
        """The database said that this row is deleted, or it is about to be."""
        self.rows[table].pop(row, None)

    def some(self, table: str, count: int) -> list[UUID]:
        """Some rows of a table that are no erased user's."""
        known = [row for row, user in self.rows[table].items() if user is None or not user.retired]
        return self.dice.sample(known, min(count, len(known)))

    def forget(self, user: User) -> None:
        """Nothing of this user is owed any more."""
        user.erased = True
        for rows in self.rows.values():
            for row in [row for row, owner in rows.items() if owner is user]:
                del rows[row]
        for command in [c for c, owner in self.completed.items() if owner is user]:
            del self.completed[command]
