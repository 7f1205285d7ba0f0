"""memoryd recall: searches what is remembered."""

from __future__ import annotations

import json as json_module
from typing import TYPE_CHECKING, Any
from uuid import UUID

import typer

from daemon.cli.common import embedder_of, with_database
from daemon.cli.output import age, as_json, remark, say, table

if TYPE_CHECKING:
    from daemon.database import Database
    from daemon.settings import Settings

RECALL = """
select r.*, extract(epoch from now() - r.created_at)::float8 as seconds
from public.recall($1, $2, $3, $4, $5, $6) r
"""
QUERY_LENGTH = 32_768


def recall(
    query: str = typer.Argument(help="What to look for, in any words."),
    agent: str | None = typer.Option(None, help="Only what this agent can see: its own and what is shared."),
    user: UUID | None = typer.Option(None, help="Only memories of this user."),
    count: int = typer.Option(10, "--count", "-n", min=1, help="How many, the best first."),
    source: list[str] | None = typer.Option(
        None, help="memory, insight; give it more than once for several."
    ),
    json: bool = typer.Option(False, "--json", help="Print JSON, contents in full."),
) -> None:
    """Search what is remembered, by words and by meaning."""

    async def search(settings: Settings, database: Database) -> list[Any]:
        from handlers.embedding import Embedding

        embedder = embedder_of(settings)
        try:
            found = await Embedding(embedder, database).if_possible({0: query[:QUERY_LENGTH]})
        finally:
            await embedder.close()
        if not found:
            remark("The embedder does not answer: this is by keywords alone. See: memoryd doctor")
        return await database.fetch(RECALL, query, agent, user, found.get(0), count, source or None)

    rows = with_database(search)
    if json:
        as_json([_result(row) for row in rows])
    elif rows:
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
    else:
        say("Nothing is remembered about this.")


def _kind(row: Any) -> str:
    metadata = json_module.loads(row["metadata"])
    return f"{row['source']}/{metadata.get('kind') or metadata.get('category')}"


def _result(row: Any) -> dict[str, Any]:
    found = {name: row[name] for name in ("source", "id", "content", "score", "similarity")}
    return {**found, "metadata": json_module.loads(row["metadata"]), "created_at": row["created_at"]}
