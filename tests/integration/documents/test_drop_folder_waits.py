"""Files wait in the drop folder while no process can be started to read them."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import asyncpg
from structlog.testing import capture_logs

from daemon.db.pool import Database
from daemon.ingest.drop import DropFolder
from daemon.logs import get_logger
from providers.ports import Parsed
from tests.support.waiting import until


class TiredParser:
    """Has no memory for a process the first time."""

    def __init__(self) -> None:
        self._asked = 0

    async def parse(self, content: bytes, name: str) -> Parsed:
        """See `Parser`."""
        self._asked += 1
        if self._asked == 1:
            raise OSError(errno.ENOMEM, "Cannot allocate memory")
        return Parsed(content.decode(), name, "text", {})

    async def close(self) -> None:
        """See `Parser`."""


async def test_a_file_that_no_process_can_be_started_for_waits_and_the_log_says_why(
    connection: asyncpg.Connection, database: Database, tmp_path: Path
) -> None:
    (tmp_path / "owls.txt").write_text("Owls hunt at night.")
    with capture_logs() as logs:
        folder = DropFolder(
            tmp_path,
            database=database,
            parser=TiredParser(),
            settle_seconds=0,
            scan_seconds=30,
            logger=get_logger(),
        )
        running = asyncio.create_task(folder.run())
        try:
            assert await until(connection, "select count(*) = 1 from documents")
        finally:
            running.cancel()
            await asyncio.wait([running])
    told = [(one["event"], one.get("error")) for one in logs if one["log_level"] == "warning"]
    assert told == [("drop_waits_for_parser", "ENOMEM")]
