"""memoryd recall and memoryd context: what is remembered, and what an agent would be told of it; with their options."""

from __future__ import annotations

import inspect
import json as json_module
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Any
from uuid import UUID

import typer

from daemon.cli.common import TIMES, embedder_of_database, id_option, questions_of_database, with_database
from daemon.cli.failure import Failure, Misuse, sentences
from daemon.cli.output import age, as_json, remark, say, table
from daemon.db.migration_files import ROLES, Of, Option, options_of
from memory.text import is_blank

if TYPE_CHECKING:
    from daemon.db.pool import Database
    from daemon.settings import Settings

RECALLED = ("source", "id", "content", "score", "similarity", "metadata", "created_at")
RELEVANCE_PARTS = ("lexical", "dense", "prior", "named", "timed", "session")
SCORE_PARTS = ("relevance", "weight", "recency", "association")

KNOWN = "select exists (select from public.agents where agent_id = $1)"
AGENTS = "select agent_id from public.agents order by created_at desc, agent_id limit 11"
COMPOSE = (
    "select (memoryd.compose($1, $2, $5, false, $3, null, memoryd.conditions_of($4::jsonb))).block as context"
)
EXPLAIN = "select * from memoryd.explain_lines($1, $2, $5, false, $3, memoryd.conditions_of($4::jsonb))"
PATTERNS = "select patterns from memoryd.patterns_of($1, $2, $3)"
EXPLAINED = ("step", "source", "id", "score", "trust", "shown", "detail")
LEFT_OUT = 10
"""Lines of the left-out rows that are shown."""
MESSAGE_LENGTH = 32_768
"""Characters of a message that are embedded, as in the daemon."""
Role = Enum("Role", {role.upper(): role for role in ROLES}, type=str)  # type: ignore[misc]


def with_options(what: Of) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the options of recall or of a context; they come to it as keyword arguments, for `given_in`."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        shown = [
            inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for option in options_of(what)
            for default, kind in [_shown(option)]
        ]
        # Those of the table stand before the switches of the command itself, as --json.
        last = [p.replace(kind=p.KEYWORD_ONLY) for p in own if p.annotation is bool]
        first = [p for p in own if p.annotation is not bool]
        command.__signature__ = signature.replace(parameters=[*first, *shown, *last])  # type: ignore[attr-defined]
        command.__annotations__.pop("given", None)
        return command

    return decorate


def given_in(what: Of, given: Mapping[str, Any]) -> dict[str, object]:
    """The options as the database takes them. Raises Misuse."""
    with sentences():
        if given.get("exclude_last") is not None and given.get("exclude_session") is None:
            raise Misuse(
                "--exclude-last needs --exclude-session: the conversation whose newest messages to leave out."
            )
        return {option.name: _in_sql(option, given[option.name]) for option in options_of(what)}


def _shown(option: Option) -> tuple[Any, Any]:
    """The option of the command, and its type."""
    name = "--" + option.name.replace("_", "-")
    bounds: dict[str, Any] = {"min": option.lowest, "max": option.highest}
    match option.kind:
        case "whole":
            return typer.Option(None, name, help=option.help, **bounds), int | None
        case "number":
            return typer.Option(None, name, help=option.help, **bounds), float | None
        case "flag":
            return typer.Option(False, name, help=option.help), bool
        case "uuid":
            return id_option(name, says=option.help), UUID | None
        case "time":
            says = f"{option.help.removesuffix('.')} (UTC, if it names no offset)."
            return typer.Option(None, name, formats=TIMES, help=says), datetime | None
        case "roles" | "names":
            says = f"{option.help} Several are possible."
            kind = Role if option.kind == "roles" else str
            return typer.Option(None, name.removesuffix("s"), help=says), list[kind] | None  # type: ignore[valid-type]
        case _:
            return typer.Option(None, name, help=option.help), str | None


def _in_sql(option: Option, value: Any) -> object:
    match option.kind:
        case "uuid":
            return None if value is None else str(value)
        case "time":
            # UTC, if it names no offset.
            return value and (value if value.tzinfo is not None else value.replace(tzinfo=UTC)).isoformat()
        case "roles":
            return [role.value for role in value or ()] or None
        case "names":
            return value or None
        case "text" if value is not None and is_blank(value):
            raise Misuse(f"--{option.name} is blank: give one, or leave it out.")
        case _:
            return value


@with_options("recall")
def recall(
    query: str = typer.Argument(help="What to look for, in any words."),
    agent: str | None = typer.Option(
        None, help="Only memories that this agent can see: its own and shared ones."
    ),
    user: UUID | None = id_option(says="Only memories of this user."),
    count: int = typer.Option(10, "--count", "-n", min=1, help="How many, the best first."),
    source: list[str] | None = typer.Option(
        None, help="memory, conversation, document, knowledge, insight; give it more than once for several."
    ),
    explain: bool = typer.Option(
        False,
        "--explain",
        help="Show what each part of the search contributed to each result, and what would be left out.",
    ),
    json: bool = typer.Option(False, "--json", help="Print JSON, contents in full."),
    **given: Any,
) -> None:
    """Search what is remembered, by words and by meaning.

    With --explain: lexical + dense + prior + named (a speaker) + timed (the time that the question names) + session is a
    result's sum. Relevance compares it with the best sum, and says how well the best fits at all; score = min(1, relevance x
    weight + recency + association). "left out" says why a result does not belong to the question.
    """
    options = given_in("recall", given)

    async def ask(settings: Settings, database: Database) -> list[Any]:
        from handlers.shared.embedding import search

        async with questions_of_database(settings, database) as questions:
            question = await questions.read(query, agent=agent, user=user)
        if question.by_words:
            remark("The embedder does not answer: this was found by words only. See: memoryd doctor")
        return await search(
            database,
            question,
            agent=agent,
            user=user,
            count=count,
            sources=source or None,
            options=options,
            explained=explain,
        )

    rows = with_database(ask)
    if json:
        parts = (*RECALLED, *RELEVANCE_PARTS, *SCORE_PARTS, "left_out") if explain else RECALLED
        shown = [{name: row[name] for name in parts} for row in rows]
        as_json([row | {"metadata": json_module.loads(row["metadata"])} for row in shown])
    elif not rows:
        say("Nothing is remembered about this.")
    elif explain:
        heads = [f"{name}>" for name in ("score", *SCORE_PARTS, *RELEVANCE_PARTS)]
        table(
            [*heads, "reason", "kind", "content"],
            [
                [
                    *(f"{row[name]:.2f}" for name in ("score", *SCORE_PARTS, *RELEVANCE_PARTS)),
                    row["left_out"] or ("of that time" if row["shares"] == 3 else "-"),
                    _kind(row),
                    row["content"],
                ]
                for row in rows
            ],
        )
    else:
        table(
            ["score>", "similarity>", "kind", "age>", "content"],
            [
                [
                    f"{row['score']:.2f}",
                    "-" if row["similarity"] is None else f"{row['similarity']:.2f}",
                    _kind(row),
                    age(row["seconds"]),
                    row["content"],
                ]
                for row in rows
            ],
        )


def _kind(row: Any) -> str:
    metadata = json_module.loads(row["metadata"])
    names = (
        ("category",) if row["source"] == "knowledge" else ("kind", "speaker", "role", "title", "category")
    )
    of_it = (metadata.get(name) for name in names)
    return f"{row['source']}/{next((str(k) for k in of_it if k), '-')}"


@with_options("context")
def context(
    agent: str = typer.Argument(help="The agent's id."),
    message: str = typer.Argument(help="The task, in the words it would be given in."),
    user: UUID | None = id_option(says="For whom it is: also what this user may read."),
    explain: bool = typer.Option(
        False,
        "--explain",
        help="Show instead which patterns the message shows, what was searched, and what was found or left out.",
    ),
    json: bool = typer.Option(False, "--json", help="With --explain: print JSON."),
    **given: Any,
) -> None:
    """Print the context that this task would get now.

    Small talk gets none. With --explain nothing is logged as a retrieval.
    """
    options = given_in("context", given)

    async def ask(settings: Settings, database: Database) -> tuple[list[Any], bool]:
        from handlers.shared.embedding import Embedding

        if not await database.fetchval(KNOWN, agent):
            raise Failure(await _unknown(database, agent))
        async with database.connection() as connection:
            embedder = await embedder_of_database(settings, connection)
        try:
            found = await Embedding(embedder, database).if_possible({0: message[:MESSAGE_LENGTH]}, asked=True)
        finally:
            await embedder.close()
        if not found:
            remark("The embedder does not answer: this was found by keywords only. See: memoryd doctor")
        needs_memory = bool(await database.fetchval(PATTERNS, message, agent, user))
        async with database.transaction() as connection:
            rows = await connection.fetch(
                EXPLAIN if explain else COMPOSE,
                agent,
                message,
                found.get(0),
                json_module.dumps(options),
                user,
            )
        return list(rows), needs_memory

    rows, needs_memory = with_database(ask)
    if not explain:
        if rows[0]["context"]:
            say(rows[0]["context"])
        else:
            remark(
                f"Nothing that {agent} remembers or may read fits this."
                if needs_memory
                else "This is small talk: nothing is searched for it."
            )
    elif json:
        as_json([{name: row[name] for name in EXPLAINED} for row in rows])
    else:
        _show_explanation(rows)


def _show_explanation(rows: list[Any]) -> None:
    hidden = [index for index, row in enumerate(rows) if not row["shown"]][LEFT_OUT:]
    told = [row for index, row in enumerate(rows) if index not in hidden]
    table(["step", "source", "score>", "trust", "shown", "what"], [_cells(row) for row in told])
    if hidden:
        say(f"... and {len(hidden):,} more that were left out (--json names all).")


def _cells(row: Any) -> list[str]:
    score = "-" if row["score"] is None else f"{row['score']:.2f}"
    return [
        row["step"],
        row["source"] or "-",
        score,
        row["trust"] or "-",
        "yes" if row["shown"] else "no",
        row["detail"],
    ]


async def _unknown(database: Database, agent: str) -> str:
    known = [row["agent_id"] for row in await database.fetch(AGENTS)]
    if not known:
        return f"There is no agent {agent}: no agent had a command or a memory yet."
    more = ", ..." if len(known) > 10 else ""
    return f"There is no agent {agent}. Known agents: {', '.join(known[:10])}{more}"
