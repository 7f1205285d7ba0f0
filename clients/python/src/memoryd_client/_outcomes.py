"""What a handler's end means for its command."""

from __future__ import annotations

from typing import Any

from memoryd_client._values import storable

LONGEST_OUTPUT = 250_000_000


def failure(error: BaseException) -> str:
    """The type and the message of an exception."""
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - an exception that cannot say what it is
        said = ""
    return storable(f"{type(error).__name__}: {said}" if said else type(error).__name__)


def outcome(returned: Any) -> tuple[str, int]:
    """The output and the exit code of a handler's result; a failure for any other result."""
    output, exit_code = returned if isinstance(returned, tuple) and len(returned) == 2 else (returned, 0)
    output = "" if output is None else output
    if (
        not isinstance(output, str)
        or not isinstance(exit_code, int)
        or not -(2**31) <= int(exit_code) < 2**31
    ):
        return (
            f"TypeError: the handler returned {type(returned).__name__}, not a text or (text, exit code)",
            1,
        )
    output = storable(output)
    if len(output) > LONGEST_OUTPUT:
        return f"ValueError: the output has {len(output):,} characters, more than {LONGEST_OUTPUT:,}", 1
    return output, int(exit_code)
