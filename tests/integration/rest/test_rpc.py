"""Every documented function can be called as supabase-js calls it: over HTTP, by named arguments, by those who may."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest

from tests.support.database.schemas import connected
from tests.support.database.supabase import Project
from tests.support.postgrest.functions import (
    ANONYMOUS,
    SAMPLES,
    SECRET,
    Documented,
    Refusal,
    documented,
    is_result,
    world,
)
from tests.support.postgrest.requests import Rest
from tests.support.processes.daemons import DaemonProcess
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="package")

FUNCTIONS = [one for one in documented() if one.name in SAMPLES]
EXECUTABLE = """
select p.proname::text, p.proargnames[:p.pronargs]::text[]
from pg_proc p
where p.pronamespace = 'public'::regnamespace and p.prokind = 'f' and p.prorettype <> 'trigger'::regtype
  and has_function_privilege('service_role', p.oid, 'execute')
"""
INDEXED = "select state = 'indexed' from memoryd.index_states where id = $1"
LEFT = """
select (select count(*) from agent_memory where user_id = $1 and superseded_by is null)
     + (select count(*) from conversation_messages where user_id = $1)
"""


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda one: one.name)
async def test_a_documented_function_answers_as_documented(
    project: Project, rest: Rest, daemon: DaemonProcess, function: Documented
) -> None:
    sample = SAMPLES[function.name]
    async with project.client("service_role") as service:
        ids = await world(service)
    async with connected(project.url()) as owner:
        if sample.indexed:
            await until(owner, INDEXED, UUID(ids["memory"]))
        user, arguments = UUID(ids["user"]), sample.arguments(ids)

        nobody = await rest.rpc("anon", function.name, arguments)
        assert (nobody.status, nobody.code) == ANONYMOUS

        # Somebody else, with this user's ids.
        other = await rest.rpc(uuid4(), function.name, arguments)
        if isinstance(sample.to_others, Refusal):
            assert (other.status, other.code) == sample.to_others
        else:
            assert is_result(function.returns, other.status, other.body), other
            assert sample.to_others is None or other.body == sample.to_others
        assert SECRET not in str(other.body)
        assert await owner.fetchval(LEFT, user) == 2

        if sample.users:
            if sample.by_get:
                read = await rest.get(user, f"rpc/{function.name}", **arguments)
                assert is_result(function.returns, read.status, read.body), read
            own = await rest.rpc(user, function.name, arguments)
            assert is_result(function.returns, own.status, own.body), own
            assert not sample.tells or (own.body and own.body != sample.to_others)

        if sample.takes_away:
            async with project.client("service_role") as service:
                arguments = sample.arguments(await world(service))
        answer = await rest.rpc("service_role", function.name, arguments)
        if sample.to_service:
            assert (answer.status, answer.code) == sample.to_service
        else:
            assert is_result(function.returns, answer.status, answer.body), answer


async def test_every_function_is_documented_with_the_names_of_its_arguments(
    project: Project, daemon: DaemonProcess
) -> None:
    async with connected(project.url()) as owner:
        real = {name: set(arguments or ()) for name, arguments in await owner.fetch(EXECUTABLE)}
    described = {one.name: {*one.arguments} - {"...", ""} for one in documented()}
    assert described.keys() == real.keys() == SAMPLES.keys()
    assert {n: d - real[n] for n, d in described.items() if d - real[n]} == {}


@pytest.mark.parametrize(
    ("path", "headers", "status", "code"),
    [
        ("rpc/embed", {}, 404, "PGRST202"),
        ("rpc/memoryd.embed", {}, 404, "PGRST202"),
        ("rpc/anchor", {}, 404, "PGRST202"),
        ("rpc/embed", {"Content-Profile": "memoryd"}, 406, "PGRST106"),
    ],
)
async def test_what_is_internal_is_not_exposed(
    rest: Rest, path: str, headers: dict[str, str], status: int, code: str
) -> None:
    answer = await rest.ask("service_role", "POST", path, json={"text": "x"}, headers=headers)
    assert (answer.status, answer.code) == (status, code)
