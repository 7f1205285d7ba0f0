"""Which conversations are read next for facts: a tick that queues them, while the language model may be asked.

Promise: what waits for the next hour's budget is said in the log once an hour, and what was said last is read first.
"""

from __future__ import annotations

from structlog.typing import FilteringBoundLogger

from daemon.db.pool import Database
from handlers.shared.thinking import Thinker
from plugins.facts.facts import ROOM

QUEUE = "select memoryd.queue_stretches($1)"
WAITING = """
select count(*) as messages, count(distinct u.user_id) as users, date_trunc('hour', now()) as hour
from memoryd.unread u
where u.queued_at < now() - interval '1 minute'
"""


class Reading:
    def __init__(self, database: Database, thinker: Thinker, *, logger: FilteringBoundLogger) -> None:
        self._database = database
        self._thinker = thinker
        self._log = logger
        self._told_of: object = None

    async def tick(self) -> int:
        """Queues stretches; where the model is not to be asked now, says what waits."""
        if (again_in := await self._thinker.rest()) == 0.0:
            return int(await self._database.fetchval(QUEUE, ROOM))
        [waiting] = await self._database.fetch(WAITING)
        if waiting["messages"] and self._told_of != waiting["hour"]:
            self._told_of = waiting["hour"]
            self._log.warning(
                "conversations_wait",
                messages=waiting["messages"],
                users=waiting["users"],
                again_in=round(again_in),
            )
        return int(waiting["messages"])
