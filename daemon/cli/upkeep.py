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
NAMING_MOST, NAMING_AMONG = 20, 20_000
"""Entries of the team's knowledge with a user's name that are told of; the newest, among which they are."""
_BARE = "' ' || regexp_replace(lower({}), '[[:space:][:punct:]]+', ' ', 'g') || ' '"
# Entries that others wrote, archived ones, too, with a name under which user $1 spoke lately (`whole`), or with one of the
# words of these names, also as "Mia's" or "Mias". An erasure keeps them; after it nobody knows the names.
NAMING = f"""
with names as materialized (
    select distinct m.speaker as name, {_BARE.format("m.speaker")} as bare
    from (select * from public.conversation_messages m where m.user_id = $1 order by m.created_at desc limit 50) m
    where m.speaker is not null and m.role = 'user'
), words as materialized (select distinct w[1] as word from names n, regexp_matches(lower(n.name), '\\w{{3,}}', 'g') w)
select k.id, k.whole, k.archived from (
    select k.id, k.nth, k.archived, exists (select from names n where strpos(k.text, n.bare) > 0) as whole,
           exists (select from words w
                   where strpos(k.text, ' ' || w.word || ' ') > 0 or strpos(k.text, ' ' || w.word || 's ') > 0) as part
    from (select k.id, k.status = 'archived' as archived, {_BARE.format("k.title || ' ' || k.content")} as text,
                 row_number() over (order by k.updated_at desc) as nth
          from ((select * from public.shared_knowledge k
                 where k.status <> 'archived' order by k.updated_at desc limit {NAMING_AMONG})
                union all
                (select * from public.shared_knowledge k
                 where k.status = 'archived' order by k.updated_at desc limit {NAMING_AMONG})) k
          where k.created_by is distinct from $1::text and exists (select from names)) k) k
where k.whole or k.part
order by not k.whole, k.nth limit {NAMING_MOST + 1}
"""  # noqa: S608 - numbers of ours
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

    async def delete(_settings: Settings, database: Database) -> tuple[dict[str, Any], list[Any]]:
        async with database.transaction() as connection:
            naming = await connection.fetch(NAMING, user, timeout=ERASE_SECONDS)
            answer = await connection.fetchval(ERASE, user, timeout=ERASE_SECONDS)
            return json_module.loads(answer), naming

    counts, naming = with_database(delete)
    _tell_naming(naming)
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


def _tell_naming(naming: list[Any]) -> None:
    """Which entries of the team's knowledge, that stay, name the user."""
    if naming:
        remark(
            "What others wrote into the team's knowledge stays. These entries have the user's name, or a part of it:"
        )
    for entry in naming[:NAMING_MOST]:
        parts = ("" if entry["whole"] else " (a part)") + (" (archived)" if entry["archived"] else "")
        remark(f"  {entry['id']}{parts}")
    if naming[NAMING_MOST:]:
        remark("  and more")
