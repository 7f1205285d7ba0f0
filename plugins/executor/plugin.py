"""The plugin executor: a program that the owner names runs the commands of agents."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from daemon import presence
from daemon.part import Part
from daemon.plugins import Core, Plugin
from daemon.presence import keep_renewed
from daemon.settings import Settings, roles_in
from plugins.executor import commands
from plugins.executor.confinement import Confinement, confine, is_root, seal
from plugins.executor.executor import Executor, Room
from plugins.executor.program import words_of
from plugins.executor.settings import Executor as Section


class BuiltInExecutor(Plugin):
    name = "executor"
    needs = ("embedded",)
    settings = (Section,)
    _room: Room | None = None
    """The executor of this process, for all its databases."""

    def parts(self, core: Core) -> Iterable[Part]:
        """The executor if the settings name a program, and the part that takes over commands of executors that died."""
        executor = self._executor(core)
        yield Part("executor", lambda: executor, topic="commands", vital=True)
        yield Part("leases", lambda: Leases(core, executor), vital=True)

    def prepare(self, settings: Settings) -> None:
        """Checks that the program exists, and protects the daemon from it before the daemon knows the URL of its own server."""
        own = settings.section(Section)
        if own.executor_command:
            words_of(own.executor_command)
            confinement_of(settings)
            seal(privileges=own.executor_user is not None and is_root(own.executor_user))

    def switches(self, settings: Settings) -> Mapping[str, object]:
        return {"executor": bool(settings.section(Section).executor_command)}

    def _executor(self, core: Core) -> Executor | None:
        """Raises ValueError with what to do."""
        own = core.settings.section(Section)
        if not own.executor_command:
            return None
        self._room = self._room or Room(own.executor_total)
        for name in sorted(frozenset(roles_in(own.executor_environment)) - os.environ.keys()):
            core.logger.warning("executor_variable_unset", variable=name)
        return Executor(
            words_of(own.executor_command),
            confinement=confinement_of(core.settings),
            database=core.database,
            daemon_id=core.daemon_id,
            lease_seconds=presence.CLAIM_SECONDS,
            parallel=own.executor_parallel,
            room=self._room,
            timeout_seconds=own.executor_timeout_seconds,
            is_stopping=core.is_stopping,
            measures=core.measures,
            logger=core.logger,
        )


class Leases:
    """Renews the leases of the commands that run here, and takes over commands of executors that died."""

    def __init__(self, core: Core, executor: Executor | None) -> None:
        self._core = core
        self._executor = executor

    async def run(self) -> None:
        await keep_renewed(self._renew, self._core.database, logger=self._core.logger)

    async def _renew(self) -> None:
        if self._executor is not None:
            await self._executor.renew_leases()
        [row] = await self._core.database.fetch(commands.TAKE_OVER, commands.MAX_TRIES)
        again, failed = row["again"], row["failed"]
        if again or failed:
            self._core.measures.taken_over["commands"] += again + failed
            self._core.logger.warning("commands_taken_over", again=again, failed=failed)
            if self._executor is not None:
                self._executor.wake()


def confinement_of(settings: Settings) -> Confinement:
    """The confinement of the executor's programs. Raises ValueError with what to do."""
    from plugins.embedded.account import server_uid

    own = settings.section(Section)
    forbidden: dict[int, str] = {}
    if settings.database_url is None and (server := server_uid(settings.data_dir)) is not None:
        forbidden[server] = "the embedded Postgres runs as that user, so the program could read its data"
    return confine(
        user=own.executor_user,
        folder=own.executor_dir,
        also=frozenset(roles_in(own.executor_environment)),
        environment=os.environ,
        forbidden=forbidden,
    )


PLUGIN = BuiltInExecutor()
