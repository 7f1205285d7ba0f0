"""What users say of themselves in conversations becomes memories: once, with the newest in place of what it contradicts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.support.access.acting import acting_as
from tests.support.rows import column
from tests.support.waiting import IDLE, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

CURRENT = "select content from agent_memory where user_id = $1 and superseded_by is null order by created_at, content"
NOW = datetime.now(UTC)
WEDNESDAY = (NOW - timedelta(days=(NOW.weekday() - 3) % 7 + 1)).replace(hour=10)
"""The last one that is over: plans are forgotten a week after their day, so that of a fixed one nothing would stay."""


class Chat:
    """A user, and a session in which they talk with an agent."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self.connection = connection
        self.user = uuid4()
        self.session = uuid4()

    async def say(self, *texts: str, **columns: object) -> list[UUID]:
        """Messages of the user in one statement; returns their ids once a daemon has read them."""
        values = {
            "session_id": self.session,
            "user_id": self.user,
            "agent_id": "alice",
            "role": "user",
        } | columns
        names = ", ".join([*values, "content"])
        places = ", ".join(f"${n}" for n in range(2, len(values) + 2))
        ids = await column(
            self.connection,
            f"insert into conversation_messages ({names}) select {places}, t from unnest($1::text[]) t returning id",
            list(texts),
            *values.values(),
        )
        await until(self.connection, IDLE)
        return [UUID(str(one)) for one in ids]

    async def known(self) -> Sequence[object]:
        """The memories of the user that stand."""
        return await column(self.connection, CURRENT, self.user)


@pytest.fixture
def chat(served: asyncpg.Connection) -> Chat:
    return Chat(served)


def day_after(days: int) -> str:
    """The day `days` after that Wednesday, as facts name it."""
    day = WEDNESDAY + timedelta(days=days)
    return f"{day:%A}, {day.day} {day:%B} {day.year}"


async def test_an_obvious_chatbot_remembers(chat: Chat) -> None:
    await chat.say("Hi! I'm Marta and I live in Lyon.")
    await chat.say("Hello Marta, how can I help?", role="assistant")
    await chat.say(
        "I'm allergic to peanuts, any snack ideas?", "my wife's name is Aylin", created_at=WEDNESDAY
    )
    await chat.say("I have a dentist appointment next Tuesday at 9", created_at=WEDNESDAY)
    assert set(await chat.known()) == {
        "The user's name is Marta.",
        "The user lives in Lyon.",
        "The user is allergic to peanuts.",
        "The user's wife's name is Aylin.",
        f"The user has a dentist appointment on {day_after(6)} at 9.",
    }
    row = await chat.connection.fetchrow(
        "select * from agent_memory where user_id = $1 and content like '%dentist%'", chat.user
    )
    assert row is not None
    metadata = json.loads(row["metadata"])
    assert (row["agent_id"], row["kind"], row["session_id"]) == ("alice", "fact", chat.session)
    assert (metadata["from"], metadata["date"]) == (
        "conversation",
        f"{WEDNESDAY + timedelta(days=6):%Y-%m-%d}",
    )
    # A plan is forgotten a week after its day, other facts never.
    assert row["expires_at"] == (WEDNESDAY + timedelta(days=14)).replace(
        hour=0, minute=0, second=0, microsecond=0
    )
    question = "select content from recall($1, user_id => $2, sources => array['memory'])"
    found = await column(chat.connection, question, "Where does the user live?", chat.user)
    assert "The user lives in Lyon." in found[:3]


async def test_what_is_said_again_is_one_memory(chat: Chat) -> None:
    said = [
        await chat.say(text) for text in ("I live in Ghent", "I live in Ghent.", "well, I live in Ghent now")
    ]
    assert len(await chat.known()) == 1
    metadata = json.loads(
        await chat.connection.fetchval("select metadata from agent_memory where user_id = $1", chat.user)
    )
    assert metadata["count"] == 3
    assert set(metadata["message_ids"]) == {str(i) for ids in said for i in ids}


async def test_the_newest_stands_and_the_older_is_history(chat: Chat) -> None:
    await chat.say("I live in Paris", created_at=datetime(2026, 1, 1, tzinfo=UTC))
    await chat.say("I live in Lyon now", created_at=datetime(2026, 6, 1, tzinfo=UTC), session_id=uuid4())
    # Said before both, read after them.
    await chat.say("I live in Oslo", created_at=datetime(2025, 1, 1, tzinfo=UTC), session_id=uuid4())
    assert await chat.known() == ["The user lives in Lyon now."]
    as_of = "select content from memory_as_of($1, user_id => $2)"
    for year, month, place in ((2025, 6, "Oslo"), (2026, 3, "Paris"), (2026, 7, "Lyon")):
        then = await column(chat.connection, as_of, datetime(year, month, 1, tzinfo=UTC), chat.user)
        assert len(then) == 1
        assert place in str(then[0])


async def test_a_plan_is_corrected_in_its_conversation(chat: Chat) -> None:
    await chat.say("my meeting with the bank is on Friday at 10", created_at=WEDNESDAY)
    await chat.say("Actually it's Monday", created_at=WEDNESDAY)
    assert await chat.known() == [f"The user's meeting with the bank is on {day_after(5)} at 10."]
    # In another conversation it may be about anything.
    await chat.say("Actually it's Tuesday", created_at=WEDNESDAY, session_id=uuid4())
    assert len(await chat.known()) == 1
    await chat.say("the meeting is on Wednesday now", created_at=WEDNESDAY, session_id=uuid4())
    assert await chat.known() == [f"The user's meeting is on {day_after(7)}."]


@pytest.mark.parametrize("together", [True, False])
async def test_of_plans_of_one_moment_the_last_said_is_corrected(chat: Chat, together: bool) -> None:
    said = (
        "my meeting with the bank is on Friday",
        "I have a dentist appointment on Thursday",
        "Actually it's Monday",
        "my exam is on Saturday",
    )
    for texts in [said] if together else [said[:2], said[2:]]:
        await chat.say(*texts, created_at=WEDNESDAY)
    assert set(await chat.known()) == {
        f"The user's meeting with the bank is on {day_after(2)}.",
        f"The user has a dentist appointment on {day_after(5)}.",
        f"The user's exam is on {day_after(3)}.",
    }


async def test_what_is_no_statement_of_the_user_is_no_fact(chat: Chat) -> None:
    await chat.say("I live in Bergen", role="assistant")
    await chat.say("I live in Bergen", role="system")
    await chat.say(
        "If I moved to Bergen, would I need a car?", "Do I live in Bergen?", "I might move to Bergen",
        "Tom says I live in Bergen",
        "He said \"I live in Bergen\"", "```\nI live in Bergen\n```", "> I live in Bergen", "I don't live in Bergen",
        "Translate: I live in Bergen", "I live in Bergen. " * 200, "I live in Bergen\n" * 20, "I live in " + "x" * 5_000_000,
        "my password is hunter2 and my pin is 4512", "'; drop table agent_memory; --", "I live in \u202e\u0007",
    )  # fmt: skip
    await chat.say("I live in Bergen", user_id=None, session_id=uuid4())
    assert await chat.known() in ([], ["The user lives in \u202e\u0007."])
    assert await chat.connection.fetchval("select count(*) from memoryd.dead_letters") == 0


async def test_a_user_whose_memory_is_off_has_no_facts(chat: Chat) -> None:
    await chat.connection.execute(
        "insert into memory_settings (user_id, memory_enabled) values ($1, false)", chat.user
    )
    await chat.say("I live in Turin")
    assert await chat.known() == []


async def test_in_a_group_chat_facts_belong_to_who_says_them(chat: Chat) -> None:
    group = await chat.connection.fetchval(
        "insert into chat_groups (platform) values ('telegram') returning id"
    )
    other = uuid4()
    await chat.say("I live in Riga", chat_id=group)
    await chat.say("I live in Vilnius", chat_id=group, user_id=other)
    await chat.say("I live in Tallinn", chat_id=group, user_id=None)
    assert await chat.known() == ["The user lives in Riga."]
    assert await column(chat.connection, CURRENT, other) == ["The user lives in Vilnius."]
    assert not await column(chat.connection, "select id from agent_memory where content like '%Tallinn%'")


async def test_of_a_named_speaker_the_fact_names_the_speaker(chat: Chat) -> None:
    await chat.say("I live in Riga", speaker="Caroline")
    await chat.say("I live in Oslo", speaker="Mel")
    assert set(await chat.known()) == {"Caroline lives in Riga.", "Mel lives in Oslo."}


async def test_facts_of_one_context_do_not_replace_those_of_another(chat: Chat) -> None:
    await chat.say("my budget is 800 euros", metadata='{"project": "work"}')
    await chat.say("my budget is 50 euros", metadata='{"project": "home"}')
    assert len(await chat.known()) == 2
    contexts = "select metadata ->> 'project' from agent_memory where user_id = $1 order by 1"
    assert await column(chat.connection, contexts, chat.user) == ["home", "work"]


async def test_a_fact_goes_with_the_last_message_that_says_it(chat: Chat) -> None:
    first, second = await chat.say("I live in Cork", "I live in Cork!")
    async with acting_as(chat.connection, chat.user):
        assert await chat.connection.fetchval("select forget(array[$1]::uuid[], 'message')", first) == 1
    assert await chat.known() == ["The user lives in Cork."]
    metadata = json.loads(
        await chat.connection.fetchval("select metadata from agent_memory where user_id = $1", chat.user)
    )
    assert (metadata["count"], metadata["message_ids"]) == (1, [str(second)])
    # Of another user nothing is forgotten.
    async with acting_as(chat.connection, uuid4()):
        await chat.connection.fetchval("select forget(array[$1]::uuid[], 'message')", second)
    assert len(await chat.known()) == 1
    async with acting_as(chat.connection, chat.user):
        await chat.connection.fetchval("select forget(array[$1]::uuid[], 'session')", chat.session)
    assert await chat.known() == []
    assert not await column(chat.connection, "select 1 from memoryd.facts where user_id = $1", chat.user)


async def test_a_fact_that_was_said_often_names_twenty_messages_also_after_one_is_deleted(chat: Chat) -> None:
    said = await chat.say(*["I live in Cork" + "!" * n for n in range(22)])
    await chat.connection.execute("delete from conversation_messages where id = $1", said[0])
    found = await chat.connection.fetchval("select metadata from agent_memory where user_id = $1", chat.user)
    metadata = json.loads(found)
    assert (metadata["count"], len(metadata["message_ids"])) == (21, 20)


async def test_a_fact_outlives_a_conversation_that_expires(chat: Chat) -> None:
    await chat.say("I live in Cork", created_at=WEDNESDAY)
    await chat.connection.execute(
        "insert into memory_settings (user_id, conversation_retention_minutes) values ($1, 1)", chat.user
    )
    await chat.connection.execute("select memoryd.expire_conversations(null)")
    assert not await column(
        chat.connection, "select id from conversation_messages where user_id = $1", chat.user
    )
    assert await chat.known() == ["The user lives in Cork."]


async def test_a_message_that_is_changed_is_read_again(chat: Chat) -> None:
    (message,) = await chat.say("I live in Cork and I work at Bosch")
    assert len(await chat.known()) == 2
    await chat.connection.execute(
        "update conversation_messages set content = 'I live in Galway and I work at Bosch' where id = $1",
        message,
    )
    await until(chat.connection, IDLE)
    assert set(await chat.known()) == {"The user lives in Galway.", "The user works at Bosch."}
    await chat.connection.execute(
        "update conversation_messages set content = 'never mind' where id = $1", message
    )
    await until(chat.connection, IDLE)
    assert await chat.known() == []


async def test_a_message_that_is_read_again_changes_nothing(chat: Chat) -> None:
    await chat.say(
        "I live in Cork",
        "I live in Galway",
        "I'm allergic to nuts",
        "my meeting is on Friday",
        "actually it's Monday",
        "I'm flying to Turin on 3 April",
        "Turin is cancelled",
        "I study law in Ghent",
        "I switched from law to botany",
    )
    facts = (
        "select m.id, m.content, m.metadata, m.superseded_by, m.valid_to, s.message_id from agent_memory m "
        "join memoryd.fact_sources s on s.memory_id = m.id where m.user_id = $1 order by 1, 6"
    )
    before = await chat.connection.fetch(facts, chat.user)
    await chat.connection.execute(
        "select memoryd.read_for_facts(array_agg(id order by message_index), array_agg(user_id order by message_index)) "
        "from conversation_messages where user_id = $1",
        chat.user,
    )
    await until(chat.connection, IDLE)
    assert await chat.connection.fetch(facts, chat.user) == before


async def test_a_reworded_fact_is_its_writers_and_is_replaced_by_what_is_said_later(chat: Chat) -> None:
    (message,) = await chat.say("I live in Cork")
    async with acting_as(chat.connection, chat.user):
        await chat.connection.execute(
            "update agent_memory set content = 'Lives by the sea' where user_id = $1", chat.user
        )
        await chat.connection.fetchval("select forget(array[$1]::uuid[], 'message')", message)
    assert await chat.known() == ["Lives by the sea"]
    await chat.say("I moved to Galway", session_id=uuid4())
    assert await chat.known() == ["The user lives in Galway (moved there)."]


async def test_what_a_user_makes_of_a_facts_metadata_ends_nothing(chat: Chat) -> None:
    """Neither what is said again, nor the deletion of a message."""
    change = "update agent_memory set metadata = metadata || $2::jsonb where user_id = $1"
    [first] = await chat.say("I live in Bonn")
    for more in ({"last_said": "yesterdayish"}, {"last_said": [1]}, {"more": "x" * 1_047_900}):
        async with acting_as(chat.connection, chat.user):
            await chat.connection.execute(change, chat.user, json.dumps(more))
        await chat.say("I live in Bonn")
    assert await chat.known() == ["The user lives in Bonn."]
    assert await chat.connection.fetchval("select count(*) from memoryd.dead_letters") == 0
    async with acting_as(chat.connection, chat.user):
        await chat.connection.execute("select forget(array[$1::uuid], 'message')", first)
    assert await chat.known() == ["The user lives in Bonn."]


async def test_an_erasure_takes_the_facts_and_an_import_brings_them_back(chat: Chat) -> None:
    await chat.say("I live in Cork", "I have a dog called Rex")
    file = json.loads(await chat.connection.fetchval("select export_user_memory($1)", chat.user))["tables"]
    await chat.connection.execute("select erase_user_memory($1)", chat.user)
    await until(chat.connection, IDLE)
    for table in ("agent_memory", "memoryd.facts"):
        assert not await column(chat.connection, f"select 1 from {table} where user_id = $1", chat.user)
    for name in ("conversation_sessions", "conversation_messages", "agent_memory"):
        await chat.connection.execute(
            "select memoryd.import_rows($1, $1, $2, $3)", chat.user, name, json.dumps(file[name])
        )
    await until(chat.connection, IDLE)
    assert len(await chat.known()) == 2
    await chat.say("I moved to Galway", session_id=uuid4())
    assert set(await chat.known()) == {
        "The user lives in Galway (moved there).",
        "The user has a dog called Rex.",
    }


async def test_what_is_over_is_history_from_then_on_and_says_what_ended_it(chat: Chat) -> None:
    first = datetime(2025, 11, 12, 10, tzinfo=UTC)
    later = first + timedelta(days=7)
    await chat.say("I'm flying to Turin on 3 April", "I work at Corvid Ltd", created_at=first)
    [message] = await chat.say("ugh, Turin is cancelled", created_at=later, session_id=uuid4())
    await chat.say("I no longer work at Heron Ltd", created_at=later, session_id=uuid4())
    row = await chat.connection.fetchrow(
        "select o.valid_to as ended, n.content, n.metadata -> 'message_ids' ->> 0 as said from agent_memory o "
        "join agent_memory n on n.id = o.superseded_by where o.user_id = $1",
        chat.user,
    )
    assert row is not None
    assert (row["ended"], row["content"], row["said"]) == (later, "Turin is cancelled.", str(message))
    current = (
        "select content from agent_memory where user_id = $1 and memoryd.is_current(superseded_by, valid_to)"
    )
    assert await column(chat.connection, current, chat.user) == ["The user works at Corvid Ltd."]
    # An ending without what it ends is nothing.
    assert not await column(chat.connection, "select 1 from agent_memory where content like '%Heron%'")


async def test_what_was_said_before_a_change_stands_below_what_is_true_now(chat: Chat) -> None:
    """The message, too, and not only the memory."""
    await chat.say("I live in Cork with two cats", session_id=uuid4())
    await chat.say("I moved to Galway", session_id=uuid4())
    asked = "select content from recall('Where do I live?', user_id => $1)"
    found = [str(c) for c in await column(chat.connection, asked, chat.user)]
    galway, cork = (next(i for i, text in enumerate(found) if place in text) for place in ("Galway", "Cork"))
    assert galway < cork


async def test_nothing_is_read_where_facts_are_off(chat: Chat) -> None:
    setting = (
        "insert into memoryd.settings (key, value) values ('facts', $1) "
        "on conflict (key) do update set value = excluded.value"
    )
    await chat.connection.execute(setting, '"off"')
    await chat.say("I live in Cork")
    assert await chat.known() == []
    await chat.connection.execute(setting, '"rules"')
