"""The process of the daemon: what is started in which order, and how it stops.

Promise: a start that fails says why in one sentence; on SIGTERM and SIGINT the daemon claims no more, lets running batches
finish and hands the rest back; a second signal ends it at once; losing the database is not fatal.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from importlib import metadata
from typing import TYPE_CHECKING, Any

from structlog.typing import FilteringBoundLogger

from daemon import parts
from daemon.activity import Activity
from daemon.calibration import keep_calibrated
from daemon.claims import keep_claims
from daemon.db.errors import DATABASE_FAULTS, is_gone
from daemon.db.migrator import check_schema
from daemon.db.models import model_to_use, read_models
from daemon.db.pool import IS_STANDBY, MAX_IDLE_OF_DAEMON, Database, patiently
from daemon.db.pooler import is_pooled
from daemon.db.told_settings import write_settings
from daemon.embedded.supervisor import Supervisor
from daemon.embedder import FollowingEmbedder
from daemon.ending import WhenToRest, end_all, until_done, until_idle, until_told
from daemon.executor.executor import Executor
from daemon.heartbeat import Heartbeat
from daemon.idleness import Idle, Idleness
from daemon.measures import Measures
from daemon.outer_part import Part, keep_running
from daemon.queue import queue
from daemon.queue.listener import Listener
from daemon.queue.take_over import TakeOver
from daemon.queue.worker import Worker
from daemon.replica.keeper import Replica
from daemon.served import ALONE, OnlyOne
from daemon.settings import Settings
from daemon.settings.databases import address_of
from daemon.signals import give_back, heed_no_more, heed_signals
from daemon.summary import Summary
from daemon.trail.delivery import Delivery
from daemon.turns import Shared, Turns
from handlers.dream.dreamer import Dreamer
from handlers.shared.embedding import Embedding
from providers.ports import LanguageModel, Ledger

if TYPE_CHECKING:
    from daemon.tracing.tracer import Tracer

REPLICA = "replica"
"""What the wake-up of the replica says."""


class Daemon:
    """One memoryd. `run` returns when it was told to stop and has done so."""

    def __init__(  # noqa: PLR0913 - what a daemon is made of
        self,
        settings: Settings,
        url: str,
        *,
        embedder: FollowingEmbedder,
        language_model: LanguageModel | None,
        logger: FilteringBoundLogger,
        shared: Shared,
        name: str = ALONE,
        measures: Measures | None = None,
        supervisor: Supervisor | None = None,
    ) -> None:
        """`name`: of one of several databases; `measures`: the counts of all daemons that it has had.

        `supervisor`: of the embedded Postgres, if there is one.
        """
        self._supervisor = supervisor
        self._settings = settings
        self._url = url
        self._embedder = embedder
        self._model = language_model
        self._ledgers: tuple[Ledger, ...] = ()
        self._log = logger
        self._id = uuid.uuid4()
        self._number = self._id.int & 0x7FFFFFFF
        self._workers: dict[str, Worker] = {}
        self._executor: Executor | None = None
        self._replica: Replica | None = None
        self._tracer: Tracer | None = None
        self._told_to_stop = asyncio.Event()
        self._leaves = False
        self._measures = measures or Measures()
        self._name = name
        self._shared = shared
        self.started = asyncio.Event()
        self.demoted = False
        """Whether it stopped because its database had become a standby."""
        self.idle: Idle | None = None
        """What it found when it stopped because there was nothing to do."""
        self.database: Database | None = None

    async def run(self, *, once: bool = False, resting: WhenToRest | None = None) -> None:
        """Starts, works, stops; `once`: as soon as nothing is left to do.

        `resting`: as one of several daemons in this process it stops when there is no work, and says so in `idle`. Then
        signals are not its own: see `stop`. Raises MigrationError, OSError or asyncpg.PostgresError when it cannot start.
        """
        began = time.perf_counter()
        settings = self._settings
        patience = settings.start_seconds
        pooled, database = await patiently(self._open, seconds=patience, logger=self._log)
        self.database, listen = database, not pooled
        database.on_standby = self._leave_standby
        try:
            await patiently(lambda: self._prepare(database), seconds=patience, logger=self._log)
            # Until here a signal ends the start. One that came just before is heard at the first await, so before any work.
            heeded = (
                {}
                if resting is not None
                else heed_signals(
                    self._told_to_stop, grace_seconds=settings.shutdown_seconds, logger=self._log
                )
            )
            await asyncio.sleep(0)
            self._ledgers = parts.ledgers_of(settings, self._log)
            embedding = Embedding(self._embedder, database)
            thinker = parts.build_thinker(settings, database, self._model, self._log)
            dreamer = parts.build_dreamer(settings, database, embedding, thinker, self._log)
            heartbeat = Heartbeat(
                database=database,
                daemon_id=self._id,
                number=self._number,
                version=metadata.version("memoryd"),
                dreamer=dreamer,
                turn=self._turn("dreams"),
                logger=self._log,
            )
            heartbeat.wake_up = "listen" if listen else "poll"
            trail = parts.build_trail(settings, database, ledgers=self._ledgers, logger=self._log)
            delivery = Delivery(database, self._ledgers, payloads=settings.trail_payloads, logger=self._log)
            self._tracer = parts.build_tracer(
                database, daemon_id=self._id, version=metadata.version("memoryd"), logger=self._log
            )
            activity = Activity(self._measures.minutes, database, logger=self._log)
            tasks = [activity.run(), *self._build(database, embedding, dreamer, heartbeat, listen=listen)]
            schedule = parts.build_schedule(
                settings,
                database,
                trail=trail,
                delivery=delivery,
                topics=list(self._workers),
                thinker=thinker if settings.read_in_messages == "model" else None,
                build_turn=self._turn("builds"),
                logger=self._log,
            )
            idleness = Idleness(database, self._workers, self._executor, dreams=lambda: heartbeat.dreams)
            if once:
                tasks.append(self._stop_after(until_done(idleness, schedule, self._log)))
            else:
                schedule.start()
            if resting is not None:
                tasks.append(self._stop_after(until_idle(idleness, schedule, trail, delivery, resting)))
            running = [asyncio.create_task(task) for task in tasks]
            self._log.info(
                "daemon_started",
                daemon=str(self._id),
                database=self._name or address_of(self._url),
                wake_up=heartbeat.wake_up,
                embedder=self._embedder.name,
                executor=self._executor is not None,
                dream_idle_hours=settings.dream_idle_hours,
                # Which features are on: not where folders are.
                facts=settings.read_in_messages,
                language_model=self._model.name if self._model is not None else None,
                situate=thinker is not None,
                replica=settings.replica is not None,
                drop=settings.drop_folder is not None,
                ms=round((time.perf_counter() - began) * 1000),
            )
            self.started.set()
            await until_told(self._told_to_stop, running, self._log)
            if not once:
                await schedule.stop()
            # Of what has begun nothing can be written at a standby; nor at a place that is left while it is away.
            in_vain = self.demoted or (self._leaves and database.is_lost)
            await self._stop(
                running, activity, heartbeat, grace=0.0 if in_vain else settings.shutdown_seconds
            )
            if self.demoted:
                give_back(heeded)
        finally:
            self.database = None
            await database.close()
            for ledger in self._ledgers:
                await ledger.close()
        if not self.demoted:
            heed_no_more(heeded)
        self._log.info("daemon_stopped", daemon=str(self._id))

    def wake(self, topics: Sequence[str] | None = None) -> None:
        """Wakes the workers of these topics; of all, when None."""
        for name, worker in self._workers.items():
            if topics is None or name in topics:
                worker.wake()
        if topics is None and self._executor is not None:
            self._executor.wake()
        if self._replica is not None and (topics is None or REPLICA in topics):
            self._replica.wake()

    @property
    def waits(self) -> dict[str, Callable[[], float]]:
        """By topic the seconds until its provider may be asked again."""
        return {name: worker.topic.waits_for for name, worker in self._workers.items()}

    def stop(self, *, leave: bool = False) -> None:
        """Tells it to stop, as a signal does; `leave`: and not to wait for a database that is lost."""
        self._leaves = leave
        self._told_to_stop.set()

    @property
    def is_lost(self) -> bool:
        """Whether it waits until its database is back."""
        return self.database is not None and self.database.is_lost

    @property
    def runs_programs(self) -> bool:
        """Whether its executor has begun a command that has not ended."""
        return self._executor is not None and self._executor.runs

    def _turn(self, kind: str) -> Callable[[], AbstractAsyncContextManager[None]]:
        """What a piece of work of this kind waits for, since several databases share it."""
        turns: Turns = getattr(self._shared, kind)
        return lambda: turns.turn(self._name)

    async def _open(self) -> tuple[bool, Database]:
        settings = self._settings
        pooled = await is_pooled(settings, self._url)
        return pooled, await Database.open(
            self._url,
            size=settings.pool_size,
            pooled=pooled,
            max_idle=MAX_IDLE_OF_DAEMON,
            logger=self._log,
        )

    async def _prepare(self, database: Database) -> None:
        """Checks the schema, tells it the settings, and takes the embedder that the database is embedded by."""
        async with database.transaction() as connection:
            await check_schema(connection)
            models = await read_models(connection)
            model = model_to_use(
                self._embedder.model,
                models,
                chosen=self._settings.embedder_chosen,
                instructed=self._settings.embedder_instructed,
            )
            await write_settings(connection, self._settings)
        if model != self._embedder.model:
            self._embedder.become(model)

    async def _follow(self, database: Database) -> None:
        """Changes over to the model that `memoryd reembed` has changed the database to. At a standby the daemon stops."""
        async with database.connection() as connection:
            if await connection.fetchval(IS_STANDBY):
                self._leave_standby()
                return
            used = (await read_models(connection)).used
        if used not in (None, self._embedder.model):
            self._embedder.become(used)
            self.wake()

    def _leave_standby(self) -> None:
        self.demoted = True
        self._told_to_stop.set()

    def _build(
        self,
        database: Database,
        embedding: Embedding,
        dreamer: Dreamer,
        heartbeat: Heartbeat,
        *,
        listen: bool,
    ) -> list[Coroutine[Any, Any, None]]:
        settings = self._settings
        self._workers = parts.build_workers(
            settings,
            database,
            embedding=embedding,
            dreamer=dreamer,
            embedder=self._embedder,
            daemon=self._number,
            measures=self._measures,
            # With a listener the wake-up of the follow-up jobs comes soon enough, and saves a claim that may find nothing.
            wake_others=(lambda _topics: None) if listen else self.wake,
            turn=self._turn("batches"),
            logger=self._log,
        )
        self._executor = parts.build_executor(
            settings,
            database,
            daemon_id=self._id,
            room=self._shared.commands,
            measures=self._measures,
            logger=self._log,
        )
        tasks = [worker.run() for worker in self._workers.values()]
        take_over = TakeOver(
            database=database,
            daemon_id=self._id,
            wake=self.wake,
            measures=self._measures,
            logger=self._log,
        )
        summary = Summary(self._measures, database, list(self._workers), logger=self._log)
        tasks += [
            heartbeat.run(),
            take_over.run(),
            self._poll(database, listen=listen),
            summary.run(),
            keep_claims(
                database,
                self._workers.values(),
                self._executor,
                measures=self._measures,
                logger=self._log,
            ),
            keep_calibrated(database, embedding, self._embedder, self._log),
        ]
        if self._executor is not None:
            tasks.append(self._executor.run())
        if self._supervisor is not None:
            tasks.append(self._supervisor.run())
        if self._tracer is not None:
            self._measures.tell = self._tracer.tell
        for name, build in self._outer_parts(database).items():
            if (part := build()) is not None:
                tasks.append(keep_running(name, part, build, tell=heartbeat.tell, logger=self._log))
        if listen:
            tasks.append(
                Listener(
                    self._url,
                    wake=self._wake_topic,
                    command_ready=self._wake_executor,
                    listens_on=heartbeat.listens_on,
                    logger=self._log,
                ).run()
            )
        return tasks

    def _outer_parts(self, database: Database) -> dict[str, Callable[[], Part | None]]:
        """How those are built that may fail and are started again."""

        def replica() -> Replica | None:
            self._replica = parts.build_replica(
                self._settings, database, daemon_id=self._id, logger=self._log
            )
            return self._replica

        return {
            "replica": replica,
            "traces": lambda: self._tracer,
            "drop folder": lambda: parts.build_drop_folder(self._settings, database, logger=self._log),
            # Of several databases their process has one for all.
            "HTTP port": lambda: (
                None
                if self._name != ALONE
                else parts.build_http(
                    self._settings,
                    {ALONE: OnlyOne(self._measures, self)},
                    providers={"embedder": self._embedder, "language_model": self._model},
                    is_stopping=self._told_to_stop.is_set,
                    logger=self._log,
                )
            ),
        }

    def _wake_topic(self, topic: str | None) -> None:
        self.wake(None if topic is None else (topic,))

    def _wake_executor(self) -> None:
        if self._executor is not None:
            self._executor.wake()

    async def _poll(self, database: Database, *, listen: bool) -> None:
        """The slow poll: whether it is still the primary, which model is used, and one query for all topics."""
        while True:
            await asyncio.sleep(self._settings.poll_seconds)
            try:
                await self._follow(database)
                self.wake(await queue.topics_with_work(database, list(self._workers)))
            except DATABASE_FAULTS as error:
                if is_gone(error):
                    await database.recover(error)
                    self.wake()
            if self._executor is not None:
                self._executor.wake()
            if self._replica is not None and not listen:
                self._replica.wake()

    async def _stop_after(self, work: Awaitable[Idle | None]) -> None:
        self.idle = await work
        self._told_to_stop.set()
        await asyncio.Event().wait()  # until it is cancelled with the others

    async def _stop(
        self,
        running: Sequence[asyncio.Task[None]],
        activity: Activity,
        heartbeat: Heartbeat,
        *,
        grace: float,
    ) -> None:
        stopping = [worker.stop(grace_seconds=grace) for worker in self._workers.values()]
        if self._executor is not None:
            stopping.append(self._executor.stop(grace_seconds=grace))
        await asyncio.gather(*stopping, return_exceptions=True)
        if self._tracer is not None:
            await self._tracer.close()
        await end_all(running)
        await activity.end()
        with contextlib.suppress(*DATABASE_FAULTS):
            await asyncio.wait_for(heartbeat.leave(), 2.0)
