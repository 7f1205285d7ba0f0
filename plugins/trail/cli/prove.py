"""memoryd prove: writes the proof that an anchor is in the trail."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import typer

from daemon.cli.common import with_database
from daemon.cli.failure import Failure, sentences
from daemon.cli.output import remark

if TYPE_CHECKING:
    from daemon.db.pool import Database
    from daemon.settings import Settings
    from plugins.trail.rules.proof import Proof


def prove(
    anchor: UUID = typer.Argument(..., metavar="ID", help="Id of an anchor, or of an anchored memory."),
    output: Path | None = typer.Option(None, "--output", "-o", help="Write it to this file; else to stdout."),
    row: bool = typer.Option(
        True, help="--no-row: leave out the anchored row. Then the proof only shows that there is an anchor."
    ),
) -> None:
    """Write the proof that an anchor is in the trail. `memoryd verify FILE` checks it, without a database."""

    async def read(settings: Settings, database: Database) -> Proof:
        from plugins.trail.proving import NoProof, NotSigned, prove

        try:
            try:
                async with database.connection() as connection:
                    return await prove(connection, anchor, with_row=row)
            except NotSigned:
                if not await _sign(settings, database):
                    raise
            async with database.connection() as connection:
                return await prove(connection, anchor, with_row=row)
        except NoProof as error:
            raise Failure(str(error)) from None

    proof = with_database(read)
    if row and proof.row is None:
        remark("The anchored row was erased or deleted: the proof does not have it.")
    if output is None:
        typer.echo(str(proof), nl=False)
        return
    with sentences():
        try:
            output.write_text(str(proof), encoding="utf-8", newline="\n")
        except OSError as error:
            raise Failure(f"{output} cannot be written: {error.strerror}.") from None


async def _sign(settings: Settings, database: Database) -> bool:
    """Signs a checkpoint now, if the key is here; returns whether it is."""
    from daemon.logs import get_logger
    from plugins.trail.keys import key_file, signing_key
    from plugins.trail.log import LEAVES, Pace, Trail, TrailBroken
    from plugins.trail.settings import Trail as Section

    key = signing_key(settings)
    if key is None:
        return False
    pace = Pace(LEAVES, settings.section(Section).trail_checkpoint_minutes * 60)
    trail = Trail(
        database, key=key, pace=pace, ledgers=None, logger=get_logger(), key_file=key_file(settings)
    )
    try:
        await trail.advance(sign_now=True)
    except TrailBroken as error:
        raise Failure(
            f"No checkpoint is signed: {error}. To see what is broken: memoryd verify --all"
        ) from None
    return True
