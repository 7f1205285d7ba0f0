"""memoryd dream and memoryd erase: what a person does to all that is remembered."""

from __future__ import annotations

import json as json_module
import sys
from typing import TYPE_CHECKING, Any
from uuid import UUID

import typer

from daemon.cli.common import embedder_of_database, language_model_of, uuid_or_name, with_database
from daemon.cli.failure import Failure, Misuse, sentences
from daemon.cli.output import age, as_json, number, remark, say, table

if TYPE_CHECKING:
    from daemon.db.pool import Database
    from daemon.settings import Settings
    from handlers.dream.lease import DreamReport

ERASE = "select public.erase_user_memory($1::uuid)"
ERASE_SECONDS = 3600.0
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
    from daemon.db.plan import check_schema
    from daemon.logs import get_logger
    from daemon.topics import build_dreamer, build_thinker
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


def erase(
    user: UUID = typer.Argument(
        parser=uuid_or_name, help="Whose memory: the user_id of the rows, or the user's name."
    ),
    yes: bool = typer.Option(False, "--yes", help="Do not ask."),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Delete all that is kept about a user, in every table. The only way back is an export made before."""
    with sentences():
        if not yes and not sys.stdin.isatty():
            raise Misuse(
                "This deletes for good. Say so with --yes; to keep a copy first: memoryd export USER -o FILE"
            )
    if not yes and not typer.confirm(f"Delete all that is kept about user {user}, for good?", err=True):
        raise typer.Exit(1)

    async def delete(_settings: Settings, database: Database) -> dict[str, Any]:
        async with database.transaction() as connection:
            answer: dict[str, Any] = json_module.loads(
                await connection.fetchval(ERASE, user, timeout=ERASE_SECONDS)
            )
            return answer

    counts = with_database(delete)
    if json:
        as_json(counts)
        return
    files: list[str] = counts.pop("replica_paths")
    erased = {name: count for name, count in counts.items() if count}
    if erased:
        table(["erased>", "table"], [[f"{count:,}", name] for name, count in erased.items()])
    else:
        say(f"Nothing was kept about user {user}.")
    if files:
        remark("Files of their documents that memoryd does not keep. Delete them where they are:")
        for path in files:
            remark(f"  {path}")
