"""Decisions have a shape, are scored once, and listed when they need a look; corrections outrank what they correct."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.integration.knowledge.test_surprise import note, row
from tests.support.access.refusals import refused
from tests.support.rows import column, insert, one_row

WON = json.dumps({"success": True, "result": "closed at a profit"})
LOST = json.dumps({"success": False})


async def decided(connection: asyncpg.Connection, text: str, **context: object) -> UUID:
    """A decision of sybil's."""
    told = await note(connection, text, "decision", decision_context=json.dumps(context) if context else None)
    which: UUID = told["id"]
    return which


async def states(connection: asyncpg.Connection) -> dict[str, str]:
    """The state of each decision that is open."""
    return {r["title"]: r["state"] for r in await connection.fetch("select title, state from decisions()")}


async def outcome(connection: asyncpg.Connection, which: UUID) -> dict[str, object]:
    """What a decision came to."""
    found = await connection.fetchval("select outcome from shared_knowledge where id = $1", which)
    read: dict[str, object] = json.loads(found or "{}")
    return read


@pytest.mark.parametrize(
    ("column_", "value", "said"),
    [
        ("decision_context", [], "is of type array"),
        ("decision_context", {"kill_criterea": "x"}, "unknown key 'kill_criterea'"),
        ("decision_context", {"alternatives": [1]}, "alternatives is no text"),
        ("decision_context", {"kill_criteria": " "}, "kill_criteria is no text"),
        ("decision_context", {"review_by": "tomorrow"}, "review_by is no date"),
        ("decision_context", {"review_by": "2026-13-41"}, "review_by is no date"),
        ("outcome", "won", "is of type string"),
        ("outcome", {"success": "yes"}, "success is not true or false"),
        ("outcome", {"scored_at": "soon"}, "scored_at is no time"),
        ("outcome", {"notes": {}}, "notes is no text"),
        ("outcome", {"verdict": "x"}, "unknown key 'verdict'"),
    ],
)
async def test_what_is_no_decision_or_outcome_is_refused_with_advice(
    scratch: asyncpg.Connection, column_: str, value: object, said: str
) -> None:
    sql = f"insert into shared_knowledge (tier, category, title, content, created_by, {column_}) "
    sql += "values ('learning', 'decision', 'a', 'b', 'c', $1)"
    state, message, hint = await refused(scratch, sql, json.dumps(value))
    assert state == "23514"
    assert said in message
    assert hint.startswith("Give an object with some of")


async def test_rows_of_before_keep_their_shape_and_can_be_changed(scratch: asyncpg.Connection) -> None:
    await scratch.execute("alter table shared_knowledge disable trigger check_decision")
    which = await insert(
        scratch, "shared_knowledge", row("Old", "An old one", decision_context='"once"', outcome="[1]")
    )
    await scratch.execute("alter table shared_knowledge enable trigger check_decision")
    await scratch.execute("update shared_knowledge set title = 'Older' where id = $1", which)
    assert await scratch.fetchval("select title from shared_knowledge") == "Older"
    await scratch.execute("update shared_knowledge set category = 'decision'")
    assert await states(scratch) == {"Older": "no criterion"} or await column(
        scratch, "select state from decisions(open_only => false)"
    ) == ["scored"]


async def test_an_outcome_scores_the_decision_that_it_names(scratch: asyncpg.Connection) -> None:
    which = await decided(
        scratch, "Short BTC after the spike of the funding rate.", reasoning="It fell 73% of the time"
    )
    told = await note(
        scratch, "The price fell by 4.2% within three hours.", "outcome", related_ids=[which], outcome=WON
    )
    assert "scored the decision" in told["reason"]
    scored = await outcome(scratch, which)
    assert scored["success"] is True
    assert scored["result"] == "closed at a profit"
    assert scored["scored_by"] == str(told["id"])
    assert scored["scored_at"]
    # A second one is stored, and changes nothing.
    other = await note(scratch, "All was lost a week later.", "outcome", related_ids=[which], outcome=LOST)
    assert (other["what"], other["reason"]) == ("stored", None)
    assert await outcome(scratch, which) == scored
    assert await states(scratch) == {}


async def test_an_outcome_that_names_none_scores_the_nearest_earlier_decision(
    scratch: asyncpg.Connection,
) -> None:
    await decided(scratch, "Move the Berlin office to a new building in March.")
    which = await decided(scratch, "Short BTC after the spike of the funding rate.")
    await scratch.execute("update shared_knowledge set created_at = now() - interval '1 hour'")
    values = row(
        "Outcome: short BTC after the funding rate spike", "It fell.", category="outcome", outcome=LOST
    )
    await insert(scratch, "shared_knowledge", values)
    assert (await outcome(scratch, which))["success"] is False
    later = row("Outcome: the cat slept", "All day, on the sofa", category="outcome", outcome=WON)
    await insert(scratch, "shared_knowledge", later)
    assert await scratch.fetchval("select count(*) from decisions()") == 1


async def test_an_outcome_whose_decision_is_gone_is_stored_and_scores_nothing(
    scratch: asyncpg.Connection,
) -> None:
    which = await decided(scratch, "Short BTC after the spike of the funding rate.")
    values = row("Outcome: short BTC", "It fell", category="outcome", outcome=WON, related_ids=[uuid4()])
    await insert(scratch, "shared_knowledge", values)
    assert await outcome(scratch, which) == {}


async def test_two_outcomes_at_once_score_a_decision_once(
    connection: asyncpg.Connection, second: asyncpg.Connection
) -> None:
    which = await decided(connection, "Short BTC after the spike of the funding rate.")
    told = await asyncio.gather(
        note(connection, "It fell by 4.2% in three hours.", "outcome", related_ids=[which], outcome=WON),
        note(second, "Nobody was in the office.", "outcome", related_ids=[which], outcome=LOST),
    )
    assert [each["what"] for each in told] == ["stored", "stored"]
    scored = await outcome(connection, which)
    [winner] = [each for each in told if str(each["id"]) == scored["scored_by"]]
    assert scored["success"] is (winner is told[0])


async def test_decisions_that_need_a_look_are_listed_with_the_reason(scratch: asyncpg.Connection) -> None:
    yesterday = (datetime.now(UTC) - timedelta(days=1)).date().isoformat()
    await decided(scratch, "Sell the boat in summer.", review_by=yesterday)
    await decided(
        scratch, "Rent a hall for the choir.", kill_criteria=["The choir has fewer than twenty members"]
    )
    short = await decided(
        scratch, "Short BTC.", kill_criteria="Exit if the funding rate drops below 0.03 percent"
    )
    await decided(scratch, "Ship the parser on Fridays.", review_by="2999-01-01")
    await decided(scratch, "Use dark mode by default.")
    await scratch.execute("update shared_knowledge set created_at = now() - interval '1 hour'")
    met = await note(scratch, "The funding rate dropped below 0.03 percent.")
    against = await note(scratch, "Never ship the parser on Fridays.")
    found = await scratch.fetch("select title, state, because from decisions()")
    assert [(r["title"], r["state"], r["because"]) for r in found] == [
        ("Short BTC.", "criterion met", met["id"]),
        ("Ship the parser on Fridays.", "contradicted", against["id"]),
        ("Sell the boat in summer.", "overdue", None),
        ("Rent a hall for the choir.", "open", None),
        ("Use dark mode by default.", "no criterion", None),
    ]
    await note(scratch, "Shorting was wrong: the exchange closed.", "correction", related_ids=[short])
    assert (await states(scratch))["Short BTC."] == "criterion met"
    assert (await refused(scratch, "select decisions(match_count => -1)"))[0] == "22023"
    assert await scratch.fetchval("select count(*) from decisions(agent_id => 'nobody')") == 0
    assert await scratch.fetchval("select count(*) from decisions(match_count => 2)") == 2


async def test_rates_are_counted_by_agent_tag_and_confidence(scratch: asyncpg.Connection) -> None:
    for title, confidence, tags, result in (
        ("Plant oaks", "high", ["forest"], WON),
        ("Sell boats", "high", ["sea", "trade"], LOST),
        ("Paint doors", "low", ["sea"], None),
    ):
        values = row(
            title, f"{title}, we said", category="decision", confidence=confidence, tags=tags, outcome=result
        )
        await insert(scratch, "shared_knowledge", values)
    found = {
        (r["by"], r["value"]): tuple(r)[2:] for r in await scratch.fetch("select * from decision_rates()")
    }
    assert found == {
        ("all", ""): (3, 1, 2, 1, 0.5),
        ("agent", "saber"): (3, 1, 2, 1, 0.5),
        ("confidence", "high"): (2, 0, 2, 1, 0.5),
        ("confidence", "low"): (1, 1, 0, 0, None),
        ("tag", "sea"): (2, 1, 1, 0, 0.0),
        ("tag", "forest"): (1, 0, 1, 1, 1.0),
        ("tag", "trade"): (1, 0, 1, 0, 0.0),
    }


# --- Corrections.


async def test_of_corrections_in_a_loop_the_latest_counts(scratch: asyncpg.Connection) -> None:
    one = await insert(scratch, "shared_knowledge", row("One", "It is one", category="correction"))
    two = await insert(
        scratch, "shared_knowledge", row("Two", "It is two", category="correction", related_ids=[one])
    )
    await scratch.execute(
        "update shared_knowledge set created_at = now() - interval '1 hour' where id = $1", one
    )
    await scratch.execute("update shared_knowledge set related_ids = $2 where id = $1", one, [two])
    weights = await one_row(
        scratch,
        "select max(weight) filter (where id = $1) as one, max(weight) filter (where id = $2) as two "
        "from memoryd.source_knowledge",
        one, two,
    )  # fmt: skip
    assert weights["one"] < 0.5
    assert weights["two"] == 1


async def test_what_is_said_again_does_not_become_corrected(scratch: asyncpg.Connection) -> None:
    wrong, other = [await insert(scratch, "shared_knowledge", row(t, f"{t} is so")) for t in ("Rain", "Snow")]
    right = await note(scratch, "Ice cream is sold at the north gate.", "correction", related_ids=[wrong])
    again = await note(
        scratch, "Ice cream is sold at the north gate.", "insight", title="Ice", related_ids=[other]
    )
    assert (again["what"], again["id"]) == ("strengthened", right["id"])
    assert await scratch.fetchval("select related_ids from shared_knowledge where id = $1", right["id"]) == [
        wrong
    ]
