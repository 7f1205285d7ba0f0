"""memoryd eval: asks a store its golden questions, and says whether a change has made the answers worse."""

from __future__ import annotations

import json as json_module
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import typer

from daemon.cli.common import id_option, questions_of_database, with_database
from daemon.cli.failure import Failure, Misuse, sentences
from daemon.cli.output import as_json, number, progress, remark, say, table
from plugins.eval.golden import Golden, add_golden, judged_golden, read_golden
from plugins.eval.run import Run, Saved, ask_all, changes, limits

if TYPE_CHECKING:
    from daemon.db.pool import Database
    from daemon.settings import Settings

GOLDEN = Path("golden.jsonl")
MOST_JUDGED = 1000
SHOWN = 20
"""Questions that got worse which are shown."""
EXISTING = "select s.id from memoryd.searchable s where s.id = any($1)"


def evaluate(  # noqa: PLR0913, PLR0917 - the options of a command
    ids: list[UUID] | None = typer.Argument(None, help="With --add: the rows that answer."),
    file: Path = typer.Option(GOLDEN, "--file", "-f", help="The golden questions, a JSON object a line."),
    add: str | None = typer.Option(
        None, metavar="QUESTION", help="Add this question and its IDS to the file."
    ),
    nothing: bool = typer.Option(False, "--nothing", help="With --add: nothing in the store answers it."),
    user: UUID | None = id_option(says="With --add: who asks."),
    agent: str | None = typer.Option(None, help="With --add: the agent that asks."),
    judged: bool = typer.Option(
        False, "--judged", help="Ask instead what was judged useful by mark_useful, by its words."
    ),
    save: Path | None = typer.Option(None, help="Write what came to this file, to compare with later."),
    beside: Path | None = typer.Option(
        None, help="Compare with a run that was saved; exit code 1 where a figure fell."
    ),
    may_fall: float = typer.Option(
        0.0, min=0.0, max=1.0, help="With --beside: by how much a figure may fall."
    ),
    at_least: list[str] = typer.Option(
        [], metavar="FIGURE=NUMBER", help="Exit code 1 where a figure is lower: recall@10=0.8."
    ),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Measure recall on your own golden questions, before and after a change.

    Each question is asked as `memoryd recall` asks it; nothing is logged as a retrieval. recall@k is the part of its answers
    among the first k results, any@k whether one is among them, silence whether nothing came where nothing answers.
    """
    with sentences():
        if add is not None:
            asks = None if user is None else str(user)
            _add(Golden(add, frozenset(ids or ()), asks, agent), file, nothing=nothing)
            return
        if ids or nothing or user is not None or agent is not None:
            raise Misuse("IDS, --nothing, --user and --agent belong to --add: the question that they are of.")
        lowest = limits(at_least)
        before = None if beside is None else _saved(beside)
        asked = None if judged else read_golden(file)
        if asked == []:
            raise Misuse(f'{file} has no question. Write one with: memoryd eval --add "a question" ID')

    async def work(settings: Settings, database: Database) -> Run:
        return await _ask(settings, database, asked, quiet=json)

    run = with_database(work)
    if save is not None:
        with sentences():
            save.write_text(
                json_module.dumps(_plain(run), ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
            )
    if json:
        as_json(_plain(run))
    else:
        _show(run, before)
    with sentences():
        _judge(run, before, lowest, may_fall=may_fall)


def _add(golden: Golden, file: Path, *, nothing: bool) -> None:
    if nothing == bool(golden.answers):
        raise Misuse("Say what answers the question: the ids of rows, or --nothing.")

    async def missing(_settings: Settings, database: Database) -> list[UUID]:
        known = {row["id"] for row in await database.fetch(EXISTING, list(golden.answers))}
        return sorted(golden.answers - known)

    if golden.answers and (unknown := with_database(missing)):
        raise Failure(f"No row has the id {unknown[0]}. To see ids: memoryd recall --json")
    add_golden(file, golden)
    say(f"Added to {file}.")


async def _ask(settings: Settings, database: Database, asked: list[Golden] | None, *, quiet: bool) -> Run:
    if asked is None:
        asked = await judged_golden(database, limit=MOST_JUDGED)
        if not asked:
            raise Failure(
                "No retrieval was judged useful yet. Judge with mark_useful(id, true), or --add questions."
            )
    async with questions_of_database(settings, database) as questions:
        with progress(quiet=quiet) as shown:
            bar = shown.add_task("Asking", total=len(asked))
            run, by_words = await ask_all(
                database,
                questions,
                asked,
                by={"version": metadata.version("memoryd"), "embedder": questions.embedder},
                after_each=lambda: shown.advance(bar),
            )
    if by_words:
        remark("The embedder does not answer: some were asked by words only. See: memoryd doctor")
    return run


def _plain(run: Run) -> dict[str, Any]:
    return asdict(run) | {"gone": [golden.question for golden in run.gone]}


def _saved(file: Path) -> Saved:
    try:
        return Saved.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        raise Misuse(f"There is no {file}. Write one with: memoryd eval --save {file}") from None
    except ValueError:
        raise Misuse(f"{file} is no run that `memoryd eval --save` has written.") from None


def _show(run: Run, before: Saved | None) -> None:
    say(f"{number(run.asked, 'question')} asked; {', '.join(f'{n} {v}' for n, v in run.by.items())}")
    if run.gone:
        remark(
            f"{number(len(run.gone), 'question')} left out: their answers are deleted, superseded or expired. "
            "Name the rows that answer now."
        )
    if before is None:
        table(["figure", "value>"], [[name, f"{value:.3f}"] for name, value in run.figures.items()])
        return
    earlier = before.figures
    say(f"before: {', '.join(f'{name} {value}' for name, value in before.by.items())}")
    table(
        ["figure", "before>", "now>", "change>"],
        [
            [name, f"{earlier[name]:.3f}", f"{value:.3f}", f"{value - earlier[name]:+.3f}"]
            if name in earlier
            else [name, "-", f"{value:.3f}", "-"]
            for name, value in run.figures.items()
        ],
    )
    if worse := changes(before.questions, run):
        table(
            ["figure", "before>", "now>", "question that got worse"],
            [
                [name, f"{was:.2f}", f"{now:.2f}", json_module.loads(key)[0]]
                for key, name, was, now in worse[:SHOWN]
            ],
        )


def _judge(run: Run, before: Saved | None, lowest: dict[str, float], *, may_fall: float) -> None:
    """Raises Failure where a figure is too low."""
    for name, least in lowest.items():
        if run.figures.get(name, 0.0) < least:
            raise Failure(f"{name} is {run.figures.get(name, 0.0):.3f}, lower than {least}.")
    for name, value in run.figures.items():
        was = None if before is None else before.figures.get(name)
        if was is not None and value < was - may_fall - 1e-9:
            raise Failure(f"{name} fell from {was:.3f} to {value:.3f}.")
