"""Asking the language model: within a budget an hour, with one retry, and without ever being needed.

Promise: `insight`, `situate` and `facts` answer, or raise `Silent`, upon which the caller keeps what its rule wrote. All
daemons share one budget, which a restart does not renew: it is kept in the database (memoryd.model_calls). No transaction is
open in a call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal, Protocol, TypeVar

from structlog.typing import FilteringBoundLogger

from handlers.shared.ports import Reader
from providers.ports import (
    LanguageModel,
    Rejected,
    Situations,
    StatedFacts,
    Unavailable,
    Useless,
    WrittenInsight,
)

# A call is counted before it is made. No row: the budget is spent.
TAKE = """
insert into memoryd.model_calls as c (hour, calls)
select date_trunc('hour', now()), 1
on conflict (hour) do update set calls = c.calls + 1
where ($1::integer is null or c.calls < $1) and ($2::bigint is null or c.tokens < $2)
returning calls, hour
"""

SPEND = """
update memoryd.model_calls set tokens = tokens + $2 where hour = $1
"""

UNCOUNT = "update memoryd.model_calls set calls = calls - 1 where hour = $1"

SPENT = """
select c.hour, c.calls, c.tokens, extract(epoch from c.hour + interval '1 hour' - now())::double precision as again_in
from memoryd.model_calls c
where c.hour = date_trunc('hour', now())
"""

FORGET = "delete from memoryd.model_calls where hour < now() - interval '7 days'"

Reason = Literal["budget spent", "unavailable", "refused", "useless reply"]

TRIES = 2
"""A reply of no use is asked for once more."""


class Silent(Exception):
    """The language model has nothing to say to this; `retry_in`: seconds until it is worth asking again, 0.0 for never."""

    def __init__(self, reason: Reason, *, retry_in: float = 0.0) -> None:
        super().__init__(reason)
        self.reason: Reason = reason
        self.retry_in = retry_in


@dataclass(frozen=True, slots=True)
class Budget:
    """What the model may be asked in an hour, by all daemons together; None: no limit."""

    calls: int | None
    tokens: int | None


class _Costly(Protocol):
    @property
    def tokens(self) -> int:
        """What the reply cost."""
        ...


Answer = TypeVar("Answer", bound=_Costly)


class Thinker:
    """The language model, within its budget."""

    def __init__(
        self, model: LanguageModel, *, store: Reader, budget: Budget, logger: FilteringBoundLogger
    ) -> None:
        self.name = model.name
        self._model = model
        self._store = store
        self._budget = budget
        self._log = logger
        self._told_of: object = None

    async def insight(self, memories: Sequence[str], draft: str) -> WrittenInsight:
        """See `LanguageModel.insight`. Raises `Silent`."""
        return await self._ask(lambda: self._model.insight(memories, draft))

    async def situate(self, document: str, chunks: Sequence[str]) -> Situations:
        """See `LanguageModel.situate`. Raises `Silent`."""
        return await self._ask(lambda: self._model.situate(document, chunks))

    async def facts(self, message: str, *, day: date, writer: str) -> StatedFacts:
        """See `LanguageModel.facts`. Raises `Silent`."""
        return await self._ask(lambda: self._model.facts(message, day=day, writer=writer))

    async def _ask(self, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        for _ in range(TRIES):
            hour = await self._take()
            try:
                answer = await ask()
            except Unavailable as error:
                if not error.asked:
                    await self._store.execute(UNCOUNT, hour)
                raise Silent("unavailable", retry_in=error.retry_in or 1.0) from None
            except Useless as error:
                await self._store.execute(SPEND, hour, error.tokens)
                continue
            except Rejected:
                raise Silent("refused") from None
            await self._store.execute(SPEND, hour, answer.tokens)
            return answer
        raise Silent("useless reply")

    async def _take(self) -> object:
        """Takes one call off the budget: the hour that it is counted in. Raises `Silent`."""
        taken = await self._store.fetch(TAKE, self._budget.calls, self._budget.tokens)
        if taken:
            if taken[0]["calls"] == 1:
                await self._store.execute(FORGET)
            return taken[0]["hour"]
        [spent] = await self._store.fetch(SPENT) or [None]
        if spent is None:  # the hour has just ended
            return await self._take()
        if self._told_of != spent["hour"]:
            self._told_of = spent["hour"]
            self._log.warning(
                "language_model_budget_spent",
                provider=self.name,
                calls=spent["calls"],
                tokens=spent["tokens"],
                again_in=round(spent["again_in"]),
            )
        raise Silent("budget spent", retry_in=max(1.0, spent["again_in"]))
