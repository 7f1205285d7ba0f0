"""Calls through Google's own client (google-api-python-client), which signs in, repeats calls that Drive refused for now, and
resumes interrupted uploads. google-auth signs in with the service account of the key file.

Promise: a call ends within its time limit, or as soon as `close` is called. While Drive cannot be reached, calls fail at once
without a request. Each failure is a DriveError, and none contains a file's content or a key.
"""

from __future__ import annotations

import errno
import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from functools import cached_property
from http.client import HTTPException, RemoteDisconnected
from pathlib import Path
from typing import Any

from providers.circuit import retry_after
from providers.ports import missing

SCOPE = "https://www.googleapis.com/auth/drive"
SETTING = "MEMORYD_GDRIVE_KEY_FILE"


class Account:
    """A service account, as the credentials of an AuthorizedHttp. `email` is the address that folders are shared with."""

    def __init__(self, credentials: Any) -> None:
        self._credentials = credentials
        self.email: str = credentials.service_account_email

    def before_request(self, request: Any, _method: str, _url: str, headers: dict[str, str]) -> None:
        """Signs a call. The method of google-auth would also call another Google service for locations."""
        if not self._credentials.valid:
            self.refresh(request)
        self._credentials.apply(headers)

    def refresh(self, request: Any) -> None:
        self._credentials.refresh(request)


def open_account(key_file: Path | None) -> Account:
    """The account of this key. Raises ValueError with what to do."""
    try:
        import google_auth_httplib2 as _transport  # noqa: F401 - it comes with the same extra
        from google.oauth2 import service_account
    except ImportError:
        raise ValueError(missing("Google Drive", "gdrive")) from None
    if key_file is None:
        raise ValueError(
            f"{SETTING} is not set: it must be the key file (JSON) of the service account for the folder in "
            "Google Drive. docs/replica.md says how to make one."
        )
    try:
        said = json.loads(key_file.read_text("utf-8"))
        return Account(service_account.Credentials.from_service_account_info(said, scopes=[SCOPE]))
    except OSError as error:
        raise ValueError(f"{SETTING}: {key_file} cannot be read: {error.strerror}.") from None
    except (ValueError, TypeError, AttributeError, KeyError):
        # The error itself is not shown: it may quote the key.
        raise ValueError(
            f"{SETTING}: {key_file} is not the key of a service account. Download one of type JSON in the Google Cloud "
            "console."
        ) from None


LIMITS = frozenset(
    ("userRateLimitExceeded", "rateLimitExceeded", "sharingRateLimitExceeded", "dailyLimitExceeded")
)
FULL = frozenset(
    (
        "storageQuotaExceeded",
        "quotaExceeded",
        "teamDriveFileLimitExceeded",
        "numChildrenInNonRootLimitExceeded",
        "activeItemCreationLimitExceeded",
        "myDriveHierarchyDepthLimitExceeded",
        "teamDriveHierarchyTooDeep",
    )
)
NOT_MEMBER = frozenset(("teamDriveMembershipRequired",))
NOT_ENABLED = frozenset(("accessNotConfigured", "SERVICE_DISABLED"))

ADVICE = {
    "full": "The drive is full, or the account has no space of its own: use a folder in a shared drive.",
    "not enabled": "The Google Drive API is not enabled in the project of the key. Enable it in the Google Cloud console.",
    "key": "Google refuses the key. Make a new one for MEMORYD_GDRIVE_KEY_FILE; or correct the clock of this machine.",
    "member": "The account is not a member of the shared drive. Add it, as Content manager.",
    "rights": "The account may not do this. Give it the role Content manager.",
}


class DriveError(OSError):
    """A call failed. `errno` gives the kind; the message says what to do, where something can be done."""

    def __init__(self, number: int, reason: str, *, passes: bool = False, retry_after: float = 0.0) -> None:
        """`passes`: the same call may succeed later."""
        super().__init__(number, reason)
        self.reason = reason
        self.passes = passes
        self.retry_after = retry_after

    @property
    def is_missing(self) -> bool:
        """The account sees no such file."""
        return self.errno == errno.ENOENT

    @property
    def is_expired(self) -> bool:
        """The page token, or the session of an upload, is too old."""
        return self.errno == errno.ESTALE


def of_answer(status: int, headers: Mapping[str, str], body: bytes) -> DriveError:
    """The error for an answer with this status. The message quotes nothing of the answer."""
    reasons = _reasons(body)
    after = retry_after(headers, now=time.time())
    if status == 401:
        return DriveError(errno.EACCES, ADVICE["key"])
    if status in (403, 429):
        if status == 429 or reasons & LIMITS:
            reason = "Google Drive limits the calls."
            return DriveError(errno.EAGAIN, reason, passes=True, retry_after=after)
        if reasons & FULL:
            return DriveError(errno.EDQUOT, ADVICE["full"])
        kind = "not enabled" if reasons & NOT_ENABLED else "member" if reasons & NOT_MEMBER else "rights"
        return DriveError(errno.EACCES, ADVICE[kind])
    if status == 404:
        return DriveError(errno.ENOENT, "Google Drive has no such file for this account.")
    if status == 409:
        return DriveError(errno.EEXIST, "There is a file with this id.")
    if status == 410:
        return DriveError(errno.ESTALE, "The page token, or the upload, is too old.")
    reason = f"Google Drive answered {status}."
    if status in (408, 425) or status >= 500:
        return DriveError(errno.EIO, reason, passes=True, retry_after=after)
    return DriveError(errno.EPROTO, f"{reason} If this lasts, check MEMORYD_GDRIVE_URL.")


def misunderstood() -> DriveError:
    """An answer that does not come from Drive, or is cut."""
    return DriveError(
        errno.EPROTO,
        "The answer is not one of Google Drive. If this lasts, check MEMORYD_GDRIVE_URL.",
        passes=True,
    )


def of_exception(error: Exception) -> DriveError:
    import httplib2
    from google.auth.exceptions import GoogleAuthError, TransportError
    from googleapiclient.errors import HttpError

    if isinstance(error, DriveError):
        return error
    if isinstance(error, HttpError):
        return of_answer(error.resp.status, error.resp, error.content)
    if isinstance(error, TimeoutError) or isinstance(error.__context__, TimeoutError):
        return DriveError(errno.ETIMEDOUT, "Google Drive does not answer.", passes=True)
    if isinstance(error, OSError | TransportError | httplib2.ServerNotFoundError | RemoteDisconnected):
        reason = "There is no connection to Google Drive. If this lasts, check MEMORYD_GDRIVE_URL."
        return DriveError(errno.ENOTCONN, reason, passes=True)
    if isinstance(error, ValueError | HTTPException | httplib2.HttpLib2Error):
        return misunderstood()
    if isinstance(error, GoogleAuthError):
        if error.retryable:
            return DriveError(errno.EIO, "Google's sign-in does not answer.", passes=True)
        return DriveError(errno.EACCES, ADVICE["key"])
    return DriveError(errno.EIO, f"Google Drive could not be asked: {type(error).__name__}.", passes=True)


def stopped() -> DriveError:
    """The daemon ends while a call runs."""
    return DriveError(errno.ECANCELED, "memoryd stops.")


def _reasons(body: bytes) -> set[str]:
    try:
        error = json.loads(body)["error"]
        said = [one.get("reason") for one in (*error.get("errors", ()), *error.get("details", ()))]
        return {str(reason) for reason in said if reason}
    except (ValueError, TypeError, KeyError, AttributeError):
        return set()


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
