"""A primary that becomes a standby while daemons work with it, or is gone, and the standby that takes its place."""

from __future__ import annotations

from pathlib import Path

from daemon.db.server import StandbyError
from plugins.embedded.cluster import CLUSTER
from plugins.embedded.server import EmbeddedPostgres
from tests.faults.conftest import OwnPostgres
from tests.support.database.many import Many, serve, served
from tests.support.database.schemas import apply, connected
from tests.support.database.servers import Server
from tests.support.database.standby import caught_up, pair
from tests.support.processes.commands import memoryd
from tests.support.processes.daemons import Daemons
from tests.support.services.http import ask
from tests.support.waiting import until

PRIMARY = "select not pg_is_in_recovery()"


def demote(server: EmbeddedPostgres) -> None:
    """Starts it again as a standby of nobody."""
    (server.log_path.parent / CLUSTER / "standby.signal").touch()
    server.restart()


async def promote(url: str) -> None:
    """Until it takes writes. Only a superuser may do this."""
    async with connected(url) as opened:
        await opened.execute("select pg_promote()")
        await until(opened, PRIMARY)


async def test_a_daemon_waits_while_its_primary_is_a_standby(
    own_postgres: OwnPostgres, processes: Daemons, tmp_path: Path
) -> None:
    url = own_postgres.url
    daemon = await processes.start(url=url, poll_seconds=0.1, http=0)
    async with connected(url) as opened:
        await served(opened)
    demote(own_postgres.server)
    try:
        seen = len(daemon.lines)
        assert (await daemon.event("standby"))["level"] == "warning"
        site = (await daemon.event("http_listening", after=seen))["url"]
        assert (await ask(site, "/health/ready")).status == 503
        status = await memoryd("status", url=url, folder=tmp_path)
        assert "This is a standby, for reads only" in status.out
        await promote(own_postgres.server.socket_url)
        await daemon.event("promoted")
        async with connected(url) as opened:
            await served(opened, "restart the worker")
        # Once more, and then it is told to stop.
        demote(own_postgres.server)
        await daemon.event("standby", after=len(daemon.lines))
        assert await daemon.stop() == 0
        assert daemon.events("part_failed") == daemon.events("crashed") == []
    finally:
        await promote(own_postgres.server.socket_url)


async def test_a_refused_write_tells_that_the_database_is_a_standby_and_is_no_error(
    own_postgres: OwnPostgres, processes: Daemons
) -> None:
    """Whatever writes first learns of it, long before the next poll."""
    url = own_postgres.url
    daemon = await processes.start(
        url=url, poll_seconds=3600, heartbeat_seconds=0.1, claim_seconds=1, executor_command="cat"
    )
    demote(own_postgres.server)
    try:
        await daemon.event("standby")
        assert await daemon.stop() == 0
        assert [line for line in daemon.lines if line["level"] == "error"] == []
    finally:
        await promote(own_postgres.server.socket_url)


async def test_of_many_databases_one_that_becomes_a_standby_is_left_until_it_is_promoted(
    own_postgres: OwnPostgres, many: Many, processes: Daemons
) -> None:
    other, *_ = many.urls
    process = await serve(
        processes, many.list(other, own=own_postgres.url), poll_seconds=0.1, rest_seconds=60
    )
    async with connected(own_postgres.url) as opened:
        await served(opened)
    demote(own_postgres.server)
    told = await process.event("database_not_served", database="own")
    assert told["reason"] == str(StandbyError())
    await served(many.connections[other])
    await promote(own_postgres.server.socket_url)
    async with connected(own_postgres.url) as opened:
        await served(opened, "restart the worker")
    await process.event("database_served", database="own")
    assert len(process.events("database_not_served")) == 1
    assert await process.stop() == 0


async def test_a_standby_in_the_list_takes_the_place_of_its_primary(
    server: Server, many: Many, processes: Daemons
) -> None:
    other, *_ = many.urls
    with pair(server.programs) as servers:
        first, second = servers.primary.socket_url, servers.standby.socket_url
        await apply(first)
        process = await serve(processes, many.list(other, first=first, second=second))
        told = await process.event("database_not_served", database="second")
        assert told["reason"] == str(StandbyError())
        async with connected(first) as opened:
            await served(opened)
            async with connected(second) as copy:
                await caught_up(opened, copy)
        servers.primary.stop("immediate")
        await promote(second)
        async with connected(second) as opened:
            await served(opened, "restart the worker")
        await process.event("database_not_served", database="first")
        await served(many.connections[other])
        assert await process.stop() == 0
