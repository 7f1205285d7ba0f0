"""memoryd context: the context that an agent would get with a task now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from daemon.cli.common import embedder_of_database, with_database
from daemon.cli.failure import Failure
from daemon.cli.output import remark, say

if TYPE_CHECKING:
    from daemon.db.pool import Database
    from daemon.settings import Settings

KNOWN = "select exists (select from public.agents where agent_id = $1)"
AGENTS = "select agent_id from public.agents order by created_at desc, agent_id limit 11"
COMPOSE = "select memoryd.compose_context($1, $2, null, false, $3, null)"
MESSAGE_LENGTH = 32_768
"""Characters of a message that are embedded, as in the daemon."""


def context(
    agent: str = typer.Argument(help="The agent's id."),
    message: str = typer.Argument(help="The task, in the words it would be given in."),
) -> None:
    """Print the context that this task would get now."""

    async def compose(settings: Settings, database: Database) -> str:
        from handlers.shared.embedding import Embedding

        if not await database.fetchval(KNOWN, agent):
            raise Failure(await _unknown(database, agent))
        async with database.connection() as connection:
            embedder = await embedder_of_database(settings, connection)
        try:
            found = await Embedding(embedder, database).if_possible({0: message[:MESSAGE_LENGTH]})
        finally:
            await embedder.close()
        if not found:
            remark("The embedder does not answer: this was found by keywords only. See: memoryd doctor")
        return str(await database.fetchval(COMPOSE, agent, message, found.get(0)))

    text = with_database(compose)
    if text:
        say(text)
    else:
        remark(f"Nothing that {agent} remembers bears on this.")


async def _unknown(database: Database, agent: str) -> str:
    known = [row["agent_id"] for row in await database.fetch(AGENTS)]
    if not known:
        return f"There is no agent {agent}: no agent had a command or a memory yet."
    more = ", ..." if len(known) > 10 else ""
    return f"There is no agent {agent}. Known agents: {', '.join(known[:10])}{more}"
