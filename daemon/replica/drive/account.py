"""The service account that memoryd is to Google Drive, from its key file.

The official google-auth signs in; the few calls of Drive v3 that memoryd needs are plain HTTP (api.py). It is imported only
when a setting asks for Drive.
"""

from __future__ import annotations

import json
import threading
from functools import partial
from pathlib import Path
from typing import Any

from providers.extras import missing

SCOPE = "https://www.googleapis.com/auth/drive"
SETTING = "MEMORYD_GDRIVE_KEY_FILE"


class Account:
    """A service account. `email` is the address that folders are shared with."""

    def __init__(self, credentials: Any) -> None:
        self._credentials = credentials
        self._lock = threading.Lock()
        self.email: str = credentials.service_account_email

    def sign(self, request: Any, *, session: Any, timeout_seconds: float) -> Any:
        """Signs a request that is about to be sent. Raises what google-auth raises.

        google-auth's own session is not used: it also asks another service of Google's for locations.
        """
        from google.auth.transport.requests import Request

        with self._lock:
            if not self._credentials.valid:
                self._credentials.refresh(partial(Request(session), timeout=timeout_seconds))
            request.headers["Authorization"] = f"Bearer {self._credentials.token}"
        return request

    def forget_sign_in(self) -> None:
        """Signs in again before the next request: Drive did not know the last one."""
        with self._lock:
            self._credentials.token = None


def open_account(key_file: Path | None) -> Account:
    """The account of this key. Raises ValueError with what to do."""
    try:
        from google.auth.transport import requests as _requests  # noqa: F401 - it needs a package of its own
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
        # Nothing of the error itself is said: it may quote the key.
        raise ValueError(
            f"{SETTING}: {key_file} is not the key of a service account. Download one of type JSON in the Google Cloud "
            "console."
        ) from None
