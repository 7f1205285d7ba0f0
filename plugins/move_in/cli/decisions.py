"""memoryd know decisions: which decisions are open, and which of them need a look; how often they came out well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import typer

from daemon.cli.common import with_database
from daemon.cli.output import as_json, say, table
from plugins.move_in.cli.know import JSON, ORG, know, of_org

if TYPE_CHECKING:
    from daemon.db.pool import Database
    from daemon.settings import Settings

DECISIONS = """
select d.id, d.title, d.created_by, d.confidence, d.tags, d.created_at, d.review_by, d.state, d.because,
       k.title as because_title, d.success
from decisions(agent_id => $1, tag => $2, open_only => not $3, match_count => $4) with ordinality as d
left join shared_knowledge k on k.id = d.because
order by d.ordinality
"""
RATES = "select by, value, decisions, open, scored, succeeded, rate from decision_rates()"


@know.command()
def decisions(
    agent: str | None = typer.Option(None, help="Only decisions of this agent."),
    tag: str | None = typer.Option(None, help="Only decisions with this tag."),
    every: bool = typer.Option(False, "--all", help="Those that have an outcome, too."),
    limit: int = typer.Option(50, min=1, help="How many, the newest."),
    org: UUID | None = ORG,
    json: bool = JSON,
) -> None:
    """Show the team's decisions: those that a later entry contradicts, that meet a kill criterion or are overdue come first.

    Below, how often decisions came out well: by agent, by confidence (a high one should come out well more often), and by tag.
    """

    async def read(_settings: Settings, database: Database) -> tuple[list[Any], list[Any]]:
        async with of_org(database, org) as connection:
            return list(await connection.fetch(DECISIONS, agent, tag, every, limit)), list(
                await connection.fetch(RATES)
            )

    found, rates = with_database(read)
    if json:
        as_json({"decisions": found, "rates": rates})
        return
    if not rates:
        say(
            "There is no decision. To note one: memoryd know add TEXT --by NAME --category decision --kill CRITERION"
        )
        return
    if found:
        table(
            ["id", "by", "review by", "state", "because", "title"],
            [
                [
                    str(r["id"]), r["created_by"], "-" if r["review_by"] is None else f"{r['review_by']:%Y-%m-%d}",
                    _state(r), (r["because_title"] or "-")[:60], r["title"],
                ]
                for r in found
            ],
        )  # fmt: skip
    else:
        say("No decision is open that matches." if not every else "No decision matches.")
    say("")
    table(
        ["by", "value", "decisions>", "open>", "came out well>"],
        [[r["by"], r["value"] or "-", f"{r['decisions']:,}", f"{r['open']:,}", _rate(r)] for r in rates],
    )


def _state(row: Any) -> str:
    if row["success"] is None:
        return str(row["state"])
    return "succeeded" if row["success"] else "failed"


def _rate(row: Any) -> str:
    return "-" if row["rate"] is None else f"{row['succeeded']:,} of {row['scored']:,} ({row['rate']:.0%})"
