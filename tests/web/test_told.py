"""Who told a memory, as far as that is on record: in its list, on its page, by Recall and in a context."""

from __future__ import annotations

import html
import json
import re
import uuid
from pathlib import Path

import asyncpg
import pytest

from tests.support.content.index import index_rows
from tests.support.rows import ask, insert, remember, say
from tests.support.services.web_pages import Reader, served, text_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

PAYLOAD = '"><img src=x onerror=alert(1)>'


async def told(db: asyncpg.Connection, text: str, *messages: object, **columns: object) -> uuid.UUID:
    """A memory that was found in these messages, and that contexts show."""
    row = await remember(
        db, text, kind="fact", metadata=json.dumps({"message_ids": [*map(str, messages)]}), **columns
    )
    await index_rows(db, "memory", [row])
    return row


async def talk(db: asyncpg.Connection, user: uuid.UUID, speaker: str | None, **columns: object) -> uuid.UUID:
    """A message of the user, in a conversation of their own."""
    session = await insert(db, "conversation_sessions", {"user_id": user, "agent_id": "alice"} | columns)
    return await say(db, session, f"My {PAYLOAD} heron nests", user_id=user, speaker=speaker)


async def test_every_page_with_a_memory_says_who_told_it_and_where(
    pages: Reader, db: asyncpg.Connection
) -> None:
    ann = uuid.uuid4()
    message = await talk(db, ann, PAYLOAD, title=f"Birds {PAYLOAD}")
    row = await told(db, "the heron nests in April", message, agent_id="alice", user_id=ann)
    says = f"{PAYLOAD} in “Birds {PAYLOAD}”"
    for path in (
        f"/memories?user={ann}",
        f"/recall?q=when+does+the+heron+nest&user={ann}&agent=alice",
        f"/context?message=tell+me+when+the+heron+nests&user={ann}&agent=alice",
    ):
        page = await pages.get(path)
        assert "<img" not in page
        assert f"told by {says}" in text_of(page), path
    page = await pages.get(f"/memories/{row}")
    assert f"Told by {says}" in text_of(page)
    [link] = set(re.findall(rf'href="(/conversations/[^"]+message={message}[^"]*)">“', page))
    assert "heron nests" in await pages.read(html.unescape(link).partition("#")[0])


async def test_what_is_on_record_of_who_told_it_is_said_and_that_it_is_not(
    pages: Reader, db: asyncpg.Connection
) -> None:
    ann, bob = uuid.uuid4(), uuid.uuid4()
    title = "t" * 300
    long, nameless = await talk(db, ann, "Ann " * 49, title=title), await talk(db, ann, None)
    theirs = await talk(db, bob, "Bob of another tenant")
    task = await ask(db, "watch the birds", agent_id="watcher", user_id=ann)
    session = await db.fetchval("select session_id from conversation_messages where id = $1", nameless)
    cases: dict[str, tuple[list[object], dict[str, object]]] = {
        f"told by {('Ann ' * 49)[:59].rstrip()}… in “{'t' * 59}…”": ([long], {}),
        f"told by the user in “My {PAYLOAD} heron nests”": ([nameless, theirs], {}),
        "told by the agent watcher after its task": ([], {"command_id": task, "agent_id": "watcher"}),
        f"who told it is not on record; in “My {PAYLOAD} heron nests”": ([], {"session_id": session}),
        f"who told it is not on record; from “{PAYLOAD}”": ([], {"source": PAYLOAD}),
        "who told it is not on record": ([theirs, uuid.uuid4(), "x", "", "{}", *["0" * 36] * 50], {}),
    }
    for n, (says, (messages, columns)) in enumerate(cases.items()):
        row = await told(db, f"case {n}", *messages, **{"user_id": ann, "agent_id": "alice"} | columns)
        said = await pages.read(f"/memories/{row}")
        assert says.removeprefix("told by ").removeprefix("who told it is ") in said
        listed = (await pages.read(f"/memories?user={ann}")).partition(f"case {n} ")[2]
        assert listed.startswith(says), (says, listed[:300])
        assert "Bob" not in listed[:300]
    # What no list of ids is.
    for metadata in ({"message_ids": {"a": 1}}, {"message_ids": "x"}, {"message_ids": [None, [1]]}):
        row = await remember(db, "odd", user_id=ann, metadata=json.dumps(metadata))
        assert "Told by not on record" in await pages.read(f"/memories/{row}")


async def test_what_support_was_told_says_so(pages: Reader, db: asyncpg.Connection) -> None:
    user = uuid.uuid4()
    await told(db, "likes tea", await talk(db, user, "Ann"), user_id=user, agent_id="alice")
    for source, says in (("a call", "Told by support from “a call”"), ("", "Told by support ")):
        form = {
            "do": "remember",
            "content": f"likes {source or 'nothing'}",
            "source": source,
            "agent": "alice",
        }
        answer = await pages.send(f"/users/{user}", form)
        assert says in await pages.read(answer.headers["location"])
    # A user's own program that writes at another time is not support.
    row = await remember(db, "likes rum", user_id=user, source="a call")
    assert "Told by not on record; from “a call”" in await pages.read(f"/memories/{row}")


async def test_an_end_user_is_told_nothing_of_others_by_ids_in_metadata(
    url: str, db: asyncpg.Connection, tmp_path: Path
) -> None:
    ann, bob = uuid.uuid4(), uuid.uuid4()
    theirs = await talk(db, bob, "Bob", title="Bob's birds")
    task = await ask(db, "of bob alone", user_id=bob)
    row = await told(db, "bait", theirs, user_id=ann, agent_id="alice", command_id=task)
    async with served(url, tmp_path, "--as-user", str(ann)) as reader:
        for path in (
            f"/memories/{row}",
            "/memories",
            "/recall?q=bait",
            "/context?message=find+the+bait&agent=alice",
        ):
            said = await reader.read(path)
            assert "not on record" in said, path
            assert "ob" not in said.replace("observation", "").replace("global", ""), path


async def test_a_list_reads_of_messages_those_that_it_names(pages: Reader, db: asyncpg.Connection) -> None:
    ann, bob = uuid.uuid4(), uuid.uuid4()
    await told(db, "of ann", await talk(db, ann, "Ann"), user_id=ann, agent_id="lister")
    await told(db, "of bob", await talk(db, bob, "Bob"), user_id=bob, agent_id="other")
    await db.execute("delete from agent_execution_logs")
    page = await pages.get("/memories?agent=lister")
    assert "told by Ann" in text_of(page)
    read = await db.fetch(
        "select user_id, input_data ->> 'table' as of from agent_execution_logs where action_type = 'admin_read'"
    )
    assert {row["user_id"] for row in read} == {ann}
    assert {row["of"] for row in read} >= {"agent_memory", "conversation_messages"}
