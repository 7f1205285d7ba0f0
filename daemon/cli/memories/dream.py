"""memoryd dream: dreams now, in this process, and shows the insights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from daemon.cli.common import embedder_of_database, language_model_of, with_database
from daemon.cli.failure import Failure
from daemon.cli.output import age, as_json, number, say, table

if TYPE_CHECKING:
    from daemon.db.pool import Database
    from daemon.settings import Settings
    from handlers.dream.report import DreamReport

RUNNING = """
select started_by, extract(epoch from now() - started_at)::float8 as seconds
from public.dream_sessions
where status = 'running'
"""

WRITTEN = """
select id, category, confidence, agent_id, user_id, insight, cardinality(source_memories) as memories
from public.dream_insights
where dream_id = $1
order by confidence desc, generated_at, id
"""


def dream(
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Dream once, now: look over the last days' memories and write down what they say together."""
    report, insights = with_database(_dream)
    if json:
        from dataclasses import asdict

        as_json({**asdict(report), "insights": [dict(row) for row in insights]})
    else:
        _show(report, insights)
    if report.status != "completed":
        raise typer.Exit(1)


async def _dream(settings: Settings, database: Database) -> tuple[DreamReport, list[Any]]:
    from daemon.db.migrator import check_schema
    from daemon.logs import get_logger
    from daemon.thinking import build_dreamer, build_thinker
    from handlers.shared.embedding import Embedding

    async with database.transaction() as connection:
        await check_schema(connection)
        embedder = await embedder_of_database(settings, connection)
    model = language_model_of(settings)
    try:
        thinker = build_thinker(settings, database, model, get_logger())
        dreamer = build_dreamer(settings, database, Embedding(embedder, database), thinker, get_logger())
        report = await dreamer.dream("manual")
        if report is None:
            other = await database.fetchrow(RUNNING)
            since = "" if other is None else f" ({other['started_by']}, for {age(other['seconds'])})"
            raise Failure(f"Another dream is running{since}. Ask again when it has ended: memoryd status")
        return report, await database.fetch(WRITTEN, report.dream_id)
    finally:
        await embedder.close()
        if model is not None:
            await model.close()


def _show(report: DreamReport, insights: list[Any]) -> None:
    say(
        f"Dream {report.status}: {number(report.memories_scanned, 'memory', 'memories')} looked over,"
        f" {number(report.clusters_found, 'cluster')} found,"
        f" {number(report.insights_generated, 'insight')} written,"
        f" {number(report.associations_pruned, 'weak association')} pruned."
    )
    if insights:
        say()
        table(
            ["confidence>", "category", "memories>", "agent", "insight"],
            [
                [
                    f"{row['confidence']:.2f}",
                    row["category"],
                    str(row["memories"]),
                    row["agent_id"] or "(several)",
                    row["insight"],
                ]
                for row in insights
            ],
            whole=True,
        )
