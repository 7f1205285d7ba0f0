"""memoryd reembed: another embedding model, or other dimensions, while recall answers."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from daemon.cli.common import embedder_of, with_database
from daemon.cli.failure import Misuse, sentences
from daemon.cli.output import as_json, number, progress, remark, say, table

if TYPE_CHECKING:
    from daemon.db.pool import Database
    from daemon.db.settings import Model, Models
    from daemon.settings import Settings
    from plugins.reembed.reembed import ModelChange

LINE_SECONDS = 10.0
"""Between two lines of progress, where no bar can be shown."""


def reembed(
    model: str | None = typer.Argument(
        None, help="As MEMORYD_EMBEDDER: local/wordllama-256, or openai/ and the name of a model."
    ),
    dimensions: int | None = typer.Option(
        None, min=1, max=16000, help="Of its vectors. Needed where they are not known."
    ),
    status: bool = typer.Option(False, "--status", help="Say which model is used, and how far a change is."),
    undo: bool = typer.Option(
        False, "--undo", help="Go back to the model before, or give up a change that is not finished."
    ),
    drop_previous: bool = typer.Option(
        False, "--drop-previous", help="Delete the embeddings of the model before. Then there is no way back."
    ),
    json: bool = typer.Option(False, "--json", help="With --status: print JSON."),
) -> None:
    """Change to another embedding model, or to other dimensions, while everything runs.

    All passages are embedded beside the ones that recall uses; then recall changes over, in a moment. Ended in between, the
    same command goes on where it was. The embeddings before are kept until --drop-previous, and --undo goes back to them.
    """
    with sentences():
        if sum((model is not None, status, undo, drop_previous)) != 1:
            raise Misuse("Say one: a model, --status, --undo or --drop-previous. See: memoryd reembed --help")
    from plugins.reembed import reembed as work

    if status:
        _show_status(*with_database(_status), json=json)
    elif undo:
        _show_undone(with_database(lambda _settings, database: work.undo(database)))
    elif drop_previous:
        dropped = with_database(lambda _settings, database: work.drop_previous(database))
        say(f"The embeddings of {dropped} are deleted.")
    elif model is not None:
        _change(model, dimensions)


def _change(name: str, dimensions: int | None) -> None:
    from daemon.db.settings import model_of
    from providers.build import ALLOWED_EMBEDDERS, LOCAL, check_names

    with sentences():
        try:
            check_names(name, None)
        except ValueError:
            raise Misuse(f"There is no model {name!r}: name one of {ALLOWED_EMBEDDERS}") from None

    async def change(settings: Settings, database: Database) -> tuple[ModelChange, Model]:
        from plugins.reembed import reembed as work

        given = settings.model_copy(update={"embedder": name, "embedding_dimensions": dimensions})
        embedder = embedder_of(given)
        model = model_of(embedder)
        try:
            if not model.embedder.startswith(("local/", "fastembed/")) and (
                count := await _running(settings, database)
            ):
                remark(
                    f"{number(count, 'daemon')} running: each needs the key and the address of {model} in its own settings. "
                    "Whether they are right, memoryd doctor says with the settings of the daemon."
                )
            with _progress() as show:
                return await work.reembed(database, embedder, work.Progress(show, remark)), model
        except asyncio.CancelledError:
            remark(
                f"Ended before it was done. To go on: memoryd reembed {model.embedder} --dimensions {model.dimensions}. "
                "To give it up: memoryd reembed --undo. To see how far it is: memoryd reembed --status"
            )
            raise
        finally:
            await embedder.close()

    from plugins.reembed.generations import PREVIOUS_DAYS

    changed, model = with_database(change)
    say(f"Recall uses {model} now: {number(changed.passages, 'passage')} embedded.")
    if changed.queued:
        say(f"{number(changed.queued, 'row')} written meanwhile: the daemons embed them now.")
    say(f"Running daemons follow. For the next start: {_variables(model)}")
    if model.embedder != LOCAL:
        say(
            "One without the key or the address logs embedder_missing, and its rows are found by their words only."
        )
    say(
        f"The embeddings of {changed.was} are kept, up to date, for {PREVIOUS_DAYS:g} days, "
        "or until: memoryd reembed --drop-previous"
    )
    say("To go back to them: memoryd reembed --undo")


async def _running(settings: Settings, database: Database) -> int:
    from daemon.presence import ALIVE, silence

    count: int = await database.fetchval(
        f"select count(*) from memoryd.daemons d where {ALIVE}",  # noqa: S608 - a constant of ours
        silence(),
    )
    return count


async def _status(_settings: Settings, database: Database) -> tuple[Models, int, int]:
    from plugins.reembed.generations import count_passages
    from plugins.reembed.reembed import models_of

    return await models_of(database), *await count_passages(database)


def _show_status(models: Models, total: int, done: int, *, json: bool) -> None:
    if json:
        as_json(
            {
                "used": models.used,
                "spare": models.spare,
                "state": models.state,
                "since": models.since,
                "passages": total,
                "embedded": done,
            }
        )
        return
    rows = [["used by recall", str(models.used), "-"]]
    if models.spare is not None:
        what = "being made" if models.state == "building" else "kept for --undo"
        rows.append([what, str(models.spare), f"{done:,} of {total:,}"])
    table(["", "model", "passages embedded>"], rows)


def _show_undone(before: Models) -> None:
    if before.state == "building":
        say(
            f"The embeddings of {before.spare} that were made are deleted. Recall uses {before.used}, as before."
        )
        return
    assert before.spare is not None
    say(
        f"Recall uses {before.spare} again. Running daemons follow. For the next start: {_variables(before.spare)}"
    )
    say(f"The embeddings of {before.used} are kept until: memoryd reembed --drop-previous")


def _variables(model: Model) -> str:
    return f"MEMORYD_EMBEDDER={model.embedder} MEMORYD_EMBEDDING_DIMENSIONS={model.dimensions}"


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr; where that is no terminal, a line now and then."""
    if not sys.stderr.isatty():
        last = 0.0

        def line(done: int, total: int) -> None:
            nonlocal last
            if time.monotonic() - last >= LINE_SECONDS:
                last = time.monotonic()
                remark(f"{done:,} of {number(total, 'passage')} embedded")

        yield line
        return
    with progress(quiet=False) as shown:
        # Shown when it is known how many there are.
        bar = shown.add_task("embedding", total=None, visible=False)
        yield lambda done, total: shown.update(bar, completed=done, total=total, visible=True)
