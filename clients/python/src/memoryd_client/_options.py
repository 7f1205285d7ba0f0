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
    """Where it is asked (project, channel, group chat): nothing of another one."""
    min_score: float | None
    """Leave out what fits worse, 0 to 1; 0.35 cuts most of what does not belong."""
    relevant_only: bool | None
    """Leave out what does not belong to the question: then there may be nothing."""
    exclude_session: UUID | str | None
    """Leave out this conversation, such as the one that is going on."""
    exclude_last: int | None
    """Of the conversation that is left out only this many of the newest messages."""
    since: datetime | None
    """Only what was written since this time."""
    until: datetime | None
    """Only what was written before this time."""
    as_of: datetime | None
    """What stood at this time, also if it was replaced since."""
    asked_at: datetime | None
    """When it is asked: "last week" is the week before. Now, unless given."""
    roles: Sequence[Role] | None
    """Of conversations only messages of these roles."""
    speakers: Sequence[str] | None
    """Of conversations only messages of these speakers."""
    around: int | None
    """Show messages with this many of those before and after them, 0 to 10."""
    profile: int | None
    """First what is known of the user, newest first, in at most this many words: facts and preferences."""


class ContextOptions(TypedDict, total=False):
    """Those of build_context()."""

    project: str | None
    """Where it is asked (project, channel, group chat): nothing of another one."""
    exclude_session: UUID | str | None
    """Leave out this conversation, such as the one that is going on."""
    exclude_last: int | None
    """Of the conversation that is left out only this many of the newest messages."""
    asked_at: datetime | None
    """When it is asked: "last week" is the week before. Now, unless given."""
    words: int | None
    """How many words at most, 100 to 10,000; 500, unless memoryd is set otherwise."""
    profile: int | None
    """First what is known of the user, newest first, in at most this many words: facts and preferences."""


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
    "words": ("whole", 100, 10000),
}
"""By name: what a value is, and its bounds."""

PROMPT: RecallOptions = {
    "relevant_only": True,
    "around": 2,
}
"""What ChatMemory.prompt() asks with, unless it is told otherwise."""
