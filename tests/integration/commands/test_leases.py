"""The lease of a command that an executor outside of the daemon has claimed, by SQL alone."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import asyncpg
import pytest

from tests.support.access.acting import acting_as
from tests.support.processes.daemons import Daemons
from tests.support.rows import ask
from tests.support.waiting import BLOCKED, FINISHED, READY, until

CLAIM = "select id, started_at from claim_command('alice', 30)"
RENEW = "select renew_command($1, $2, 30)"
LEASES = "select count(*) from memoryd.executions"
EXPIRE = (
    "update memoryd.executions set lease_until = now() - interval '1 second' where lease_until < 'infinity'"
)


async def test_a_lease_lasts_until_the_command_ends(scratch: asyncpg.Connection) -> None:
    await ask(scratch, "deploy", status="ready")
    claimed = await scratch.fetchrow(CLAIM)
    assert claimed is not None
    assert await scratch.fetchval(RENEW, *claimed)
    await scratch.execute("select complete_command($1, 'done', 0, $2)", *claimed)
    assert await scratch.fetchval(LEASES) == 0
    assert not await scratch.fetchval(RENEW, *claimed)


async def test_a_claim_without_a_lease_has_nothing_to_renew(scratch: asyncpg.Connection) -> None:
    await ask(scratch, "deploy", status="ready")
    claimed = await scratch.fetchrow("select id, started_at from claim_command('alice')")
    assert claimed is not None
    assert await scratch.fetchval(LEASES) == 0
    assert not await scratch.fetchval(RENEW, *claimed)
    await scratch.execute("select complete_command($1, 'done')", claimed["id"])


@pytest.mark.parametrize("seconds", ["0", "-1", "86401", "'NaN'", "'Infinity'"])
async def test_a_lease_of_no_sensible_length_is_refused(scratch: asyncpg.Connection, seconds: str) -> None:
    await ask(scratch, "deploy", status="ready")
    for call in (f"claim_command('alice', {seconds})", f"renew_command(gen_random_uuid(), now(), {seconds})"):
        with pytest.raises(asyncpg.CheckViolationError, match="lease_seconds is") as refused:
            async with scratch.transaction():
                await scratch.execute(f"select {call}")
        assert refused.value.hint == "Give from 1 second to a day, and renew it three times as often."
    assert await scratch.fetchval("select status from agent_commands") == "ready"


async def test_two_programs_whose_claims_follow_each_other_have_one_outcome(
    daemons: Daemons, connection: asyncpg.Connection
) -> None:
    daemon = await daemons.start(claim_seconds=1)
    command = await ask(connection, "deploy")
    await until(connection, READY, command)
    claims = []
    for tries in (1, 2, 3):
        claimed = await connection.fetchrow(CLAIM)
        assert claimed is not None
        assert claimed["id"] == command
        assert await connection.fetchval("select tries from memoryd.executions") == tries
        claims.append(claimed)
        if tries < 3:
            await connection.execute(EXPIRE)
            await until(connection, READY, command)
    slow, _, last = claims
    assert not await connection.fetchval(RENEW, *slow)
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="was claimed again meanwhile"):
        await connection.execute("select complete_command($1, 'by the slow one', 0, $2)", *slow)
    assert await connection.fetchval(RENEW, *last)
    await connection.execute(EXPIRE)
    await until(connection, FINISHED, command)
    row = await connection.fetchrow("select status, error from agent_commands")
    assert row is not None
    assert tuple(row) == ("failed", "its executor died, 3 times over")
    assert (await daemon.event("commands_taken_over"))["again"] == 1


async def test_a_lease_that_is_being_taken_over_is_not_renewed(
    daemons: Daemons, connection: asyncpg.Connection, second: asyncpg.Connection
) -> None:
    await ask(connection, "deploy", status="ready")
    claimed = await connection.fetchrow(CLAIM)
    async with connection.transaction():
        # What the daemon does.
        await connection.execute(
            "update memoryd.executions set lease_until = 'infinity', daemon_id = gen_random_uuid()"
        )
        await connection.execute("update agent_commands set status = 'ready', started_at = null")
        assert claimed is not None
        renewing = asyncio.create_task(second.fetchval(RENEW, *claimed))
        await until(connection, BLOCKED)
    assert not await renewing


async def test_end_users_have_no_leases(scratch: asyncpg.Connection) -> None:
    async with acting_as(scratch, uuid4()):
        for call in ("renew_command(gen_random_uuid(), now())", "claim_command('alice', 30)"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                async with scratch.transaction():
                    await scratch.execute(f"select {call}")
