"""HTTP with Google Drive: signed in, with a time limit for everything, pauses when Drive asks for them, and an end when the
daemon stops.

Promise: a call ends within its time limit, or as soon as `close` is called, whatever the server does. While Drive cannot be
reached, calls fail at once and do not ask it. Each failure is a DriveError, and none contains a file's content or a key.
"""

from __future__ import annotations

import errno
import json
import random
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from daemon.replica.drive.account import Account
from daemon.replica.drive.faults import ADVICE, DriveError, misunderstood, of_answer

ATTEMPTS = 4
PAUSE_SECONDS = 0.5
"""Before the second attempt; each further pause is twice as long."""
LONGEST_PAUSE_SECONDS = 8.0
"""A longer one is not waited for: the call fails, and so do all others until it is over."""
REST_SECONDS = 3.0
"""So long Drive is not asked after it could not be reached, or failed again and again."""
FAILURES = 3
BYTES_PER_SECOND = 50_000
"""A content may take this much longer."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Request:
    """What Drive is asked."""

    method: str
    url: str
    params: Mapping[str, str] | None = None
    body: bytes | None = None
    headers: Mapping[str, str] | None = None
    size: int = 0
    """Bytes that come."""
    repeat: bool = False
    """Nothing is wrong if it is done twice: it is repeated also when it is not known whether it was done."""
    parse: bool = False
    """The answer must be an object of JSON."""
    also: tuple[int, ...] = ()
    """Statuses that are no failure, beside those from 200 to 299."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What Drive answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        """The body as an object. Raises DriveError."""
        try:
            said = json.loads(self.body)
        except ValueError:
            raise misunderstood() from None
        if not isinstance(said, dict):
            raise misunderstood()
        return said


class Http:
    """Calls Drive. One call at a time; `close` may come from another thread."""

    def __init__(
        self,
        account: Account,
        *,
        timeout_seconds: float,
        pause_seconds: float = PAUSE_SECONDS,
        rest_seconds: float = REST_SECONDS,
    ) -> None:
        self._account = account
        self._timeout = timeout_seconds
        self._pause = pause_seconds
        self._rest = rest_seconds
        self._session: Any = None
        self._closed = threading.Event()
        self._running: Future[Any] | None = None
        self._failures = 0
        self._rest_until = 0.0
        self._last: DriveError | None = None

    def call(self, request: Request) -> Answer:
        """One call, which is repeated after a pause where Drive refused it for now. Raises DriveError."""
        seconds = self._timeout + max(request.size, len(request.body or b"")) / BYTES_PER_SECOND
        pause = self._pause
        for attempt in range(1, ATTEMPTS + 1):
            self._require_open()
            try:
                answer = self._once(request, seconds)
                if answer.status == 401 and attempt == 1:
                    self._account.forget_sign_in()
                    answer = self._once(request, seconds)
                if not (200 <= answer.status < 300 or answer.status in request.also):
                    raise of_answer(answer.status, answer.headers, answer.body)
                if request.parse:
                    answer.json()
            except DriveError as error:
                wait = max(error.retry_after, pause * random.uniform(0.75, 1.25))
                again = error.refused or (request.repeat and error.passes and error.errno != errno.ETIMEDOUT)
                if not again or attempt == ATTEMPTS or wait > LONGEST_PAUSE_SECONDS:
                    self._note(error)
                    raise
                if self._closed.wait(wait):
                    raise _stopped() from None
                pause *= 2
            else:
                self._failures = 0
                return answer
        raise AssertionError("every attempt returns or raises")

    def close(self) -> None:
        """Ends the call that is running, and refuses all others."""
        self._closed.set()
        if (running := self._running) is not None:
            running.cancel()
        self._drop_session()

    def _drop_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _require_open(self) -> None:
        if self._closed.is_set():
            raise _stopped()
        if self._last is not None and time.monotonic() < self._rest_until:
            raise DriveError(self._last.errno or errno.EIO, self._last.reason, passes=True)

    def _note(self, error: DriveError) -> None:
        """Lets Drive rest when another call would fail too."""
        if not error.passes:
            return
        self._failures += FAILURES if error.refused or error.errno == errno.ETIMEDOUT else 1
        if self._failures >= FAILURES:
            self._failures = 0
            self._last = error
            self._rest_until = time.monotonic() + max(error.retry_after, self._rest)

    def _once(self, request: Request, seconds: float) -> Answer:
        import requests

        session = self._session = self._session or requests.Session()

        def sign(prepared: Any) -> Any:
            return self._account.sign(prepared, session=session, timeout_seconds=self._timeout)

        def work() -> Answer:
            answer = session.request(
                request.method,
                request.url,
                params=request.params,
                data=request.body,
                headers=request.headers,
                timeout=self._timeout,
                auth=sign,
                # A redirect would send the account's token elsewhere.
                allow_redirects=False,
            )
            return Answer(answer.status_code, answer.headers, answer.content)

        return self._in_time(work, seconds)

    def _in_time(self, work: Callable[[], T], seconds: float) -> T:
        """Does it in a thread of its own, which may stay behind: a server that sends a byte now and then ends no timeout."""
        done: Future[T] = Future()

        def run() -> None:
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - it is raised in the thread that waits
                with suppress(InvalidStateError):
                    done.set_exception(error)
            else:
                with suppress(InvalidStateError):
                    done.set_result(result)

        self._running = done
        if self._closed.is_set():
            done.cancel()
        threading.Thread(target=run, name="google drive", daemon=True).start()
        try:
            return done.result(seconds)
        except TimeoutError:
            self._drop_session()
            raise DriveError(errno.ETIMEDOUT, "Google Drive does not answer.", passes=True) from None
        except CancelledError:
            raise _stopped() from None
        except Exception as error:  # noqa: BLE001 - each becomes a DriveError, or is raised as it is
            self._drop_session()
            raise _translated(error) from None
        finally:
            done.cancel()
            self._running = None


def _translated(error: Exception) -> DriveError:
    from google.auth.exceptions import GoogleAuthError, TransportError
    from requests import exceptions

    if isinstance(error, exceptions.Timeout) or isinstance(error.__cause__, exceptions.Timeout):
        return DriveError(errno.ETIMEDOUT, "Google Drive does not answer.", passes=True)
    if isinstance(error, exceptions.ChunkedEncodingError | exceptions.ContentDecodingError):
        return misunderstood()
    if isinstance(error, exceptions.RequestException | TransportError | OSError):
        reason = "There is no connection to Google Drive. If this lasts, check MEMORYD_GDRIVE_URL."
        return DriveError(errno.ENOTCONN, reason, passes=True)
    if isinstance(error, GoogleAuthError):
        if error.retryable:
            return DriveError(errno.EIO, "Google's sign-in does not answer.", passes=True)
        return DriveError(errno.EACCES, ADVICE["key"])
    return DriveError(errno.EIO, f"Google Drive could not be asked: {type(error).__name__}.", passes=True)


def _stopped() -> DriveError:
    return DriveError(errno.ECANCELED, "memoryd stops.")
