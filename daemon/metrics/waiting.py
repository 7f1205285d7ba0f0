"""The pages of a daemon that has not begun its work, since its database takes no writes yet.

Promise: nobody is asked. It is alive, and not ready; metrics come with the work.
"""

from __future__ import annotations

from http import HTTPStatus

from daemon.metrics.pages import LIVE, READY, as_json
from daemon.metrics.port import Answer


class WaitingPages:
    """The pages until the daemon begins."""

    def __init__(self, reason: str) -> None:
        """`reason`: why it is not ready."""
        self._reason = reason

    async def answer(self, path: str, accept: str) -> Answer:
        """See `Site`."""
        del accept
        match path:
            case "/health/live":
                return as_json(HTTPStatus.OK, {"status": "live"})
            case "/health/ready":
                return as_json(
                    HTTPStatus.SERVICE_UNAVAILABLE, {"status": "not ready", "reason": self._reason}
                )
        return Answer(HTTPStatus.NOT_FOUND, f"Now there are {LIVE} and {READY}.\n".encode())

    async def close(self) -> None:
        """See `Site`."""
