"""The failure of a call as a short text for the model: what failed, and what to do.

Promise: the text has no traceback, no address and no row of the database.
"""

from __future__ import annotations

import asyncpg

from daemon.db.errors import is_gone, is_locked_out

LONGEST = 1_000
"""Characters of a message."""


class CallRefusedError(Exception):
    """The call was wrong; the message says how to correct it."""


def fault_of(error: BaseException, *, seconds: float) -> str:
    """An error in words for the model; `seconds` is the time limit of a call."""
    match error:
        case CallRefusedError():
            text = str(error)
        case asyncpg.QueryCanceledError():
            text = (
                f"The memory did not answer within {seconds:g} seconds. Nothing was changed. "
                "Try again, or ask for less."
            )
        case TimeoutError():
            text = f"The memory did not answer within {seconds:g} seconds. Try again in a moment."
        case asyncpg.InsufficientPrivilegeError():
            text = _text_of(error) if error.hint else "This identity may not do that. Nothing was changed."
        case asyncpg.ReadOnlySQLTransactionError() if not error.hint:
            text = (
                "This memory is read-only: its database is a standby, or accepts no writes now. Nothing was changed. "
                "recall, context and explain work; storing needs the primary."
            )
        case _ if is_locked_out(error):
            text = "Somebody else is changing the same rows. Nothing was changed. Try again in a moment."
        case _ if is_gone(error):
            text = "The memory's database cannot be reached right now. Try again in a moment."
        case asyncpg.PostgresError():
            text = _text_of(error)
        case _:
            text = "The memory server failed; its log says where. Tell the person who runs it."
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def _text_of(error: asyncpg.PostgresError) -> str:
    # Without the detail, which may quote a row.
    said = str(error.args[0]) if error.args else type(error).__name__
    hint = getattr(error, "hint", None)
    return f"{said[:1].upper()}{said[1:]}." + (f" {hint}" if hint else "")
