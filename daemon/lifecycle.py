"""The process of the daemon: starts its parts in order, and stops them.

Promise: a start that fails says why in one sentence; on SIGTERM and SIGINT the daemon claims no more, lets running batches
finish and hands the rest back; a second signal ends it at once; losing the database is not fatal.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from functools import partial
from importlib import metadata
from typing import Any

from structlog.typing import FilteringBoundLogger

from daemon.activity import Activity, Summary
from daemon.db.errors import DATABASE_FAULTS, is_gone
from daemon.db.plan import check_schema
from daemon.db.pool import IS_STANDBY, MAX_IDLE_OF_DAEMON, Database, awaited, patiently
from daemon.db.server import is_pooled
from daemon.db.settings import WRITE_SETTINGS, model_to_use, read_models, write_settings
from daemon.embedder import FollowingEmbedder, keep_calibrated
from daemon.ending import (
    Idleness,
    end_all,
    give_back,
    heed_no_more,
    heed_signals,
    until_done,
    until_signalled,
)
from daemon.measures import ANSWERS, Measures
from daemon.part import KeptPart, Part, Works
from daemon.plugins import Core, load_plugins
from daemon.presence import Heartbeat, keep_renewed, take_over
from daemon.queue import queue
from daemon.queue.listener import Listener
from daemon.queue.worker import Worker
from daemon.schedule import Schedule
from daemon.served import ALONE, ServedDatabase
from daemon.settings import Settings
from daemon.settings.databases import address_of
from daemon.topics import build_dreamer, build_thinker, build_topics, build_workers
from daemon.upkeep import build_ticks
from handlers.shared.embedding import Embedding
from providers.ports import LanguageModel

Until = Callable[[Idleness, Schedule], Awaitable[None]]
COMMANDS = "commands"
"""The name of the wake-up for parts that run commands."""


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
        name: str = ALONE,
        turns: Callable[[str], AbstractAsyncContextManager[None]] = lambda _kind: nullcontext(),
        measures: Measures | None = None,
        parts: Sequence[Part] = (),
    ) -> None:
        """`name`: the database's name if there are several. `measures`: the counts of the database's earlier daemons.

        `turns`: what work of a kind (batches, dreams, builds) waits for, where databases share a process. `parts`: more than
        those of the plugins, such as the watch over the embedded Postgres.
        """
        self._settings = settings
        self._url = url
        self._embedder = embedder
        self._model = language_model
        self._given_parts = parts
        self._log = logger
        self._id = uuid.uuid4()
        self._number = self._id.int & 0x7FFFFFFF
        self._workers: dict[str, Worker] = {}
        self._parts: list[KeptPart] = []
        self._told_to_stop = asyncio.Event()
        self._missed = asyncio.Event()
        self._listened = False
        self._leaves = False
        self._measures = measures or Measures()
        self._name = name
        self._turns = turns
        self.started = asyncio.Event()
        self.demoted = False
        """Whether it stopped because its database had become a standby."""
        self.database: Database | None = None

    async def run(self, *, once: bool = False, until: Until | None = None) -> None:
        """Starts, works, stops; `once`: as soon as nothing is left to do.

        `until`: as one of several daemons in this process it stops when that returns. In that case it does not handle signals:
        see `stop`.

        Raises MigrationError, OSError or asyncpg.PostgresError when it cannot start.
        """
        began = time.perf_counter()
        patience = self._settings.start_seconds
        pooled, database = await patiently(self._open, seconds=patience, logger=self._log)
        self.database = database
        database.on_standby = self._leave_standby
        try:
            await patiently(lambda: self._prepare(database), seconds=patience, logger=self._log)
            # Until here a signal ends the start. One that came just before this is handled at the `sleep` below.
            heeded = (
                {}
                if until is not None
                else heed_signals(
                    self._told_to_stop, grace_seconds=self._settings.shutdown_seconds, logger=self._log
                )
            )
            await asyncio.sleep(0)
            async with AsyncExitStack() as closing:
                await self._work(
                    self._core(database, closing, once=once),
                    began=began,
                    listen=not pooled,
                    once=once,
                    until=until,
                )
            if self.demoted:
                give_back(heeded)
        finally:
            self.database = None
            await database.close()
        if not self.demoted:
            heed_no_more(heeded)
        self._log.info("daemon_stopped", daemon=str(self._id))

    async def _work(self, core: Core, *, began: float, listen: bool, once: bool, until: Until | None) -> None:
        """Builds all parts, and runs them until the daemon is told to stop."""
        settings, database, plugins = self._settings, core.database, load_plugins()
        dreamer = build_dreamer(settings, database, core.embedding, core.thinker, self._log)
        topics = [
            *build_topics(core, dreamer),
            *(topic for plugin in plugins for topic in plugin.topics(core)),
        ]
        self._workers = build_workers(
            topics,
            database,
            daemon=self._number,
            measures=self._measures,
            # With a listener the NOTIFY wakes them; to wake them here too could be a useless claim.
            wake_others=(lambda _topics: None) if listen else self.wake,
            turn=partial(self._turns, "batches"),
            logger=self._log,
        )
        with contextlib.suppress(*DATABASE_FAULTS):
            # The doctor tells jobs that wait from those that no daemon does.
            await database.execute(WRITE_SETTINGS, ["topics"], [json.dumps(list(self._workers))])
        wake_up = "listen" if listen else "poll"
        heartbeat = Heartbeat(
            core, number=self._number, wake_up=wake_up, dreamer=dreamer, turn=partial(self._turns, "dreams")
        )
        schedule = Schedule(database=database, logger=self._log)
        for tick in build_ticks(core, list(self._workers), build_turn=partial(self._turns, "builds")):
            schedule.add(tick)
        for plugin in plugins:
            for tick in plugin.ticks(core):
                schedule.add(tick)
        built = (
            KeptPart(part, tell=heartbeat.tell, logger=self._log)
            for part in (*self._given_parts, *(part for plugin in plugins for part in plugin.parts(core)))
        )
        self._parts = [part for part in built if part.running is not None]
        activity = Activity(self._measures.minutes, database, logger=self._log)
        work = self._loops(core, heartbeat, activity, listen=listen)
        idleness = Idleness(database, self._workers, self._working_parts(), dreams=lambda: heartbeat.dreams)
        if once:
            work.append(self._stop_after(until_done(idleness, schedule, self._log)))
        else:
            schedule.start()
        if until is not None:
            work.append(self._stop_after(until(idleness, schedule)))
        running = [asyncio.create_task(one) for one in work]
        self._log.info(
            "daemon_started",
            daemon=str(self._id),
            database=self._name or address_of(self._url),
            wake_up=wake_up,
            embedder=self._embedder.name,
            dream_idle_hours=settings.dream_idle_hours,
            language_model=self._model.name if self._model is not None else None,
            **{name: on for plugin in plugins for name, on in plugin.switches(settings).items()},
            ms=round((time.perf_counter() - began) * 1000),
        )
        self.started.set()
        await until_signalled(self._told_to_stop, running, self._log)
        if not once:
            await schedule.stop()
        # Running work cannot be written to a standby, or to a lost database that this daemon leaves: it is not waited for.
        in_vain = self.demoted or (self._leaves and database.is_lost)
        grace = 0.0 if in_vain else settings.shutdown_seconds
        stopping = [worker.stop(grace_seconds=grace) for worker in self._workers.values()]
        stopping += [part.stop(grace_seconds=grace) for part in self._working_parts()]
        await asyncio.gather(*stopping, return_exceptions=True)
        await core.closing.aclose()
        await end_all(running)
        await activity.end()
        with contextlib.suppress(*DATABASE_FAULTS):
            await asyncio.wait_for(heartbeat.leave(), 2.0)

    def _core(self, database: Database, closing: AsyncExitStack, *, once: bool) -> Core:
        return Core(
            settings=self._settings,
            database=database,
            name=self._name,
            daemon_id=self._id,
            version=metadata.version("memoryd"),
            embedder=self._embedder,
            embedding=Embedding(self._embedder, database),
            language_model=self._model,
            thinker=build_thinker(self._settings, database, self._model, self._log),
            measures=self._measures,
            once=once,
            served=ServedDatabase(self._measures, self),
            is_stopping=self._told_to_stop.is_set,
            closing=closing,
            logger=self._log,
        )

    def _loops(
        self, core: Core, heartbeat: Heartbeat, activity: Activity, *, listen: bool
    ) -> list[Coroutine[Any, Any, None]]:
        """What runs until it is cancelled: workers, parts, and what keeps both going."""
        database = core.database
        loops = [
            *(
                awaited(worker.run()) if name in ANSWERS else worker.run()
                for name, worker in self._workers.items()
            ),
            *(part.run() for part in self._parts),
            activity.run(),
            heartbeat.run(),
            take_over(core, self.wake),
            self._poll(database, listen=listen),
            Summary(core, [worker.topic for worker in self._workers.values()]).run(),
            keep_renewed(self._renew_claims, database, logger=self._log),
            keep_calibrated(database, core.embedding, self._embedder, self._log),
            database.keep_for_answers(),
        ]
        if listen:
            listener = Listener(
                self._url,
                wake=self._wake_topic,
                command_ready=lambda: self._wake_parts(COMMANDS),
                listens_on=heartbeat.listens_on,
                logger=self._log,
            )
            loops.append(listener.run())
        return loops

    async def _renew_claims(self) -> None:
        for worker in self._workers.values():
            await worker.renew_claims()

    def wake(self, topics: Sequence[str] | None = None) -> None:
        """Wakes the workers and parts of these topics; all, when None."""
        for topic in (*self._workers, None) if topics is None else topics:
            if topic in self._workers:
                self._workers[topic].wake()
            else:
                self._wake_parts(topic)

    @property
    def waits(self) -> dict[str, Callable[[], float]]:
        """The seconds until its provider may be called again, by topic."""
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
        """Whether a part has begun work that must not be interrupted, such as a command's program."""
        return any(part.runs for part in self._working_parts())

    def _working_parts(self) -> list[Works]:
        return [part.running for part in self._parts if isinstance(part.running, Works)]

    def _wake_parts(self, topic: str | None) -> None:
        for part in self._parts:
            part.wake(topic)

    async def _open(self) -> tuple[bool, Database]:
        settings = self._settings
        pooled = await is_pooled(settings, self._url)
        return pooled, await Database.open(
            self._url,
            size=settings.pool_size,
            pooled=pooled,
            max_idle=MAX_IDLE_OF_DAEMON,
            answers=True,
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

    def _wake_topic(self, topic: str | None) -> None:
        if topic is not None:
            self.wake((topic,))
        elif self._listened:
            # Connections may be dead that were not used since: whoever asks opens another.
            for worker in self._workers.values():
                worker.wake_after_loss()
            self._wake_parts(None)
        else:
            self._listened = True
            self._missed.set()
            self._wake_parts(None)

    async def _poll(self, database: Database, *, listen: bool) -> None:
        """The slow poll: whether it is still the primary, which model is used, and one query for all topics.

        At the start at once, and again when the listener is there: all workers, each asking for its topic, would open all
        connections of the pool.
        """
        while True:
            self._missed.clear()
            try:
                await self._follow(database)
                self.wake(await queue.topics_with_work(database, list(self._workers)))
            except DATABASE_FAULTS as error:
                if is_gone(error):
                    await database.recover(error)
                self.wake()
            self._wake_parts(COMMANDS if listen else None)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._settings.poll_seconds):
                    await self._missed.wait()

    async def _stop_after(self, work: Awaitable[None]) -> None:
        await work
        self._told_to_stop.set()
        await asyncio.Event().wait()  # until it is cancelled with the others
