"""The service account for Google Drive, from its key file. google-auth signs in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from providers.extras import missing

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
        """Signs in again."""
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
