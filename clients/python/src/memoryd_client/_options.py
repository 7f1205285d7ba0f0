"""The options of recall and of contexts.

Written from migrations/functions/search/options.sql by `python -m docs.write_options`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypedDict
from uuid import UUID

from memoryd_client._types import Role


class RecallOptions(TypedDict, total=False):
    """Those of recall()."""

    project: str | None
    """The current project, channel or group chat; rows of other ones are left out."""
    min_score: float | None
    """Leave out results with a lower score, 0 to 1; 0.35 removes most that do not belong."""
    relevant_only: bool | None
    """Leave out results that do not belong to the question, so there may be none."""
    exclude_session: UUID | str | None
    """Leave out this conversation, such as the current one."""
    exclude_last: int | None
    """Leave out only this number of the newest messages of that conversation."""
    since: datetime | None
    """Only what was written since this time."""
    until: datetime | None
    """Only what was written before this time."""
    as_of: datetime | None
    """What was true at this time, also if it was replaced since."""
    asked_at: datetime | None
    """The time of the question, to which "last week" refers; now unless given."""
    roles: Sequence[Role] | None
    """From conversations only messages of these roles."""
    speakers: Sequence[str] | None
    """From conversations only messages of these speakers."""
    around: int | None
    """Show each message with this number of messages before and after it, 0 to 10."""
    profile: int | None
    """Begin with facts and preferences of the user, newest first, in at most this number of words."""


class ContextOptions(TypedDict, total=False):
    """Those of build_context()."""

    project: str | None
    """The current project, channel or group chat; rows of other ones are left out."""
    project_only: bool | None
    """Of other sources than memories only rows that name the current project."""
    exclude: Sequence[str] | None
    """Leave out the rows with these ids, such as those that were shown before."""
    exclude_session: UUID | str | None
    """Leave out this conversation, such as the current one."""
    exclude_last: int | None
    """Leave out only this number of the newest messages of that conversation."""
    asked_at: datetime | None
    """The time of the question, to which "last week" refers; now unless given."""
    words: int | None
    """How many words at most, 100 to 10,000; 500, unless memoryd is set otherwise."""
    profile: int | None
    """Begin with facts and preferences of the user, newest first, in at most this number of words."""


OPTIONS: Mapping[str, tuple[str, int | None, int | None]] = {
    "project": ("text", None, None),
    "min_score": ("number", 0, 1),
    "relevant_only": ("flag", None, None),
    "exclude_session": ("uuid", None, None),
    "exclude_last": ("whole", 1, 2147483647),
    "since": ("time", None, None),
    "until": ("time", None, None),
    "as_of": ("time", None, None),
    "asked_at": ("time", None, None),
    "roles": ("roles", None, None),
    "speakers": ("names", None, None),
    "around": ("whole", 0, 10),
    "profile": ("whole", 0, 10000),
    "project_only": ("flag", None, None),
    "exclude": ("names", None, None),
    "words": ("whole", 100, 10000),
}
"""By name: what a value is, and its bounds."""

PROMPT: RecallOptions = {
    "relevant_only": True,
    "around": 2,
    "profile": 60,
}
"""The options of ChatMemory.prompt() unless given."""
