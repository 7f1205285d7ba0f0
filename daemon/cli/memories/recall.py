"""memoryd recall: searches memories."""

from __future__ import annotations

import json as json_module
from typing import TYPE_CHECKING, Any
from uuid import UUID

import typer

from daemon.cli.common import embedder_of_database, id_option, with_database
from daemon.cli.memories.search_options import given_in, with_options
from daemon.cli.output import age, as_json, remark, say, table

if TYPE_CHECKING:
    from daemon.db.pool import Database
    from daemon.settings import Settings

RECALLED = ("source", "id", "content", "score", "similarity", "metadata", "created_at")
RELEVANCE_PARTS = ("lexical", "dense", "prior", "named", "timed", "session")
SCORE_PARTS = ("relevance", "weight", "recency", "association")


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
        from handlers.shared.embedding import Embedding
        from handlers.shared.question import Questions, search
        from providers.build import build_word_embedder

        async with database.connection() as connection:
            embedder = await embedder_of_database(settings, connection)
        words = build_word_embedder(embedder)
        try:
            questions = Questions(reader=database, embedding=Embedding(embedder, database), words=words)
            question = await questions.read(query, agent=agent, user=user)
        finally:
            await embedder.close()
            await words.close()
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
        as_json([{name: _value(row, name) for name in parts} for row in rows])
    elif not rows:
        say("Nothing is remembered about this.")
    elif explain:
        heads = [f"{name}>" for name in ("score", *SCORE_PARTS, *RELEVANCE_PARTS)]
        table(
            [*heads, "left out", "kind", "content"],
            [
                [
                    *(f"{row[name]:.2f}" for name in ("score", *SCORE_PARTS, *RELEVANCE_PARTS)),
                    row["left_out"] or "-",
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


def _value(row: Any, name: str) -> Any:
    return json_module.loads(row[name]) if name == "metadata" else row[name]
