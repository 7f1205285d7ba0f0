"""Calls through Google's own client (google-api-python-client), which signs in, repeats calls that Drive refused for now, and
resumes interrupted uploads.

Promise: a call ends within its time limit, or as soon as `close` is called. While Drive cannot be reached, calls fail at once
without a request. Each failure is a DriveError, and none contains a file's content or a key.
"""

from __future__ import annotations

import errno
import json
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from functools import cached_property
from typing import Any

from plugins.replica.drive.account import Account
from plugins.replica.drive.faults import DriveError, misunderstood, of_answer, of_exception, stopped
from providers.retry_after import retry_after

BASE_URL = "https://www.googleapis.com"
RETRIES = 3
PAUSE_SECONDS = 0.5
"""The client waits for about twice as long before the first retry, and each time twice as long."""
LONGEST_PAUSE_SECONDS = 8.0
"""If Drive wants a longer pause, this call fails, and so do all others until the pause is over."""
REST_SECONDS = 3.0
"""The pause after Drive could not be reached, or failed repeatedly."""
FAILURES = 3
BYTES_PER_SECOND = 50_000
"""More time for a call with a content."""


class Client:
    """Calls Drive v3. One call at a time; `close` may come from another thread."""

    def __init__(
        self,
        account: Account,
        *,
        timeout_seconds: float,
        base_url: str | None = None,
        pause_seconds: float = PAUSE_SECONDS,
        rest_seconds: float = REST_SECONDS,
    ) -> None:
        self._account = account
        self._timeout = timeout_seconds
        self._base = (base_url or BASE_URL).rstrip("/")
        self._pause = pause_seconds
        self._rest = rest_seconds
        self._http: Any = None
        self._closed = False
        self._running: Future[Any] | None = None
        self._failures = 0
        self._rest_until = 0.0
        self._last: DriveError | None = None

    def call(self, make: Callable[[Any], Any], *, of: type = dict, size: int = 0, repeat: bool = True) -> Any:
        """Sends the request that `make` builds from Drive's resources; returns the answer, of the type `of`. Raises DriveError.

        `size`: bytes of the content. `repeat`: the call may safely run twice.
        """
        if self._closed:
            raise stopped()
        if self._last is not None and time.monotonic() < self._rest_until:
            raise DriveError(self._last.errno or errno.EIO, self._last.reason, passes=True)
        retries, seconds = RETRIES if repeat else 0, self._timeout + size / BYTES_PER_SECOND
        for again in (repeat, False):
            try:
                answer = self._in_time(make, retries, seconds)
                if not isinstance(answer, of):
                    raise misunderstood()
            except DriveError as error:
                # The client does not repeat a call after half an answer, or the answer of another server.
                if not (again and error.passes and error.errno == errno.EPROTO):
                    self._note(error)
                    raise
            else:
                self._failures = 0
                return answer
        raise AssertionError("the last attempt returns or raises")

    def close(self) -> None:
        """Ends the call that is running, and refuses all others."""
        self._closed = True
        if (running := self._running) is not None:
            running.cancel()
        self._drop_connections()

    def _drop_connections(self) -> None:
        http, self._http = self._http, None
        if http is not None:
            http.close()

    def _note(self, error: DriveError) -> None:
        """Begins a pause when another call would fail too."""
        if not error.passes:
            return
        self._failures += FAILURES if error.errno in (errno.EAGAIN, errno.ETIMEDOUT) else 1
        if self._failures >= FAILURES:
            self._failures = 0
            self._last = error
            self._rest_until = time.monotonic() + max(error.retry_after, self._rest)

    def _in_time(self, make: Callable[[Any], Any], retries: int, seconds: float) -> Any:
        """Runs in a thread of its own, which may stay behind: a server that sends a byte now and then never times out."""
        done: Future[Any] = Future()
        ended = threading.Event()

        def pause(length: float) -> None:
            if ended.wait(length * self._pause):
                raise stopped()

        def run() -> None:
            try:
                request = make(self._resources)
                request._sleep = pause  # noqa: SLF001 - the client has no other way to end its pauses
                self._http = self._http or self._connections()
                result = request.execute(http=self._http, num_retries=retries)
            except BaseException as error:  # noqa: BLE001 - it is raised in the thread that waits
                with suppress(InvalidStateError):
                    done.set_exception(error)
            else:
                with suppress(InvalidStateError):
                    done.set_result(result)

        self._running = done
        if self._closed:
            done.cancel()
        threading.Thread(target=run, name="google drive", daemon=True).start()
        try:
            return done.result(seconds)
        except TimeoutError:
            self._drop_connections()
            raise DriveError(errno.ETIMEDOUT, "Google Drive does not answer.", passes=True) from None
        except CancelledError:
            raise stopped() from None
        except Exception as error:  # noqa: BLE001 - each becomes a DriveError
            self._drop_connections()
            raise of_exception(error) from None
        finally:
            done.cancel()
            ended.set()
            self._running = None

    def _connections(self) -> Any:
        import httplib2
        from google_auth_httplib2 import AuthorizedHttp

        class ImpatientHttp(AuthorizedHttp):  # type: ignore[misc]
            def request(self, *args: Any, **options: Any) -> Any:
                answer, content = super().request(*args, **options)
                if answer.status >= 400 and retry_after(answer, now=time.time()) > LONGEST_PAUSE_SECONDS:
                    raise of_answer(answer.status, answer, content)  # the client would ask again too early
                return answer, content

        http = httplib2.Http(timeout=self._timeout)
        # A redirect would send the account's token to another server.
        http.follow_redirects = False
        return ImpatientHttp(self._account, http=http)

    @cached_property
    def _resources(self) -> Any:
        import httplib2
        from googleapiclient import discovery, discovery_cache

        # Its warnings contain the URL of each call, with names of files.
        logging.getLogger("googleapiclient").setLevel(logging.CRITICAL + 1)
        # The description in the package. An endpoint in client_options is not used for uploads.
        description = json.loads(discovery_cache.get_static_doc("drive", "v3"))
        return discovery.build_from_document(
            description | {"rootUrl": f"{self._base}/"}, http=httplib2.Http()
        )
