"""What the doctor says at a standby: how far it is behind, and that what it shows of the daemons' work is its primary's.

Promise: what a standby cannot know is no problem there. What it shows may be old, and only the primary can be mended.
"""

from __future__ import annotations

from dataclasses import replace

from daemon.db.standby import Standby
from daemon.health.check import Check

BEHIND_SECONDS = 60.0


def check_standby(standby: Standby) -> Check:
    """Whether it shows what the primary has now."""
    found = f"This is {standby}."
    if (standby.behind_seconds or 0.0) <= BEHIND_SECONDS:
        return Check("standby", "ok", found)
    advice = (
        "Its log says why: is the primary up, and does primary_conninfo lead there? "
        "If a long query here holds the replay up: max_standby_streaming_delay"
    )
    return Check("standby", "warning", found, advice)


def as_shown(check: Check, standby: Standby | None) -> Check:
    """A finding about the daemons' work: at a standby a problem is but what it shows, and mended at the primary."""
    if standby is None or check.verdict == "ok":
        return check
    return replace(
        check, verdict="warning", advice="Ask the primary, whose daemons do the work: memoryd doctor"
    )
