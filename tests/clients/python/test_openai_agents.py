"""MemorydSession: what the OpenAI Agents SDK keeps of a session comes back as it was, and is found."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import asyncpg
import pytest
import pytest_asyncio
from memoryd_client import ChatMemory, Database, Memory, Refused, sync

from tests.support.database.cut_wire import CutWire

if TYPE_CHECKING:
    from memoryd_client.openai_agents import MemorydSession

pytestmark = pytest.mark.asyncio(loop_scope="session")

PICTURE = "data:image/png;base64," + "iVBORw0KGgo=" * 20
TURN: list[Any] = [
    {"role": "user", "content": "Where do the herons nest?"},
    {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "Look it up."}]},
    {"type": "function_call", "call_id": "c1", "name": "nests", "arguments": '{"bird": "heron"}', "id": "fc_1"},
    {"type": "function_call_output", "call_id": "c1", "output": "in the old willow"},
    {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "and the alder"}]},
    {
        "type": "message", "role": "assistant", "id": "m1", "status": "completed",
        "content": [
            {"type": "output_text", "text": "In the willow.", "annotations": [], "logprobs": []},
            {"type": "output_text", "text": "And the alder.", "annotations": [{"url": "https://a.example"}]},
            {"type": "refusal", "refusal": "No more."},
        ],
    },
    {
        "role": "user",
        "content": [{"type": "input_image", "image_url": PICTURE}, {"type": "input_text", "text": "Is this one?"}],
    },
    {"role": "developer", "content": "Be short."},
    {"type": "compaction", "encrypted_content": "gAAAA", "numbers": [1.0, -0.0, 1e16, 10**30, None, True]},
    {"role": "assistant", "content": ""},
    {"role": "user", "content": " \n"},
]  # fmt: skip


def memory_session(*given: Any, **options: Any) -> MemorydSession:
    """Its package takes seconds to load, so it is loaded by the first test and not by each run."""
    from memoryd_client.openai_agents import MemorydSession  # noqa: PLC0415

    return MemorydSession(*given, **options)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared(client_url: str) -> AsyncIterator[sync.Database]:
    """A database for sessions in any event loop."""
    opened = sync.Database(client_url)
    yield opened
    await asyncio.to_thread(opened.close)


@pytest.fixture
def session(shared: sync.Database, user: UUID) -> MemorydSession:
    """A session of a user's."""
    return memory_session(f"session {uuid4()}", shared, user=user)


async def test_items_come_back_exactly_and_in_order(session: MemorydSession) -> None:
    await session.add_items(TURN[:3])
    await session.add_items(TURN[3:])
    items = await session.get_items()
    # repr: with the order of the keys, and with numbers of the same types.
    assert [repr(each) for each in items] == [repr(each) for each in TURN]
    assert await session.get_items(3) == TURN[-3:]
    assert await session.get_items(0) == []
    assert await session.get_items(10**6) == TURN


@pytest.mark.parametrize(
    "item",
    [
        {"role": "user", "content": "a\0b \ud800 c\\u0000"},
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "\0"}, {"type": "input_text", "text": "\udfff"}],
        },
        {"type": "shell_call", "action": {"commands": ["a\0b", "\ud800"]}, "\0": 1},
        {"role": "user", "content": "willow " * 750_000},
        {"role": "user", "content": [{"type": "input_image", "image_url": "data:" + "iVBOR" * 1_000_000}]},
        {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "gAAAA" * 1_000_000},
    ],
    ids=["NUL", "parts", "keys", "5 MB", "picture", "reasoning"],
)
async def test_what_postgres_cannot_store_comes_back_too(session: MemorydSession, item: Any) -> None:
    await session.add_items([{"role": "user", "content": "before"}, item])
    assert (await session.get_items())[1] == item
    assert await session.pop_item() == item
    assert await session.get_items() == [{"role": "user", "content": "before"}]


@pytest.mark.parametrize(
    ("items", "error"),
    [
        ([{"role": "user", "content": object()}], "cannot be written as JSON"),
        (["hello"], "no mapping"),
        ("hello", "no list"),
        ([{"role": "user", "content": "x" * 10_000_001}], "at most 10,000,000"),
        ([{"role": "user", "content": "x", "numbers": list(range(300_000))}], "more than 900,000 bytes"),
    ],
)
async def test_bad_items_are_refused_and_none_is_stored(
    session: MemorydSession, items: Any, error: str
) -> None:
    given: Any = items if isinstance(items, str) else [{"role": "user", "content": "good"}, *items]
    with pytest.raises(Refused, match=error) as caught:
        await session.add_items(given)
    assert caught.value.__context__ is None
    assert await session.get_items() == []


async def test_two_who_write_at_once_keep_their_items_together(client_url: str, user: UUID) -> None:
    name = f"session {uuid4()}"

    async def write(writer: int) -> None:
        async with memory_session(name, client_url, user=user) as session:
            for turn in range(5):
                await session.add_items(
                    [{"role": "user", "content": f"{writer} {turn} {n}"} for n in range(4)]
                )

    await asyncio.gather(write(1), write(2))
    async with memory_session(name, client_url, user=user) as session:
        items: Any = await session.get_items()
    said = [each["content"].rsplit(" ", 1)[0] for each in items]
    assert [said[at : at + 4] for at in range(0, 40, 4)] == [[turn] * 4 for turn in said[::4]]
    assert [turn for turn in said[::4] if turn.startswith("1")] == [f"1 {n}" for n in range(5)]


@pytest.mark.parametrize("given", [{"user": "mia"}, {}])
async def test_an_item_is_popped_by_one_caller_only(shared: sync.Database, given: dict[str, str]) -> None:
    name = f"session {uuid4()}"
    one, two = (memory_session(name, shared, **given) for _ in range(2))
    await one.add_items([{"role": "user", "content": str(n)} for n in range(8)])
    popped: list[Any] = await asyncio.gather(*(each.pop_item() for each in (one, two) * 5))
    assert sorted(each["content"] for each in popped if each) == list("01234567")
    assert popped.count(None) == 2


@pytest.mark.parametrize("after", [False, True])
async def test_a_lost_connection_stores_and_pops_once(client_url: str, user: UUID, after: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with CutWire(client_url, folder) as wire, Database(wire.url, size=1) as database:
            session = memory_session(f"session {uuid4()}", database, user=user)
            await session.clear_session()
            wire.cut(b"commit", after=after)
            await session.add_items(TURN[:3])
            assert await session.get_items() == TURN[:3]
            wire.cut(b"commit", after=after)
            assert await session.pop_item() == TURN[2]
            assert await session.get_items() == TURN[:2]
            assert wire.cuts == 2


async def test_sessions_of_others_are_not_seen_nor_changed(
    shared: sync.Database, session: MemorydSession
) -> None:
    await session.add_items(TURN[:2])
    other = memory_session(session.session_id, shared, user=uuid4())
    assert await other.get_items() == []
    assert await other.pop_item() is None
    await other.clear_session()
    with pytest.raises(Refused, match="another user"):
        await other.add_items(TURN[:1])
    assert await session.get_items() == TURN[:2]
    await session.clear_session()
    assert await session.get_items() == []


async def test_an_end_user_keeps_a_session_of_their_own(db: Database, user: UUID) -> None:
    key = await ChatMemory(db, user=user, rights="user").begin_session()
    session = memory_session(str(key), db, user=user, rights="user")
    await session.add_items(TURN[:3])
    assert await session.pop_item() == TURN[2]
    assert await session.get_items() == TURN[:2]
    other = memory_session(str(key), db, user=uuid4(), rights="user")
    assert await other.get_items() == []
    assert await other.pop_item() is None
    await session.clear_session()
    assert await session.get_items() == []


async def test_a_session_is_a_conversation(
    session: MemorydSession, db: Database, owner: asyncpg.Connection, user: UUID
) -> None:
    chat = ChatMemory(db, user=user)
    await chat.add_messages(
        session.session_id,
        [
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": "", "metadata": {"tool_calls": []}},
            {"role": "tool", "content": "42"},
        ],
    )
    await session.add_items(TURN[:4])
    assert await session.get_items() == [{"role": "user", "content": "Hello"}, *TURN[:4]]
    assert await session.get_items(5) == [{"role": "user", "content": "Hello"}, *TURN[:4]]
    found = await Memory(db, agent="gardener", user=user, rights="service").recall(
        "old willow", sources=["conversation"]
    )
    assert "in the old willow" in [each.content for each in found]
    key = (await chat.get_messages(session.session_id))[3].id
    await owner.execute("update conversation_messages set content = 'Where?' where id = $1", key)
    assert (await session.get_items())[1] == {"role": "user", "content": "Where?"}
    await owner.execute("insert into memory_settings (user_id, memory_enabled) values ($1, false)", user)
    await session.add_items(TURN)
    assert await session.get_items() == []


async def test_the_runner_remembers_the_turn_before(shared: sync.Database, db: Database, user: UUID) -> None:
    from agents import Agent, RunConfig, Runner, SessionSettings  # noqa: PLC0415 - takes 2 seconds
    from agents.memory import Session  # noqa: PLC0415
    from agents.testing import ScriptedModel  # noqa: PLC0415
    from openai.types.responses import ResponseOutputMessage, ResponseOutputText  # noqa: PLC0415

    def said(text: str) -> ResponseOutputMessage:
        part = ResponseOutputText(text=text, type="output_text", annotations=[])
        return ResponseOutputMessage(
            id="1", type="message", role="assistant", content=[part], status="completed"
        )

    session = memory_session(f"session {uuid4()}", shared, user=user, session_settings={"limit": 2})
    assert isinstance(session, Session)
    assert session.session_settings == SessionSettings(limit=2)
    assert memory_session("another", shared).session_settings == SessionSettings()
    model = ScriptedModel()
    helper = Agent(name="helper", model=model)
    config = RunConfig(tracing_disabled=True)
    questions = ["Which instrument does Dora play?", "Since when?", "Is she good?"]
    for question, answer in zip(questions, ["The bassoon.", "Since spring.", "Very."], strict=True):
        model.enqueue([said(answer)])
        result = await Runner.run(helper, question, session=session, run_config=config)
        assert result.final_output == answer
    heard: Any = model.calls[-1].input
    assert [each["content"] if each["role"] == "user" else each["content"][0]["text"] for each in heard] == [
        "Since when?", "Since spring.", "Is she good?"
    ]  # fmt: skip
    assert len(await session.get_items(10)) == 6
    found = await Memory(db, agent="helper", user=user, rights="service").recall("bassoon")
    assert found[0].content == "The bassoon."
    chat = await ChatMemory(db, user=user).load_context(session.session_id)
    assert [(m.role, m.content) for m in chat][:2] == [("user", questions[0]), ("assistant", "The bassoon.")]


async def test_in_a_group_a_user_pops_only_what_is_theirs(
    shared: sync.Database, db: Database, owner: asyncpg.Connection
) -> None:
    mia, ben, chat, session = uuid4(), uuid4(), uuid4(), uuid4()
    await owner.execute("insert into chat_groups (id, platform) values ($1, 'slack')", chat)
    for user, text in ((mia, "from Mia"), (ben, "from Ben")):
        await owner.execute("insert into chat_group_members (chat_id, user_id) values ($1, $2)", chat, user)
        await owner.execute(
            "insert into conversation_messages (session_id, chat_id, user_id, role, content) "
            "values ($1, $2, $3, 'user', $4)",
            session, chat, user, text,
        )  # fmt: skip
    of_mia, of_ben = ({"role": "user", "content": text} for text in ("from Mia", "from Ben"))
    as_service = memory_session(str(session), shared, user=mia)
    assert await as_service.get_items() == [of_mia, of_ben]
    assert await as_service.pop_item() == of_mia
    for hers in (as_service, memory_session(str(session), db, user=mia, rights="user")):
        assert await hers.get_items() == [of_ben]
        assert await hers.pop_item() is None
    assert await memory_session(str(session), db, user=ben, rights="user").pop_item() == of_ben
