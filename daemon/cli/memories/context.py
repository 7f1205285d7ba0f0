"""memoryd context: the context that an agent would get with a task now, and why it is as it is."""

from __future__ import annotations

from json import dumps
from typing import TYPE_CHECKING, Any
from uuid import UUID

import typer

from daemon.cli.common import embedder_of_database, id_option, with_database
from daemon.cli.failure import Failure
from daemon.cli.memories.search_options import given_in, with_options
from daemon.cli.output import as_json, remark, say, table

if TYPE_CHECKING:
    from daemon.db.pool import Database
    from daemon.settings import Settings

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
                EXPLAIN if explain else COMPOSE, agent, message, found.get(0), dumps(options), user
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
