"""How a daemon that had started can end on its own."""


class PartFailed(Exception):  # noqa: N818 - what happened, not what was wrong
    """A part of the daemon ended before it was told to; the log has said why. The process ends, to be started anew."""
