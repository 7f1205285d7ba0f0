"""The settings of a command that another program starts, in anybody's folder."""

from __future__ import annotations

import os
from pathlib import Path

from daemon.cli.common import settings_or_exit
from daemon.cli.failure import Misuse, sentences
from daemon.settings import NAMED_BY, Settings, no_folder_believed
from daemon.settings.databases import listed_in
from daemon.settings.env_file import DATABASES, URLS, env_file, unreadable, variables_of_file


def settings_in_any_folder() -> Settings:
    """The settings of a command that another program starts. Nothing is read from the folder that it is started in.

    If no database is named, or only one within that folder, the program ends with a sentence and exit code 2.
    """
    with sentences(), no_folder_believed():
        if (fault := _fault()) is not None:
            raise Misuse(fault)
        return settings_or_exit()


def _fault() -> str | None:
    """The fault of the settings, in a sentence, for a command that another program starts in any folder; None: no fault."""
    given: dict[str, str] = {}
    named = env_file() if os.environ.get(NAMED_BY) else None
    if named is not None and not named.is_absolute():
        return _whole(NAMED_BY, str(named))
    if named is not None:
        try:
            given = variables_of_file()
        except (OSError, UnicodeDecodeError) as error:
            return unreadable(named, error)
    given |= {name.upper(): value for name, value in os.environ.items() if value}
    if not DATABASES & given.keys():
        return (
            "No database is named, and this command reads none from the folder that it is started in. Where the command is "
            f"configured, set DATABASE_URL, or MEMORYD_DATA_DIR to a whole path, or {NAMED_BY} to a file that sets one."
        )
    if (
        (listed := given.get("MEMORYD_DATABASE_URLS"))
        and (path := listed_in(listed))
        and not path.is_absolute()
    ):
        return _whole("MEMORYD_DATABASE_URLS", listed)
    if not URLS & given.keys() and not Path(given["MEMORYD_DATA_DIR"]).expanduser().is_absolute():
        return _whole("MEMORYD_DATA_DIR", given["MEMORYD_DATA_DIR"])
    return None


def _whole(name: str, value: str) -> str:
    return f"{name} is {value[:200]!r}: give the whole path, since this command may be started in any folder."
