"""Deletes the documents whose files people deleted.

Promise: a file counts as deleted when it was missing for a while, and no other file is being written that could be the same one
under another name. When many files are missing at once, a person is asked, and nothing is deleted until they confirm.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from plugins.replica.pass_state import PassState
from plugins.replica.rules.decision import ask_first
from plugins.replica.store.documents import BURY, Store

RECENT_SECONDS = 600.0
"""Deletions within this time count as one."""


class Deletions:
    def __init__(self, store: Store, *, settle_seconds: float) -> None:
        self._store = store
        self._settle = settle_seconds
        self._gone_since: dict[str, float] = {}

    def are_settled(self, state: PassState, paths: set[str]) -> bool:
        """Whether these files are missing for long enough."""
        clock = time.monotonic()
        self._gone_since = {path: self._gone_since.get(path, clock) for path in paths}
        if state.files.pause is not None or any(
            clock - since < self._settle for since in self._gone_since.values()
        ):
            state.report.waits |= bool(paths)
            return False
        return True

    async def bury(self, state: PassState, gone: Mapping[UUID, datetime]) -> None:
        """Deletes these documents, each given with the version that was compared, or asks a person."""
        confirmed = {
            document: version for document, version in gone.items() if state.bases[document].confirmed
        }
        others = {document: version for document, version in gone.items() if document not in confirmed}
        asked: list[str] = []
        recent = await self._store.recently_buried(RECENT_SECONDS) if others else 0
        if ask_first(len(others) + recent, of=len(state.bases) + recent):
            asked = [state.bases[document].path for document in others]
            others = {}
        await self._store.ask_confirmation([*asked, *(state.bases[document].path for document in confirmed)])
        state.report.asked = len(asked)
        for some, is_confirmed in ((confirmed, True), (others, False)):
            buried = await self._store.write(BURY, list(some.items()), is_confirmed)
            state.report.counts["deleted"] += len(buried)
