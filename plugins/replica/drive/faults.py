"""The error of a call to Google Drive, with a system error number: the replica treats a full drive like a full disk, and a
missing right like one in a local folder.
"""

from __future__ import annotations

import errno
import json
import time
from collections.abc import Mapping
from http.client import HTTPException, RemoteDisconnected

from providers.retry_after import retry_after

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
    """The error for a failure of Google's client."""
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
    """The reasons in a refusal of Drive."""
    try:
        error = json.loads(body)["error"]
        said = [one.get("reason") for one in (*error.get("errors", ()), *error.get("details", ()))]
        return {str(reason) for reason in said if reason}
    except (ValueError, TypeError, KeyError, AttributeError):
        return set()
