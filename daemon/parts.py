"""What a daemon is made of, built as its settings say: workers, executor, schedule, dreamer.

Promise: nothing is started here, and nothing else reads these settings.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING
from uuid import UUID

from structlog.typing import FilteringBoundLogger

from daemon.activity import measure_queue
from daemon.backup.folder import BackupFolder
from daemon.backup.keys import keys_of
from daemon.db import presence
from daemon.db.dense_indexes import build_dense_indexes
from daemon.db.pool import Database
from daemon.embedded.account import server_uid
from daemon.embedder import FollowingEmbedder
from daemon.executor.confinement import Confinement, confine
from daemon.executor.executor import Executor
from daemon.executor.program import words_of
from daemon.ingest.drive_drop import DriveDrop
from daemon.ingest.drive_files import DriveFiles
from daemon.ingest.drop import DropFolder
from daemon.measures import ANSWERS, Measures
from daemon.queue.failures import BACKOFF_MAX_SECONDS
from daemon.queue.worker import Worker
from daemon.reading import Reading
from daemon.replica.keeper import Replica
from daemon.replica.location import drive_id_of, open_drive, open_location
from daemon.schedule import Schedule, Tick, Upkeep
from daemon.settings import Settings, heed_variables_of_file, roles_in, traces
from daemon.topics import build_topics
from daemon.trail.build import build_ledgers
from daemon.trail.delivery import Delivery
from daemon.trail.keys import key_file, signing_key
from daemon.trail.log import LEAVES, Pace, Trail
from daemon.turns import Room
from handlers.dream.dreamer import Dreamer
from handlers.shared.embedding import Embedding
from handlers.shared.thinking import Budget, Thinker
from providers.build import build_parser, build_word_embedder
from providers.extras import missing
from providers.ports import LanguageModel, Ledger

if TYPE_CHECKING:
    from daemon.metrics.collected import Provider
    from daemon.metrics.port import HttpPort
    from daemon.served import Served
    from daemon.tracing.tracer import Tracer

MAX_ATTEMPTS = 15
"""Before a job is discarded."""
RETRY_MAX_SECONDS = BACKOFF_MAX_SECONDS
DREAM_EVERY_HOURS = 6.0
"""Between two completed dreams."""
CLEANUP_SECONDS = 300.0
DROP_SETTLE_SECONDS, DROP_SCAN_SECONDS = 2.0, 30.0
"""For so long a file must be unchanged; and between two scans where no event comes."""
OVERDUE_EVERY_SECONDS = 60.0
OUTDATED_EVERY_SECONDS = 5.0
READ_EVERY_SECONDS = 5.0
MEASURE_EVERY_SECONDS = 60.0
DENSE_EVERY_SECONDS = 30.0
SWEEP_EVERY_SECONDS = 3600.0


def build_workers(  # noqa: PLR0913 - what workers are made of
    settings: Settings,
    database: Database,
    *,
    embedding: Embedding,
    dreamer: Dreamer,
    embedder: FollowingEmbedder,
    daemon: int,
    measures: Measures,
    wake_others: Callable[[Sequence[str]], None],
    turn: Callable[[], AbstractAsyncContextManager[None]],
    logger: FilteringBoundLogger,
) -> dict[str, Worker]:
    """The worker of each topic, by its name. `daemon`: the number of the daemon. `turn`: for what nobody waits for."""
    topics = build_topics(
        database,
        embedding,
        dreamer,
        words=build_word_embedder(embedder.current),
        remote=embedder.remote,
        embedder_wait=embedder.retry_in,
        facts_by_model=settings.read_in_messages == "model",
        logger=logger,
    )
    return {
        topic.name: Worker(
            topic,
            database=database,
            claim_seconds=presence.CLAIM_SECONDS,
            max_attempts=MAX_ATTEMPTS,
            retry_max_seconds=RETRY_MAX_SECONDS,
            daemon=daemon,
            measures=measures,
            logger=logger,
            wake_others=wake_others,
            turn=nullcontext if topic.name in ANSWERS else turn,
        )
        for topic in topics
    }


def build_trail(
    settings: Settings, database: Database, *, ledgers: Sequence[Ledger], logger: FilteringBoundLogger
) -> Trail:
    """What advances the trail. Raises ValueError with what to do, where there is a key that cannot be used."""
    key = signing_key(settings, make=True)
    # Of one of several databases it would be told whenever work begins.
    if key is None and settings.database is None:
        logger.info("trail_unsigned", hint="memoryd anchors new-key FILE, then MEMORYD_TRAIL_KEY=file:FILE")
    return Trail(
        database,
        key=key,
        pace=Pace(LEAVES, settings.trail_checkpoint_minutes * 60),
        ledgers=[one.name for one in ledgers if one.keeps_memories],
        logger=logger,
        key_file=key_file(settings),
    )


def ledgers_of(settings: Settings, logger: FilteringBoundLogger) -> tuple[Ledger, ...]:
    """The ledgers that keep what the trail says. Raises ValueError with the setting to change."""
    ledgers, left_out = build_ledgers(settings)
    for one in left_out:
        logger.warning("ledger_left_out", ledger=one.name, reason=one.reason)
    return ledgers


def build_executor(
    settings: Settings,
    database: Database,
    *,
    daemon_id: UUID,
    room: Room,
    measures: Measures,
    logger: FilteringBoundLogger,
) -> Executor | None:
    """The built-in executor; None where the settings name no program. Raises ValueError with what to do."""
    if not settings.executor_command:
        return None
    for name in sorted(frozenset(roles_in(settings.executor_environment)) - os.environ.keys()):
        logger.warning("executor_variable_unset", variable=name)
    return Executor(
        words_of(settings.executor_command),
        confinement=confinement_of(settings),
        database=database,
        daemon_id=daemon_id,
        lease_seconds=presence.CLAIM_SECONDS,
        parallel=settings.executor_parallel,
        room=room,
        timeout_seconds=settings.executor_timeout_seconds,
        measures=measures,
        logger=logger,
    )


def build_replica(
    settings: Settings, database: Database, *, daemon_id: UUID, logger: FilteringBoundLogger
) -> Replica | None:
    """What keeps the replica; None where the settings name no folder. Raises ValueError with what to do."""
    folder = open_location(settings)
    if folder is None:
        return None
    return Replica(folder, database=database, daemon_id=daemon_id, logger=logger)


def build_schedule(
    settings: Settings,
    database: Database,
    *,
    trail: Trail,
    delivery: Delivery,
    topics: Sequence[str],
    thinker: Thinker | None,
    build_turn: Callable[[], AbstractAsyncContextManager[None]],
    logger: FilteringBoundLogger,
) -> Schedule:
    """The schedule with all its ticks. `thinker`: who reads conversations."""
    upkeep = Upkeep(
        database=database,
        logger=logger,
        command_timeout_hours=settings.command_timeout_hours,
        query_log_days=settings.query_log_days,
        history_days=settings.history_days,
        audit_days=settings.audit_days,
        conversation_minutes=settings.conversation_retention_minutes,
    )

    async def build() -> int:
        return await build_dense_indexes(database, logger, turn=build_turn)

    schedule = Schedule(database=database, logger=logger)
    schedule.add(Tick("expire_memories", CLEANUP_SECONDS, upkeep.expire_memories))
    schedule.add(Tick("expire_conversations", CLEANUP_SECONDS, upkeep.expire_conversations))
    schedule.add(Tick("archive_knowledge", CLEANUP_SECONDS, upkeep.archive_knowledge))
    schedule.add(Tick("expire_answers", CLEANUP_SECONDS, upkeep.expire_answers))
    if thinker is not None:
        reading = Reading(database, thinker, logger=logger)
        schedule.add(Tick("queue_stretches", READ_EVERY_SECONDS, reading.tick))
    schedule.add(Tick("remove_outdated", OUTDATED_EVERY_SECONDS, upkeep.remove_outdated))
    schedule.add(Tick("fail_overdue_commands", OVERDUE_EVERY_SECONDS, upkeep.fail_overdue_commands))
    schedule.add(Tick("measure_queue", MEASURE_EVERY_SECONDS, lambda: measure_queue(database, topics)))
    schedule.add(Tick("build_dense_indexes", DENSE_EVERY_SECONDS, build))
    # A daemon without the key does not take the turns of those that sign.
    schedule.add(Tick("trail" if trail.signs else "trail_positions", trail.tick_seconds, trail.tick))
    if delivery.ledgers:
        schedule.add(Tick("ledgers", trail.tick_seconds, delivery.tick))
    if settings.backup_dir is not None:
        backups = BackupFolder(
            settings.backup_dir.expanduser(),
            url=database.url,
            hours=settings.backup_hours,
            kept=settings.backups_kept,
            keys=keys_of(settings),
            logger=logger,
        )
        schedule.add(Tick("backup", backups.tick_seconds, backups.tick))
    schedule.add(Tick("purge_documents", SWEEP_EVERY_SECONDS, upkeep.purge_documents))
    schedule.add(Tick("sweep", SWEEP_EVERY_SECONDS, upkeep.sweep))
    schedule.add(Tick("prune_history", SWEEP_EVERY_SECONDS, upkeep.prune_history))
    schedule.add(Tick("drop_previous_embeddings", SWEEP_EVERY_SECONDS, upkeep.drop_previous_embeddings))
    return schedule


def build_drop_folder(
    settings: Settings, database: Database, *, logger: FilteringBoundLogger
) -> DropFolder | DriveDrop | None:
    """What takes files from the drop folder; None where the settings name none. Raises ValueError with what to do."""
    if settings.drop_folder is None:
        return None
    if (folder_id := drive_id_of(settings.drop_folder, name="MEMORYD_DROP_FOLDER")) is not None:
        replica = None if settings.replica is None else drive_id_of(settings.replica)
        return DriveDrop(
            DriveFiles(open_drive(settings)[0], folder_id, leave_out=replica),
            database=database,
            parser=build_parser(),
            settle_seconds=DROP_SETTLE_SECONDS,
            poll_seconds=settings.gdrive_poll_seconds,
            logger=logger,
        )
    return DropFolder(
        settings.drop_folder,
        database=database,
        parser=build_parser(),
        settle_seconds=DROP_SETTLE_SECONDS,
        scan_seconds=DROP_SCAN_SECONDS,
        keep_days=settings.drop_keep_days,
        logger=logger,
    )


def build_http(
    settings: Settings,
    servings: Mapping[str, Served],
    *,
    providers: Mapping[str, Provider | None],
    is_stopping: Callable[[], bool],
    logger: FilteringBoundLogger,
) -> HttpPort | None:
    """What answers probes and scrapes; None where the settings name no port. `providers`: by what they are for."""
    if settings.http is None:
        return None
    # Loaded for this only: the package that writes metrics takes a tenth of a second and a few megabytes.
    from daemon.metrics.pages import Pages  # noqa: PLC0415
    from daemon.metrics.port import HttpPort  # noqa: PLC0415

    known = {role: one for role, one in providers.items() if one is not None}
    return HttpPort(settings.http, Pages(servings, providers=known, is_stopping=is_stopping), logger=logger)


def build_tracer(
    database: Database, *, daemon_id: UUID, version: str, logger: FilteringBoundLogger
) -> Tracer | None:
    """What makes spans of the work; None where the environment names no collector, or it cannot be spoken to."""
    heed_variables_of_file("OTEL_")
    if not traces.are_wanted(os.environ):
        return None
    if (fault := traces.fault(os.environ)) is not None:
        logger.warning("tracing_left_out", reason=fault)
        return None
    try:
        from daemon.tracing.collector import Collector  # noqa: PLC0415
        from daemon.tracing.tracer import Tracer  # noqa: PLC0415
    except ImportError:
        logger.warning("tracing_left_out", reason=missing("Tracing", "otel"))
        return None
    resource = {"service.name": "memoryd", "service.version": version, "service.instance.id": str(daemon_id)}
    logger.info("tracing")
    return Tracer(database, Collector(resource, logger=logger), logger=logger)


def build_dreamer(
    settings: Settings,
    database: Database,
    embedding: Embedding,
    thinker: Thinker | None,
    logger: FilteringBoundLogger,
) -> Dreamer:
    """The dreamer that these settings ask for."""
    return Dreamer(
        store=database,
        embedding=embedding,
        thinker=thinker,
        logger=logger,
        idle_hours=settings.dream_idle_hours,
        every_hours=DREAM_EVERY_HOURS,
    )


def build_thinker(
    settings: Settings, database: Database, language_model: LanguageModel | None, logger: FilteringBoundLogger
) -> Thinker | None:
    """The language model within its budget; None where the settings name none."""
    if language_model is None:
        return None
    budget = Budget(settings.language_model_calls_per_hour, settings.language_model_tokens_per_hour)
    return Thinker(language_model, store=database, budget=budget, logger=logger)


def confinement_of(settings: Settings) -> Confinement:
    """How the executor's programs are run. Raises ValueError with what to do."""
    forbidden: dict[int, str] = {}
    if settings.database_url is None and (server := server_uid(settings.data_dir)) is not None:
        forbidden[server] = "the embedded Postgres runs as that user, so the program could read its data"
    return confine(
        user=settings.executor_user,
        folder=settings.executor_dir,
        also=frozenset(roles_in(settings.executor_environment)),
        environment=os.environ,
        forbidden=forbidden,
    )
