"""How a command that failed ends: with one sentence that says what to do, and an exit code.

Promise: no command shows a traceback for something that its user can mend.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from daemon.plugins import lacking

if TYPE_CHECKING:
    import asyncpg

EXIT_CODES = """
Exit codes: **0**: done, and nothing is wrong. **1**: it failed, or something that was looked at is wrong. **2**: the call
or a setting is wrong; nothing was done. **3**: of `verify --all`: memories were changed after they were anchored.
**4**: of `verify`: something is not verifiable. **130**: Ctrl-C; **143**: SIGTERM.
"""
"""Of all commands; docs/monitoring.md ("Exit codes") says more."""


class Failure(Exception):
    """Ends the command with this sentence and exit code 1."""

    code = 1


class Misuse(Failure):
    """The call is wrong: ends the command, before it has done anything, with this sentence and exit code 2."""

    code = 2


def show_sentence(sentence: str) -> None:
    typer.secho(sentence, err=True, fg="red")


@contextmanager
def sentences(tell: Callable[[str], None] = show_sentence) -> Iterator[None]:
    """Turns known failures into one sentence on stderr and exit code 1; of a wrong call 2."""
    try:
        yield
    except BrokenPipeError:
        raise  # the reader of our output has gone
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    except Exception as error:
        sentence = lacking(error) if isinstance(error, ModuleNotFoundError) else explain(error)
        if sentence is None:
            raise
        tell(sentence)
        raise typer.Exit(error.code if isinstance(error, Failure) else 1) from None


def explain(error: Exception) -> str | None:
    """The sentence for a failure that the user can repair; None for a bug."""
    if isinstance(error, Failure):
        return str(error)  # without a look at libraries, one of which may be the reason
    import asyncpg

    from daemon.db.errors import MigrationError
    from providers.ports import RejectionError, UnavailableError

    # Of a PostgresError only the message: details and hints stand on lines of their own, and may quote rows.
    said = str(error.args[0]) if isinstance(error, asyncpg.PostgresError) and error.args else str(error)
    match error:
        case MigrationError() | UnavailableError() | RejectionError() | ValueError():
            return said
        case asyncpg.InvalidPasswordError() | asyncpg.InvalidAuthorizationSpecificationError():
            return f"The database refused to let us in: {said}. Check user and password in DATABASE_URL."
        case asyncpg.InvalidCatalogNameError():
            return f"{said}. Create it, or correct DATABASE_URL."
        case (
            asyncpg.UndefinedTableError()
            | asyncpg.InvalidSchemaNameError()
            | asyncpg.UndefinedFunctionError()
        ):
            return (
                f"This database has no memoryd schema, or not all of it ({said}). Run: memoryd migrate; where that finds "
                "nothing to do, somebody dropped it: restore it from a backup"
            )
        case asyncpg.UndefinedObjectError():
            return f"{said}. Run: memoryd migrate; where that finds nothing to do, restore it from a backup"
        case asyncpg.InsufficientPrivilegeError():
            return f"{said}. Connect as the role that ran memoryd migrate, or as a superuser."
        case asyncpg.PostgresError():
            return _refused(error, said)
        case OSError() | asyncpg.InterfaceError() | asyncpg.InternalClientError():
            reason = said or type(error).__name__
            return f"The database cannot be reached: {reason}. Is it running, and is DATABASE_URL right?"
    return None


def _refused(error: asyncpg.PostgresError, said: str) -> str:
    """The database's error, with advice if it takes no writes or no more connections."""
    import asyncpg

    hint = getattr(error, "hint", None)
    if hint is None and isinstance(error, asyncpg.ReadOnlySQLTransactionError):
        hint = "memoryd doctor says why. If it is a standby, give DATABASE_URL the address of its primary."
    if isinstance(error, asyncpg.TooManyConnectionsError):
        hint = "Raise that limit, or lower MEMORYD_POOL_SIZE of the daemons."
    return f"The database said: {said}." + (f" {hint}" if hint else "")
