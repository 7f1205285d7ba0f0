"""What goes wrong with a request to the server that plays Google Drive."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Self

Kind = Literal["status", "hang", "drop", "half", "garbage", "late", "odd"]


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong with one request."""

    kind: Kind
    code: int = 0
    reason: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def status(cls, code: int, reason: str = "", *, retry_after: str | None = None) -> Self:
        """This HTTP status, with Drive's word for the reason."""
        return cls("status", code, reason, {} if retry_after is None else {"Retry-After": retry_after})


HANG = Fault("hang")
DROP = Fault("drop")
"""The connection ends before an answer; of an upload in parts half of the part has arrived."""
LATE = Fault("late")
"""It is done, and the connection ends before the answer."""
HALF = Fault("half")
GARBAGE = Fault("garbage")
ODD = Fault("odd")
"""An answer in which the parents of files are of another type than Drive's."""
