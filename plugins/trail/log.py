"""The log of anchors: gives leaves their positions, one transaction at a time, and signs checkpoints.

Promise: positions are dense and in one order, whatever order the anchors' transactions commit in; any number of daemons
work on one log, and one at a time writes; a checkpoint is signed only if the log still begins with the checkpoint before it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from structlog.typing import FilteringBoundLogger

from daemon.db.pool import Database
from daemon.settings import Settings
from handlers.shared.ports import AnyConnection
from plugins.trail.keys import SignatureStore, key_file
from plugins.trail.rules import merkle
from plugins.trail.rules.merkle import MissingTileError, Tile
from plugins.trail.rules.note import ORIGIN, BadNote, Checkpoint, Note, sign, verifier_of
from plugins.trail.settings import Trail as Section

BATCH = 1000
FACTS = 200
CLOCK_SECONDS = 60.0
"""A checkpoint signed this far in the future means that the clock was set back: then the next one is due."""

LOOK = """
select t.id, t.size, t.carried, coalesce(c.size, 0) as signed, extract(epoch from now() - c.signed_at)::float8 as since,
       exists (select from memoryd.trail_leaves l where l.position is null) as waiting,
       exists (select from memoryd.trail_leaves l where not l.fact_written and l.position < c.size) as facts_missing
from memoryd.trail t
left join lateral (select c.size, c.signed_at from memoryd.trail_checkpoints c order by c.size desc limit 1) c on true
"""
LOCK = "select id, size from memoryd.trail for update"
CARRY = "select memoryd.carry_anchors($1)"
# A checkpoint is also kept in a file, which survives a crash of the server: so its leaves must survive it, too.
DURABLE = (
    "select set_config('synchronous_commit', 'on', true) where current_setting('synchronous_commit') = 'off'"
)
SEQUENCE = "select leaf_position, leaf from memoryd.sequence_anchors($1)"
TILES = """
select t.level, t.number, t.hashes
from unnest($1::smallint[], $2::bigint[]) as w(level, number)
join memoryd.trail_tiles t on t.level = w.level and t.number = w.number
"""
WRITE_TILES = """
insert into memoryd.trail_tiles (level, number, hashes)
select n.level, n.number, n.hashes from unnest($1::smallint[], $2::bigint[], $3::bytea[]) as n(level, number, hashes)
on conflict (level, number) do update set hashes = excluded.hashes
"""
LAST = "select size, note from memoryd.trail_checkpoints order by size desc limit 1"
WRITE_CHECKPOINT = (
    "insert into memoryd.trail_checkpoints (size, root, note, verifier) values ($1, $2, $3, $4)"
)
LEAVES = 256
"""New leaves after which a daemon signs a checkpoint."""
WRITE_FACTS = "select memoryd.write_anchor_facts($1, $2)"


class BrokenTrailError(Exception):
    """The log is not the one that was signed; the message says why."""


@dataclass(frozen=True, slots=True)
class Pace:
    """When a checkpoint is due: after a number of new leaves, or some seconds after the first new one."""

    leaves: int
    seconds: float

    def is_due(self, new: int, since: float | None) -> bool:
        """`since`: seconds since the last checkpoint; None: there is none."""
        if new <= 0:
            return False
        return since is None or new >= self.leaves or since >= self.seconds or since < -CLOCK_SECONDS


class Trail:
    def __init__(
        self,
        database: Database,
        *,
        key: Ed25519PrivateKey | None,
        pace: Pace,
        ledgers: Sequence[str] | None,
        logger: FilteringBoundLogger,
        key_file: Path | None = None,
    ) -> None:
        """`ledgers`: names of the ledgers that keep memories; None: this log writes no facts about anchors.

        `key_file`: the file of the key; signed checkpoints are kept beside it.
        """
        self._database = database
        self._key = key
        self._pace = pace
        self._ledgers = None if ledgers is None else list(ledgers)
        self._log = logger
        self._broken: str | None = None
        self._signed: Checkpoint | None = None
        self._kept = SignatureStore(key_file, logger)

    @property
    def tick_seconds(self) -> float:
        """Seconds between two ticks: short enough for the pause between two checkpoints."""
        return max(1.0, min(3600.0, self._pace.seconds / 20))

    @property
    def signs(self) -> bool:
        return self._key is not None

    async def tick(self) -> int:
        """Does the due work; returns 0 if there was none. A broken log is reported once."""
        try:
            return await self.advance()
        except BrokenTrailError as error:
            if str(error) != self._broken:
                self._broken = str(error)
                self._log.error("trail_broken", reason=str(error))
            return 1

    async def advance(self, *, sign_now: bool = False) -> int:
        """Gives positions, signs a checkpoint if one is due (or, with `sign_now`, if anything is new), writes facts.

        Returns how much of this there was to do. Raises BrokenTrailError.
        """
        state = first = await self._read_state()
        if not state["carried"]:
            while await self._database.fetchval(CARRY, BATCH) == BATCH:
                pass
            state = await self._read_state()
        if state["waiting"]:
            while await self._sequence() == BATCH:
                pass
            state = await self._read_state()
        new = state["size"] - state["signed"]
        if self._key is not None and (self._pace.is_due(new, state["since"]) or (sign_now and new > 0)):
            await self._sign(self._key)
            state = await self._read_state()
        if self._ledgers is not None and state["facts_missing"]:
            total = 0
            while written := int(await self._database.fetchval(WRITE_FACTS, self._ledgers, FACTS)):
                total += written
            if total:
                self._log.info("anchor_facts_written", facts=total)
        signed = state["signed"] != first["signed"]
        return sum((first["waiting"], not first["carried"], signed, state["facts_missing"]))

    async def _read_state(self) -> Any:
        [state] = await self._database.fetch(LOOK)
        return state

    async def _sequence(self) -> int:
        began = time.perf_counter()
        async with self._database.transaction() as connection:
            await connection.execute(DURABLE)
            [state] = await connection.fetch(LOCK)
            size = int(state["size"])
            rows = await connection.fetch(SEQUENCE, BATCH)
            if rows:
                edge = await read_tiles(connection, merkle.edge_of(size))
                try:
                    changed = merkle.grow(edge, size, [merkle.leaf_hash(row["leaf"]) for row in rows])
                except MissingTileError as error:
                    raise BrokenTrailError(str(error)) from None
                await connection.execute(
                    WRITE_TILES,
                    [level for level, _ in changed],
                    [number for _, number in changed],
                    list(changed.values()),
                )
        if rows:
            ms = round((time.perf_counter() - began) * 1000)
            self._log.info("anchors_sequenced", leaves=len(rows), size=size + len(rows), ms=ms)
        return len(rows)

    async def _sign(self, key: Ed25519PrivateKey) -> None:
        began = time.perf_counter()
        async with self._database.transaction() as connection:
            [state] = await connection.fetch(LOCK)
            last = await connection.fetchrow(LAST)
            if last is not None and last["size"] == state["size"]:
                return  # another daemon was first
            origin, size = origin_of(state["id"]), int(state["size"])
            try:
                before = None if last is None else Checkpoint.parse(Note.parse(last["note"]).text)
            except BadNote as error:
                raise BrokenTrailError(f"the last checkpoint cannot be read: {error}") from None
            await _check_before(connection, before, origin, size)
            # Also what this daemon has signed itself, and what was signed on this machine: the database's own last one
            # may have been deleted.
            await _check_before(connection, self._signed, origin, size)
            await self._check_kept(connection, state["id"], size)
            checkpoint = Checkpoint(origin, size, await read_root(connection, size))
            verifier = verifier_of(key, origin)
            # Ed25519 holds the processor for less than a millisecond.
            note = sign(checkpoint, key)
            # Before it is committed. Killed between the two, a daemon knows of a checkpoint that nobody has, which forbids
            # nothing: its leaves have their positions already. The other way round it would not know of one that somebody has.
            await self._kept.keep(state["id"], note)
            await connection.execute(WRITE_CHECKPOINT, size, checkpoint.root, str(note), str(verifier))
        self._signed = checkpoint
        self._log.info(
            "checkpoint_signed",
            size=size,
            key=verifier.key_id.hex(),
            ms=round((time.perf_counter() - began) * 1000),
        )

    async def _check_kept(self, connection: AnyConnection, trail: UUID, size: int) -> None:
        try:
            kept = await self._kept.read(trail)
        except ValueError as error:
            raise BrokenTrailError(str(error)) from None
        try:
            await _check_before(connection, kept, origin_of(trail), size)
        except BrokenTrailError as error:
            raise BrokenTrailError(f"{error}, as {self._kept.file_of(trail)} has it") from None


def build_trail(
    settings: Settings,
    database: Database,
    key: Ed25519PrivateKey | None,
    *,
    ledgers: Sequence[str] | None,
    logger: FilteringBoundLogger,
) -> Trail:
    """The log of a database, at the pace of the settings."""
    pace = Pace(LEAVES, settings.section(Section).trail_checkpoint_minutes * 60)
    return Trail(database, key=key, pace=pace, ledgers=ledgers, logger=logger, key_file=key_file(settings))


def origin_of(trail: UUID) -> str:
    """The name of a database's log, which its checkpoints begin with."""
    return f"{ORIGIN}{trail}"


async def read_tiles(connection: AnyConnection, tiles: Collection[Tile]) -> dict[Tile, bytes]:
    """These tiles, as far as they are there."""
    rows = await connection.fetch(TILES, [level for level, _ in tiles], [number for _, number in tiles])
    return {(row["level"], row["number"]): row["hashes"] for row in rows}


async def read_root(connection: AnyConnection, size: int) -> bytes:
    """The root of the log's first `size` leaves, from its tiles. Raises BrokenTrailError."""
    tiles = await read_tiles(connection, merkle.tiles_of_root(size))
    try:
        return await asyncio.to_thread(merkle.root_at, size, merkle.nodes_of(tiles))
    except MissingTileError as error:
        raise BrokenTrailError(str(error)) from None


async def _check_before(connection: AnyConnection, before: Checkpoint | None, origin: str, size: int) -> None:
    if before is None:
        return
    if before.origin != origin:
        raise BrokenTrailError("the last checkpoint is of another database")
    if before.size > size:
        raise BrokenTrailError(f"the last checkpoint has {before.size} leaves, and the log {size}")
    if before.root != await read_root(connection, before.size):
        raise BrokenTrailError("the log does not begin with what the last checkpoint says")
