"""When a server that answers over HTTP wants to be asked again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

MAX_RETRY_AFTER_SECONDS = 3_600.0


def retry_after(headers: Mapping[str, str], *, now: float) -> float:
    """Answer the seconds that the reply asks to wait, at most an hour; 0.0 if it does not say.

    `now` is seconds since the epoch, for the date form (RFC 9110, 10.2.3).
    """
    for header, per_second in (("retry-after-ms", 1000), ("retry-after", 1)):
        value = headers.get(header)
        if value is None:
            continue
        try:
            seconds = float(value) / per_second
        except ValueError:
            try:
                seconds = parsedate_to_datetime(value).timestamp() - now
            except ValueError:
                continue
        if not math.isnan(seconds):
            return min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS)
    return 0.0
