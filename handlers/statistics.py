"""Rows came, changed or went: count their lexemes in, so that recall knows which words are rare where."""

from __future__ import annotations

from collections.abc import Sequence

from handlers.shared.ports import AnyConnection, Commit, Job

MAX_CHANGES = 5_000
"""Statements' changes that one transaction counts in."""

FOLD = "select memoryd.fold_lexeme_changes($1)"
MORE = "insert into memoryd.jobs (topic, lane) values ('statistics', 'lexemes')"


class StatisticsHandler:
    """Changes are counted in, many at once."""

    async def prepare(self, jobs: Sequence[Job]) -> Commit:
        """Nothing to prepare: the database counts."""

        async def commit(connection: AnyConnection, _ours: Sequence[Job]) -> None:
            if await connection.fetchval(FOLD, MAX_CHANGES) == MAX_CHANGES:
                await connection.execute(MORE)

        return commit
