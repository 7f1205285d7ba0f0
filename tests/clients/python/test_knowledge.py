"""Knowledge of memoryd_client: what a team knows and decided, and what was replaced; what a hostile caller gets."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest
from memoryd_client import Database, Knowledge, Memory, MemorydError, NotFound, Refused, sync

pytestmark = pytest.mark.asyncio(loop_scope="session")

SECRET = "postgresql://root:Sesame99@vault.example/db"


@pytest.fixture
def team(db: Database, agent: str) -> Knowledge:
    """What the team of an organisation of the test's own knows."""
    return Knowledge(db, agent=agent, org=uuid4())


async def test_what_is_new_is_stored_and_what_is_known_is_strengthened(team: Knowledge) -> None:
    text = "We deploy to production every Friday afternoon."
    first = await team.note(text, "decision", title="Deployments", tags=["deploy"])
    assert (first.what, first.surprise, first.neighbour) == ("stored", 1.0, None)
    again = await team.note("Production deployments happen every Friday in the afternoon.", "decision")
    assert (again.what, again.id, again.neighbour) == ("strengthened", first.id, first.id)
    assert again.surprise < 0.3
    assert again.reason == "'Deployments' says it already"
    assert (await team.note(text, "decision", strengthen=False)).what == "known"
    denied = await team.note("We never deploy to production on Friday afternoon.", "decision")
    assert (denied.what, denied.neighbour) == ("stored", first.id)

    found = await team.recall("when do we deploy?", count=1, filter={"category": "decision"})
    assert [f.source for f in found] == ["knowledge"]
    assert found.id is not None
    [contradicted] = [d for d in await team.decisions() if d.id == first.id]
    assert (contradicted.state, contradicted.because) == ("contradicted", denied.id)


async def test_an_outcome_scores_its_decision(team: Knowledge, agent: str) -> None:
    decided = await team.note(
        "Short the index after the spike of the funding rate.",
        "decision",
        tags=["index"],
        confidence="medium",
        decision_context={"reasoning": "It fell each time.", "review_by": "2999-01-01"},
    )
    assert decided.id is not None
    outcome = {"success": True, "result": "closed at a profit"}
    closed = await team.note(
        "The price fell by four percent.", "outcome", related_ids=decided.id, outcome=outcome
    )
    assert (closed.what, closed.reason) == (
        "stored",
        "scored the decision 'Short the index after the spike of the funding rate.'",
    )
    assert await team.decisions(tag="index", agent=agent) == []
    [scored] = await team.decisions(tag="index", open_only=False)
    assert (scored.id, scored.state, scored.success, scored.tags) == (decided.id, "scored", True, ("index",))
    rates = {(r.by, r.value): r for r in await team.decision_rates()}
    assert rates["agent", agent].rate == 1.0
    assert (rates["all", ""].decisions, rates["all", ""].open, rates["all", ""].scored) == (1, 0, 1)


async def test_a_project_is_ended_with_what_names_it(team: Knowledge) -> None:
    project = await team.note("We build a greenhouse.", "project")
    assert project.id is not None
    await team.note("Ana orders the glass.", "commitment", related_ids=[project.id])
    await team.touch(project.id)
    assert await team.resolve(project.id) == 2
    late = await team.note("Bo paints the frame.", "commitment", related_ids=[str(project.id)])
    assert (late.what, late.id) == ("not stored", None)
    for call in (team.resolve, team.touch):
        with pytest.raises(NotFound):
            await call(uuid4())


async def test_the_same_twice_at_once_is_stored_once(db: Database, team: Knowledge) -> None:
    text = "Invoices are paid within ten days."
    noted = await asyncio.gather(*(team.note(text, "principle") for _ in range(4)))
    assert sorted(n.what for n in noted) == ["stored", "strengthened", "strengthened", "strengthened"]
    assert len({n.id for n in noted}) == 1
    # Another organisation neither finds it nor has it.
    other = Knowledge(db, agent="other", org=uuid4())
    assert len(await other.recall("invoices")) == 0
    assert (await other.note(text, "principle")).what == "stored"


async def test_five_megabytes_are_stored_whole(team: Knowledge, owner: asyncpg.Connection) -> None:
    text = "Herons " + "~" * 5_000_000
    noted = await team.note(text, "insight")
    assert noted.what == "stored"
    assert await owner.fetchval("select content = $2 from shared_knowledge where id = $1", noted.id, text)


async def test_an_end_user_may_not_call_it(team: Knowledge) -> None:
    with pytest.raises(Refused, match="needs a user"):
        Knowledge("postgresql://nowhere/", agent="x", rights="user")  # type: ignore[arg-type]


WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "NUL": ("note", {"text": "sec\0ret", "category": "decision"}, "text has the character NUL"),
    "category": ("note", {"text": "x", "category": " "}, "category is blank"),
    "credential": (
        "note",
        {"text": f"The vault is at {SECRET}", "category": "insight"},
        "(?i)password|credential",
    ),
    "tier": ("note", {"text": "x", "category": "insight", "tier": "secret"}, "tier is not an allowed value"),
    "tags": ("note", {"text": "x", "category": "insight", "tags": "secret"}, "tags is no list"),
    "ids": ("note", {"text": "x", "category": "insight", "related_ids": ["secret"]}, "An id is no UUID"),
    "context": ("note", {"text": "x", "category": "decision", "decision_context": {"secret": 1}}, "."),
    "outcome": ("note", {"text": "x", "category": "outcome"}, "does not say whether it is a success"),
    "count": ("decisions", {"count": -1}, "count is no whole number"),
    "id": ("resolve", {"key": "secret"}, "An id is no UUID"),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
async def test_what_is_wrong_is_refused_without_quoting_it(
    team: Knowledge, wrong: tuple[str, dict[str, Any], str]
) -> None:
    call, arguments, words = wrong
    with pytest.raises(MemorydError, match=words) as caught:
        await getattr(team, call)(**arguments)
    assert not any(given in str(caught.value) for given in ("Sesame99", "sec\0ret", "'secret'", '"secret"'))


async def test_what_was_replaced_stays_as_history(db: Database, agent: str, user: UUID) -> None:
    memory = Memory(db, agent=agent, user=user)
    old = await memory.remember("I live in Ghent")
    then = datetime.now(timezone.utc)  # noqa: UP017 - as on Python 3.10
    new = await memory.supersede(old.id, "I live in Lyon")
    assert [f.id for f in await memory.recall("where do I live?")] == [new]
    [stood] = await memory.as_of(then)
    assert (stood.id, stood.content, stood.superseded_by) == (old.id, "I live in Ghent", new)
    assert stood.valid_to is not None
    service = Memory(db, agent=agent, user=user, rights="service")
    assert [s.id for s in await service.as_of(then + timedelta(days=1))] == [new]
    with pytest.raises(Refused, match="superseded already"):
        await memory.supersede(old.id, "I live in Rome")


async def test_nobody_replaces_or_sees_what_is_another_s(db: Database, agent: str, user: UUID) -> None:
    kept = await Memory(db, agent=agent, user=user).remember("I keep bees")
    own = await Memory(db, agent=agent).remember("The agent keeps bees")
    eve = Memory(db, agent=agent, user=uuid4())
    asks = Memory(db, agent=agent, user=uuid4(), rights="service")
    for memory in (eve, asks, Memory(db, agent=agent), Memory(db, agent=f"{agent}-2")):
        for key in (
            {kept.id} if memory._who.agent == agent and memory._who.user is None else {kept.id, own.id}
        ):
            with pytest.raises(NotFound):
                await memory.supersede(key, "mine")
    assert await eve.as_of(datetime.now(timezone.utc)) == []  # noqa: UP017
    assert await Memory(db, agent=agent).supersede(own.id, "The agent keeps goats") != own.id
    with pytest.raises(Refused, match="as_of needs a user"):
        await Memory(db, agent=agent).as_of(datetime.now(timezone.utc))  # noqa: UP017
    with pytest.raises(Refused, match="time has no time zone"):
        await eve.as_of(datetime(2026, 1, 1))  # noqa: DTZ001


async def test_who_has_switched_memory_off_is_told(
    db: Database, owner: asyncpg.Connection, agent: str, user: UUID
) -> None:
    memory = Memory(db, agent=agent, user=user)
    stored = await memory.remember("I keep bees")
    await owner.execute("insert into memory_settings (user_id, memory_enabled) values ($1, false)", user)
    with pytest.raises(Refused, match="switched memory off"):
        await memory.supersede(stored.id, "I keep goats")


async def test_the_same_without_async(client_url: str, agent: str) -> None:
    def work() -> None:
        with sync.Knowledge(client_url, agent=agent, org=uuid4()) as team:
            noted = team.note("Quality before speed, always.", "principle")
            assert [f.id for f in team.recall("quality")] == [noted.id]
            assert team.decisions() == []

    await asyncio.to_thread(work)
