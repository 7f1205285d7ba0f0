"""memoryd prove writes the proof that an anchor is in the trail; memoryd verify checks proofs, or the whole trail.

Exit code of verify 0: everything is as it was anchored. 1: something is broken or unreadable, or a ledger did not answer. 4:
nothing is broken, but something cannot be verified. 3: the trail is whole, but memories were changed after they were anchored.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import typer

from daemon.cli.common import with_database
from daemon.cli.failure import Failure, Misuse, sentences
from daemon.cli.output import as_json, number, remark, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.db.pool import Database
    from daemon.settings import Settings
    from plugins.trail.reading import Verification
    from plugins.trail.rules.note import Checkpoint, Verifier
    from plugins.trail.rules.proof import Proof, ProofResult


def prove(
    anchor: UUID = typer.Argument(..., metavar="ID", help="Id of an anchor, or of an anchored memory."),
    output: Path | None = typer.Option(None, "--output", "-o", help="Write it to this file; else to stdout."),
    row: bool = typer.Option(
        True, help="--no-row: leave out the anchored row. Then the proof only shows that there is an anchor."
    ),
) -> None:
    """Write the proof that an anchor is in the trail. `memoryd verify FILE` checks it, without a database."""

    async def read(settings: Settings, database: Database) -> Proof:
        from plugins.trail.reading import MissingSignatureError, ProofError, prove

        try:
            try:
                async with database.connection() as connection:
                    return await prove(connection, anchor, with_row=row)
            except MissingSignatureError:
                if not await _sign(settings, database):
                    raise
            async with database.connection() as connection:
                return await prove(connection, anchor, with_row=row)
        except ProofError as error:
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
    from plugins.trail.keys import signing_key
    from plugins.trail.log import BrokenTrailError, build_trail

    key = signing_key(settings)
    if key is None:
        return False
    trail = build_trail(settings, database, key, ledgers=None, logger=get_logger())
    try:
        await trail.advance(sign_now=True)
    except BrokenTrailError as error:
        raise Failure(
            f"No checkpoint is signed: {error}. To see what is broken: memoryd verify --all"
        ) from None
    return True


CHANGED = 3
UNVERIFIABLE = 4


def verify(
    files: list[Path] | None = typer.Argument(
        None, metavar="[FILE]...", help="Proofs that memoryd prove wrote."
    ),
    everything: bool = typer.Option(
        False,
        "--all",
        help="Check the whole trail of the database; with files, also against their checkpoints.",
    ),
    key: list[str] | None = typer.Option(
        None,
        "--key",
        help="Public key to trust; may be given again. Without one the database's own are used.",
    ),
    ledgers: bool = typer.Option(
        False,
        "--ledgers",
        help="With --all: also ask the ledgers that are set here whether they still have the items that they confirmed.",
    ),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Check proofs (with --key without a database), or with --all the trail. Exit code 1: broken.

    With --all also 4: nothing is broken, but something cannot be verified; and 3: the trail is whole, but memories were changed
    after they were anchored.
    """
    with sentences():
        if ledgers and not everything:
            raise Misuse("Ledgers are asked about the whole trail: memoryd verify --all --ledgers")
        if not files and not everything:
            raise Misuse("Say what to verify: memoryd verify FILE, or memoryd verify --all")
        keys = [_key(one) for one in key or ()] or None
        proofs = [(path, _read(path)) for path in files or ()]
    if everything:
        _verify_trail(proofs, keys, ledgers=ledgers, json=json)
        return
    with sentences():
        trusted = keys or _keys_of_database()
        wrong = False
        answers: list[dict[str, Any]] = []
        for path, proof in proofs:
            answer = _answer(path, proof, trusted)
            answers.append(answer)
            wrong |= not answer["holds"]
        if json:
            as_json(answers)
        else:
            for answer in answers:
                _show(answer)
    if wrong:
        raise typer.Exit(1)


def _keys_of_database() -> Sequence[Verifier]:
    async def read(_settings: Settings, database: Database) -> Sequence[Verifier]:
        from plugins.trail.reading import read_keys

        return await read_keys(database)

    remark("The public keys come from the database. To trust no database: --key KEY")
    return with_database(read)


def _verify_trail(
    proofs: Sequence[tuple[Path, Proof | str]], keys: Sequence[Verifier] | None, *, ledgers: bool, json: bool
) -> None:
    async def read(settings: Settings, database: Database) -> Verification:
        from plugins.trail.reading import read_keys, verify_all

        trusted = keys or await read_keys(database)
        known = [_checkpoint(path, proof, trusted) for path, proof in proofs]
        return await verify_all(database, trusted, known=known, ask=settings if ledgers else None)

    found = with_database(read)
    if keys is None:
        remark("The public keys come from the database. To trust no database: --key KEY")
    if json:
        as_json(found)
    else:
        _report(found)
    if found.breaks or any(one.could_not for one in found.ledgers):
        raise typer.Exit(1)
    if found.unverifiable:
        raise typer.Exit(UNVERIFIABLE)
    if found.changed:
        raise typer.Exit(CHANGED)


def _report(found: Verification) -> None:
    for one in (*found.breaks, *found.unverifiable):
        where = [] if one.position is None else [f"leaf {one.position}"]
        which = [] if one.anchor is None else [f"anchor {one.anchor}"]
        how = "not verifiable" if one.how == "unverifiable" else one.how
        say(": ".join(part for part in (how, " ".join(where + which), one.says) if part))
    for changed in found.changed:
        say(f"changed: memory {changed['memory']} says something else than anchor {changed['anchor']}")
    signed = number(found.checkpoints, "checkpoint")
    say(
        f"{found.origin}: {number(found.leaves, 'leaf', 'leaves')}, {signed}, {found.sealed:,} erased, "
        f"{found.unsigned:,} not signed yet, {found.waiting:,} not in the log yet. "
        f"{len(found.unverifiable):,} not verifiable, {number(len(found.breaks), 'break')}."
    )
    for asked in found.ledgers:
        erased = f", {asked.erased:,} erased here" if asked.erased else ""
        rest = f", {asked.not_queried:,} not asked about" if asked.not_queried else ""
        why = f": {asked.reason}" if asked.reason else ""
        say(
            f"Ledger {asked.ledger}: asked about {asked.answered:,} of {asked.kept:,}, "
            f"{asked.disputed:,} disputed{erased}{rest}{why}"
        )


def _checked(proof: Proof | str, keys: Sequence[Verifier]) -> ProofResult | str:
    """What the proof shows; a sentence if it does not hold."""
    from plugins.trail.rules.note import BadNote
    from plugins.trail.rules.proof import check

    try:
        return proof if isinstance(proof, str) else check(proof, keys)
    except BadNote as error:
        return str(error)


def _answer(path: Path, proof: Proof | str, keys: Sequence[Verifier]) -> dict[str, Any]:
    shown = _checked(proof, keys)
    if isinstance(shown, str):
        return {"file": str(path), "holds": False, "says": shown}
    return {
        "file": str(path),
        "holds": True,
        "origin": shown.checkpoint.origin,
        "leaf": shown.index,
        "size": shown.checkpoint.size,
        "unchecked_signatures": shown.unchecked,
        "row": shown.row,
    }


def _show(answer: dict[str, Any]) -> None:
    if not answer["holds"]:
        say(f"{answer['file']}: it does not hold: {answer['says']}")
        return
    say(f"{answer['file']}: it holds: leaf {answer['leaf']} of {answer['size']} in {answer['origin']}")
    if answer["unchecked_signatures"]:
        say(f"  {number(answer['unchecked_signatures'], 'signature')} of others not checked")
    row = answer["row"]
    if row is None:
        say("  what was anchored is not in the proof")
        return
    from memory.text import one_line

    for name in ("id", "category", "agent_id", "created_at", "cid"):
        say(f"  {name}: {one_line(str(row[name]), 500)}")
    payload = row["payload"]
    if isinstance(payload, dict) and isinstance(payload.get("content"), str):
        say(f"  content: {one_line(payload['content'], 2000)}")


def _checkpoint(path: Path, proof: Proof | str, keys: Sequence[Verifier]) -> Checkpoint:
    shown = _checked(proof, keys)
    if isinstance(shown, str):
        raise Failure(f"{path} does not hold: {shown}.")
    return shown.checkpoint


def _key(text: str) -> Verifier:
    from plugins.trail.rules.note import BadNote, Verifier

    try:
        return Verifier.parse(text.strip())
    except BadNote as error:
        raise Misuse(f"--key: {error}. To see the public keys of a database: memoryd anchors") from None


def _read(path: Path) -> Proof | str:
    """The proof in a file; a sentence if it has none."""
    from plugins.trail.rules.note import BadNote
    from plugins.trail.rules.proof import MAX_BYTES, Proof

    try:
        with path.open("rb") as file:
            return Proof.parse(file.read(MAX_BYTES + 1).decode())
    except OSError as error:
        raise Failure(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        return "it is not UTF-8"
    except BadNote as error:
        return str(error)
