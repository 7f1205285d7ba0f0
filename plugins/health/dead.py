"""memoryd dead: lists the dead letters, and makes jobs of them again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from daemon.cli.common import with_database
from daemon.cli.failure import Failure, Misuse, sentences
from daemon.cli.output import age, as_json, number, say, table

if TYPE_CHECKING:
    from daemon.db.pool import Database
    from daemon.settings import Settings

LIST_DEAD = """
select id, topic, lane, ref, attempts, error, created_at, died_at,
       extract(epoch from now() - died_at)::float8 as died_seconds
from memoryd.dead_letters
where $1::text is null or topic = $1
order by died_at desc, id desc
limit $2
"""
COUNT_DEAD = "select count(*) from memoryd.dead_letters where $1::text is null or topic = $1"

dead = typer.Typer(
    name="dead",
    help="List the dead letters (discarded jobs); `dead requeue` makes jobs of them again.",
    invoke_without_command=True,
    rich_markup_mode="markdown",
)


@dead.callback()
def list_dead(
    context: typer.Context,
    topic: str | None = typer.Option(None, help="Only jobs of this topic."),
    limit: int = typer.Option(50, min=1, help="How many, the newest first."),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """List the dead letters (discarded jobs); `dead requeue` makes jobs of them again."""
    if context.invoked_subcommand is not None:
        return

    async def read(_settings: Settings, database: Database) -> tuple[list[Any], int]:
        return await database.fetch(LIST_DEAD, topic, limit), await database.fetchval(COUNT_DEAD, topic)

    rows, count = with_database(read)
    if json:
        as_json(rows)
        return
    if not rows:
        say("There is no dead letter." if topic is None else f"There is no dead letter of topic {topic}.")
        return
    table(
        ["id>", "topic", "ref", "attempts>", "died>", "error"],
        [
            [
                str(row["id"]),
                row["topic"],
                str(row["ref"] or "-"),
                str(row["attempts"]),
                f"{age(row['died_seconds'])} ago",
                row["error"].strip().partition("\n")[0],
            ]
            for row in rows
        ],
    )
    if count > len(rows):
        say(f"... and {count - len(rows):,} more (--limit).")


@dead.command()
def requeue(
    ids: list[int] | None = typer.Argument(None, help="Ids of dead letters, as `memoryd dead` lists them."),
    topic: str | None = typer.Option(None, help="All dead letters of this topic."),
    every: bool = typer.Option(False, "--all", help="All dead letters."),
) -> None:
    """Make jobs of dead letters again, with their attempts at 0."""

    with sentences():
        if sum((bool(ids), topic is not None, every)) != 1:
            raise Misuse("Say which dead letters: ids, or --topic, or --all. To see them: memoryd dead")

    async def put_back(_settings: Settings, database: Database) -> int:
        from daemon.queue import queue

        back = await queue.requeue(database, ids=ids or None, topic=topic)
        if ids and back < len(set(ids)):
            raise Failure(
                f"{number(back, 'job')} requeued; the other ids are no dead letters. To see them: memoryd dead"
            )
        return back

    say(f"{number(with_database(put_back), 'job')} requeued.")
