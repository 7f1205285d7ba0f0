"""What is asked on the page of recall: a question, about whom, and one or two settings of the options."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from uuid import UUID

from starlette.datastructures import QueryParams

from daemon.web.errors import NotThereError
from daemon.web.forms import BadValueError, number_in, text_in, time_in, uuid_in
from daemon.web.viewer import Viewer

ROLES = ("user", "assistant", "system", "tool")
OTHER = "other_"
"""What the fields of the second setting begin with."""
COUNT, MOST = 10, 100
LONGEST = 8000
"""Characters of a question: it stands in the address of the page."""


@dataclass(frozen=True, slots=True)
class Options:
    """One setting: arguments and options of recall()."""

    count: int
    sources: list[str] | None
    given: dict[str, object] = field(default_factory=dict)

    @property
    def relevant_only(self) -> bool:
        """Whether what does not belong to the question is left out."""
        return bool(self.given.get("relevant_only"))


@dataclass(frozen=True, slots=True)
class Question:
    """`settings`: one, or two to compare, by what their fields begin with. `org`: whose knowledge; None: of no organisation."""

    text: str
    agent: str | None
    user: UUID | None
    org: UUID | None
    settings: dict[str, Options]

    def arguments(self, side: str) -> tuple[object, ...]:
        """Of recall() and explain_recall(), but for the embedding."""
        options = self.settings[side]
        return (
            self.text, self.agent, self.user, options.count, options.sources, json.dumps(options.given),
        )  # fmt: skip


def user_in(asked: QueryParams, viewer: Viewer) -> UUID | None:
    """About whom it is asked: an end user asks about nobody else. Raises NotThereError."""
    user = uuid_in(asked, "user")
    if viewer.user is None:
        return user
    if user not in (None, viewer.user):
        raise NotThereError
    return viewer.user


def organisation_in(asked: QueryParams, viewer: Viewer) -> UUID | None:
    """Whose knowledge support asks for, beside what is remembered; an end user sees none. Raises BadValueError."""
    return uuid_in(asked, "org") if viewer.user is None else None


def question_in(asked: QueryParams, viewer: Viewer) -> Question | None:
    """The question of an address; None where there is none yet. Raises BadValueError or NotThereError."""
    agent, user = text_in(asked, "agent", longest=200), user_in(asked, viewer)
    org = organisation_in(asked, viewer)
    sides = ("", OTHER) if asked.get("compare") == "yes" else ("",)
    settings = {side: options_in(asked, side) for side in sides}
    text = text_in(asked, "q", longest=LONGEST)
    return None if text is None else Question(text, agent, user, org, settings)


def options_in(asked: QueryParams, side: str) -> Options:
    """The options whose fields begin with `side`; those that are left empty are not given. Raises BadValueError."""
    given: dict[str, object] = {}
    if (project := text_in(asked, f"{side}project", longest=200)) is not None:
        given["project"] = project
    if least := number_in(asked, f"{side}min_score", 0, least=0, most=1):
        given["min_score"] = least
    if asked.get(f"{side}relevant_only") == "yes":
        given["relevant_only"] = True
    for name in ("since", "until", "as_of"):
        if (time := time_in(asked, side + name)) is not None:
            given[name] = time.isoformat()
    if roles := [role for role in asked.getlist(f"{side}role") if role]:
        given["roles"] = roles
    if (speakers := text_in(asked, f"{side}speakers", longest=2000)) is not None:
        given["speakers"] = [name.strip() for name in speakers.split(",") if name.strip()]
    if around := _whole(asked, f"{side}around", 0, least=0, most=10):
        given["around"] = around
    count = _whole(asked, f"{side}count", COUNT, least=1, most=MOST)
    sources = [source for source in asked.getlist(f"{side}source") if source]
    return Options(count, sources or None, given)


def _whole(asked: QueryParams, name: str, default: int, *, least: int, most: int) -> int:
    number = number_in(asked, name, default, least=least, most=most)
    if number != int(number):
        raise BadValueError(f"{name} is a whole number from {least} to {most}.")
    return int(number)
