"""The query of the page of recall: a question, whose memory it searches, and one or two settings of the options."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from starlette.datastructures import QueryParams

from daemon.db.migration_files import ROLES, Option, options_of
from plugins.web.errors import NotThereError
from plugins.web.forms import choice_in, id_in, number_in, text_in, time_in, whole_in
from plugins.web.found import SOURCES
from plugins.web.viewer import Viewer

OTHER = "other_"
"""The prefix of the fields of the second setting."""
COUNT, MOST = 10, 100
LONGEST = 8000
"""Characters of a question."""
OPTIONS = tuple(options_of("recall"))


@dataclass(frozen=True, slots=True)
class Options:
    """One setting: arguments and options of recall()."""

    count: int
    sources: list[str] | None
    given: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Question:
    """`settings`: one, or two to compare, by the prefix of their fields. `org`: whose knowledge; None: of no organisation."""

    text: str
    agent: str | None
    user: UUID | None
    org: UUID | None
    settings: dict[str, Options]

    def arguments(self, side: str) -> tuple[object, ...]:
        options = self.settings[side]
        return (
            self.text, self.agent, self.user, options.count, options.sources, json.dumps(options.given),
        )  # fmt: skip


def user_in(asked: QueryParams, viewer: Viewer) -> UUID | None:
    """The user whose memory is searched; for an end user themselves. Raises NotThereError."""
    user = id_in(asked, "user")
    if viewer.user is None:
        return user
    if user not in (None, viewer.user):
        raise NotThereError
    return viewer.user


def organisation_in(asked: QueryParams, viewer: Viewer) -> UUID | None:
    """The organisation whose knowledge support searches too; an end user searches none. Raises BadValueError."""
    return id_in(asked, "org") if viewer.user is None else None


def question_in(asked: QueryParams, viewer: Viewer) -> Question | None:
    """The question of an address; None where there is none yet. Raises BadValueError or NotThereError."""
    agent, user = text_in(asked, "agent", longest=200), user_in(asked, viewer)
    org = organisation_in(asked, viewer)
    sides = ("", OTHER) if asked.get("compare") == "yes" else ("",)
    settings = {side: options_in(asked, side) for side in sides}
    text = text_in(asked, "q", longest=LONGEST)
    return None if text is None else Question(text, agent, user, org, settings)


def options_in(asked: QueryParams, side: str) -> Options:
    """The options from the fields that begin with `side`, without the empty ones. Raises BadValueError."""
    given = {}
    for option in OPTIONS:
        if (value := _value(asked, side + option.name, option)) is not None:
            given[option.name] = value
    count = whole_in(asked, f"{side}count", COUNT, least=1, most=MOST)
    return Options(count, _ticked(asked, f"{side}source", SOURCES), given)


def _ticked(asked: QueryParams, name: str, options: Sequence[str]) -> list[str] | None:
    """Those of the options that are ticked; None where none is. Raises BadValueError."""
    ticked = [choice_in({name: each}, name, options) for each in asked.getlist(name)]
    return [each for each in ticked if each is not None] or None


def _value(asked: QueryParams, name: str, option: Option) -> object:
    """The value of an option's field; None where it is left empty."""
    match option.kind:
        case "flag":
            return True if asked.get(name) == "yes" else None
        case "roles":
            return _ticked(asked, name.removesuffix("s"), ROLES)
    if not asked.get(name, "").strip():
        return None
    least, most = option.lowest or 0, option.highest or 1
    match option.kind:
        case "whole":
            return whole_in(asked, name, 0, least=least, most=most)
        case "number":
            return number_in(asked, name, 0, least=least, most=most)
        case "time":
            return None if (time := time_in(asked, name)) is None else time.isoformat()
        case "uuid":
            return str(id_in(asked, name))
        case "names":
            names = (text_in(asked, name, longest=2000) or "").split(",")
            return [each.strip() for each in names if each.strip()] or None
        case _:
            return text_in(asked, name, longest=200)
