"""The process of the daemon: what is started in which order, and how it stops.

Promise: a start that fails says why in one sentence; on SIGTERM and SIGINT the daemon claims no more, lets running batches
finish and hands the rest back; a second signal ends it at once; losing the database is not fatal.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
import uuid
from collections.abc import Callable, Coroutine, Sequence
from importlib import metadata
from types import FrameType
from typing import TYPE_CHECKING, Any

from structlog.typing import FilteringBoundLogger

from daemon import parts
from daemon.calibration import keep_calibrated
from daemon.db.errors import DATABASE_FAULTS, is_gone
from daemon.db.migrator import check_schema
from daemon.db.models import model_to_use, read_models
from daemon.db.pool import MAX_IDLE_OF_DAEMON, Database, host_of, patiently
from daemon.db.pooler import is_pooled
from daemon.db.told_settings import write_settings
from daemon.embedded.supervisor import Supervisor
from daemon.embedder import FollowingEmbedder
from daemon.executor import commands
from daemon.executor.executor import Executor
from daemon.heartbeat import Heartbeat
from daemon.logs import describe, frames
from daemon.measures import Measures
from daemon.outer_part import Part, keep_running
from daemon.queue import queue
from daemon.queue.listener import Listener
from daemon.queue.take_over import TakeOver
from daemon.queue.worker import Worker
from daemon.refusal import PartFailed, StoppedAtOnce
from daemon.replica.keeper import Replica
from daemon.schedule import Schedule
from daemon.settings import Settings
from handlers.dream.dreamer import Dreamer
from handlers.shared.embedding import Embedding
from providers.ports import LanguageModel, Ledger

if TYPE_CHECKING:
    from daemon.tracing.tracer import Tracer

CANCEL_SECONDS = 1.0
SAME_MOMENT_SECONDS = 0.5
"""Signals within it are one: a group of processes gets Ctrl-C, and its leader tells each of them to stop."""
LOOK_SECONDS = 0.1
PATIENCE_SECONDS = 2.0
"""Of a daemon that runs once, for a provider that is down."""
REPLICA = "replica"
"""What the wake-up of the replica says."""


class Daemon:
    """One memoryd. `run` returns when it was told to stop and has done so."""

    def __init__(
        self,
        settings: Settings,
        url: str,
        *,
        embedder: FollowingEmbedder,
        chosen: bool,
        instructed: bool = False,
        language_model: LanguageModel | None,
        logger: FilteringBoundLogger,
        supervisor: Supervisor | None = None,
    ) -> None:
        """`chosen`: whether the settings name the embedder; `instructed`: what stands before its texts.
        `supervisor`: of the embedded Postgres, if there is one."""
        self._supervisor = supervisor
        self._settings = settings
        self._url = url
        self._embedder = embedder
        self._chosen = chosen
        self._instructed = instructed
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
        self._measures = Measures()

    async def run(self, *, once: bool = False) -> None:
        """Starts, works, stops; `once`: as soon as nothing is left to do.

        Raises MigrationError, OSError or asyncpg.PostgresError when it cannot start.
        """
        began = time.perf_counter()
        settings = self._settings
        patience = settings.start_seconds
        pooled, database = await patiently(self._open, seconds=patience, logger=self._log)
        listen = not pooled
        try:
            await patiently(lambda: self._prepare(database), seconds=patience, logger=self._log)
            # Until here a signal ends the start. One that came just before is heard at the first await, so before any work.
            self._heed_signals()
            await asyncio.sleep(0)
            self._ledgers = parts.build_ledgers(settings, database, self._log)
            embedding = Embedding(self._embedder, database)
            thinker = parts.build_thinker(settings, database, self._model, self._log)
            dreamer = parts.build_dreamer(settings, database, embedding, thinker, self._log)
            heartbeat = Heartbeat(
                database=database,
                daemon_id=self._id,
                number=self._number,
                version=metadata.version("memoryd"),
                dreamer=dreamer,
                seconds=settings.heartbeat_seconds,
                logger=self._log,
            )
            heartbeat.wake_up = "listen" if listen else "poll"
            trail = parts.build_trail(settings, database, ledgers=self._ledgers, logger=self._log)
            delivery = parts.build_delivery(settings, database, self._ledgers, self._log)
            self._tracer = parts.build_tracer(
                database, daemon_id=self._id, version=metadata.version("memoryd"), logger=self._log
            )
            tasks = self._build(database, embedding, dreamer, heartbeat, listen=listen)
            schedule = parts.build_schedule(
                settings, database, trail=trail, delivery=delivery, daemon_id=self._id, logger=self._log
            )
            running = [asyncio.create_task(task) for task in tasks]
            if once:
                running.append(asyncio.create_task(self._stop_when_done(database, schedule)))
            else:
                schedule.start()
            self._log.info(
                "daemon_started",
                daemon=str(self._id),
                database=host_of(self._url),
                wake_up=heartbeat.wake_up,
                embedder=self._embedder.name,
                executor=self._executor is not None,
                # Which features are on: not where folders are.
                facts=settings.facts,
                language_model=self._model.name if self._model is not None else None,
                situate=thinker is not None,
                replica=settings.replica is not None,
                drop=settings.drop_folder is not None,
                ms=round((time.perf_counter() - began) * 1000),
            )
            await self._until_told(running)
            if not once:
                await schedule.stop()
            await self._stop(running, heartbeat)
        finally:
            await database.close()
            await self._embedder.close()
            for ledger in self._ledgers:
                await ledger.close()
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
                self._embedder.model, models, chosen=self._chosen, instructed=self._instructed
            )
            await write_settings(connection, self._settings)
        if model != self._embedder.model:
            self._embedder.become(model)

    async def _follow(self, database: Database) -> None:
        """Changes over to the model that `memoryd reembed` has changed the database to."""
        async with database.connection() as connection:
            used = (await read_models(connection)).used
        if used not in (None, self._embedder.model):
            self._embedder.become(used)
            self.wake()

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
            logger=self._log,
        )
        self._executor = parts.build_executor(
            settings, database, daemon_id=self._id, measures=self._measures, logger=self._log
        )
        tasks = [worker.run() for worker in self._workers.values()]
        take_over = TakeOver(
            database=database,
            daemon_id=self._id,
            wake=self.wake,
            measures=self._measures,
            logger=self._log,
        )
        summary = parts.build_summary(settings, database, self._measures, list(self._workers), self._log)
        tasks += [
            heartbeat.run(),
            take_over.run(),
            self._poll(database, listen=listen),
            summary.run(),
            self._keep_claims(database),
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
            "HTTP port": lambda: parts.build_http(
                self._settings,
                database,
                measures=self._measures,
                waits={name: worker.topic.waits_for for name, worker in self._workers.items()},
                providers={"embedder": self._embedder, "language_model": self._model},
                is_stopping=self._told_to_stop.is_set,
                logger=self._log,
            ),
        }

    def _wake_topic(self, topic: str | None) -> None:
        self.wake(None if topic is None else (topic,))

    def _wake_executor(self) -> None:
        if self._executor is not None:
            self._executor.wake()

    async def _poll(self, database: Database, *, listen: bool) -> None:
        """The slow poll: which model is used, and one query for all topics."""
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

    async def _stop_when_done(self, database: Database, schedule: Schedule) -> None:
        """Tells the daemon to stop when the clean-ups are done, and no job or command is done or about to be."""
        await schedule.run_all()
        while not self._told_to_stop.is_set():
            # What waits for a provider that is down is left to the next time.
            topics = [
                name for name, worker in self._workers.items() if worker.topic.waits_for() <= PATIENCE_SECONDS
            ]
            try:
                busy = await queue.is_work_left(database, topics) or (
                    self._executor is not None and await self._executor.has_work()
                )
            except DATABASE_FAULTS as error:
                if not is_gone(error):
                    raise
                await database.recover(error)
                continue
            if not busy:
                self._log.info("nothing_left")
                self._told_to_stop.set()
            await asyncio.sleep(LOOK_SECONDS)
        await asyncio.Event().wait()  # until it is cancelled with the others

    async def _keep_claims(self, database: Database) -> None:
        """Renews claims and leases, at a third of the time in which they expire."""
        while True:
            await asyncio.sleep(self._settings.claim_seconds / 3)
            try:
                for worker in self._workers.values():
                    await worker.renew_claims()
                if self._executor is not None:
                    await self._executor.renew_leases()
                await self._take_over_commands(database)
            except DATABASE_FAULTS as error:
                if is_gone(error):
                    await database.recover(error)
                else:
                    self._log.error("renewal_failed", error=type(error).__name__)

    async def _take_over_commands(self, database: Database) -> None:
        again, failed = await commands.take_over(database)
        if again or failed:
            self._measures.taken_over["commands"] += again + failed
            self._log.warning("commands_taken_over", again=again, failed=failed)
            self._wake_executor()

    def _heed_signals(self) -> None:
        loop = asyncio.get_running_loop()
        told = 0.0

        def heed(number: signal.Signals) -> None:
            nonlocal told
            if not self._told_to_stop.is_set():
                self._log.info("stopping", signal=number.name, grace_seconds=self._settings.shutdown_seconds)
                self._told_to_stop.set()
                told = loop.time()
            elif loop.time() - told > SAME_MOMENT_SECONDS:
                self._log.warning("stopping_at_once", signal=number.name)
                raise StoppedAtOnce(128 + number)

        def receive(number: int, _frame: FrameType | None) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the daemon has stopped
                loop.call_soon_threadsafe(heed, signal.Signals(number))

        # Not add_signal_handler: at the end of the loop it would give the signals back, and one that comes then would end
        # the process before its Postgres is stopped.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, receive)

    async def _until_told(self, running: Sequence[asyncio.Task[None]]) -> None:
        """Waits for the signal. If a part ends before, that is a bug: the whole process ends, and has to be started again."""
        told = asyncio.create_task(self._told_to_stop.wait())
        done, _ = await asyncio.wait([told, *running], return_when=asyncio.FIRST_COMPLETED)
        if told not in done:
            told.cancel()
            for task in done:
                if (error := task.exception()) is not None:
                    self._log.error(
                        "part_failed",
                        part=getattr(task.get_coro(), "__qualname__", "?"),
                        error=describe(error),
                        at=frames(error),
                    )
                    raise PartFailed from error

    async def _stop(self, running: Sequence[asyncio.Task[None]], heartbeat: Heartbeat) -> None:
        grace = self._settings.shutdown_seconds
        stopping = [worker.stop(grace_seconds=grace) for worker in self._workers.values()]
        if self._executor is not None:
            stopping.append(self._executor.stop(grace_seconds=grace))
        await asyncio.gather(*stopping, return_exceptions=True)
        if self._tracer is not None:
            await self._tracer.close()
        left = set(running)
        while left:
            # More than once: inside a library an exception may replace a cancellation.
            for task in left:
                task.cancel()
            _, left = await asyncio.wait(left, timeout=CANCEL_SECONDS)
        await asyncio.gather(*running, return_exceptions=True)
        with contextlib.suppress(*DATABASE_FAULTS):
            await asyncio.wait_for(heartbeat.leave(), 2.0)
