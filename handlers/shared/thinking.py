"""Asking the language model: within a budget an hour, with one retry, and without ever being needed.

Promise: `ask` answers, or raises `NoReplyError`, and the caller keeps the text that its rule wrote. All daemons share one
budget, kept in memoryd.settings (model_calls), which a restart does not renew. No transaction is open in a call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from structlog.typing import FilteringBoundLogger

from handlers.shared.ports import Reader
from providers.ports import Answer, LanguageModel, Prompt, RejectionError, UnavailableError, UselessReplyError

# A call is counted before it is made. No row: the budget is spent.
TAKE = """
insert into memoryd.settings as c (key, value)
values ('model_calls', jsonb_build_object('hour', date_trunc('hour', now()), 'calls', 1, 'tokens', 0))
on conflict (key) do update
set value = case when c.value -> 'hour' = excluded.value -> 'hour'
                 then c.value || jsonb_build_object('calls', (c.value ->> 'calls')::integer + 1)
                 else excluded.value end
where c.value -> 'hour' is distinct from excluded.value -> 'hour'
   or ($1::integer is null or (c.value ->> 'calls')::integer < $1)
      and ($2::bigint is null or (c.value ->> 'tokens')::bigint < $2)
returning value ->> 'hour' as hour
"""

SPEND = """
update memoryd.settings
set value = value || jsonb_build_object('tokens', (value ->> 'tokens')::bigint + $2::bigint)
where key = 'model_calls' and value ->> 'hour' = $1::text
"""

UNCOUNT = """
update memoryd.settings
set value = value || jsonb_build_object('calls', (value ->> 'calls')::integer - 1)
where key = 'model_calls' and value ->> 'hour' = $1::text
"""

SPENT = """
select value ->> 'hour' as hour, (value ->> 'calls')::integer as calls, (value ->> 'tokens')::bigint as tokens,
       extract(epoch from date_trunc('hour', now()) + interval '1 hour' - now())::double precision as again_in
from memoryd.settings
where key = 'model_calls' and (value ->> 'hour')::timestamptz = date_trunc('hour', now())
"""

Reason = Literal["budget spent", "unavailable", "refused", "useless reply"]

TRIES = 2
"""A reply of no use is asked for once more."""


class NoReplyError(Exception):
    """The language model gave no answer, for this reason; `retry_in`: seconds until another call may succeed, 0.0: never."""

    def __init__(self, reason: Reason, *, retry_in: float = 0.0) -> None:
        super().__init__(reason)
        self.reason: Reason = reason
        self.retry_in = retry_in


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of the model for an hour, for all daemons together; None: no limit."""

    calls: int | None
    tokens: int | None


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

    async def rest(self) -> float:
        """Seconds until the next call is allowed; 0.0: now."""
        if (wait := self._model.retry_in()) > 0:
            return wait
        [spent] = await self._store.fetch(SPENT) or [None]
        calls, tokens = self._budget.calls, self._budget.tokens
        if spent is None or not (
            (calls is not None and spent["calls"] >= calls)
            or (tokens is not None and spent["tokens"] >= tokens)
        ):
            return 0.0
        return max(1.0, float(spent["again_in"]))

    async def ask(self, prompt: Prompt[Answer]) -> Answer:
        """The answer, see `LanguageModel.ask`. Raises `NoReplyError`."""
        for _ in range(TRIES):
            hour = await self._take()
            try:
                answer, tokens = await self._model.ask(prompt)
            except UnavailableError as error:
                if not error.asked:
                    await self._store.execute(UNCOUNT, hour)
                raise NoReplyError("unavailable", retry_in=error.retry_in or 1.0) from None
            except UselessReplyError as error:
                await self._store.execute(SPEND, hour, error.tokens)
                continue
            except RejectionError:
                raise NoReplyError("refused") from None
            await self._store.execute(SPEND, hour, tokens)
            return answer
        raise NoReplyError("useless reply")

    async def _take(self) -> object:
        """Takes one call off the budget: the hour that it is counted in. Raises `NoReplyError`."""
        taken = await self._store.fetch(TAKE, self._budget.calls, self._budget.tokens)
        if taken:
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
        raise NoReplyError("budget spent", retry_in=max(1.0, spent["again_in"]))
