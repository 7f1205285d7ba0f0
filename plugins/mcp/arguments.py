"""The arguments of the tools: their types, limits and meanings, from which the JSON schemas are made.

Promise: an argument that a tool does not have, or a value that it cannot take, is refused before the database is asked, with a
sentence that names it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal, TypeVar
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
    create_model,
)
from pydantic_core import PydanticCustomError

from daemon.db.migration_files import ROLES, Of, Option, load_sources, options_of
from daemon.ids import id_of
from memory.text import is_blank
from plugins.mcp.faults import CallRefusedError

LONGEST_TEXT = 100_000
"""Characters of a text. Longer texts are documents: memoryd ingest."""

MOST_ARGUMENTS = 100
"""Of a call. pydantic makes an error of each unknown argument, which takes long for many."""

SHOWN_NAME = 60
SHOWN_ERRORS = 3


def _plain(text: str) -> str:
    if "\0" in text:
        raise PydanticCustomError("nul", "it contains the character NUL, which the database cannot store")
    if is_blank(text):
        raise PydanticCustomError("blank", "it is blank")
    return text


def _among(known: Sequence[str]) -> AfterValidator:
    def check(name: str) -> str:
        if name not in known:
            raise PydanticCustomError("one_of", "it is not one of {names}", {"names": ", ".join(known)})
        return name

    return AfterValidator(check)


def _session(given: object) -> object:
    """The id of a session, also if its name is given."""
    try:
        return id_of(given) if isinstance(given, str) else given
    except ValueError as error:
        raise PydanticCustomError("id", "{said}", {"said": str(error)}) from None


Text = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_TEXT), AfterValidator(_plain)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(_plain)]
Within = Annotated[Name | None, Field(description="Its project, channel or group.")]
Moment = Annotated[datetime, AfterValidator(lambda t: t if t.tzinfo is not None else t.replace(tzinfo=UTC))]
Source = Annotated[str, _among(list(load_sources())), Field(json_schema_extra={"enum": list(load_sources())})]
Role = Annotated[str, _among(ROLES), Field(json_schema_extra={"enum": list(ROLES)})]
SessionId = Annotated[UUID, BeforeValidator(_session), WithJsonSchema({"type": "string"})]
Model = TypeVar("Model", bound="Arguments")


class Arguments(BaseModel):
    """The arguments of a tool."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    for_programs: ClassVar[Sequence[str]] = ()
    """Arguments that models are not told of: they cost tokens in every conversation, and a model has no use for them."""


class Remember(Arguments):
    text: Text = Field(
        description="One statement that is understood without this conversation: with names and dates."
    )
    kind: Literal["fact", "note", "goal", "observation", "outcome", "error"] = Field(
        "fact", description="fact, note and goal stay; the others are forgotten after some days."
    )
    ttl_hours: int | None = Field(None, ge=1, le=876_000, description="Forget it after this number of hours.")
    project: Within = None


def _field(option: Option) -> Any:
    """The type of an option, which may be left out, and its default."""
    bounds: dict[str, Any] = {"ge": option.lowest, "le": option.highest}
    kinds: dict[str, Any] = {
        "whole": Annotated[int, Field(**bounds)],
        "number": Annotated[float, Field(**bounds)],
        "flag": bool,
        "uuid": SessionId,
        "time": Moment,
        "roles": Annotated[list[Role], Field(min_length=1)],
        "names": Annotated[list[Name], Field(min_length=1, max_length=100)],
    }
    kind = kinds.get(option.kind, Name)
    return Annotated[kind | None, Field(description=option.help)], None


def _with_options(what: Of) -> Callable[[type[Model]], type[Model]]:
    """Adds the options of recall or of a context."""

    def added(arguments: type[Model]) -> type[Model]:
        fields = {option.name: _field(option) for option in options_of(what)}
        return create_model(arguments.__name__, __base__=arguments, __module__=__name__, **fields)

    return added


@_with_options("recall")
class Recall(Arguments):
    for_programs = ("min_score", "exclude_session", "exclude_last", "asked_at", "roles", "profile")

    query: Text = Field(description="A question or keywords.")
    count: int = Field(10, ge=1, le=50, description="How many results at most.")
    short: bool = Field(False, description="Only ids and first lines; the tool get brings the whole texts.")
    sources: list[Source] | None = Field(None, min_length=1, description="Search only these.")


@_with_options("context")
class Context(Arguments):
    for_programs = ("exclude_session", "exclude_last", "asked_at", "profile", "project_only", "exclude")

    message: Text = Field(description="The task or message, in its words.")


class Know(Arguments):
    for_programs = ("confidence", "tags", "source")

    text: Text = Field(description="A sentence or a few.")
    category: Literal[
        "principle", "procedure", "team", "client", "project", "thread", "commitment", "decision", "correction",
        "insight", "outcome",
    ] = Field("insight", description="An outcome names its decision in related_ids and says success.")  # fmt: skip
    title: Name | None = Field(None, description="A short title.")
    confidence: Literal["high", "medium", "low"] = Field("high", description="How sure this is.")
    tags: list[Name] = Field([], max_length=50, description="Words to find it by.")
    related_ids: list[UUID] = Field(
        [], max_length=50, description="For an outcome its decision, for a correction what it corrects."
    )
    source: Name | None = Field(None, description="The person or thing that it was learned from.")
    reasoning: Text | None = Field(None, description="Only for a decision: its reasons.")
    success: bool | None = Field(None, description="Only for an outcome.")


class Feedback(Arguments):
    recall_id: UUID = Field(description="The recall_id that recall returned.")
    useful: bool = Field(description="Whether its results helped.")


class Forget(Arguments):
    ids: list[UUID] = Field(
        min_length=1, max_length=100, description="Ids of results of recall whose source is memory."
    )


class Get(Arguments):
    ids: list[UUID] = Field(min_length=1, max_length=50, description="Ids of results of recall.")


class Supersede(Arguments):
    id: UUID = Field(description="The memory's id: of a result of recall whose source is memory.")
    text: Text = Field(description="What is true instead, whole, in a statement.")


class Explain(Arguments):
    of: Literal["recall", "context"] = Field(description="What to explain.")
    text: Text = Field(description="The query of the recall, or the message of the context.")
    project: Within = None


def read(kind: type[Model], given: dict[str, Any] | None) -> Model:
    """The arguments of a call. Raises CallRefusedError with a sentence that names the fault."""
    if given and len(given) > MOST_ARGUMENTS:
        raise CallRefusedError(
            f"Nothing was done. {len(given)} arguments are too many. They are: {', '.join(kind.model_fields)}."
        )
    try:
        return kind.model_validate(given or {})
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        said = "; ".join(_fault(dict(each)) for each in faults[:SHOWN_ERRORS])
        more = f"; and {len(faults) - SHOWN_ERRORS} more" if len(faults) > SHOWN_ERRORS else ""
        known = ", ".join(kind.model_fields)
        raise CallRefusedError(f"Nothing was done. {said}{more}. The arguments are: {known}.") from None


def schema(kind: type[Arguments], *, without: Sequence[str] = ()) -> dict[str, Any]:
    """The JSON schema of a tool's arguments for clients.

    It costs a model tokens in every conversation. So it has no titles, which repeat the names, and no lengths of strings, which
    a call that is refused says. An argument that may be null is one that may be left out.
    """
    made = kind.model_json_schema()
    del made["title"]
    made["properties"] = {
        name: _without_null(each)
        for name, each in made["properties"].items()
        if name not in (*kind.for_programs, *without)
    }
    return made


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    kept = {k: v for k, v in schema.items() if k not in ("title", "anyOf")}
    kept |= next((one for one in schema.get("anyOf", ()) if one.get("type") != "null"), {})
    if kept.get("default", "") is None:
        del kept["default"]
    for each in (kept, kept.get("items", {})):
        each.pop("minLength", None)
        each.pop("maxLength", None)
        if each.get("format") != "date-time":  # Gemini's API refuses others
            each.pop("format", None)
    return kept


def _fault(error: dict[str, Any]) -> str:
    name = ".".join(str(part) for part in error["loc"]) or "the arguments"
    shown = name if len(name) <= SHOWN_NAME else name[: SHOWN_NAME - 3] + "..."
    # The parts of a name that cannot be written are replaced.
    shown = shown.encode("utf-8", "replace").decode().replace("\0", "?")
    if error["type"] == "extra_forbidden":
        return f"{shown} is not an argument of this tool"
    if error["type"] == "missing":
        return f"{shown} is missing"
    example = ', such as "2026-03-01" or "2026-03-01T09:30:00Z"' * error["type"].startswith("datetime")
    return f"{shown}: {error['msg'][:200]}{example}"
