"""The arguments of the tools: their types, limits and meanings, from which the JSON schemas are made.

Promise: an argument that a tool does not have, or a value that it cannot take, is refused before the database is asked, with a
sentence that names it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeVar
from uuid import UUID

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from daemon.db.migration_files import load_sources
from daemon.ids import id_of
from daemon.mcp.faults import Refused

LONGEST_TEXT = 100_000
"""Characters of a text. Longer ones are documents: memoryd ingest."""

SHOWN_NAME = 60
SHOWN_ERRORS = 3


def _plain(text: str) -> str:
    if "\0" in text:
        raise PydanticCustomError("nul", "it contains the character NUL, which the database cannot store")
    if not text.strip():
        raise PydanticCustomError("blank", "it is blank")
    return text


def _source(name: str) -> str:
    if name not in load_sources():
        raise PydanticCustomError("source", "it is not one of {names}", {"names": ", ".join(load_sources())})
    return name


def _session(given: object) -> object:
    """Its name is its id, too."""
    try:
        return id_of(given) if isinstance(given, str) else given
    except ValueError as error:
        raise PydanticCustomError("id", "{said}", {"said": str(error)}) from None


Text = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_TEXT), AfterValidator(_plain)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(_plain)]
Within = Annotated[
    Name | None,
    Field(description="The project, channel or group that this belongs to. Leave it out if there is none."),
]
Moment = Annotated[datetime, AfterValidator(lambda t: t if t.tzinfo is not None else t.replace(tzinfo=UTC))]
Source = Annotated[str, AfterValidator(_source), Field(json_schema_extra={"enum": list(load_sources())})]
SessionId = Annotated[UUID, BeforeValidator(_session), WithJsonSchema({"type": "string"})]
Role = Literal["user", "assistant", "system", "tool"]


class Arguments(BaseModel):
    """Of any tool."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Remember(Arguments):
    """Of remember."""

    text: Annotated[
        Text,
        Field(
            description="What to remember: one statement that is understood without this conversation. Name people, "
            "things and dates."
        ),
    ]
    kind: Annotated[
        Literal["fact", "note", "goal", "observation", "outcome", "error"],
        Field(
            description="fact, note and goal stay; observation, outcome and error are forgotten after some days."
        ),
    ] = "fact"
    ttl_hours: Annotated[
        int | None,
        Field(
            ge=1,
            le=876_000,
            description="Forget it after this number of hours. Leave it out for the kind's own.",
        ),
    ] = None
    project: Within = None


class SearchOptions(Arguments):
    """The options that recall and contexts both have."""

    project: Within = None
    exclude_session: Annotated[
        SessionId | None,
        Field(description="Leave out this conversation, by its id or name: the one that is going on."),
    ] = None
    exclude_last: Annotated[
        int | None,
        Field(
            ge=1,
            le=2**31 - 1,
            description="Of exclude_session leave out only this many of the newest messages.",
        ),
    ] = None
    asked_at: Annotated[
        Moment | None,
        Field(description="When it is asked: 'last week' is the week before. Leave it out for now."),
    ] = None


class ContextOptions(SearchOptions):
    """The options of build_context() and explain_context(): memoryd.options()."""

    words: Annotated[
        int | None,
        Field(
            ge=100,
            le=10_000,
            description="How long it may be. Leave it out for what is set, 500 unless changed.",
        ),
    ] = None


class RecallOptions(SearchOptions):
    """The options of recall() and explain_recall(): memoryd.options()."""

    min_score: Annotated[
        float,
        Field(ge=0, le=1, description="Leave out what fits worse; 0.35 cuts most of what does not belong."),
    ] = 0.0
    relevant_only: Annotated[
        bool, Field(description="Leave out what does not belong to the question: then there may be nothing.")
    ] = False
    since: Annotated[
        Moment | None,
        Field(description="Only what was written since this time (UTC, if it names no offset)."),
    ] = None
    until: Annotated[
        Moment | None,
        Field(description="Only what was written before this time (UTC, if it names no offset)."),
    ] = None
    as_of: Annotated[
        Moment | None, Field(description="What stood at this time, also if it was replaced since.")
    ] = None
    roles: Annotated[
        list[Role] | None, Field(min_length=1, description="Of conversations only messages of these roles.")
    ] = None
    speakers: Annotated[
        list[Name] | None,
        Field(min_length=1, max_length=100, description="Of conversations only messages of these speakers."),
    ] = None
    around: Annotated[
        int, Field(ge=0, le=10, description="Show messages with this many of those before and after them.")
    ] = 0


class Recall(RecallOptions):
    """Of recall."""

    query: Annotated[Text, Field(description="What to look for, in any words: a question or keywords.")]
    count: Annotated[int, Field(ge=1, le=50, description="How many results at most, the best first.")] = 10
    sources: Annotated[list[Source] | None, Field(min_length=1, description="Search only these.")] = None


class Context(ContextOptions):
    """Of context."""

    message: Annotated[Text, Field(description="The task or message you are about to work on, in its words.")]


class Know(Arguments):
    """Of know."""

    text: Annotated[Text, Field(description="What the team should know, in a sentence or a few.")]
    category: Annotated[
        Literal[
            "principle", "procedure", "team", "client", "project", "thread", "commitment", "decision", "correction",
            "insight", "outcome",
        ],
        Field(description="What it is. An outcome names its decision in related_ids and says success."),
    ] = "insight"  # fmt: skip
    title: Annotated[Name | None, Field(description="A short title.")] = None
    confidence: Annotated[Literal["high", "medium", "low"], Field(description="How sure this is.")] = "high"
    tags: Annotated[list[Name], Field(max_length=50, description="Words to find it by.")] = []
    related_ids: Annotated[
        list[UUID],
        Field(
            max_length=50,
            description="Ids of knowledge: of an outcome its decision, of a correction what it corrects.",
        ),
    ] = []
    source: Annotated[Name | None, Field(description="Who or what it was learned from.")] = None
    reasoning: Annotated[Text | None, Field(description="Of a decision: why.")] = None
    success: Annotated[bool | None, Field(description="Of an outcome: whether it came out well.")] = None


class Feedback(Arguments):
    """Of feedback."""

    recall_id: Annotated[UUID, Field(description="The recall_id that recall returned.")]
    useful: Annotated[bool, Field(description="Whether what it returned helped.")]


class Forget(Arguments):
    """Of forget."""

    ids: Annotated[
        list[UUID],
        Field(
            min_length=1,
            max_length=100,
            description="Ids of memories: results of recall whose source is memory. They cannot be brought back.",
        ),
    ]


class Explain(Arguments):
    """Of explain."""

    of: Annotated[Literal["recall", "context"], Field(description="Which of the two to explain.")]
    text: Annotated[Text, Field(description="The query of the recall, or the message of the context.")]
    project: Within = None


Model = TypeVar("Model", bound=Arguments)


def read(kind: type[Model], given: dict[str, Any] | None) -> Model:
    """The arguments of a call. Raises Refused with a sentence that names what is wrong."""
    try:
        return kind.model_validate(given or {})
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        said = "; ".join(_fault(dict(each)) for each in faults[:SHOWN_ERRORS])
        more = f"; and {len(faults) - SHOWN_ERRORS} more" if len(faults) > SHOWN_ERRORS else ""
        known = ", ".join(kind.model_fields)
        raise Refused(f"Nothing was done. {said}{more}. The arguments are: {known}.") from None


def schema(kind: type[Arguments]) -> dict[str, Any]:
    """The JSON schema of a tool's arguments, as it is sent: without titles, which only repeat the names."""
    made = kind.model_json_schema()
    del made["title"], made["description"]
    for each in made["properties"].values():
        del each["title"]
    return made


def _fault(error: dict[str, Any]) -> str:
    name = ".".join(str(part) for part in error["loc"]) or "the arguments"
    shown = name if len(name) <= SHOWN_NAME else name[: SHOWN_NAME - 3] + "..."
    # A name that cannot be written is not repeated.
    shown = shown.encode("utf-8", "replace").decode().replace("\0", "?")
    if error["type"] == "extra_forbidden":
        return f"{shown} is no argument of this tool"
    if error["type"] == "missing":
        return f"{shown} is missing"
    return f"{shown}: {error['msg'][:200]}"
